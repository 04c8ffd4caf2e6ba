#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "base/child.h"
#include "base/median.h"
#include "decide/kernel_inputs.h"
#include "decide/kernel_planning.h"
#include "decide/kernel_report.h"
#include "decide/kernel_simulation.h"
#include "forms/kernel_forms.h"
#include "forms/kernel_picture.h"
#include "kernels/kernel_inputs.h"
#include "kernels/lane_drivers.h"
#include "kernels/neighbours.h"
#include "lab_commands.h"
#include "planners/mask/joint_plan.h"
#include "planners/mask/right_size.h"
#include "profile/kernel_profile.h"
#include "profile/nsys/nsys_export.h"

namespace partita::cli {
namespace {

void add_profiles_flag(CLI::App& command, decide::KernelNames& flags) {
  flag(command, "--kernel-profiles", flags.profiles)->required();
}

using profile::ModelKernels;

// The inputs of every subcommand, read.
struct Loaded {
  hw::Topology topology;
  int atom = 1;
  std::vector<int> sizes;  // of masks
  std::vector<int> ticks;  // quarters
  std::vector<ModelKernels> models;
};

Result<Loaded> load(Context& context, const decide::KernelNames& flags) {
  hw::Topology topology = TRY(decide::load_topology(flags.gpu));
  const int atom = TRY(decide::load_atom(topology, flags.atom));
  auto models = TRY(decide::load_kernels(context.files, flags, topology));
  Loaded loaded{std::move(topology), atom, {}, {}, std::move(models)};
  loaded.sizes = hw::mask_sizes(loaded.topology, loaded.atom);
  loaded.ticks = *decide::load_configs("", loaded.topology, loaded.atom);
  return loaded;
}

struct KernelProfileFlags {
  decide::KernelNames kernels;
  double tolerance = 0.05;
  Output output;
};

std::string kernel_profile_text(const KernelProfileFlags& flags, const Loaded& in, int width) {
  Table table = headed("MODEL|KERNELS");
  for (const int units : in.ticks) table.header.push_back(fmt::format("us on {}", units));
  table.header.insert(table.header.end(), {"LEAST, MEDIAN", "KNEE"});
  std::string strips;
  for (const ModelKernels& model : in.models) {
    const std::vector<int> least = planners::mask::least_units(model, flags.tolerance, in.sizes);
    std::vector<std::string> row{model.model, fmt::format("{}", model.kernels.size())};
    for (const int units : in.ticks) row.push_back(fmt::format("{:.0f}", model.time_us(units)));
    row.push_back(fmt::format("{}", median(least)));
    row.push_back(fmt::format("{}", planners::mask::knee(model, flags.tolerance, in.sizes)));
    table.rows.push_back(std::move(row));
    strips +=
        fmt::format("\n{}\n{}\n", model.model, decide::strip(least, in.topology.units(), width));
  }
  return to_string(table) +
         fmt::format("\nLeast {}s within {:g} % of the time on all {}, kernel by kernel:\n{}",
                     in.topology.unit_name, 100 * flags.tolerance, in.topology.units(), strips);
}

std::string kernel_profile_json(const KernelProfileFlags& flags, const Loaded& in) {
  const auto kernel = [&](Form& f, const profile::KernelProfile& one) {
    tell(f, "name", one.name, "least_units",
         planners::mask::least_units(one, flags.tolerance, in.sizes), "time_us",
         one.on(in.topology.units()));
  };
  const auto model = [&](Form& f, const ModelKernels& one) {
    tell(f, "name", one.model, "time_us", one.time_us(in.topology.units()), "knee",
         planners::mask::knee(one, flags.tolerance, in.sizes));
    f.line("     ").rows("kernels", one.kernels, kernel, {.indent = "      "});
  };
  return write_form([&](Form& f) {
    f.document("KernelProfiles");
    tell(f, "gpu", in.topology.name, "atom", in.atom, "tolerance", flags.tolerance);
    f.line("  ").rows("models", in.models, model, {.indent = "    "});
  });
}

forms::UnitsPicture picture_of(const Loaded& in, const std::string& title, double tolerance) {
  forms::UnitsPicture picture;
  picture.title = title;
  picture.subtitle = decide::gpu_facts(in.topology, in.atom);
  picture.least = fmt::format("fewest within {:g} % of the time on all {}", 100 * tolerance,
                              in.topology.units());
  picture.ticks = in.ticks;
  return picture;
}

std::string profile_svg(const KernelProfileFlags& flags, const Loaded& in) {
  forms::UnitsPicture picture =
      picture_of(in, fmt::format("The fewest {}s that each kernel needs", in.topology.unit_name),
                 flags.tolerance);
  picture.everywhere = "fewest for all kernels at once (knee)";
  for (const ModelKernels& model : in.models) {
    forms::UnitCurve curve{model.model, decide::model_facts(model, in.topology), {}, {}, 0};
    curve.least = planners::mask::least_units(model, flags.tolerance, in.sizes);
    curve.everywhere = planners::mask::knee(model, flags.tolerance, in.sizes);
    curve.facts += fmt::format("; median {}, knee {}", median(curve.least), curve.everywhere);
    picture.curves.push_back(std::move(curve));
  }
  return forms::units_svg(picture, in.topology);
}

Result<Exit> run_kernel_profile(Context& context, const KernelProfileFlags& flags) {
  const auto in = TRY(load(context, flags.kernels));
  return finish(context, flags.output,
                flags.output.json()  ? kernel_profile_json(flags, in)
                : flags.output.svg() ? profile_svg(flags, in)
                                     : kernel_profile_text(flags, in, context.width));
}

Command add_kernels_profile(CLI::App& kernels) {
  auto [command, flags] = adding<KernelProfileFlags>(
      kernels, "profile",
      "Show what the kernels of models take, and how many SMs or CUs they need");
  add_kernel_flags(*command, flags->kernels);
  within(*command, "--tolerance", flags->tolerance, 0, 10);
  return runs(
      command, flags, run_kernel_profile, {"text", "json", "svg"},
      "partita kernels profile --workers resnet,bert --kernel-profiles kernels/ --topology MI50");
}

struct SizeFlags {
  decide::KernelNames kernels;
  double tolerance = 0.05;
  std::string method = "kernel";
  Output output;
};

std::string sizes_text(const SizeFlags& flags, const Loaded& in,
                       const std::vector<planners::mask::RightSize>& sizes, int width) {
  Table table = headed("MODEL|METHOD|us|SLOWER|MEAN UNITS|SPENT|PROVEN");
  std::string strips;
  const int units = in.topology.units();
  for (std::size_t m = 0; m < sizes.size(); ++m) {
    const planners::mask::RightSize& size = sizes[m];
    const double whole = in.models[m].time_us(units);
    table.add("{}|{}|{:.0f}|{:.2f} %|{:.1f}|{:.1f} %|{}", in.models[m].model, flags.method,
              size.time_us, 100 * (size.time_us / whole - 1), size.unit_us / size.time_us,
              100 * size.unit_us / (whole * units), size.optimal ? "yes" : "-");
    strips +=
        fmt::format("\n{}\n{}\n", in.models[m].model, decide::strip(size.units, units, width));
  }
  return to_string(table) +
         "\nSPENT: units x time, compared with the whole GPU. Units of each kernel:\n" + strips;
}

std::string sizes_json(const SizeFlags& flags, const Loaded& in,
                       const std::vector<planners::mask::RightSize>& sizes) {
  const auto size = [&](Form& f, std::size_t m) {
    tell(f, "name", in.models[m].model, "time_us", sizes[m].time_us, "unit_us", sizes[m].unit_us,
         "optimal", sizes[m].optimal);
    f.line("     ").told_list("units", sizes[m].units, {.between = ","});
  };
  return write_form([&](Form& f) {
    f.document("RightSizes");
    tell(f, "gpu", in.topology.name, "atom", in.atom, "method", flags.method, "tolerance",
         flags.tolerance);
    f.line("  ").rows("models", sizes.size(), size, {.indent = "    "});
  });
}

std::string sizes_svg(const SizeFlags& flags, const Loaded& in,
                      const std::vector<planners::mask::RightSize>& sizes) {
  forms::UnitsPicture picture = picture_of(
      in, fmt::format("{}s for each kernel, method {}", in.topology.unit_name, flags.method),
      flags.tolerance);
  picture.given = "chosen";
  for (std::size_t m = 0; m < sizes.size(); ++m) {
    const ModelKernels& model = in.models[m];
    const double slower = sizes[m].time_us / model.time_us(in.topology.units()) - 1;
    picture.curves.push_back(
        {model.model,
         fmt::format("{}; {:.2f} % slower, median {}", decide::model_facts(model, in.topology),
                     100 * slower, median(sizes[m].units)),
         planners::mask::least_units(model, flags.tolerance, in.sizes),
         flags.method == "kernel" ? std::vector<int>{} : sizes[m].units, 0});
  }
  return forms::units_svg(picture, in.topology);
}

Result<Exit> run_rightsize(Context& context, const SizeFlags& flags) {
  const auto in = TRY(load(context, flags.kernels));
  std::vector<planners::mask::RightSize> sizes;
  for (const ModelKernels& model : in.models)
    sizes.push_back(decide::right_size(flags.method, model, flags.tolerance, in.sizes));
  return finish(context, flags.output,
                flags.output.json()  ? sizes_json(flags, in, sizes)
                : flags.output.svg() ? sizes_svg(flags, in, sizes)
                                     : sizes_text(flags, in, sizes, context.width));
}

Command add_kernels_rightsize(CLI::App& kernels) {
  auto [command, flags] =
      adding<SizeFlags>(kernels, "rightsize", "Choose how many SMs or CUs each kernel gets");
  add_kernel_flags(*command, flags->kernels);
  takes(*command, "--method",
        one_of(flags->method, {"kernel", "model", "critical", "critical-greedy"},
               "kernel: the fewest units per kernel within the tolerance (KRISP); model: the same "
               "number for all kernels; critical: the least units x time with the whole model "
               "within the tolerance, exactly; critical-greedy: Chow's Algorithm 2"),
        "--tolerance", within(flags->tolerance, 0, 10));
  return runs(
      command, flags, run_rightsize, {"text", "json", "svg"},
      "partita kernels rightsize --workers resnet --kernel-profiles kernels/ --method critical");
}

struct KernelsPlanFlags {
  decide::KernelNames kernels;
  std::string configs, overlap = "others";
  int switches = 14;
  double switch_cost = 0, tolerance = 0.05;
  bool curve = false;
  Output output;
};

// All that the outputs show.
struct Planned {
  hw::Topology topology;
  int atom = 1;
  std::vector<ModelKernels> models;
  plan::KernelProblem problem;
  plan::Judged<plan::PlannedKernels> result;
  std::vector<planners::mask::JointPlan> curve;
};

std::string curve_text(const std::vector<planners::mask::JointPlan>& curve) {
  Table table = headed("MOST SWITCHES|OBJECTIVE us|SWITCHES|PROVEN");
  for (std::size_t s = 0; s < curve.size(); ++s) {
    const plan::KernelPlan& plan = curve[s].plan;
    int switches = 0;
    for (const plan::Grouping& one : plan.workers) switches += one.switches;
    table.add("{}|{:.3f}|{}|{}", s, plan.objective, switches, plan.optimal ? "yes" : "no");
  }
  return "\n" + to_string(table);
}

std::string json_of(const Planned& it) {
  forms::StatedKernelPlan stated = forms::stated_plan(it.problem, *it.result, it.topology);
  for (const planners::mask::JointPlan& one : it.curve)
    stated.curve.push_back(
        {static_cast<int>(stated.curve.size()), one.plan.objective, one.plan.optimal});
  return forms::kernel_plan_json(stated);
}

std::string svg_of(const KernelsPlanFlags& flags, const Planned& it) {
  const plan::KernelPlan& plan = it.result->plan;
  forms::UnitsPicture picture;
  picture.title =
      fmt::format("{}s planned for the kernels of {} on one {}", it.topology.unit_name,
                  plan.workers.size() == 1 ? std::string("a worker")
                                           : fmt::format("{} workers", plan.workers.size()),
                  it.topology.name);
  picture.subtitle = fmt::format("{}; at most {} changes per worker and request; {}",
                                 decide::gpu_facts(it.topology, it.atom), it.problem.switches,
                                 decide::objective_text(plan));
  picture.least = fmt::format("fewest within {:g} % of the time on all {}", 100 * flags.tolerance,
                              it.topology.units());
  picture.given = "planned";
  picture.ticks = it.problem.workers[0].times.units;
  picture.lanes = it.result->lanes;
  const std::vector<int> sizes = hw::mask_sizes(it.topology, it.atom);
  const auto units = decide::units_of_kernels(it.problem, plan);
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    const plan::Grouping& one = plan.workers[w];
    picture.curves.push_back(
        {it.problem.workers[w].name,
         fmt::format("{}; {} alone, {} predicted beside the others; {} changes",
                     decide::model_facts(it.models[w], it.topology), duration_text(one.time * 1e-6),
                     duration_text(plan::predicted_time(it.problem, plan, w) * 1e-6), one.switches),
         planners::mask::least_units(it.models[w], flags.tolerance, sizes), units[w], 0});
  }
  return forms::units_svg(picture, it.topology);
}

Result<Planned> plan_it(Context& context, const KernelsPlanFlags& flags) {
  hw::Topology topology = TRY(decide::load_topology(flags.kernels.gpu));
  const int atom = TRY(decide::load_atom(topology, flags.kernels.atom));
  const auto configs = TRY(decide::load_configs(flags.configs, topology, atom));
  auto models = TRY(decide::load_kernels(context.files, flags.kernels, topology));
  auto problem = TRY(decide::kernel_problem(topology, models, configs, flags.switches));
  problem.switch_cost = flags.switch_cost;
  problem.overlap = flags.overlap == "literal" ? plan::Overlap::literal : plan::Overlap::others;
  auto result = TRY(decide::plan_kernels(problem, topology, atom));
  Planned planned{std::move(topology), atom, std::move(models), std::move(problem),
                  std::move(result),   {}};
  if (flags.curve) planned.curve = planners::mask::switch_curve(planned.problem);
  return planned;
}

Result<Exit> run_kernels_plan(Context& context, const KernelsPlanFlags& flags) {
  const Planned planned = TRY(plan_it(context, flags));
  std::string content;
  if (flags.output.svg()) {
    content = svg_of(flags, planned);
  } else if (flags.output.json()) {
    content = json_of(planned);
  } else {
    content =
        decide::kernel_plan_text(planned.problem, *planned.result, planned.topology, context.width);
    if (flags.curve) content += curve_text(planned.curve);
  }
  return finish(context, flags.output, content);
}

Command add_kernels_plan(CLI::App& kernels) {
  auto [command, flags] = adding<KernelsPlanFlags>(
      kernels, "plan",
      "Choose the SMs or CUs of groups of kernels: ECLIP's problem, solved exactly");
  add_kernel_flags(*command, flags->kernels);
  add_configs_flag(*command, flags->configs);
  add_switches_flag(*command, flags->switches);
  takes(*command, "--switch-cost", within(flags->switch_cost, 0, 1e9), "--overlap",
        one_of(flags->overlap, {"others", "literal"}), "--curve", flags->curve, "--tolerance",
        within(flags->tolerance, 0, 10));
  return runs(command, flags, run_kernels_plan, {"text", "json", "svg"},
              "partita kernels plan --workers vgg,resnet --kernel-profiles kernels/ --topology "
              "MI50 --switches 14\n"
              "partita kernels plan --workers a,b --kernel-profiles h200/ --topology H200 "
              "--configs 32,64,96,132");
}

struct KernelsVerifyFlags {
  std::string plan;
  decide::KernelNames kernels;
  Output output;
};

Result<Exit> run_kernels_verify(Context& context, KernelsVerifyFlags flags) {
  const auto stated = TRY(read_input(context.files, "PLAN", flags.plan, forms::parse_kernel_plan));
  flags.kernels.workers = decide::planned_units(stated).workers;
  const hw::Topology topology = TRY(decide::load_topology(stated.gpu));
  const auto models = TRY(decide::load_kernels(context.files, flags.kernels, topology));
  const auto claim = TRY(forms::kernel_claim(flags.plan, stated, models));
  const plan::KernelPlan& plan = claim.planned.plan;
  return say_verdict(context, flags.output, flags.plan,
                     fmt::format("ok: {} workers on one {}, objective {:.3f} us, no violation\n",
                                 plan.workers.size(), topology.name, plan.objective),
                     decide::violations_of(claim));
}

Command add_kernels_verify(CLI::App& kernels) {
  auto [command, flags] = adding<KernelsVerifyFlags>(
      kernels, "verify", "Check a kernel plan from any tool against the profiles of its kernels");
  file_argument(*command, "PLAN", flags->plan,
                "A plan (JSON), as `partita kernels plan --format json` writes it")
      ->required();
  add_profiles_flag(*command, flags->kernels);
  return runs(command, flags, run_kernels_verify, {"text", "json"},
              "partita kernels verify plan.json --kernel-profiles kernels/");
}

using decide::PolicyOutcome;
using decide::Sweep;
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
  Table table =
      headed("POLICY|RPS|x ALONE|x MPS|p95 ms|p95 x ALONE|J|J x ALONE|BUSY UNITS|SWITCHES|WAITS");
  for (const PolicyOutcome& one : outcomes) {
    const double mps = decide::against_mps(outcomes, one);
    double p95 = 0, switches = 0;
    for (const sim::WorkerReport& worker : one.report.workers) {
      p95 = std::max(p95, worker.p95_ms);
      switches += worker.switches;
    }
    table.add("{}|{:.1f}|{:.2f}|{}|{:.2f}|{:.2f}|{:.3f}|{:.2f}|{:.1f}|{:.0f}|{}", one.policy,
              one.report.rps, one.normalised, mps > 0 ? fmt::format("{:.2f}", mps) : "-", p95,
              one.p95_ratio, one.report.joules_each, one.energy_ratio, one.report.busy_units,
              switches, one.report.waits);
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
    tell(row, "name", of.name, "requests", of.requests, "rps", of.rps, "mean_ms", of.mean_ms,
         "p95_ms", of.p95_ms, "switches", of.switches);
  };
  tell(f, "policy", one.policy, "rps", report.rps, "normalised", one.normalised, "p95_ratio",
       one.p95_ratio, "energy_ratio", one.energy_ratio);
  tell(f.line("     "), "energy_j", report.energy_j, "joules_each", report.joules_each,
       "busy_units", report.busy_units, "waits", report.waits, "log_hash",
       fmt::format("{:016x}", report.log_hash));
  f.line("     ").rows("workers", report.workers, worker, {.indent = "      "});
}

void tell_parameters(Form& f, const KernelSimulateFlags& flags, const hw::Topology& topology) {
  const sim::ColocationOptions& o = flags.options;
  f.document("KernelSimulation");
  tell(f, "gpu", topology.name, "atom", flags.kernels.atom, "switches", flags.switches,
       "duration_s", o.duration_s, "gamma", o.gamma, "launch_us", o.launch_us, "switch_us",
       o.switch_us, "mask_us", o.mask_us, "streams", o.streams, "spread", o.spread, "static_w",
       o.static_w, "unit_w", o.unit_w, "seed", o.seed);
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

// The plan of PLAN, if one is given: it says --workers, --topology and --atom where flags do not.
Result<decide::PlannedUnits> load_planned_units(Context& context, KernelSimulateFlags& flags) {
  if (flags.plan.empty()) return decide::PlannedUnits{};
  const auto stated = TRY(read_input(context.files, "PLAN", flags.plan, forms::parse_kernel_plan));
  decide::PlannedUnits plan = decide::planned_units(stated);
  decide::KernelNames& kernels = flags.kernels;
  if (kernels.workers.empty()) kernels.workers = plan.workers;
  if (!flags.gpu_given) kernels.gpu = plan.gpu;
  if (kernels.atom == 0) kernels.atom = plan.atom;
  const auto topology = TRY(decide::load_topology(kernels.gpu));
  const auto its = TRY(decide::load_topology(plan.gpu));
  if (topology.name != its.name)
    return bad_input("--topology", fmt::format("{}, but {} is a plan for {}", topology.name,
                                               flags.plan, its.name));
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

Command add_kernels_simulate(CLI::App& kernels) {
  auto [command, flags] = adding<KernelSimulateFlags>(
      kernels, "simulate", "Simulate co-located models under policies that share the SMs or CUs");
  file_argument(*command, "PLAN", flags->plan,
                "A plan of `kernels plan --format json` for the policy eclip; its workers where "
                "--workers is not given");
  add_kernel_flags(*command, flags->kernels);
  command->get_option("--workers")->required(false);
  takes(*command, "--policies",
        preset(flags->policies,
               "Which, between commas: default-stream (one kernel at a time on all units, first "
               "come first "
               "served), mps, static, model, krisp-o, krisp-i, isolated, critical, eclip, eclip:N "
               "(with at "
               "most N changes)"),
        "--duration", preset(flags->duration));
  add_configs_flag(*command, flags->configs);
  add_switches_flag(*command, flags->switches);
  flag(*command, "--sweep", flags->sweep)->check([](const std::string& text) {
    return text.empty() ? std::string("give NAME=V,V,...") : std::string{};
  });
  within(*command, "--tolerance", flags->tolerance, 0, 10);
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
  takes(*command, "--streams", within(flags->options.streams, 1, decide::kMaxStreams), "--seed",
        seeded(flags->options.seed));
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita kernels simulate --workers vgg,resnet --kernel-profiles kernels/ --policies "
      "mps,eclip\n"
      "partita kernels simulate plan.json --kernel-profiles kernels/ --sweep gamma=0,0.15,0.3,0.6");
  return {command, [flags, command](Context& context) {
            flags->gpu_given = command->count("--topology") > 0;
            return run_kernel_simulate(context, *flags);
          }};
}

// partita kernels import: the kernels of a request out of a vendor's profiler.

struct KernelsImportFlags {
  std::string file, from;
  int units = 0;
  Output output;
};

Result<Exit> run_kernels_import(Context& context, const KernelsImportFlags& flags) {
  const auto content = TRY(read_input(context.files, "FILE", flags.file));
  const bool nsys =
      flags.from.empty() ? content.starts_with("SQLite format 3") : flags.from == "nsys";
  const auto trace = TRY(nsys ? profile::parse_nsys_export(flags.file, content)
                              : profile::parse_rocprof(flags.file, content));
  const auto csv = TRY(profile::traced_request_csv(flags.file, trace, flags.units));
  return finish(context, flags.output, csv);
}

Command add_kernels_import(CLI::App& kernels) {
  auto [command, flags] = adding<KernelsImportFlags>(
      kernels, "import",
      "Read the kernels of a request out of what Nsight Systems or rocprof recorded");
  file_argument(*command, "FILE", flags->file,
                "Output of `nsys export --type sqlite`, or rocprof's CSV")
      ->required();
  takes(*command, "--from", word_from(flags->from, {"nsys", "rocprof"}), "--units",
        needed(limited(flags->units, 1, hw::kMaxUnits, "Units used in the recording")));
  add_output_file(*command, flags->output.file);
  return runs(command, flags, run_kernels_import,
              "partita kernels import report.sqlite --units 132 -o model.csv");
}

// partita kernels measure: what a program's kernels take on lanes of several sizes, as `kernels
// plan` reads it.

using profile::Neighbour;

struct KernelsMeasureFlags {
  std::string program, units;
  int repeats = 3;
  bool beside = false;
  std::vector<std::string> words;
  Output output;
};

// Where a program runs: on so many units, alone or with neighbours on all others.
struct Setting {
  int units = 0;
  std::optional<profile::Neighbour> beside;
  auto operator<=>(const Setting&) const = default;
};

struct Measured {
  int all = 0;  // units of the whole GPU
  struct Times {
    std::vector<double> us, gap_us;  // of each run
  };
  std::vector<std::string> kernels;                      // of a request
  std::map<Setting, std::vector<Times>> times;           // of each kernel
  std::map<int, std::vector<MemoryDisturbance>> memory;  // by units, of each run
};

// MHz of the fastest processor now; 0: this machine does not say it.
double clock_mhz(Files& files) {
  double mhz = 0;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
    const auto text =
        files.read(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", i));
    if (text)
      mhz = std::max(mhz, parse_number<double>(text->substr(0, text->find('\n'))).value_or(0));
  }
  return mhz / 1e3;
}

// One run of the program.
Result<void> measure_once(Context& context, const KernelsMeasureFlags& flags,
                          const Setting& setting, Measured& measured) {
  const int units = setting.units;
  const auto folder = TRY(PrivateFolder::make());
  const std::string file = folder.path() + "/times.csv";
  const auto beside = std::filesystem::path(own_program()).parent_path();
  std::vector<std::string> argv = {(beside / "partita-remote").string(),
                                   "remote",
                                   "run",
                                   "--units",
                                   fmt::format("{}", units),
                                   "--kernel-times",
                                   file,
                                   "--"};
  for (const std::string& word : split(flags.program, ' '))
    if (!word.empty()) argv.push_back(word);
  argv.insert(argv.end(), flags.words.begin(), flags.words.end());
  auto child = TRY(Child::start({.argv = std::move(argv), .called = flags.program, .quiet = true}));
  if (const int status = child.wait(); status != 0)
    return environment_error(flags.program, fmt::format("ended with {}", status));
  const auto text = context.files.read(file);
  if (!text) return bad_input("--program", flags.program + " launched no kernel");
  const auto model = TRY(profile::parse_kernel_csv(flags.program, *text, units));
  std::vector<std::string> kernels;
  for (const auto& kernel : model.kernels) kernels.push_back(kernel.name);
  if (measured.kernels.empty()) measured.kernels = kernels;
  if (measured.kernels != kernels)
    return bad_input("--program", flags.program + ": its requests have other kernels each time");
  auto& times = measured.times[setting];
  times.resize(kernels.size());
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    times[k].us.push_back(model.kernels[k].on(units));
    times[k].gap_us.push_back(model.kernels[k].gap_us);
  }
  return {};
}

// The same beside each kind of neighbours on the units that are left.
Result<void> measure_beside(Context& context, const KernelsMeasureFlags& flags, int units,
                            Measured& measured) {
  const int left = measured.all - units;
  for (const Neighbour kind : {Neighbour::computing, Neighbour::reading}) {
    const auto neighbours = TRY(Neighbours::start(left, kind));
    TRY(measure_once(context, flags, {units, kind}, measured));
  }
  measured.memory[units].push_back(TRY(measure_memory_disturbance(units, left)));
  return {};
}

double median_of(const std::vector<MemoryDisturbance>& runs, double MemoryDisturbance::*figure) {
  std::vector<double> all;
  for (const MemoryDisturbance& run : runs) all.push_back(run.*figure);
  return median(all);
}

// How hard a kernel presses on the memory: its part in what it has from readers, beyond what it has
// from those that compute, against theirs among themselves. Whoever waits for the memory uses it.
double presses(const Measured& measured, std::size_t k, int units) {
  const auto us = [&](std::optional<Neighbour> beside) {
    return median(measured.times.at({units, beside})[k].us);
  };
  const auto& runs = measured.memory.at(units);
  const double theirs = median_of(runs, &MemoryDisturbance::by_reading) -
                        median_of(runs, &MemoryDisturbance::by_computing);
  const double mine = (us(Neighbour::reading) - us(Neighbour::computing)) / us(std::nullopt);
  return theirs <= 0 ? 0 : std::clamp(mine / theirs, 0.0, 1.0);
}

std::string csv_of(const Measured& measured) {
  const bool beside = !measured.memory.empty();
  std::string text = "index,kernel,units,time_us,gap_us";
  text += beside ? ",beside,presses\n" : "\n";
  for (std::size_t k = 0; k < measured.kernels.size(); ++k)
    for (const auto& [setting, times] : measured.times) {
      text += fmt::format("{},{},{},{:.3f},{:.3f}", k, measured.kernels[k], setting.units,
                          median(times[k].us), median(times[k].gap_us));
      if (beside) text += fmt::format(",{},", setting.beside ? profile::word(*setting.beside) : "");
      if (setting.beside == Neighbour::reading)
        text += fmt::format("{:.3f}", presses(measured, k, setting.units));
      text += '\n';
    }
  return text;
}

// Neighbours are threads: beside a program on a GPU they would be none.
Result<void> check_no_gpu() {
  LaneDriverFlags gpu;
  gpu.driver = "green_ctx";
  if (!open_lane_driver(gpu)) return {};
  return bad_input("--beside",
                   "is for units of the CPU, and here is a GPU: measure there beside a program "
                   "on another lane (`remote serve --shape LANE-32 --shape LANE-88 "
                   "--kernel-times`), and say so in the column `beside`");
}

Result<Exit> run_kernels_measure(Context& context, const KernelsMeasureFlags& flags) {
  const auto sizes = TRY(decide::parse_counts("--units", flags.units, hw::kMaxUnits));
  if (flags.beside) TRY(check_no_gpu());
  if (flags.beside && sizes.size() < 2)
    return bad_input("--beside", "needs a number of units in --units that leaves some to others");
  Measured measured;
  measured.all = sizes.back();
  const double before = clock_mhz(context.files);
  for (int i = 0; i < flags.repeats; ++i)  // in turns, so that a change of clocks meets all
    for (const int units : sizes) {
      TRY(measure_once(context, flags, {units, {}}, measured));
      if (flags.beside && units < measured.all)
        TRY(measure_beside(context, flags, units, measured));
    }
  const double after = clock_mhz(context.files);
  note(context,
       fmt::format("{} kernels, medians of {} runs; processor {}\n", measured.kernels.size(),
                   flags.repeats,
                   before > 0 ? fmt::format("at {:.0f} MHz, at the end {:.0f}", before, after)
                              : "does not say its clock"));
  return finish(context, flags.output, csv_of(measured));
}

Command add_kernels_measure(CLI::App& kernels) {
  auto [command, flags] = adding<KernelsMeasureFlags>(
      kernels, "measure", "Measure a CUDA program's kernels on lanes of several sizes");
  takes(*command, "--program", needed(flags->program), "--units",
        needed(flags->units, "Several, as in 15,30,60: the last is the whole GPU"), "--repeats",
        within(flags->repeats, 1, 1000), "--beside", flags->beside);
  command->add_option("arguments", flags->words, "Further arguments of the program, behind --")
      ->type_name("WORD");
  add_output_file(*command, flags->output.file);
  return runs(command, flags, run_kernels_measure,
              "partita kernels measure --program './infer --batch 8' --units 1,2 -o infer.csv\n"
              "partita kernels measure --program ./infer --units 1,2,4 --beside -o infer.csv");
}

}  // namespace

void add_kernel_flags(CLI::App& command, decide::KernelNames& flags) {
  flag(command, "--workers", flags.workers)->required();
  add_profiles_flag(command, flags);
  flag(command, "--topology", flags.gpu)->default_str(flags.gpu);
  add_atom_flag(command, flags.atom);
}

void add_atom_flag(CLI::App& command, int& atom) {
  within(flag(command, "--atom", atom), 1, hw::kMaxUnits);
}

void add_configs_flag(CLI::App& command, std::string& configs) {
  flag(command, "--configs", configs)->check([](const std::string& text) {
    return text.empty() ? std::string("give numbers") : std::string{};
  });
}

void add_switches_flag(CLI::App& command, int& switches) {
  within(command, "--switches", switches, 0, decide::kMaxSwitches);
}

Command add_kernels(CLI::App& app) {
  CLI::App* kernels = app.add_subcommand(
      "kernels", "Size and plan the SMs or CUs of the kernels of co-located models");
  const std::vector<Command> commands = {
      add_kernels_profile(*kernels), add_kernels_rightsize(*kernels), add_kernels_plan(*kernels),
      add_kernels_verify(*kernels),  add_kernels_simulate(*kernels),  add_kernels_run(*kernels),
      add_kernels_measure(*kernels), add_kernels_import(*kernels)};
  kernels->footer(
      "partita kernels plan --workers vgg,resnet --kernel-profiles kernels/ --topology MI50");
  return group_of(kernels, commands);
}

}  // namespace partita::cli
