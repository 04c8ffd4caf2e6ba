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

// What comes before may prevent the work; what comes after is done whatever came of it.
TEST(Hooks, LieAroundTheWork) {
  for (const std::string fails : {"nothing", "one", "two", "work", "three"}) {
    std::vector<std::string> done, said;
    const auto outcome_of = [&](const std::string& name) -> Result<void> {
      done.push_back(name);
      if (name == fails) return environment_error(name, "failed");
      return {};
    };
    const std::vector<std::string> before{"one", "two"}, after{"three", "four"};
    const HookRound round{before, after,
                          [&](const std::string& name, const char*) { return outcome_of(name); },
                          [&](const std::string& line) { said.push_back(line); }};
    const Result<void> outcome = with_hooks(round, [&] { return outcome_of("work"); });
    std::vector<std::string> expected{"one", "two", "work", "three", "four"};
    if (fails == "one") expected = {"one", "three", "four"};
    if (fails == "two") expected = {"one", "two", "three", "four"};
    EXPECT_EQ(done, expected) << fails;
    EXPECT_EQ(outcome.has_value(), fails == "nothing" || fails == "three");
    EXPECT_EQ(said.size(), fails == "three" ? 1u : 0u);
  }
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
