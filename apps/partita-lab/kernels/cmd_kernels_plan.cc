#include <fmt/format.h>


#include "base/table.h"
#include "base/terminal.h"
#include "decide/kernel_planning.h"
#include "decide/kernel_report.h"
#include "flags.h"
#include "forms/kernel_forms.h"
#include "forms/kernel_picture.h"
#include "kernels/kernel_commands.h"
#include "kernels/kernel_inputs.h"
#include "planners/mask/joint_plan.h"
#include "planners/mask/right_size.h"

namespace partita::cli {
namespace {

using profile::ModelKernels;

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
  Table table{{"MOST SWITCHES", "OBJECTIVE us", "SWITCHES", "PROVEN"}, {}};
  for (std::size_t s = 0; s < curve.size(); ++s) {
    const plan::KernelPlan& plan = curve[s].plan;
    int switches = 0;
    for (const plan::Grouping& one : plan.workers) switches += one.switches;
    table.rows.push_back({fmt::format("{}", s), fmt::format("{:.3f}", plan.objective),
                          fmt::format("{}", switches), plan.optimal ? "yes" : "no"});
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

}  // namespace

Command add_kernels_plan(CLI::App& kernels) {
  auto [command, flags] = adding<KernelsPlanFlags>(
      kernels, "plan",
      "Choose the SMs or CUs of groups of kernels: ECLIP's problem, solved exactly");
  add_kernel_flags(*command, flags->kernels);
  add_configs_flag(*command, flags->configs);
  add_switches_flag(*command, flags->switches);
  within(flag(*command, "--switch-cost", flags->switch_cost), 0, 1e9)->default_str("0");
  one_of(flag(*command, "--overlap", flags->overlap), {"others", "literal"})
      ->default_str(flags->overlap);
  flag(*command, "--curve", flags->curve);
  within(flag(*command, "--tolerance", flags->tolerance), 0, 10)->default_str("0.05");
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita kernels plan --workers vgg,resnet --profiles kernels/ --gpu MI50 --switches 14\n"
      "partita kernels plan --workers a,b --profiles h200/ --gpu H200 --configs 32,64,96,132");
  return {command, [flags](Context& context) { return run_kernels_plan(context, *flags); }};
}

}  // namespace partita::cli
