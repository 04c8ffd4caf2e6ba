#include "control/settings.h"

#include <gtest/gtest.h>

namespace partita::control {
namespace {

constexpr std::int64_t kWindowMonday = 1'767'571'200'000;  // 5 January 2026
constexpr std::int64_t kHour = 3'600'000;

TEST(Settings, AFileWithoutAPolicyHasTheDefaults) {
  const auto read = parse_settings("agent.yaml", "listen: 127.0.0.1:8080\n");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(*read, Settings{});
}

TEST(Settings, ComeBackFromTheirDocument) {
  const std::string text = R"(
policy:
  mode: automatic
  look_s: 5
  utc_offset_min: 60
  forecast: {horizon_s: 900, coverage: 0.95}
  damping: {min_gain_gpu_hours: 0.5, cooldown_s: 600, moves_per_hour: 10}
  windows: [{days: [sat, sun], from: "22:00", to: "04:00"}, {from: "12:00", to: "13:00"}]
  priorities: [{service: chat, priority: 5}]
  health: {xids: [48], back_after_s: 60}
  batch: {gpus: [3], idle: true}
  power: {cap_w: 900, clocks: fixed, clock_mhz: 1005}
  survive: 1
  hooks_before: [stop-dcgm]
)";
  const auto read = parse_settings("agent.yaml", text);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->mode, Mode::automatic);
  EXPECT_EQ(read->windows.size(), 2u);
  EXPECT_EQ(read->windows[0].days, (std::vector<int>{5, 6}));
  EXPECT_EQ(read->windows[0].from, 22 * 60);
  EXPECT_EQ(read->priority.at("chat"), 5);
  EXPECT_EQ(read->survive, 1);
  EXPECT_EQ(read->power.clocks, Clocks::fixed);
  EXPECT_EQ(read->power.clock_mhz, 1005);
  const auto again = parse_settings("again.json", settings_json(*read));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, *read);
}

TEST(Settings, RefusesWhatCannotBeMeantWithItsLine) {
  for (const char* text :
       {"policy:\n  lok_s: 5\n", "policy:\n  look_s: 0\n", "policy:\n  mode: maybe\n",
        "policy:\n  forecast: {coverage: 98}\n",
        "policy:\n  windows: [{from: '25:00', to: '1:00'}]\n",
        "policy:\n  windows: [{from: '02:00', to: '02:00'}]\n",
        "policy:\n  windows: [{days: [moon], from: '02:00', to: '03:00'}]\n",
        "policy:\n  damping: {moves_per_hour: 0}\n", "policy:\n  min_available: 1.5\n",
        "policy:\n  power: {clocks: fixed}\n", "policy:\n  power: {clock_mhz: 900}\n",
        "policy:\n  power: {clocks: low}\n",
        "policy:\n  priorities: [{service: a, priority: 1}, {service: a, priority: 2}]\n"}) {
    const auto read = parse_settings("agent.yaml", text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().context, "agent.yaml:2") << text;
  }
}

TEST(Settings, WindowsMayGoOverMidnight) {
  const std::vector<Window> night{{{4}, 22 * 60, 6 * 60}};  // begins on Friday
  const auto at = [&](int day, int hour) {
    return in_window(night, kWindowMonday + day * 24 * kHour + hour * kHour, 0);
  };
  EXPECT_FALSE(at(4, 21));
  EXPECT_TRUE(at(4, 22));
  EXPECT_TRUE(at(5, 5));
  EXPECT_FALSE(at(5, 6));
  EXPECT_FALSE(at(4, 3));
  EXPECT_FALSE(at(5, 23));
  // Two hours east of Greenwich it is 22:00 at 20:00 UTC.
  EXPECT_TRUE(in_window(night, kWindowMonday + (4 * 24 + 20) * kHour, 120));
  EXPECT_FALSE(in_window({}, kWindowMonday, 0));
}

}  // namespace
}  // namespace partita::control
