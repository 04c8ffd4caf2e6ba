#include "verify/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace partita::verify {
namespace {

// Two workers of two kernels on 30 or 60 units; by hand: times 10 + 5 and 8 + 8, mean units 45 and
// 30, so 15 (1 + 30/60) + 16 (1 + 45/60) = 50.5.
const plan::KernelProblem kProblem{
    .workers = {{"a", {{30, 60}, {10, 9, 20, 5}}}, {"b", {{30, 60}, {8, 7, 8, 6}}}},
    .total_units = 60,
    .switches = 1};
const plan::KernelPlan kPlan{.workers = {{{0, 1}, 1, 45, 15}, {{0, 0}, 0, 30, 16}},
                             .objective = 50.5,
                             .bound = 40,
                             .optimal = false};

TEST(KernelJudge, AcceptsWhatIsRight) {
  EXPECT_THAT(verify(kProblem, kPlan), testing::IsEmpty());
  plan::KernelProblem literal = kProblem;
  literal.overlap = plan::Overlap::literal;
  plan::KernelPlan plan = kPlan;
  plan.objective = 31 * (1 + 75.0 / 60);
  EXPECT_THAT(verify(literal, plan), testing::IsEmpty());
}

TEST(KernelJudge, NamesWhatIsWrong) {
  const auto words = [](const std::function<void(plan::KernelPlan&)>& change) {
    plan::KernelPlan plan = kPlan;
    change(plan);
    std::vector<std::string> all;
    for (const auto& reason : verify(kProblem, plan)) all.push_back(reason.constraint);
    return all;
  };
  using testing::ElementsAre;
  EXPECT_THAT(words([](auto& p) { p.workers.pop_back(); }), ElementsAre("workers"));
  EXPECT_THAT(words([](auto& p) { p.workers[0].option.pop_back(); }), ElementsAre("kernels"));
  EXPECT_THAT(words([](auto& p) { p.workers[0].option[1] = 2; }), ElementsAre("option"));
  EXPECT_THAT(words([](auto& p) { p.workers[0].switches = 0; }), ElementsAre("switches"));
  EXPECT_THAT(words([](auto& p) { p.workers[1].time = 15; }), ElementsAre("time"));
  EXPECT_THAT(words([](auto& p) { p.workers[1].mean_units = 31; }), ElementsAre("mean_units"));
  EXPECT_THAT(words([](auto& p) { p.objective = 50; }), ElementsAre("objective"));
  EXPECT_THAT(words([](auto& p) { p.bound = 51; }), ElementsAre("bound"));
  EXPECT_THAT(words([](auto& p) { p.optimal = true; }), ElementsAre("bound"));
}

}  // namespace
}  // namespace partita::verify
