#include "act/hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::actuate {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kHookSecond = 1'000'000'000;

struct HookWorld {
  ManualClock clock;
  SimBehaviour behaviour = {};
  std::vector<ProcessSpec> started = {};
  SimProcesses processes{clock, [this](const ProcessSpec& spec) {
                           started.push_back(spec);
                           return behaviour;
                         }};
  Result<void> run(const Hook& hook) {
    return run_hook({processes, clock}, hook, {{"PARTITA_CHANGE", "7"}});
  }
};

TEST(Hooks, OneThatEndsWellIsWaitedFor) {
  HookWorld world;
  world.behaviour.run_ns = 3 * kHookSecond;
  EXPECT_TRUE(world.run({"stop-exporter", {"systemctl", "stop", "dcgm-exporter"}}));
  EXPECT_GE(world.clock.now, 3 * kHookSecond);
  ASSERT_EQ(world.started.size(), 1U);
  EXPECT_EQ(world.started[0].environment.at("PARTITA_CHANGE"), "7");
}

TEST(Hooks, AFailureSaysWhichHookAndItsStatus) {
  HookWorld world;
  world.behaviour.run_ns = 0;
  world.behaviour.status = 4;
  const auto outcome = world.run({"stop-plugin", {"false"}});
  ASSERT_FALSE(outcome);
  EXPECT_THAT(to_string(outcome.error()), HasSubstr("stop-plugin"));
  EXPECT_THAT(to_string(outcome.error()), HasSubstr("status 4"));
}

TEST(Hooks, OneThatHangsIsKilledWhenItsTimeIsOver) {
  HookWorld world;
  const auto outcome = world.run({"hangs", {"sleep", "inf"}, 5});
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::timeout);
  EXPECT_GE(world.clock.now, 5 * kHookSecond);
  EXPECT_LT(world.clock.now, 6 * kHookSecond);
  EXPECT_TRUE(world.processes.running().empty());
}

TEST(Hooks, AreReadFromASettingsFileAndRefusedWithTheLine) {
  const auto hooks = parse_hooks("agent.yaml",
                                 "hooks:\n"
                                 "  - name: stop-exporter\n"
                                 "    command: [systemctl, stop, dcgm-exporter]\n"
                                 "    on_failure: go_on\n");
  ASSERT_TRUE(hooks) << to_string(hooks.error());
  EXPECT_EQ(
      *hooks,
      (std::vector<Hook>{
          {"stop-exporter", {"systemctl", "stop", "dcgm-exporter"}, 30, HookFailure::go_on}}));
  const auto none = parse_hooks("agent.yaml", "policy: {}\n");
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"hooks:\n  - {name: a, command: [x]}\n  - {name: a, command: [y]}\n", "listed twice"},
           {"hooks:\n  - {name: a, command: []}\n", "command"},
           {"hooks:\n  - {name: a, command: [x], timeout_s: -3}\n", "timeout_s"},
           {"hooks:\n  - {name: a, command: [x], timeout_s: 30000}\n", "timeout_s"}}) {
    const auto refused = parse_hooks("agent.yaml", text);
    ASSERT_FALSE(refused) << text;
    EXPECT_THAT(to_string(refused.error()), HasSubstr(why));
    EXPECT_THAT(to_string(refused.error()), HasSubstr("agent.yaml:"));
  }
}

}  // namespace
}  // namespace partita::actuate
