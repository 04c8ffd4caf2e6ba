#include "control/health.h"

#include <gtest/gtest.h>

#include "control/testing/brain_fixture.h"

namespace partita::control {
namespace {

struct HealthTest : testing::Test {
  World world = small_world();
  HealthKept kept;
  Report report;
  Health health{world, kept, report};
  NodeView node = empty_node(world, 2);
  std::int64_t now = kMonday;

  GpuUse watch(const std::vector<HealthEvent>& events = {}) {
    return health.watch({now, node, false}, events, "boot");
  }
};

TEST_F(HealthTest, AnXidTakesAGpuOutUntilItIsReset) {
  const HealthEvent xid{.gpu_uuid = "GPU-1", .kind = HealthEvent::Kind::xid, .code = 79};
  EXPECT_EQ(watch().usable.size(), 2u);
  EXPECT_EQ(watch({xid}).usable.size(), 1u);
  EXPECT_NE(kept.out.at(0).why.find("XID 79"), std::string::npos);
  now += 3'600'000;
  EXPECT_EQ(watch().usable.size(), 1u);
  watch({{.gpu_uuid = "GPU-1", .kind = HealthEvent::Kind::reset}});
  now += static_cast<std::int64_t>(world.settings.health.back_after_s * 1000);
  EXPECT_EQ(watch().usable.size(), 2u);
  EXPECT_EQ(report.take_events().size(), 2u);
}

TEST_F(HealthTest, AProgramsOwnXidTakesNothingOut) {
  EXPECT_EQ(
      watch({{.gpu_uuid = "GPU-1", .kind = HealthEvent::Kind::xid, .code = 13}}).usable.size(), 2u);
}

TEST_F(HealthTest, ALostGpuComesBackAtOnceWhereServicesAreShort) {
  node.state.gpus[0].lost = true;
  EXPECT_EQ(watch().usable.size(), 1u);
  node.state.gpus[0].lost = false;
  EXPECT_EQ(watch().usable.size(), 1u);
  EXPECT_EQ(health.watch({now, node, true}, {}, "boot").usable.size(), 2u);
}

TEST_F(HealthTest, PeopleTakeOutWhatIsThereAndGiveBackWhatIsOut) {
  const Health::Ground ground{now, node, false};
  EXPECT_EQ(health.take_out(ground, {"GPU-7", ""}, "ops").error().code, ErrorCode::not_found);
  EXPECT_EQ(health.give_back(ground, {"GPU-0"}, "ops").error().code, ErrorCode::infeasible);
  EXPECT_TRUE(health.take_out(ground, {"GPU-0", "fan"}, "ops").has_value());
  EXPECT_NE(watch().not_used.at("GPU-0").find("fan"), std::string::npos);
  now += 3'600'000;
  EXPECT_EQ(watch().usable.size(), 1u);
  EXPECT_TRUE(health.give_back(ground, {"GPU-0"}, "ops").has_value());
  EXPECT_EQ(watch().usable.size(), 2u);
}

}  // namespace
}  // namespace partita::control
