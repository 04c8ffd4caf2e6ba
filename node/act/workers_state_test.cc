#include "act/workers_state.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace partita::actuate {
namespace {

using testing::HasSubstr;

WorkersState two_workers() {
  WorkerRecord waits{.segment = {{"3g.40gb", 4}, {"a\"b", 8, 2}, "MIG-1", "GPU-a"}};
  waits.last_status = kUnknownStatus;
  waits.quick_failures = 6;
  waits.given_up = true;
  waits.answering = Answering::silent;
  WorkerRecord runs = waits;
  runs.index = 1;
  runs.pid = 4194303;
  runs.identity = "77@boot";
  runs.port = 8001;
  runs.restarts = 3;
  runs.start_s = 41.5;
  runs.last_status.reset();
  runs.command = {"serve", "", "a b", "\"\\"};
  runs.environment = {{"A", "1"}, {"B", ""}};
  return {.revision = 12, .supervisor = {4711, "5@boot"}, .workers = {waits, runs}};
}

TEST(WorkersState, is_read_back_as_it_was_written) {
  const WorkersState of_a_container{.supervisor = {1, ""}, .workers = {}};
  for (const WorkersState& state : {two_workers(), of_a_container, WorkersState{}}) {
    const Result<WorkersState> again = parse_workers("w.json", workers_json(state));
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(*again, state);
  }
}

TEST(WorkersState, knows_every_port) {
  WorkersState state = two_workers();
  for (const int port : {1, 65535}) {
    state.workers[0].port = port;
    EXPECT_EQ(parse_workers("w.json", workers_json(state)).value(), state);
  }
}

TEST(WorkersState, says_nothing_of_what_a_worker_has_not) {
  const std::string text = workers_json(two_workers());
  for (const char* key : {"\"port\"", "\"last_status\"", "\"identity\": \"77@boot\""})
    EXPECT_EQ(text.find(key), text.rfind(key)) << key << " is of one of the two";
}

TEST(WorkersState, is_read_in_order) {
  WorkersState shuffled = two_workers();
  std::ranges::reverse(shuffled.workers);
  EXPECT_EQ(parse_workers("w.json", workers_json(shuffled)).value(), two_workers());
}

TEST(WorkersState, refuses_with_the_line) {
  const std::string good = workers_json(two_workers());
  const std::vector<std::tuple<std::string, std::string, std::string>> cases{
      {"\"index\": 1", "\"index\": 0", "w.json:11: worker 0 of device 'MIG-1' is listed twice"},
      {"\"index\": 1", "\"index\": 128", "'index' is 128, must be at most 127"},
      {"\"pid\": 4194303", "\"pid\": -5", "'pid' is -5"},
      {"\"port\": 8001", "\"port\": 70000", "'port' is 70000"},
      {"\"A\": \"1\"", "\"A\": 1", "must be text"},
      {"\"restarts\": 3", "\"restart\": 3", "'restarts' is missing"},
      {"\"pid\": 4711", "\"pid\": \"a\"", "w.json:5: 'pid'"},
      {"\"pid\": 4711", "\"pid\": 4711.5", "w.json:5: 'pid' must be a whole number"},
      {"\"pid\": 4194303", "\"pid\": 0.9", "'pid' must be a whole number"},
      {"\"revision\": 12", "\"revision\": 12.5", "w.json:4: 'revision' must be a whole number"},
      {"Workers", "Assignment", "'kind'"}};
  for (const auto& [from, to, message] : cases) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const Result<WorkersState> state = parse_workers("w.json", text);
    ASSERT_FALSE(state) << to;
    EXPECT_THAT(to_string(state.error()), HasSubstr(message));
    EXPECT_THAT(to_string(state.error()), HasSubstr("w.json:"));
  }
}

TEST(WorkerTags, name_the_place_of_a_worker) {
  const std::string tag = worker_tag("/s:1/workers.json", "MIG-GPU-1/7/0", 12);
  EXPECT_EQ(tag, "/s:1/workers.json:MIG-GPU-1/7/0:12");
  EXPECT_EQ(worker_place(tag, "/s:1/workers.json"),
            (std::pair<std::string, int>("MIG-GPU-1/7/0", 12)));
  for (const char* other : {"/s:1/workers.jso", "/s", ""})
    EXPECT_NE(worker_place(tag, other).value_or(std::pair("", 0)).first, "MIG-GPU-1/7/0");
  EXPECT_EQ(worker_place("/s:MIG-1", "/s"), std::nullopt);
  EXPECT_EQ(worker_place("/s:MIG-1:1x", "/s"), std::nullopt);
}

}  // namespace
}  // namespace partita::actuate
