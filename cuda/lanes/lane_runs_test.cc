#include "lanes/lane_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::carry {
namespace {

using testing::ElementsAre;

TEST(LaneRuns, ComeToMediansOverTheRuns) {
  // One worker, three runs of four requests: 1, 2 and 4 ms each, the last ten times as long.
  std::vector<exec::LaneWorkersRun> runs(3);
  for (std::size_t r = 0; r < 3; ++r) {
    const std::int64_t ns = 1'000'000 << r;
    runs[r].lanes = 5;
    runs[r].workers.resize(1);
    runs[r].workers[0].latency_ns = {ns, ns, ns, 10 * ns};
    runs[r].workers[0].switches = 8;
    runs[r].workers[0].waits = 2;
  }
  const LaneOutcome outcome = outcome_of("mps", runs);
  EXPECT_EQ(outcome.policy, "mps");
  EXPECT_EQ(outcome.lanes, 5);
  ASSERT_EQ(outcome.rps.size(), 1u);
  EXPECT_NEAR(outcome.rps[0], 4 / 0.026, 1e-9);
  EXPECT_NEAR(outcome.p95_ms[0], 20, 1e-9);
  EXPECT_DOUBLE_EQ(outcome.switches, 2);
  EXPECT_DOUBLE_EQ(outcome.waits, 0.25);
  EXPECT_DOUBLE_EQ(outcome.total(), outcome.rps[0]);
}

TEST(LaneRuns, MakeALanePerMask) {
  const StandIns kernels(1, std::vector<device::Kernel>(3));
  const MaskOf masks = [](std::size_t, std::size_t kernel, const std::vector<int>& running) {
    EXPECT_EQ(running.size(), 4u);
    return std::optional(hw::UnitMask(kernel == 1 ? 0b11 : 0b1111));
  };
  const auto workers = on_lanes("static", masks, 4, kernels);
  ASSERT_TRUE(workers);
  EXPECT_THAT((*workers)[0].masks, ElementsAre(hw::UnitMask(0b1111), hw::UnitMask(0b11)));
  std::vector<std::size_t> lanes;
  for (const auto& step : (*workers)[0].steps) lanes.push_back(step.mask);
  EXPECT_THAT(lanes, ElementsAre(0u, 1u, 0u));
  const auto none = on_lanes(
      "krisp-i", [](auto...) { return std::optional<hw::UnitMask>(); }, 4, kernels);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "krisp-i gives no mask");
}

}  // namespace
}  // namespace partita::carry
