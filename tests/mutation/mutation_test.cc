// Real planners, real scenarios, and the judge between them: every plan passes, and no plan passes
// after a random change of one of its numbers or words.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/source_text.h"
#include "hw/catalogue.h"
#include "forms/serving_forms.h"
#include "planners/serving/planner.h"
#include "profile/law.h"
#include "verify/serving.h"

namespace partita {
namespace {

using plan::PlannedGpu;
using plan::PlannedInstance;
using plan::PlannedService;
using plan::ServingPlan;
using plan::ServingProblem;
using plan::SloRule;

ServingProblem problem_of(const std::string& scenario, const SloRule& rule) {
  const hw::GpuModel* gpu = hw::builtin_catalogue().find("A100-80GB");
  const auto laws = profile::parse_laws("laws", source_text("data/profiles/a100-80gb.json"));
  const auto services =
      forms::parse_services("services", source_text("data/scenarios/" + scenario));
  ServingProblem problem;
  problem.services = services.value();
  // Capacities under the queueing rule take a planner most of a second for all eleven.
  if (rule.kind == SloRule::Kind::queueing) problem.services.resize(3);
  problem.fleet.push_back({*gpu, profile::table_from_laws(laws.value(), *gpu).value(), {}, 1});
  problem.rule = rule;
  return problem;
}

const std::vector<SloRule> kRules = {SloRule{SloRule::Kind::execution, 0.45}, SloRule{}};

void expect_right_plans(const std::string& scenario, const SloRule& rule) {
  const ServingProblem problem = problem_of(scenario, rule);
  for (const auto& planner : planners::serving::planners()) {
    const auto outcome = planner.plan(problem, {});
    if (!outcome.plan) continue;  // a baseline may refuse
    for (const plan::Reason& reason : verify::verify(problem, *outcome.plan))
      ADD_FAILURE() << planner.name << " " << scenario << " " << plan::to_string(rule) << ": "
                    << plan::to_string(reason);
  }
}

TEST(Mutation, EveryPlanByExecutionPasses) {
  for (int s = 1; s <= 6; ++s) expect_right_plans(fmt::format("s{}.yaml", s), kRules[0]);
}
TEST(Mutation, EveryPlanByQueueingPasses) { expect_right_plans("s3.yaml", kRules[1]); }

// A random element.
template <class T>
T& some(Rng& rng, std::vector<T>& list) {
  return list[rng.below(list.size())];
}

struct Change {
  std::string what;
  std::function<void(ServingPlan&, Rng&)> apply;  // always breaks the plan
};

PlannedInstance& some_instance(ServingPlan& plan, Rng& rng) {
  return some(rng, some(rng, plan.gpus).instances);
}

std::vector<Change> changes() {
  return {
      {"more throughput than measured",
       [](ServingPlan& p, Rng& rng) { some_instance(p, rng).throughput.value *= 2.5; }},
      {"another latency",
       [](ServingPlan& p, Rng& rng) { some_instance(p, rng).latency.value *= 1 + 1e-6; }},
      {"a batch of three", [](ServingPlan& p, Rng& rng) { some_instance(p, rng).batch = 3; }},
      {"too many processes", [](ServingPlan& p, Rng& rng) { some_instance(p, rng).processes = 4; }},
      {"a stranger", [](ServingPlan& p, Rng& rng) { some_instance(p, rng).service = "nobody"; }},
      {"a start outside", [](ServingPlan& p, Rng& rng) { some_instance(p, rng).start = 8; }},
      {"an odd start of something wide",
       [](ServingPlan& p, Rng& rng) {
         PlannedInstance& instance = some_instance(p, rng);
         instance.profile = "3g.40gb";
         instance.start = 1;
       }},
      {"an instance twice",
       [](ServingPlan& p, Rng& rng) {
         PlannedGpu& gpu = some(rng, p.gpus);
         gpu.instances.push_back(some(rng, gpu.instances));
       }},
      {"an instance lost",
       [](ServingPlan& p, Rng& rng) { some(rng, p.gpus).instances.pop_back(); }},
      {"a GPU twice",
       [](ServingPlan& p, Rng& rng) {
         const PlannedGpu copy = some(rng, p.gpus);
         p.gpus.push_back(copy);
       }},
      {"a GPU lost", [](ServingPlan& p, Rng&) { p.gpus.pop_back(); }},
      {"a rate", [](ServingPlan& p, Rng& rng) { some(rng, p.services).rate.value += 0.01; }},
      {"a sum", [](ServingPlan& p, Rng& rng) { some(rng, p.services).planned.value += 0.01; }},
      {"an SLO", [](ServingPlan& p, Rng& rng) { some(rng, p.services).slo.value += 0.01; }},
      {"a rosy prediction",
       [](ServingPlan& p, Rng& rng) { some(rng, p.services).predicted_latency.value *= 0.3; }},
      {"a row lost", [](ServingPlan& p, Rng&) { p.services.pop_back(); }},
      {"the count of GPUs", [](ServingPlan& p, Rng&) { ++p.objective.gpus; }},
      {"the count of GPCs", [](ServingPlan& p, Rng&) { --p.objective.gpcs; }},
      {"a bound too high",
       [](ServingPlan& p, Rng&) { p.objective.lower_bound_gpus = p.objective.gpus + 1; }},
      {"a false proof",
       [](ServingPlan& p, Rng&) {
         p.objective.optimal = true;
         p.objective.lower_bound_gpus = p.objective.gpus - 1;
         p.objective.lower_bound_cost = p.objective.cost - 1;
       }},
  };
}

TEST(Mutation, NoChangePasses) {
  Rng rng(1);
  for (const SloRule& rule : kRules) {
    const ServingProblem problem = problem_of("s3.yaml", rule);
    const auto outcome = planners::serving::planners().front().plan(problem, {});
    ASSERT_TRUE(outcome.plan);
    ASSERT_TRUE(verify::verify(problem, *outcome.plan).empty());
    for (const Change& change : changes()) {
      for (int i = 0; i < 2; ++i) {
        ServingPlan broken = *outcome.plan;
        change.apply(broken, rng);
        EXPECT_FALSE(verify::verify(problem, broken).empty())
            << change.what << " under " << plan::to_string(rule);
      }
    }
  }
}

// Two violations are two reasons, and none is reported twice.
TEST(Mutation, ChangesAddUp) {
  Rng rng(2);
  const ServingProblem problem = problem_of("s5.yaml", kRules[0]);
  const auto outcome = planners::serving::planners().front().plan(problem, {});
  ASSERT_TRUE(outcome.plan);
  for (int i = 0; i < 200; ++i) {
    ServingPlan broken = *outcome.plan;
    for (std::uint64_t k = rng.below(6); k > 0; --k)
      changes()[rng.below(changes().size())].apply(broken, rng);
    const std::vector<plan::Reason> reasons = verify::verify(problem, broken);
    for (std::size_t a = 0; a < reasons.size(); ++a)
      for (std::size_t b = a + 1; b < reasons.size(); ++b)
        EXPECT_FALSE(reasons[a].constraint == reasons[b].constraint &&
                     reasons[a].subject == reasons[b].subject)
            << plan::to_string(reasons[a]);
  }
}

}  // namespace
}  // namespace partita
