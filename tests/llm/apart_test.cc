// Prefill and decode apart as a way to serve: planned where it saves GPUs, passed by the judge.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "decide/serving.h"
#include "llm/engine/engines.h"
#include "planners/serving/testing/token_cases.h"

namespace partita::llm_test {
namespace {

// Whole GPUs alone, with or without prefill apart.
plan::ServingProblem long_prompts(bool apart, double ttft_ms, double tpot_ms) {
  plan::ServingProblem problem;
  problem.fleet.push_back(planners::serving::made_up_fleet());
  for (auto& [model, engines] : problem.fleet[0].engines) {
    std::erase_if(engines,
                  [](const auto& one) { return !one.mig_profile.empty() || one.gpus > 1; });
    const std::vector<profile::TokenEngine> whole = engines;
    for (const profile::TokenEngine& one : whole) {
      const auto more = llm::apart_of(one, 0.003);
      if (apart) engines.insert(engines.end(), more.begin(), more.end());
    }
  }
  plan::Service service{.name = "reads", .model = "m14", .rate = Rps{8}};
  service.tokens.emplace();
  service.tokens->ttft = Millis{ttft_ms};
  service.tokens->tpot = Millis{tpot_ms};
  service.tokens->lengths =
      plan::TokenPair{plan::LognormalTokens{3000, 0.5}, plan::LognormalTokens{150, 0.5}};
  problem.services.push_back(service);
  return problem;
}

TEST(PrefillApart, IsPlannedAndJudgedWherePromptsStallAnswers) {
  const auto planner = decide::find_planner("", "exact");
  const auto plain =
      decide::make_plan(**planner, long_prompts(false, 3000, 32), decide::PlanOptions{});
  const auto apart =
      decide::make_plan(**planner, long_prompts(true, 3000, 32), decide::PlanOptions{});
  ASSERT_TRUE(plain && plain->plan);
  ASSERT_TRUE(apart && apart->plan);  // which says that the judge passed it
  const std::size_t together = (*plain->plan)->gpus.size(), split = (*apart->plan)->gpus.size();
  EXPECT_LT(split, together);
  const plan::PlannedInstance& one = (*apart->plan)->gpus[0].instances[0];
  EXPECT_NE(one.engine.configuration.find("for prefill alone"), std::string::npos)
      << one.engine.configuration;
  EXPECT_GT(one.group, 1);
  std::printf("%zu GPUs together, %zu with prefill apart\n", together, split);
}

// A promise that leaves more time needs no more GPUs, and is none that no engine keeps.
TEST(PrefillApart, LooserPromisesNeedNoMore) {
  const auto planner = decide::find_planner("", "exact");
  for (const bool apart : {false, true}) {
    std::map<std::pair<double, double>, std::size_t> gpus;
    for (const double ttft : {1500, 3000, 6000}) {
      for (const double tpot : {22, 32, 45}) {
        const auto made =
            decide::make_plan(**planner, long_prompts(apart, ttft, tpot), decide::PlanOptions{});
        ASSERT_TRUE(made && made->plan) << apart << " " << ttft << " " << tpot;
        gpus[{ttft, tpot}] = (*made->plan)->gpus.size();
      }
    }
    for (const auto& [tight, needs] : gpus)
      for (const auto& [loose, less] : gpus)
        if (loose.first >= tight.first && loose.second >= tight.second) {
          EXPECT_LE(less, needs) << apart << ": TTFT " << tight.first << ", TPOT " << tight.second
                                 << " against " << loose.first << ", " << loose.second;
        }
  }
}

}  // namespace
}  // namespace partita::llm_test
