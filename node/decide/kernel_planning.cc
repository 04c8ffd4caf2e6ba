#include "decide/kernel_planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "decide/made.h"
#include "planners/mask/joint_plan.h"
#include "planners/mask/lanes.h"
#include "verify/kernels.h"

namespace partita::decide {

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
    const std::vector<int>& options = problem.workers[w].times.units;
    for (const std::uint8_t option : plan.workers[w].option) {
      CHECK(option < options.size());
      units.back().push_back(options[option]);
    }
  }
  return units;
}

Result<plan::Judged<plan::PlannedKernels>> plan_kernels(const plan::KernelProblem& problem,
                                                        const hw::Topology& topology, int atom) {
  plan::PlannedKernels planned{planners::mask::plan_jointly(problem).plan, {}};
  planned.lanes =
      planners::mask::plan_lanes(topology, atom, units_of_kernels(problem, planned.plan));
  auto made = TRY(make_and_judge("the planner of kernels made a plan", problem,
                                 std::optional(std::move(planned)), {}, topology));
  return *std::move(made.plan);
}

std::vector<plan::Reason> violations_of(const forms::KernelClaim& claim) {
  const plan::KernelPlan& plan = claim.planned.plan;
  std::vector<plan::Reason> found = verify::verify(claim.problem, plan);
  if (!found.empty()) return found;
  found = verify::verify(claim.problem, plan, claim.planned.lanes, claim.topology);
  for (plan::Reason& one : verify::verify(claim.problem, plan, claim.predicted))
    found.push_back(std::move(one));
  return found;
}

planners::mask::RightSize right_size(const std::string& method, const profile::ModelKernels& model,
                                     double tolerance, const std::vector<int>& sizes) {
  if (method == "critical") return planners::mask::critical_exact(model, tolerance, sizes);
  if (method == "critical-greedy") return planners::mask::critical_greedy(model, tolerance, sizes);
  planners::mask::RightSize size;
  size.units = planners::mask::least_units(model, tolerance, sizes);
  if (method == "model") {
    const int knee = planners::mask::knee(model, tolerance, sizes);
    std::ranges::fill(size.units, knee);
  }
  for (std::size_t k = 0; k < size.units.size(); ++k) {
    const double time = model.kernels[k].on(size.units[k]);
    size.time_us += time;
    size.unit_us += size.units[k] * time;
  }
  return size;
}

}  // namespace partita::decide
