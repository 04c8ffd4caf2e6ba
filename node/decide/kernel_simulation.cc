#include "decide/kernel_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/append.h"
#include "base/nearest.h"
#include "base/split.h"
#include "decide/kernel_planning.h"

namespace partita::decide {
namespace {

constexpr KernelParameter kParameters[] = {
    {"gamma", &sim::ColocationOptions::gamma, 100, "SHARE",
     "Slow-down of a kernel, beyond sharing, where others want all of its units too"},
    {"launch-us", &sim::ColocationOptions::launch_us, 1e6, "US",
     "Time before every kernel during which its units are occupied"},
    {"switch-us", &sim::ColocationOptions::switch_us, 1e6, "US",
     "Time before a kernel on another mask than the one before it"},
    {"mask-us", &sim::ColocationOptions::mask_us, 1e6, "US",
     "Added to that when the worker has no stream with that mask"},
    {"spread", &sim::ColocationOptions::spread, 0.99, "SHARE",
     "Share by which kernels take more or less, uniformly"},
    {"static-w", &sim::ColocationOptions::static_w, 1e5, "W", "Power of the idle GPU"},
    {"unit-w", &sim::ColocationOptions::unit_w, 1e5, "W", "Power of a busy unit"},
};
constexpr std::size_t kMaxPoints = 100;

// Every worker's model alone on the whole GPU.
Result<std::vector<sim::ColocationReport>> run_alone(const PolicyInputs& inputs,
                                                     const sim::ColocationOptions& options) {
  std::vector<sim::ColocationReport> alone;
  for (const profile::ModelKernels& worker : inputs.workers) {
    const std::vector<profile::ModelKernels> one{worker};
    const PolicyInputs only{inputs.topology, one, 1, {}, inputs.tolerance, {}, {}, 0};
    const auto policy = TRY(kernel_policy("mps", only));
    auto report = TRY(sim::simulate_colocation(inputs.topology, one, policy, options));
    if (report.rps == 0)
      return bad_input("--duration", fmt::format("no request of {} ends in it", worker.model));
    alone.push_back(std::move(report));
  }
  return alone;
}

bool counted(const std::string& parameter) {
  return parameter == "switches" || parameter == "streams";
}

}  // namespace

std::span<const KernelParameter> kernel_parameters() { return kParameters; }

Result<Sweep> parse_sweep(const std::string& flag, const std::string& text) {
  const std::size_t equals = text.find('=');
  Sweep sweep{text.substr(0, equals), {}, {}};
  std::vector<std::string> names{"switches", "streams"};
  double least = sweep.parameter == "streams" ? 1 : 0;
  double most = sweep.parameter == "streams" ? kMaxStreams : kMaxSwitches;
  for (const KernelParameter& one : kParameters) {
    names.emplace_back(one.name);
    if (sweep.parameter == one.name) most = one.most;
  }
  const bool known = std::ranges::find(names, sweep.parameter) != names.end();
  if (!known || equals == std::string::npos)
    return bad_input(flag, fmt::format("'{}' is not NAME=V,V,... with NAME one of {}{}", text,
                                       joined(names, ", "),
                                       known ? "" : did_you_mean(sweep.parameter, names)));
  for (const std::string& word : split(text.substr(equals + 1), ',')) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const bool number = error == std::errc{} && end == word.data() + word.size();
    if (!number || !(value >= least && value <= most) ||
        (counted(sweep.parameter) && value != std::floor(value)))
      return bad_input(flag, fmt::format("'{}' is not a {}number from {:g} to {:g}", word,
                                         counted(sweep.parameter) ? "whole " : "", least, most));
    sweep.values.push_back(value);
  }
  if (sweep.values.size() > kMaxPoints)
    return bad_input(flag, fmt::format("more than {} values", kMaxPoints));
  return sweep;
}

Result<std::vector<std::string>> parse_policies(const std::string& flag, const std::string& text) {
  const std::vector<std::string>& words = kernel_policy_words();
  std::vector<std::string> policies = split(text, ',');
  for (const std::string& word : policies)
    if (std::ranges::find(words, word) == words.end() && !switches_of(word))
      return bad_input(
          flag, fmt::format("'{}' is not one of {}, eclip:N with N up to {}{}", word,
                            joined(words, ", "), kMaxSwitches, did_you_mean(word, words)));
  return policies;
}

Result<std::vector<PolicyOutcome>> compare_policies(const PolicyInputs& inputs,
                                                    const std::vector<std::string>& policies,
                                                    const sim::ColocationOptions& options) {
  const auto alone = TRY(run_alone(inputs, options));
  std::vector<PolicyOutcome> outcomes;
  for (const std::string& policy : policies) {
    const auto masks = TRY(kernel_policy(policy, inputs));
    auto report = TRY(sim::simulate_colocation(inputs.topology, inputs.workers, masks, options));
    PolicyOutcome outcome{policy, std::move(report), 0, 0, 0};
    double alone_j = 0;  // what the same requests would have taken one model at a time
    for (std::size_t w = 0; w < alone.size(); ++w) {
      const sim::WorkerReport& worker = outcome.report.workers[w];
      outcome.normalised += worker.rps / alone[w].rps;
      outcome.p95_ratio = std::max(outcome.p95_ratio, worker.p95_ms / alone[w].workers[0].p95_ms);
      alone_j += static_cast<double>(worker.requests) * alone[w].joules_each;
    }
    if (alone_j > 0) outcome.energy_ratio = outcome.report.energy_j / alone_j;
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

Result<Sweep> run_sweep(Sweep sweep, const PolicyInputs& inputs,
                        const std::vector<std::string>& policies,
                        const sim::ColocationOptions& options) {
  for (const double value : sweep.values) {
    PolicyInputs changed = inputs;
    sim::ColocationOptions how = options;
    if (sweep.parameter == "switches") changed.switches = static_cast<int>(value);
    if (sweep.parameter == "streams") how.streams = static_cast<int>(value);
    for (const KernelParameter& one : kParameters)
      if (sweep.parameter == one.name) how.*one.value = value;
    auto outcomes = TRY(compare_policies(changed, policies, how));
    sweep.outcomes.push_back(std::move(outcomes));
  }
  return sweep;
}

double against_mps(const std::vector<PolicyOutcome>& outcomes, const PolicyOutcome& outcome) {
  const auto mps = std::ranges::find(outcomes, "mps", &PolicyOutcome::policy);
  return mps == outcomes.end() || mps->normalised <= 0 ? 0 : outcome.normalised / mps->normalised;
}

}  // namespace partita::decide
