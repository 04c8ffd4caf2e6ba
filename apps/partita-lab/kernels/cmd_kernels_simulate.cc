#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/form.h"
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

void tell_outcome(Form& f, const PolicyOutcome& one) {
  const ColocationReport& report = one.report;
  const auto worker = [](Form& row, const sim::WorkerReport& of) {
    row.told("name", of.name);
    row.told("requests", of.requests);
    row.told("rps", of.rps);
    row.told("mean_ms", of.mean_ms);
    row.told("p95_ms", of.p95_ms);
    row.told("switches", of.switches);
  };
  f.told("policy", one.policy);
  f.told("rps", report.rps);
  f.told("normalised", one.normalised);
  f.told("p95_ratio", one.p95_ratio);
  f.told("energy_ratio", one.energy_ratio);
  f.line("     ").told("energy_j", report.energy_j);
  f.told("joules_each", report.joules_each);
  f.told("busy_units", report.busy_units);
  f.told("waits", report.waits);
  f.told("log_hash", fmt::format("{:016x}", report.log_hash));
  f.line("     ").rows("workers", report.workers, worker, {.indent = "      "});
}

void tell_parameters(Form& f, const KernelSimulateFlags& flags, const hw::Topology& topology) {
  const sim::ColocationOptions& o = flags.options;
  f.document("KernelSimulation");
  f.told("gpu", topology.name);
  f.told("atom", flags.kernels.atom);
  f.told("switches", flags.switches);
  f.told("duration_s", o.duration_s);
  f.told("gamma", o.gamma);
  f.told("launch_us", o.launch_us);
  f.told("switch_us", o.switch_us);
  f.told("mask_us", o.mask_us);
  f.told("streams", o.streams);
  f.told("spread", o.spread);
  f.told("static_w", o.static_w);
  f.told("unit_w", o.unit_w);
  f.told("seed", o.seed);
}

void tell_outcomes(Form& f, const std::vector<PolicyOutcome>& outcomes) {
  f.line("  ").rows("policies", outcomes, tell_outcome, {.indent = "    "});
}

void tell_sweep(Form& f, const Sweep& sweep) {
  const auto point = [&](Form& row, std::size_t i) {
    row.told("value", sweep.values[i]);
    row.rows("policies", sweep.outcomes[i], tell_outcome, {.indent = "    "});
  };
  f.line("  ").told_object("sweep", [&](Form& of) {
    of.told("parameter", sweep.parameter);
    of.rows("points", sweep.values.size(), point, {.indent = "   "});
  });
}

// ----------------------------------------------------------------------------------------- run

// The plan of PLAN, if one is given: it says --workers, --gpu and --atom where the flags do not.
Result<decide::PlannedUnits> load_planned_units(Context& context, KernelSimulateFlags& flags) {
  if (flags.plan.empty()) return decide::PlannedUnits{};
  const std::string text = TRY(read_input(context.files, "PLAN", flags.plan));
  const auto stated = TRY(forms::parse_kernel_plan(flags.plan, text));
  decide::PlannedUnits plan = decide::planned_units(stated);
  decide::KernelNames& kernels = flags.kernels;
  if (kernels.workers.empty()) kernels.workers = plan.workers;
  if (!flags.gpu_given) kernels.gpu = plan.gpu;
  if (kernels.atom == 0) kernels.atom = plan.atom;
  const auto topology = TRY(decide::load_topology(kernels.gpu));
  const auto its = TRY(decide::load_topology(plan.gpu));
  if (topology.name != its.name)
    return bad_input(
        "--gpu", fmt::format("{}, but {} is a plan for {}", topology.name, flags.plan, its.name));
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
  in.policies = TRY(decide::parse_policies("--policies", flags.policies));
  const Seconds duration = TRY(parse_duration("--duration", flags.duration));
  flags.options.duration_s = duration.value;
  if (!flags.sweep.empty()) {
    in.sweep = TRY(decide::parse_sweep("--sweep", flags.sweep));
    if (in.sweep->parameter == "switches" && !flags.plan.empty())
      return bad_input("--sweep",
                       fmt::format("switches: {} fixes them; sweep without a plan", flags.plan));
  }
  if (flags.plan.empty() && flags.kernels.workers.empty())
    return bad_input("", "--workers is required: the co-located models (or give a PLAN)");
  in.plan = TRY(load_planned_units(context, flags));
  in.topology = TRY(decide::load_topology(flags.kernels.gpu));
  const int atom = TRY(decide::load_atom(in.topology, flags.kernels.atom));
  flags.kernels.atom = atom;
  in.configs = TRY(decide::load_configs(flags.configs, in.topology, atom));
  in.models = TRY(decide::load_kernels(context.files, flags.kernels, in.topology));
  if (!flags.plan.empty()) TRY(decide::check_planned_units(flags.plan, in.plan, in.models));
  return in;
}

Result<Exit> run_kernel_simulate(Context& context, KernelSimulateFlags flags) {
  const auto in = TRY(load_simulation(context, flags));
  const decide::PolicyInputs inputs{
      in.topology,        in.models,
      flags.kernels.atom, hw::mask_sizes(in.topology, flags.kernels.atom),
      flags.tolerance,    in.plan.units,
      in.configs,         flags.switches};
  const bool json = flags.output.json();
  const auto json_of = [&](const auto& tell, const auto& what) {
    return write_form([&](Form& f) {
      tell_parameters(f, flags, in.topology);
      tell(f, what);
    });
  };
  std::string content;
  if (in.sweep) {
    const auto sweep = TRY(decide::run_sweep(*in.sweep, inputs, in.policies, flags.options));
    content = json ? json_of(tell_sweep, sweep) : sweep_text(sweep, flags);
  } else {
    const auto outcomes = TRY(decide::compare_policies(inputs, in.policies, flags.options));
    content = json ? json_of(tell_outcomes, outcomes) : outcomes_text(outcomes, flags);
  }
  return finish(context, flags.output, content);
}

}  // namespace

Command add_kernels_simulate(CLI::App& kernels) {
  auto [command, flags] = adding<KernelSimulateFlags>(
      kernels, "simulate", "Simulate co-located models under policies that share the SMs or CUs");
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
    CLI::Option* option =
        one.name == std::string_view("spread")  // of task times elsewhere
            ? flag(*command, "--kernel-spread", value)
            : command->add_option(std::string("--") + one.name, value, one.meaning);
    within(option, 0, one.most)
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
