#include "act/gateway_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/source_text.h"

namespace partita::actuate {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kGatewayStateSecond = 1'000'000'000;

GatewayState some_state() {
  return {.revision = 7,
          .pid = 4000,
          .identity = "25@boot",
          .written_s = 100,
          .services = {{"chat", 120, 100,
                        GatewayRequests{1000, 900, 50, 20, 31.5, RequestStretch{3, 30, 29, 28},
                                        RequestStretch{15, 150, 149, 148},
                                        RequestStretch{60, 600, 599, 598}, 400}},
                       {"search",
                        0,
                        30.5,
                        {},
                        {},
                        ColdStarts{482, 481, 600, 41.5},
                        {},
                        {{1, 200, 811}, {3, 190, 0}}}},
          .workers = {{"MIG-1", 0, "chat", 4711, WorkerReadiness::ready, 0.25},
                      {"MIG-1", 1, "chat", 4712, WorkerReadiness::silent, 12},
                      {"MIG-2", 0, "search", 4713, WorkerReadiness::leaving, 0}},
          .lost = {{"MIG-2", 0, 4700}, {"MIG-1", 1, 4699}},
          .uncarried = {{"vision", 2.5}}};
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = gateway_json(some_state());
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(GatewayState, IsReadBackAndSorted) {
  GatewayState shuffled = some_state();
  std::ranges::reverse(shuffled.workers);
  std::ranges::reverse(shuffled.services);
  const auto again = parse_gateway("g.json", gateway_json(shuffled));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, some_state());
}

TEST(GatewayState, SaysHowColdStartsDid) {
  EXPECT_EQ(to_string(ColdStarts{482, 481, 600, 41.5}),
            "482 cold starts, 99.79 % within 600 ms (mean 41.5 ms)");
  EXPECT_EQ(to_string(ColdStarts{1, 0, 50, 70}), "1 cold start, 0 % within 50 ms (mean 70 ms)");
  EXPECT_EQ(to_string(ColdStarts{.promised_ms = 600}), "no cold starts, 600 ms promised");
}

// Nothing that keys had is lost where there are too many to be told one by one.
TEST(GatewayState, TellsTheKeysThatHadMostAndTheOthersTogether) {
  std::vector<KeyCounts> all;
  for (int k = 0; k < 200; ++k)
    all.push_back({.key = "token " + std::to_string(k), .answered = 1.0 * k, .bytes = 10.0 * k});
  const std::vector<KeyCounts> told = told_keys(all);
  ASSERT_EQ(told.size(), kMostKeysTold);
  double answered = 0, bytes = 0;
  for (const KeyCounts& key : told) {
    answered += key.answered;
    bytes += key.bytes;
    if (key.key == kOtherKeys) {
      EXPECT_EQ(key.answered, 136 * 137 / 2);
    } else {
      EXPECT_GT(key.answered, 136);
    }
  }
  EXPECT_EQ(answered, 199 * 200 / 2);
  EXPECT_EQ(bytes, 10 * answered);
  GatewayState state = some_state();
  state.services[0].keys = told;
  state.services[1].engines = {{"http://a:1", WorkerReadiness::ready, 0.5, 3},
                               {"http://b:1", WorkerReadiness::silent, 70, 0}};
  const auto again = parse_gateway("g.json", gateway_json(state));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, state);
  EXPECT_TRUE(told_keys({{.key = "", .answered = 3}}).empty()) << "asked without a key";
  EXPECT_EQ(told_keys({{.key = "b"}, {.key = "a"}}), told_keys({{.key = "a"}, {.key = "b"}}));
}

TEST(GatewayState, AllThatCameMayHaveEnded) {
  const auto state = parse_gateway("g.json", with("\"arrived\": 1000", "\"arrived\": 970"));
  ASSERT_TRUE(state) << to_string(state.error());
  EXPECT_EQ(state->services[0].requests->arrived, 970);
}

TEST(GatewayState, RefusesWithTheLine) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {with("\"search\"", "\"chat\""), "service 'chat' is listed twice"},
      {with("\"index\": 1", "\"index\": 0"), "worker 0 of device 'MIG-1' is listed twice"},
      {with("\"silent\"", "\"quiet\""), "'state'"},
      {with("\"by_pipelines\": 400", "\"by_pipelines\": 1001"), "more than arrived"},
      {with("\"step\": 3", "\"step\": 1"), "step 1 is listed twice"},
      {with("\"step\": 3", "\"step\": 16"), "'step' is 16"},
      {with("\"rows\": 811", "\"rows\": -1"), "'rows' is -1"},
      {with("\"in_time\": 481", "\"in_time\": 483"), "more than there were"},
      {with("\"pid\": 4711", "\"pid\": 0"), "'pid' is 0"},
      {with("\"capacity_rps\": 120", "\"capacity_rps\": -1"), "'capacity_rps' is -1"},
      {with("GatewayState", "Workers"), "'kind'"},
      {with("\"arrived\": 1000", "\"arrived\": 969"), "more requests have ended than arrived"},
      {with("\"shed\": 20", "\"shed\": -1"), "'shed' is -1"},
      {with("\"revision\": 7", "\"revision\": -7"), "'revision' is -7"}};
  for (const auto& [text, message] : cases) {
    const auto state = parse_gateway("g.json", text);
    ASSERT_FALSE(state) << text;
    EXPECT_THAT(to_string(state.error()), HasSubstr(message));
    EXPECT_THAT(to_string(state.error()), HasSubstr("g.json:"));
  }
}

TEST(GatewayState, SpeaksOnlyForAGatewayThatLivesAndWrites) {
  MemoryFiles files;
  ManualClock clock;
  SimProcesses processes(clock, [](const ProcessSpec&) { return SimBehaviour{}; });
  const GatewayDoors doors{processes, files, "/state"};
  const auto found = [&](std::int64_t now) {
    const auto read = read_gateway(doors, now);
    return read.has_value() && read->has_value();
  };
  EXPECT_FALSE(found(0));
  GatewayState state = some_state();
  state.pid = *processes.start({.argv = {"gateway"}});
  state.identity = processes.identity(state.pid);
  ASSERT_TRUE(files.make_directories("/state"));
  ASSERT_TRUE(files.write_atomic(gateway_path("/state"), gateway_json(state)));
  EXPECT_TRUE(found(101 * kGatewayStateSecond));
  EXPECT_FALSE(found(106 * kGatewayStateSecond));  // it hangs
  processes.crash(state.pid, 1);
  EXPECT_FALSE(found(101 * kGatewayStateSecond));
  ASSERT_TRUE(files.write_atomic(gateway_path("/state"), ""));
  const auto crashed = read_gateway(doors, 101 * kGatewayStateSecond);
  EXPECT_TRUE(crashed && !*crashed);
  ASSERT_TRUE(files.write_atomic(gateway_path("/state"), "{"));
  EXPECT_FALSE(read_gateway(doors, 0));
}

TEST(FormatsDoc, GatewayStateExampleIsReadAndWrittenAsItStands) {
  const std::string text = source_text("docs/formats.md");
  const std::string open = "```json\n";
  const auto begin = text.find(open, text.find("\n## Gateway state\n")) + open.size();
  const std::string example = text.substr(begin, text.find("```\n", begin) - begin);
  const auto state = parse_gateway("formats.md", example);
  ASSERT_TRUE(state) << to_string(state.error());
  EXPECT_EQ(gateway_json(*state), example);
  EXPECT_EQ(state->workers.size(), 2U);
}

}  // namespace
}  // namespace partita::actuate
