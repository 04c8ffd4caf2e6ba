#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/json_writer.h"
#include "base/table.h"
#include "decide/input.h"
#include "decide/kernel_planning.h"
#include "decide/kernel_simulation.h"
#include "flags.h"
#include "kernels/kernel_commands.h"
#include "kernels/kernel_inputs.h"

namespace partita::cli {
namespace {

using decide::PolicyOutcome;
using decide::Sweep;
using profile::ModelKernels;
using sim::ColocationReport;

struct KernelSimulateFlags {
  decide::KernelNames kernels;
  std::string plan, duration = "2s";
  std::string policies = "default-stream,mps,static,model,krisp-o,krisp-i,critical,eclip";
  std::string configs, sweep;
  int switches = 14;
  bool gpu_given = false;
  double tolerance = 0.05;
  sim::ColocationOptions options;
  Output output;
};

// --------------------------------------------------------------------------------------- output

std::string parameters_text(const KernelSimulateFlags& flags) {
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

std::string outcomes_text(const std::vector<PolicyOutcome>& outcomes,
                          const KernelSimulateFlags& flags) {
  Table table{{"POLICY", "RPS", "x ALONE", "x MPS", "p95 ms", "p95 x ALONE", "J", "J x ALONE",
               "BUSY UNITS", "SWITCHES", "WAITS"},
              {}};
  for (const PolicyOutcome& one : outcomes) {
    const double mps = decide::against_mps(outcomes, one);
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
         "the worst worker;\nJ: joules per request; SWITCHES: mask changes per request of a "
         "worker.\n" +
         parameters_text(flags);
}

std::string sweep_text(const Sweep& sweep, const KernelSimulateFlags& flags) {
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

std::string parameters_json(const KernelSimulateFlags& flags, const hw::Topology& topology) {
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

// The plan of PLAN, if one is given: it says --workers, --gpu and --atom where the flags do not.
Result<decide::PlannedUnits> load_planned_units(Context& context, KernelSimulateFlags& flags) {
  if (flags.plan.empty()) return decide::PlannedUnits{};
  const Result<std::string> text = read_input(context.files, "PLAN", flags.plan);
  if (!text) return failed(text.error());
  const auto stated = forms::parse_kernel_plan(flags.plan, *text);
  if (!stated) return failed(stated.error());
  decide::PlannedUnits plan = decide::planned_units(*stated);
  decide::KernelNames& kernels = flags.kernels;
  if (kernels.workers.empty()) kernels.workers = plan.workers;
  if (!flags.gpu_given) kernels.gpu = plan.gpu;
  if (kernels.atom == 0) kernels.atom = plan.atom;
  const auto topology = decide::load_topology(kernels.gpu), its = decide::load_topology(plan.gpu);
  if (!topology) return failed(topology.error());
  if (topology->name != its->name)
    return bad_input(
        "--gpu", fmt::format("{}, but {} is a plan for {}", topology->name, flags.plan, its->name));
  if (kernels.atom != plan.atom)
    return bad_input("--atom", fmt::format("{}, but the masks of {} have atoms of {}", kernels.atom,
                                           flags.plan, plan.atom));
  return plan;
}

// The flags, checked, and the files that they name.
struct LoadedSimulation {
  hw::Topology topology;
  std::vector<ModelKernels> models;
  std::vector<int> configs;
  decide::PlannedUnits plan;
  std::optional<Sweep> sweep;
  std::vector<std::string> policies;
};

Result<LoadedSimulation> load_simulation(Context& context, KernelSimulateFlags& flags) {
  LoadedSimulation in;
  auto policies = decide::parse_policies("--policies", flags.policies);
  if (!policies) return failed(policies.error());
  in.policies = *std::move(policies);
  const Result<Seconds> duration = parse_duration("--duration", flags.duration);
  if (!duration) return failed(duration.error());
  flags.options.duration_s = duration->value;
  if (!flags.sweep.empty()) {
    auto sweep = decide::parse_sweep("--sweep", flags.sweep);
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
  auto topology = decide::load_topology(flags.kernels.gpu);
  if (!topology) return failed(topology.error());
  in.topology = *std::move(topology);
  const Result<int> atom = decide::load_atom(in.topology, flags.kernels.atom);
  if (!atom) return failed(atom.error());
  flags.kernels.atom = *atom;
  auto configs = decide::load_configs(flags.configs, in.topology, *atom);
  if (!configs) return failed(configs.error());
  in.configs = *std::move(configs);
  auto models = decide::load_kernels(context.files, flags.kernels, in.topology);
  if (!models) return failed(models.error());
  in.models = *std::move(models);
  if (!flags.plan.empty())
    if (auto fits = decide::check_planned_units(flags.plan, in.plan, in.models); !fits)
      return failed(fits.error());
  return in;
}

Result<Exit> run_kernel_simulate(Context& context, KernelSimulateFlags flags) {
  const auto in = load_simulation(context, flags);
  if (!in) return failed(in.error());
  const decide::PolicyInputs inputs{
      in->topology,       in->models,
      flags.kernels.atom, hw::mask_sizes(in->topology, flags.kernels.atom),
      flags.tolerance,    in->plan.units,
      in->configs,        flags.switches};
  const bool json = flags.output.format == "json";
  std::string content = json ? parameters_json(flags, in->topology) : "";
  if (in->sweep) {
    const auto sweep = decide::run_sweep(*in->sweep, inputs, in->policies, flags.options);
    if (!sweep) return failed(sweep.error());
    content += json ? sweep_json(*sweep) : sweep_text(*sweep, flags);
  } else {
    const auto outcomes = decide::compare_policies(inputs, in->policies, flags.options);
    if (!outcomes) return failed(outcomes.error());
    content += json ? outcomes_json(*outcomes) : outcomes_text(*outcomes, flags);
  }
  return finish(context, flags.output, content);
}

}  // namespace

Command add_kernels_simulate(CLI::App& kernels) {
  CLI::App* command = kernels.add_subcommand(
      "simulate", "Simulate co-located models under policies that share the SMs or CUs");
  auto flags = std::make_shared<KernelSimulateFlags>();
  command
      ->add_option("PLAN", flags->plan,
                   "A plan of `kernels plan --format json` for the policy eclip; its workers where "
                   "--workers is not given")
      ->type_name("FILE");
  add_kernel_flags(*command, flags->kernels);
  command->get_option("--workers")->required(false);
  flag(*command, "--policies", flags->policies,
       "Which, between commas: default-stream (one kernel at a time on all units, first come first "
       "served), mps, static, model, krisp-o, krisp-i, isolated, critical, eclip, eclip:N (with at "
       "most N changes)")
      ->default_str(flags->policies);
  flag(*command, "--duration", flags->duration)->default_str(flags->duration);
  add_configs_flag(*command, flags->configs);
  add_switches_flag(*command, flags->switches);
  flag(*command, "--sweep", flags->sweep)->check([](const std::string& text) {
    return text.empty() ? std::string("give NAME=V,V,...") : std::string{};
  });
  within(flag(*command, "--tolerance", flags->tolerance), 0, 10)->default_str("0.05");
  for (const decide::KernelParameter& one : decide::kernel_parameters()) {
    double& value = flags->options.*one.value;
    within(command->add_option(std::string("--") + one.name, value, one.meaning), 0, one.most)
        ->type_name(one.unit)
        ->default_str(fmt::format("{:g}", value));
  }
  within(flag(*command, "--streams", flags->options.streams), 1, decide::kMaxStreams)
      ->default_str(fmt::format("{}", flags->options.streams));
  add_seed(*command, flags->options.seed);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita kernels simulate --workers vgg,resnet --profiles kernels/ --policies mps,eclip\n"
      "partita kernels simulate plan.json --profiles kernels/ --sweep gamma=0,0.15,0.3,0.6");
  return {command, [flags, command](Context& context) {
            flags->gpu_given = command->count("--gpu") > 0;
            return run_kernel_simulate(context, *flags);
          }};
}

}  // namespace partita::cli
