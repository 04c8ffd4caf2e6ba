#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/json_writer.h"
#include "base/nearest.h"
#include "flags.h"
#include "kernels/kernel_commands.h"
#include "kernels/kernel_inputs.h"
#include "kernels/kernel_planning.h"
#include "kernels/kernel_policies.h"
#include "sim/colocation.h"
#include "table.h"

namespace partita::cli {
namespace {

using profile::ModelKernels;
using sim::ColocationReport;

struct SimulateFlags {
  KernelFlags kernels;
  std::string plan, policies = "mps,static,model,krisp-o,krisp-i,critical,eclip", duration = "2s";
  std::string configs, sweep;
  int switches = 14;
  bool gpu_given = false;
  double tolerance = 0.05;
  sim::ColocationOptions options;
  Output output;
};

// One policy; `normalised`: summed over workers, requests per second against the same model alone
// on the whole GPU.
struct PolicyOutcome {
  std::string policy;
  ColocationReport report;
  double normalised = 0;
  double p95_ratio = 0;     // worst worker, against alone
  double energy_ratio = 0;  // per normalised request, against alone
};

// A parameter that --NAME sets and --sweep NAME=V,V,... varies.
struct Parameter {
  const char* name;
  double sim::ColocationOptions::*value;
  double most;
  const char* type;
  const char* help;
};

constexpr Parameter kParameters[] = {
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
constexpr int kMaxStreams = 1000;

Result<void> check_plan(const SimulateFlags& flags, const PlannedUnits& plan,
                        const std::vector<ModelKernels>& models) {
  if (plan.units.size() != models.size())
    return bad_input(flags.plan, fmt::format("plans {} workers, --workers names {}",
                                             plan.units.size(), models.size()));
  for (std::size_t w = 0; w < models.size(); ++w)
    if (plan.units[w].size() != models[w].kernels.size())
      return bad_input(flags.plan,
                       fmt::format("plans {} kernels of {}, which has {}", plan.units[w].size(),
                                   models[w].model, models[w].kernels.size()));
  return {};
}

// ----------------------------------------------------------------------------------------- runs

// Every worker's model alone on the whole GPU.
Result<std::vector<ColocationReport>> run_alone(const PolicyInputs& inputs,
                                                const sim::ColocationOptions& options) {
  std::vector<ColocationReport> alone;
  for (const ModelKernels& worker : inputs.workers) {
    const std::vector<ModelKernels> one{worker};
    const PolicyInputs only{inputs.topology, one, 1, {}, inputs.tolerance, {}, {}, 0};
    const auto policy = kernel_policy("mps", only);
    if (!policy) return failed(policy.error());
    auto report = sim::simulate_colocation(inputs.topology, one, *policy, options);
    if (!report) return failed(report.error());
    if (report->rps == 0)
      return bad_input("--duration", fmt::format("no request of {} ends in it", worker.model));
    alone.push_back(*std::move(report));
  }
  return alone;
}

Result<std::vector<PolicyOutcome>> run_all(const PolicyInputs& inputs, const std::string& policies,
                                     const sim::ColocationOptions& options) {
  const auto alone = run_alone(inputs, options);
  if (!alone) return failed(alone.error());
  std::vector<PolicyOutcome> outcomes;
  for (const std::string& policy : split(policies, ',')) {
    const auto masks = kernel_policy(policy, inputs);
    if (!masks) return failed(masks.error());
    auto report = sim::simulate_colocation(inputs.topology, inputs.workers, *masks, options);
    if (!report) return failed(report.error());
    PolicyOutcome outcome{policy, *std::move(report), 0, 0, 0};
    double alone_j = 0;  // what the same requests would have taken one model at a time
    for (std::size_t w = 0; w < alone->size(); ++w) {
      const sim::WorkerReport& worker = outcome.report.workers[w];
      outcome.normalised += worker.rps / (*alone)[w].rps;
      outcome.p95_ratio =
          std::max(outcome.p95_ratio, worker.p95_ms / (*alone)[w].workers[0].p95_ms);
      alone_j += static_cast<double>(worker.requests) * (*alone)[w].joules_each;
    }
    if (alone_j > 0) outcome.energy_ratio = outcome.report.energy_j / alone_j;
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

// Against the mps of the same run; 0 without one, or where no request of it ended.
double against_mps(const std::vector<PolicyOutcome>& outcomes, const PolicyOutcome& outcome) {
  const auto mps = std::ranges::find(outcomes, "mps", &PolicyOutcome::policy);
  return mps == outcomes.end() || mps->normalised <= 0 ? 0 : outcome.normalised / mps->normalised;
}

// ---------------------------------------------------------------------------------------- sweep

// The policies once per value of a parameter.
struct Sweep {
  std::string parameter;
  std::vector<double> values;
  std::vector<std::vector<PolicyOutcome>> outcomes;  // per value; empty before they are run
};

bool counted(const std::string& parameter) {
  return parameter == "switches" || parameter == "streams";
}

Result<Sweep> parse_sweep(const std::string& text) {
  const std::size_t equals = text.find('=');
  Sweep sweep{text.substr(0, equals), {}, {}};
  std::vector<std::string> names{"switches", "streams"};
  double least = sweep.parameter == "streams" ? 1 : 0;
  double most = sweep.parameter == "streams" ? kMaxStreams : kMaxSwitches;
  for (const Parameter& one : kParameters) {
    names.emplace_back(one.name);
    if (sweep.parameter == one.name) most = one.most;
  }
  const bool known = std::ranges::find(names, sweep.parameter) != names.end();
  if (!known || equals == std::string::npos)
    return bad_input("--sweep", fmt::format("'{}' is not NAME=V,V,... with NAME one of {}{}", text,
                                            fmt::join(names, ", "),
                                            known ? "" : did_you_mean(sweep.parameter, names)));
  for (const std::string& word : split(text.substr(equals + 1), ',')) {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const bool number = error == std::errc{} && end == word.data() + word.size();
    if (!number || !(value >= least && value <= most) ||
        (counted(sweep.parameter) && value != std::floor(value)))
      return bad_input("--sweep",
                       fmt::format("'{}' is not a {}number from {:g} to {:g}", word,
                                   counted(sweep.parameter) ? "whole " : "", least, most));
    sweep.values.push_back(value);
  }
  if (sweep.values.size() > kMaxPoints)
    return bad_input("--sweep", fmt::format("more than {} values", kMaxPoints));
  return sweep;
}

Result<Sweep> run_sweep(Sweep sweep, const PolicyInputs& inputs, const SimulateFlags& flags) {
  for (const double value : sweep.values) {
    PolicyInputs changed = inputs;
    sim::ColocationOptions options = flags.options;
    if (sweep.parameter == "switches") changed.switches = static_cast<int>(value);
    if (sweep.parameter == "streams") options.streams = static_cast<int>(value);
    for (const Parameter& one : kParameters)
      if (sweep.parameter == one.name) options.*one.value = value;
    auto outcomes = run_all(changed, flags.policies, options);
    if (!outcomes) return failed(outcomes.error());
    sweep.outcomes.push_back(*std::move(outcomes));
  }
  return sweep;
}

// --------------------------------------------------------------------------------------- output

std::string parameters_text(const SimulateFlags& flags) {
  const sim::ColocationOptions& o = flags.options;
  const std::string eclip =
      flags.plan.empty() ? fmt::format("at most {} changes of units under eclip", flags.switches)
                         : fmt::format("eclip as in {}", flags.plan);
  return fmt::format(
      "gamma {:g}, launch {:g} us, switch {:g} us, mask {:g} us, {} streams, spread {:g}, {:g} W + "
      "{:g} W per busy unit, {}, seed {}\n",
      o.gamma, o.launch_us, o.switch_us, o.mask_us, o.streams, o.spread, o.static_w, o.unit_w,
      eclip, o.seed);
}

std::string outcomes_text(const std::vector<PolicyOutcome>& outcomes, const SimulateFlags& flags) {
  Table table{{"POLICY", "RPS", "x ALONE", "x MPS", "p95 ms", "p95 x ALONE", "J", "J x ALONE",
               "BUSY UNITS", "SWITCHES", "WAITS"},
              {}};
  for (const PolicyOutcome& one : outcomes) {
    const double mps = against_mps(outcomes, one);
    double p95 = 0, switches = 0;
    for (const sim::WorkerReport& worker : one.report.workers) {
      p95 = std::max(p95, worker.p95_ms);
      switches += worker.switches;
    }
    table.rows.push_back(
        {one.policy, fmt::format("{:.1f}", one.report.rps), fmt::format("{:.2f}", one.normalised),
         mps > 0 ? fmt::format("{:.2f}", mps) : "-", fmt::format("{:.2f}", p95),
         fmt::format("{:.2f}", one.p95_ratio), fmt::format("{:.3f}", one.report.joules_each),
         fmt::format("{:.2f}", one.energy_ratio), fmt::format("{:.1f}", one.report.busy_units),
         fmt::format("{:.0f}", switches), fmt::format("{}", one.report.waits)});
  }
  return to_string(table) +
         "\nx ALONE: summed over workers, relative to the same model alone on all units; p95: of "
         "the "
         "worst worker;\nJ: joules per request; SWITCHES: mask changes per request of a worker.\n" +
         parameters_text(flags);
}

std::string sweep_text(const Sweep& sweep, const SimulateFlags& flags) {
  constexpr std::pair<const char*, double PolicyOutcome::*> kTables[] = {
      {"Requests per second, summed over workers, each against its model alone on all units",
       &PolicyOutcome::normalised},
      {"p95 of the worst worker, against alone", &PolicyOutcome::p95_ratio},
      {"Energy per request, against alone", &PolicyOutcome::energy_ratio}};
  std::string text;
  for (const auto& [title, figure] : kTables) {
    Table table{{sweep.parameter}, {}};
    for (const PolicyOutcome& one : sweep.outcomes.front()) table.header.push_back(one.policy);
    for (std::size_t i = 0; i < sweep.values.size(); ++i) {
      table.rows.push_back({fmt::format("{:g}", sweep.values[i])});
      for (const PolicyOutcome& one : sweep.outcomes[i])
        table.rows.back().push_back(fmt::format("{:.2f}", one.*figure));
    }
    text += fmt::format("{}\n\n{}\n", title, to_string(table));
  }
  return text + fmt::format("Apart from {}: {}", sweep.parameter, parameters_text(flags));
}

void write_outcome(JsonWriter& out, const PolicyOutcome& one) {
  const ColocationReport& report = one.report;
  out.raw("{\"policy\": ").string(one.policy).raw(", \"rps\": ").number(report.rps);
  out.raw(", \"normalised\": ").number(one.normalised);
  out.raw(", \"p95_ratio\": ").number(one.p95_ratio);
  out.raw(", \"energy_ratio\": ").number(one.energy_ratio);
  out.raw(",\n     \"energy_j\": ").number(report.energy_j);
  out.raw(", \"joules_each\": ").number(report.joules_each);
  out.raw(", \"busy_units\": ").number(report.busy_units);
  out.raw(", \"waits\": ").number(report.waits).raw(", \"log_hash\": ");
  out.string(fmt::format("{:016x}", report.log_hash)).raw(",\n     \"workers\": ");
  out.list(report.workers, "      ", [&](const sim::WorkerReport& worker) {
    out.raw("{\"name\": ").string(worker.name).raw(", \"requests\": ").number(worker.requests);
    out.raw(", \"rps\": ").number(worker.rps).raw(", \"mean_ms\": ").number(worker.mean_ms);
    out.raw(", \"p95_ms\": ").number(worker.p95_ms);
    out.raw(", \"switches\": ").number(worker.switches).raw("}");
  });
  out.raw("}");
}

std::string parameters_json(const SimulateFlags& flags, const hw::Topology& topology) {
  const sim::ColocationOptions& o = flags.options;
  JsonWriter out;
  out.raw("{\"api_version\": \"partita/v1\", \"kind\": \"KernelSimulation\", \"gpu\": ");
  out.string(topology.name).raw(", \"atom\": ").number(long{flags.kernels.atom});
  out.raw(", \"switches\": ").number(long{flags.switches});
  out.raw(", \"duration_s\": ").number(o.duration_s);
  out.raw(", \"gamma\": ").number(o.gamma).raw(", \"launch_us\": ").number(o.launch_us);
  out.raw(", \"switch_us\": ").number(o.switch_us).raw(", \"mask_us\": ").number(o.mask_us);
  out.raw(", \"streams\": ").number(long{o.streams}).raw(", \"spread\": ").number(o.spread);
  out.raw(", \"static_w\": ").number(o.static_w).raw(", \"unit_w\": ").number(o.unit_w);
  return out.raw(fmt::format(", \"seed\": {}", o.seed)).take();
}

std::string outcomes_json(const std::vector<PolicyOutcome>& outcomes) {
  JsonWriter out;
  out.raw(",\n  \"policies\": ");
  out.list(outcomes, "    ", [&](const PolicyOutcome& one) { write_outcome(out, one); });
  return out.raw("}\n").take();
}

std::string sweep_json(const Sweep& sweep) {
  JsonWriter out;
  out.raw(",\n  \"sweep\": {\"parameter\": ").string(sweep.parameter).raw(", \"points\": [");
  for (std::size_t i = 0; i < sweep.values.size(); ++i) {
    out.raw(i == 0 ? "\n   " : ",\n   ").raw("{\"value\": ").number(sweep.values[i]);
    out.raw(", \"policies\": ");
    out.list(sweep.outcomes[i], "    ", [&](const PolicyOutcome& one) { write_outcome(out, one); });
    out.raw("}");
  }
  return out.raw("]}}\n").take();
}

// ----------------------------------------------------------------------------------------- run

Result<void> check_policies(const std::string& policies) {
  const std::vector<std::string>& words = kernel_policy_words();
  for (const std::string& word : split(policies, ','))
    if (std::ranges::find(words, word) == words.end() && !switches_of(word))
      return bad_input("--policies", fmt::format("'{}' is not one of {}, eclip:N with N up to {}{}",
                                                 word, fmt::join(words, ", "), kMaxSwitches,
                                                 did_you_mean(word, words)));
  return {};
}

// The plan of PLAN, if one is given: it says --workers, --gpu and --atom where the flags do not.
Result<PlannedUnits> load_planned_units(Context& context, SimulateFlags& flags) {
  if (flags.plan.empty()) return PlannedUnits{};
  const Result<std::string> text = read_input(context, "PLAN", flags.plan);
  if (!text) return failed(text.error());
  auto plan = parse_kernel_plan(flags.plan, *text);
  if (!plan) return failed(plan.error());
  KernelFlags& kernels = flags.kernels;
  if (kernels.workers.empty()) kernels.workers = plan->workers;
  if (!flags.gpu_given) kernels.gpu = plan->gpu;
  if (kernels.atom == 0) kernels.atom = plan->atom;
  const auto topology = load_topology(kernels.gpu), planned = load_topology(plan->gpu);
  if (!topology) return failed(topology.error());
  if (topology->name != planned->name)
    return bad_input("--gpu", fmt::format("{}, but {} is a plan for {}", topology->name, flags.plan,
                                          planned->name));
  if (kernels.atom != plan->atom)
    return bad_input("--atom", fmt::format("{}, but the masks of {} have atoms of {}", kernels.atom,
                                           flags.plan, plan->atom));
  return plan;
}

// The flags, checked, and the files that they name.
struct LoadedSimulation {
  hw::Topology topology;
  std::vector<ModelKernels> models;
  std::vector<int> configs;
  PlannedUnits plan;
  std::optional<Sweep> sweep;
};

Result<LoadedSimulation> load_simulation(Context& context, SimulateFlags& flags) {
  if (auto known = check_policies(flags.policies); !known) return failed(known.error());
  const Result<Seconds> duration = parse_duration("--duration", flags.duration);
  if (!duration) return failed(duration.error());
  flags.options.duration_s = duration->value;
  LoadedSimulation in;
  if (!flags.sweep.empty()) {
    auto sweep = parse_sweep(flags.sweep);
    if (!sweep) return failed(sweep.error());
    in.sweep = *std::move(sweep);
    if (in.sweep->parameter == "switches" && !flags.plan.empty())
      return bad_input("--sweep",
                       fmt::format("switches: {} fixes them; sweep without a plan", flags.plan));
  }
  if (flags.plan.empty() && flags.kernels.workers.empty())
    return bad_input("", "--workers is required: the co-located models (or give a PLAN)");
  auto plan = load_planned_units(context, flags);
  if (!plan) return failed(plan.error());
  in.plan = *std::move(plan);
  auto topology = load_topology(flags.kernels.gpu);
  if (!topology) return failed(topology.error());
  in.topology = *std::move(topology);
  const Result<int> atom = load_atom(in.topology, flags.kernels.atom);
  if (!atom) return failed(atom.error());
  flags.kernels.atom = *atom;
  auto configs = load_configs(flags.configs, in.topology, *atom);
  if (!configs) return failed(configs.error());
  in.configs = *std::move(configs);
  auto models = load_kernels(context, flags.kernels, in.topology);
  if (!models) return failed(models.error());
  in.models = *std::move(models);
  if (!flags.plan.empty())
    if (auto fits = check_plan(flags, in.plan, in.models); !fits) return failed(fits.error());
  return in;
}

Result<Exit> run_simulate(Context& context, SimulateFlags flags) {
  const auto in = load_simulation(context, flags);
  if (!in) return failed(in.error());
  const PolicyInputs inputs{in->topology,       in->models,
                            flags.kernels.atom, hw::mask_sizes(in->topology, flags.kernels.atom),
                            flags.tolerance,    in->plan.units,
                            in->configs,        flags.switches};
  const bool json = flags.output.format == "json";
  std::string content = json ? parameters_json(flags, in->topology) : "";
  if (in->sweep) {
    const auto sweep = run_sweep(*in->sweep, inputs, flags);
    if (!sweep) return failed(sweep.error());
    content += json ? sweep_json(*sweep) : sweep_text(*sweep, flags);
  } else {
    const auto outcomes = run_all(inputs, flags.policies, flags.options);
    if (!outcomes) return failed(outcomes.error());
    content += json ? outcomes_json(*outcomes) : outcomes_text(*outcomes, flags);
  }
  if (auto written = deliver(context, flags.output, content); !written)
    return failed(written.error());
  return Exit::done;
}

}  // namespace

Command add_kernels_simulate(CLI::App& kernels) {
  CLI::App* command = kernels.add_subcommand(
      "simulate", "Simulate co-located models under policies that share the SMs or CUs");
  auto flags = std::make_shared<SimulateFlags>();
  command
      ->add_option("PLAN", flags->plan,
                   "A plan of `kernels plan --format json` for the policy eclip; its workers where "
                   "--workers is not given")
      ->type_name("FILE");
  add_kernel_flags(*command, flags->kernels);
  command->get_option("--workers")->required(false);
  command
      ->add_option(
          "--policies", flags->policies,
          "The policies, separated by commas: mps, static, model, krisp-o, krisp-i, isolated, "
          "critical, eclip, eclip:N (with at most N changes)")
      ->type_name("NAMES")
      ->default_str(flags->policies);
  command->add_option("--duration", flags->duration, "Simulated time, for instance 2s or 500ms")
      ->type_name("DURATION")
      ->default_str(flags->duration);
  add_configs_flag(*command, flags->configs);
  add_switches_flag(*command, flags->switches);
  command
      ->add_option("--sweep", flags->sweep,
                   "Run the policies once per value of a parameter: switches, streams, gamma, "
                   "launch-us, switch-us, mask-us, spread, static-w or unit-w")
      ->type_name("NAME=V,V,...")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("give NAME=V,V,...") : std::string{};
      });
  within(command->add_option("--tolerance", flags->tolerance,
                             "Share by which a kernel or model may take longer than on the whole "
                             "GPU when it is sized"),
         0, 10)
      ->type_name("SHARE")
      ->default_str("0.05");
  for (const Parameter& one : kParameters) {
    double& value = flags->options.*one.value;
    within(command->add_option(std::string("--") + one.name, value, one.help), 0, one.most)
        ->type_name(one.type)
        ->default_str(fmt::format("{:g}", value));
  }
  within(command->add_option("--streams", flags->options.streams,
                             "Masks that a worker keeps streams for"),
         1, kMaxStreams)
      ->type_name("N")
      ->default_str(fmt::format("{}", flags->options.streams));
  add_seed(*command, flags->options.seed);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita kernels simulate --workers vgg,resnet --profiles kernels/ --policies mps,eclip\n"
      "partita kernels simulate plan.json --profiles kernels/ --sweep gamma=0,0.15,0.3,0.6");
  return {command, [flags, command](Context& context) {
            flags->gpu_given = command->count("--gpu") > 0;
            return run_simulate(context, *flags);
          }};
}

}  // namespace partita::cli
