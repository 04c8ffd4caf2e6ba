#include "control/desired.h"

#include <gtest/gtest.h>

#include "control/testing/brain_fixture.h"

namespace partita::control {
namespace {

struct DesiredTest : testing::Test {
  World world = small_world();
  DesiredKept kept;
  Report report;
};

TEST_F(DesiredTest, TakesAFileThatIsFineOnceAndKeepsItsWordOtherwise) {
  Desired desired(world, kept, report);
  EXPECT_FALSE(desired.hear_file({}));
  EXPECT_FALSE(desired.hear_file("services: 7\n"));
  EXPECT_EQ(report.take_news().size(), 1u);
  const std::string text = services_text({{"b", 20}, {"a", 10}});
  EXPECT_TRUE(desired.hear_file(text));
  EXPECT_FALSE(desired.hear_file(text));
  ASSERT_EQ(desired.now().services.size(), 2u);
  EXPECT_EQ(desired.now().services[0].name, "a");
  EXPECT_EQ(desired.now().who, "their file");
  EXPECT_EQ(report.take_events().size(), 1u);
  // Another agent goes on with what was kept.
  const Desired next(world, kept, report);
  EXPECT_EQ(next.now().key, desired.now().key);
  EXPECT_EQ(next.now().services.size(), 2u);
}

TEST_F(DesiredTest, RefusesWhatNoProfileIsOf) {
  Desired desired(world, kept, report);
  const Reply reply =
      desired.set({"services:\n  - {name: a, model: other, rate_rps: 1, slo_ms: 9}\n"}, "ops");
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, ErrorCode::bad_input);
  EXPECT_TRUE(desired.now().services.empty());
  EXPECT_TRUE(desired.set({services_text({{"a", 10}})}, "ops").has_value());
  EXPECT_EQ(desired.now().who, "ops");
}

TEST_F(DesiredTest, AModeThatWasSetOutlivesTheSettings) {
  world.settings.mode = Mode::observe;
  Desired first(world, kept, report);
  EXPECT_EQ(first.mode(), Mode::observe);
  first.set_mode(Mode::automatic, "ops");
  EXPECT_EQ(Desired(world, kept, report).mode(), Mode::automatic);
}

}  // namespace
}  // namespace partita::control
