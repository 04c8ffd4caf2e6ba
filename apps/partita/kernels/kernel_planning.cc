#include "kernels/kernel_planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planners/mask/joint_plan.h"
#include "planners/mask/lanes.h"
#include "serving/planning.h"
#include "verify/kernels.h"

namespace partita::cli {

Result<plan::KernelProblem> kernel_problem(const hw::Topology& topology,
                                           const std::vector<profile::ModelKernels>& models,
                                           const std::vector<int>& configs, int switches) {
  plan::KernelProblem problem;
  problem.total_units = topology.units();
  problem.switches = switches;
  double table = 0;
  for (const profile::ModelKernels& model : models) {
    const auto kernels = static_cast<double>(model.kernels.size());
    table += kernels * static_cast<double>(configs.size()) * std::min(kernels, switches + 1.0);
  }
  if (table > kMaxPlanTable)
    return bad_input("--switches",
                     fmt::format("{}: kernels x numbers of units x switches come to {:.3g}, {:g} "
                                 "are the limit",
                                 switches, table, kMaxPlanTable));
  for (const profile::ModelKernels& model : models) {
    plan::KernelTimes times{configs, {}};
    for (const profile::KernelProfile& kernel : model.kernels)
      for (const int units : configs) times.time.push_back(kernel.on(units));
    problem.workers.push_back({model.model, std::move(times)});
  }
  return problem;
}

std::vector<std::vector<int>> units_of_kernels(const plan::KernelProblem& problem,
                                               const plan::KernelPlan& plan) {
  std::vector<std::vector<int>> units;
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    units.emplace_back();
    for (const std::uint8_t option : plan.workers[w].option)
      units.back().push_back(problem.workers[w].times.units[option]);
  }
  return units;
}

Result<PlannedKernels> plan_kernels(const plan::KernelProblem& problem,
                                    const hw::Topology& topology, int atom) {
  PlannedKernels planned;
  planned.plan = planners::mask::plan_jointly(problem).plan;
  std::vector<plan::Reason> violations = verify::verify(problem, planned.plan);
  if (violations.empty()) {
    planned.lanes =
        planners::mask::plan_lanes(topology, atom, units_of_kernels(problem, planned.plan));
    violations = verify::verify(problem, planned.plan, planned.lanes, topology);
  }
  if (violations.empty()) return planned;
  return environment_error("internal error",
                           reasons_text("the judge refuses the plan", violations));
}

}  // namespace partita::cli
