#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/json_writer.h"
#include "flags.h"
#include "kernel_commands.h"
#include "kernel_inputs.h"
#include "kernel_policies.h"
#include "sim/colocation.h"
#include "table.h"

namespace partita::cli {
namespace {

using profile::ModelKernels;
using sim::ColocationReport;

struct SimulateFlags {
  KernelFlags kernels;
  std::string plan, policies = "mps,static,model,krisp-o,krisp-i,critical,eclip", duration = "2s";
  std::string configs;
  double tolerance = 0.05;
  sim::ColocationOptions options;
  Output output;
};

// One policy; `normalised`: summed over workers, requests per second against the same model alone
// on the whole GPU.
struct Outcome {
  std::string policy;
  ColocationReport report;
  double normalised = 0;
  double p95_ratio = 0;     // worst worker, against alone
  double energy_ratio = 0;  // per normalised request, against alone
};

Result<PlannedUnits> load_kernel_plan(Context& context, const std::string& path, int most) {
  const Result<std::string> text = read_input(context, "PLAN", path);
  if (!text) return failed(text.error());
  return parse_kernel_plan(path, *text, most);
}

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
    const PolicyInputs only{inputs.topology, one, inputs.tolerance, {}, {}, 0};
    auto report =
        sim::simulate_colocation(inputs.topology, one, kernel_policy("mps", only), options);
    if (!report) return failed(report.error());
    if (report->rps == 0)
      return bad_input("--duration", fmt::format("no request of {} ends in it", worker.model));
    alone.push_back(*std::move(report));
  }
  return alone;
}

Result<std::vector<Outcome>> run_all(const PolicyInputs& inputs, const SimulateFlags& flags) {
  const auto alone = run_alone(inputs, flags.options);
  if (!alone) return failed(alone.error());
  std::vector<Outcome> outcomes;
  for (const std::string& policy : split(flags.policies, ',')) {
    auto report = sim::simulate_colocation(inputs.topology, inputs.workers,
                                           kernel_policy(policy, inputs), flags.options);
    if (!report) return failed(report.error());
    Outcome outcome{policy, *std::move(report), 0, 0, 0};
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

// Against the mps of the same run; 0 without one.
double against_mps(const std::vector<Outcome>& outcomes, const Outcome& outcome) {
  const auto mps = std::ranges::find(outcomes, "mps", &Outcome::policy);
  return mps == outcomes.end() ? 0 : outcome.normalised / mps->normalised;
}

// --------------------------------------------------------------------------------------- output

std::string outcomes_text(const std::vector<Outcome>& outcomes, const SimulateFlags& flags) {
  Table table{{"POLICY", "RPS", "x ALONE", "x MPS", "p95 ms", "p95 x ALONE", "J", "J x ALONE",
               "BUSY UNITS", "SWITCHES", "WAITS"},
              {}};
  for (const Outcome& one : outcomes) {
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
  const sim::ColocationOptions& o = flags.options;
  return to_string(table) +
         fmt::format(
             "\nx ALONE: summed over workers, against the same model alone on all units; p95: of "
             "the worst worker;\nJ: per request; SWITCHES: of the mask, per request of every "
             "worker.\ngamma {:g}, launch {:g} us, switch {:g} us, mask {:g} us, {} streams, "
             "spread {:g}, {:g} W + {:g} W per busy unit, seed {}\n",
             o.gamma, o.launch_us, o.switch_us, o.mask_us, o.streams, o.spread, o.static_w,
             o.unit_w, o.seed);
}

void write_outcome(JsonWriter& out, const Outcome& one) {
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

std::string outcomes_json(const std::vector<Outcome>& outcomes, const SimulateFlags& flags,
                          const std::string& gpu) {
  const sim::ColocationOptions& o = flags.options;
  JsonWriter out;
  out.raw("{\"api_version\": \"partita/v1\", \"kind\": \"KernelSimulation\", \"gpu\": ");
  out.string(gpu).raw(", \"duration_s\": ").number(o.duration_s);
  out.raw(", \"gamma\": ").number(o.gamma).raw(", \"launch_us\": ").number(o.launch_us);
  out.raw(", \"switch_us\": ").number(o.switch_us).raw(", \"mask_us\": ").number(o.mask_us);
  out.raw(", \"streams\": ").number(long{o.streams}).raw(", \"spread\": ").number(o.spread);
  out.raw(", \"static_w\": ").number(o.static_w).raw(", \"unit_w\": ").number(o.unit_w);
  out.raw(fmt::format(", \"seed\": {},\n  \"policies\": ", o.seed));
  out.list(outcomes, "    ", [&](const Outcome& one) { write_outcome(out, one); });
  return out.raw("}\n").take();
}

// ----------------------------------------------------------------------------------------- run

Result<void> check_policies(const std::string& policies) {
  const std::vector<std::string>& words = kernel_policy_words();
  for (const std::string& word : split(policies, ','))
    if (std::ranges::find(words, word) == words.end())
      return bad_input("--policies",
                       fmt::format("'{}' is none of {}", word, fmt::join(words, ", ")));
  return {};
}

Result<Exit> run_simulate(Context& context, SimulateFlags flags) {
  const Result<hw::Topology> topology = load_topology(flags.kernels.gpu);
  if (!topology) return failed(topology.error());
  if (auto known = check_policies(flags.policies); !known) return failed(known.error());
  const Result<Seconds> duration = parse_duration("--duration", flags.duration);
  if (!duration) return failed(duration.error());
  flags.options.duration_s = duration->value;
  Result<std::vector<int>> configs = quarters(*topology);
  if (!flags.configs.empty()) configs = parse_counts("--configs", flags.configs, topology->units());
  if (!configs) return failed(configs.error());
  if (flags.plan.empty() && flags.kernels.workers.empty())
    return bad_input("--workers", "is needed, or a PLAN that names them");
  PlannedUnits plan;
  if (!flags.plan.empty()) {
    auto loaded = load_kernel_plan(context, flags.plan, topology->units());
    if (!loaded) return failed(loaded.error());
    plan = *std::move(loaded);
    if (flags.kernels.workers.empty()) flags.kernels.workers = plan.workers;
  }
  const auto models = load_kernels(context, flags.kernels, *topology);
  if (!models) return failed(models.error());
  if (!flags.plan.empty())
    if (auto fits = check_plan(flags, plan, *models); !fits) return failed(fits.error());
  const PolicyInputs inputs{*topology, *models, flags.tolerance, plan.units, *configs, 14};
  const auto outcomes = run_all(inputs, flags);
  if (!outcomes) return failed(outcomes.error());
  const std::string content = flags.output.format == "json"
                                  ? outcomes_json(*outcomes, flags, topology->name)
                                  : outcomes_text(*outcomes, flags);
  if (auto written = deliver(context, flags.output, content); !written)
    return failed(written.error());
  return Exit::done;
}

struct Parameter {
  const char* name;
  double sim::ColocationOptions::*value;
  double most;
  const char* type;
  const char* help;
};

constexpr Parameter kParameters[] = {
    {"--gamma", &sim::ColocationOptions::gamma, 100, "SHARE",
     "By how much a kernel is slowed down where others demand all of its units too, beyond "
     "sharing"},
    {"--launch-us", &sim::ColocationOptions::launch_us, 1e6, "US", "Before every kernel"},
    {"--switch-us", &sim::ColocationOptions::switch_us, 1e6, "US",
     "Of a kernel on another mask than the one before"},
    {"--mask-us", &sim::ColocationOptions::mask_us, 1e6, "US",
     "On top of it, where the worker has no stream with that mask"},
    {"--spread", &sim::ColocationOptions::spread, 0.99, "SHARE",
     "Share by which kernels take more or less, uniformly"},
    {"--static-w", &sim::ColocationOptions::static_w, 1e5, "W", "Power of the GPU doing nothing"},
    {"--unit-w", &sim::ColocationOptions::unit_w, 1e5, "W", "Power of a busy unit"},
};

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
      ->add_option("--policies", flags->policies,
                   "Which, between commas: mps, static, model, krisp-o, krisp-i, isolated, "
                   "critical, eclip")
      ->type_name("NAMES")
      ->default_str(flags->policies);
  command->add_option("--duration", flags->duration, "Simulated time, for instance 2s or 500ms")
      ->type_name("DURATION")
      ->default_str(flags->duration);
  command
      ->add_option("--configs", flags->configs,
                   "Numbers of units that a kernel may have under eclip without PLAN (default: "
                   "quarters of the GPU)")
      ->type_name("N,N,...");
  within(command->add_option("--tolerance", flags->tolerance,
                             "Share by which a kernel or model may take longer than on the whole "
                             "GPU when it is sized"),
         0, 10)
      ->type_name("SHARE");
  for (const Parameter& one : kParameters) {
    double& value = flags->options.*one.value;
    within(command->add_option(one.name, value, one.help), 0, one.most)
        ->type_name(one.type)
        ->default_str(fmt::format("{:g}", value));
  }
  within(command->add_option("--streams", flags->options.streams,
                             "Masks that a worker keeps streams for"),
         1, 1000)
      ->type_name("N")
      ->default_str(fmt::format("{}", flags->options.streams));
  add_seed(*command, flags->options.seed);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita kernels simulate --workers vgg,resnet --profiles kernels/ --gpu MI50 --policies "
      "mps,static,eclip");
  return {command, [flags](Context& context) { return run_simulate(context, *flags); }};
}

}  // namespace partita::cli
