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

TEST(KernelJudge, NamesTimesBesideTheOthersThatAreWrong) {
  EXPECT_THAT(verify(kProblem, kPlan, {15 * 1.5, 16 * 1.75}), testing::IsEmpty());
  EXPECT_THAT(verify(kProblem, kPlan, {std::nullopt, std::nullopt}), testing::IsEmpty());
  const auto found = verify(kProblem, kPlan, {22.5, 27.9});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], (plan::Reason{"predicted", "worker b", 27.9, 28, {}}));
}

// Four units in two clusters, in atoms of two; the lanes of two workers of two kernels each.
TEST(LaneJudge, NamesWhatIsWrong) {
  hw::Topology topology = hw::generic_topology(2, 5);  // one unit left over in each
  const plan::KernelProblem problem{
      .workers = {{"a", {{2, 10}, {3, 1, 3, 1}}}, {"b", {{2, 10}, {3, 1, 3, 1}}}},
      .total_units = 10,
      .switches = 1};
  const plan::KernelPlan plan{.workers = {{{0, 1}, 1, 6, 4}, {{0, 0}, 0, 2, 6}}};
  const plan::Lanes right{2, {{0, 2, 0b11, 1}, {0, 10, 0b1111111111, 1}, {1, 2, 0b110000000, 2}}};
  EXPECT_THAT(verify(problem, plan, right, topology), testing::IsEmpty());
  const auto words = [&](const std::function<void(std::vector<plan::Lane>&)>& change) {
    plan::Lanes lanes = right;
    change(lanes.all);
    std::vector<std::string> all;
    for (const auto& reason : verify(problem, plan, lanes, topology))
      all.push_back(reason.constraint);
    return all;
  };
  using testing::ElementsAre;
  EXPECT_THAT(words([](auto& all) { all.pop_back(); }), ElementsAre("lane"));
  EXPECT_THAT(words([](auto& all) { all.push_back({1, 4, 0b1111, 1}); }), ElementsAre("lane"));
  EXPECT_THAT(words([](auto& all) { all.push_back({2, 2, 0b11, 1}); }), ElementsAre("lane"));
  EXPECT_THAT(words([](auto& all) { all[2].kernels = 1; }), ElementsAre("lane"));
  EXPECT_THAT(words([](auto& all) { all.push_back({1, 4, 0b1111, 0}); }), ElementsAre("lane"));
  EXPECT_THAT(words([](auto& all) { all[0].mask = 0b1111; }), ElementsAre("lane_units"));
  EXPECT_THAT(words([](auto& all) { all[0].mask = 0b110; }), ElementsAre("atom"));
  EXPECT_THAT(words([](auto& all) { all[0].mask = 0b10001; }), ElementsAre("atom"));
  EXPECT_THAT(words([](auto& all) { all[0].mask = hw::UnitMask(0b11) << 20; }),
              ElementsAre("lane_units"));
}

// Two dies of four units. One worker, on two units, three or all.
TEST(LaneJudge, RefusesUnequalSharesOfDies) {
  hw::Topology topology = hw::generic_topology(2, 4);
  const plan::KernelProblem problem{
      .workers = {{"a", {{2, 3, 8}, {3, 2, 1}}}}, .total_units = 8, .switches = 0};
  const auto words = [&](std::uint8_t option, unsigned mask) {
    const plan::KernelPlan plan{.workers = {{{option}, 0, 0, 0}}};
    const int units = problem.workers[0].times.units[option];
    std::vector<std::string> all;
    for (const auto& reason : verify(problem, plan, {1, {{0, units, mask, 1}}}, topology))
      all.push_back(reason.constraint);
    return all;
  };
  using testing::ElementsAre;
  EXPECT_THAT(words(0, 0b0011), testing::IsEmpty());  // one die: the clusters are no dies
  topology.dies = 2;
  EXPECT_THAT(words(0, 0b0001'0001), testing::IsEmpty());
  EXPECT_THAT(words(0, 0b0011), ElementsAre("die"));
  EXPECT_THAT(words(0, 0b0011'0000), ElementsAre("die"));
  EXPECT_THAT(words(1, 0b0001'0011), testing::IsEmpty());
  EXPECT_THAT(words(1, 0b0111), ElementsAre("die"));
  EXPECT_THAT(words(2, 0b1111'1111), testing::IsEmpty());
  // Every die has a unit, but one has two more than the other.
  topology = hw::generic_topology(2, 5);
  topology.dies = 2;
  EXPECT_THAT(words(2, 0b11111'00111), ElementsAre("die"));
}

}  // namespace
}  // namespace partita::verify
