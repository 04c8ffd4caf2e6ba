// Plans that keep every SLO when any one GPU is lost, against the judge, exhaustive search over
// placements, and simulations of every loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/test_rounds.h"
#include "planners/serving/exact.h"
#include "planners/serving/planner.h"
#include "problems.h"
#include "verify/serving.h"

namespace partita::planning_test {
namespace {

using planners::serving::plan_exact;

plan::ServingProblem surviving(int number, plan::SloRule rule) {
  plan::ServingProblem problem = scenario(number);
  problem.rule = rule;
  problem.survive = 1;
  return problem;
}

constexpr plan::SloRule kExecution{plan::SloRule::Kind::execution, 0.45};

plan::ServingPlan planned(const plan::ServingProblem& problem) {
  auto outcome = plan_exact(problem, {});
  for (const plan::Reason& refusal : outcome.refusals) ADD_FAILURE() << to_string(refusal);
  if (!outcome.plan) return {};
  for (const plan::Reason& violation : verify::verify(problem, *outcome.plan))
    ADD_FAILURE() << to_string(violation);
  return *outcome.plan;
}

TEST(Survive, Probe) {
  for (const auto& rule : {kExecution, plan::SloRule{}})
  for (int s = 1; s <= 6; ++s) {
    const auto start = std::clock();
    const auto plan = planned(surviving(s, rule));
    const auto& o = plan.objective;
    printf("S%d %s %d/%d bound %d/%d optimal %d, %.0f ms\n", s, to_string(rule).c_str(), o.gpus, o.gpcs,
           o.lower_bound_gpus, o.lower_bound_gpcs, o.optimal, 1e3 * (std::clock() - start) / CLOCKS_PER_SEC);
    fflush(stdout);
  }
}

}  // namespace
}  // namespace partita::planning_test
