#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "forms/batch_forms.h"

namespace partita::forms {
namespace {

using Op = Reconfiguration::Op;

BatchSchedule small_schedule() {
  BatchSchedule s;
  s.scheduler = "exact";
  s.gpu_models = {"A30-24GB", "A30-24GB"};
  s.makespan = s.lower_bound = 21'817'000'000;
  s.optimal = true;
  s.tasks = {{{"1g.6gb", 3}, 1, "a\"b\\c", 110'000'001, 9'000'000'000},
             {{"2g.12gb", 0}, 0, "lavaMD", 120'000'000, 21'817'000'000}};
  s.reconfigurations = {{{"2g.12gb", 0}, 0, Op::create, 0, 120'000'000},
                        {{"1g.6gb", 3}, 1, Op::create, 0, 110'000'000},
                        {{"1g.6gb", 3}, 1, Op::destroy, 9'000'000'000, 9'100'000'000}};
  s.explanation = {"lavaMD alone takes so long"};
  s.stats = {0.25, 12};
  return s;
}

TEST(ScheduleJson, HoldsTheAgreedKeys) {
  const auto json =
      nlohmann::json::parse(schedule_json(small_schedule(), {{"lavaMD", 5, 21'817'000'000}}));
  EXPECT_EQ(json, nlohmann::json::parse(R"({
    "api_version": "partita/v1", "kind": "BatchSchedule", "gpu_model": "A30-24GB", "gpus": 2,
    "reconfigurer": "node", "gpus_per_node": 8,
    "scheduler": "exact", "makespan_s": 21.817, "lower_bound_s": 21.817, "optimal": true,
    "tasks": [
      {"task": "a\"b\\c", "gpu": 1, "profile": "1g.6gb", "start": 3, "begin_s": 0.110000001,
       "end_s": 9},
      {"task": "lavaMD", "gpu": 0, "profile": "2g.12gb", "start": 0, "begin_s": 0.12,
       "end_s": 21.817}],
    "reconfigurations": [
      {"gpu": 0, "op": "create", "profile": "2g.12gb", "start": 0, "begin_s": 0, "end_s": 0.12},
      {"gpu": 1, "op": "create", "profile": "1g.6gb", "start": 3, "begin_s": 0, "end_s": 0.11},
      {"gpu": 1, "op": "destroy", "profile": "1g.6gb", "start": 3, "begin_s": 9, "end_s": 9.1}],
    "late": [{"task": "lavaMD", "deadline_s": 5e-9, "end_s": 21.817}],
    "stats": {"scheduling_ms": 0.25, "nodes": 12},
    "explanation": ["lavaMD alone takes so long"]})"));
}

TEST(ScheduleJson, NamesTheModelsWhereTheyDiffer) {
  BatchSchedule schedule = small_schedule();
  schedule.gpu_models[1] = "H100-80GB-PCIe";
  const auto json = nlohmann::json::parse(schedule_json(schedule));
  EXPECT_EQ(json["gpu_model"], "A30-24GB");
  EXPECT_EQ(json["gpus"], 2);
  EXPECT_EQ(json["gpu_models"], nlohmann::json({"A30-24GB", "H100-80GB-PCIe"}));
  EXPECT_FALSE(json.contains("late"));
}

// ---- schedules of any content within the bounds ----

std::string any_schedule_name() {
  static const char* const kPieces[] = {"a",    "B7", " ",  "\"", "\\", "/",
                                        "<&>'", "é",  "語", "🚀",  "{",  ","};
  std::string name;
  for (int i = *rc::gen::inRange(1, 6); i > 0; --i)
    name += kPieces[*rc::gen::inRange<std::size_t>(0, 12)];
  return name;
}

// Up to 46 days, all nanoseconds in use.
Nanos any_schedule_time() {
  constexpr Nanos kExact = 4'000'000 * kNanosInSecond;
  const auto bits = static_cast<Nanos>(*rc::gen::arbitrary<std::uint64_t>() >> 1);
  return *rc::gen::element<Nanos>(0, 1, -1, kExact, -kExact, bits % 1000, bits % kNanosInSecond,
                                  bits % kExact);
}

BatchSchedule any_schedule() {
  BatchSchedule s;
  s.scheduler = any_schedule_name();
  const std::string model = any_schedule_name();
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i)
    s.gpu_models.push_back(*rc::gen::arbitrary<bool>() ? model : any_schedule_name());
  for (int i = *rc::gen::inRange(0, 30); i > 0; --i)
    s.tasks.push_back({{any_schedule_name(), *rc::gen::inRange(0, 8)},
                       *rc::gen::inRange(0, 3),
                       any_schedule_name(),
                       any_schedule_time(),
                       any_schedule_time()});
  for (int i = *rc::gen::inRange(0, 30); i > 0; --i)
    s.reconfigurations.push_back({{any_schedule_name(), *rc::gen::inRange(0, 8)},
                                  *rc::gen::inRange(0, 3),
                                  *rc::gen::element(Op::create, Op::destroy),
                                  any_schedule_time(),
                                  any_schedule_time()});
  put_in_order(s);
  s.makespan = any_schedule_time();
  s.lower_bound = any_schedule_time();
  s.optimal = *rc::gen::arbitrary<bool>();
  s.explanation = {any_schedule_name()};
  s.stats = {0.1 * *rc::gen::inRange(0, 1000), *rc::gen::inRange<long>(0, 1'000'000'000'000)};
  return s;
}

RC_GTEST_PROP(ScheduleJson, ReadsBackTheSame, ()) {
  const BatchSchedule schedule = any_schedule();
  const auto again = parse_schedule("s.json", schedule_json(schedule));
  if (!again) RC_FAIL(to_string(again.error()));
  RC_ASSERT(*again == schedule);
  RC_ASSERT(again->explanation == schedule.explanation);
  RC_ASSERT(again->stats.scheduling_ms == schedule.stats.scheduling_ms);
  RC_ASSERT(again->stats.nodes == schedule.stats.nodes);
}

// ---- schedules written by hand ----

constexpr std::string_view kScheduleByHand = R"({
"api_version": "partita/v1", "kind": "BatchSchedule",
"gpu_model": "A30-24GB", "gpus": 1,
"tasks": [
  {"task": "b", "gpu": 0, "profile": "1g.6gb", "start": 1, "begin_s": 3, "end_s": 7.5},
  {"task": "a", "gpu": 0, "profile": "1g.6gb", "start": 0, "begin_s": 1, "end_s": 2, "mine": 1}],
"reconfigurations": [
  {"gpu": 0, "op": "create", "profile": "1g.6gb", "start": 1, "begin_s": 2, "end_s": 2.11}]
})";

TEST(ScheduleJson, AcceptsTheRequiredKeysAlone) {
  const auto schedule = parse_schedule("s.json", kScheduleByHand);
  ASSERT_TRUE(schedule) << to_string(schedule.error());
  EXPECT_EQ(schedule->tasks[0].task, "a");  // sorted
  EXPECT_EQ(schedule->tasks[1].begin, 3 * kNanosInSecond);
  EXPECT_EQ(schedule->makespan, 7'500'000'000);  // counted
  EXPECT_EQ(schedule->lower_bound, 0);
  EXPECT_FALSE(schedule->optimal);
  EXPECT_EQ(schedule->gpu_models, std::vector<std::string>{"A30-24GB"});
  EXPECT_EQ(schedule->reconfigurations[0].end, 2'110'000'000);
}

TEST(ScheduleJson, KeepsAStatedMakespanThoughItIsWrong) {
  std::string text(kScheduleByHand);
  text.insert(1, "\"makespan_s\": 7,");
  const auto schedule = parse_schedule("s.json", text);
  ASSERT_TRUE(schedule) << to_string(schedule.error());
  EXPECT_EQ(schedule->makespan, 7 * kNanosInSecond);
}

// The refusal of the schedule above with one piece of text replaced.
std::string schedule_refusal(std::string_view piece, std::string_view replacement) {
  std::string text(kScheduleByHand);
  const auto at = text.find(piece);
  if (at == text.npos) return "no such piece";
  text.replace(at, piece.size(), replacement);
  const auto schedule = parse_schedule("s.json", text);
  if (schedule) return "accepted";
  EXPECT_EQ(schedule.error().code, ErrorCode::bad_input);
  return to_string(schedule.error());
}

TEST(ScheduleJson, RefusesWithLineAndKey) {
  struct {
    const char* piece;
    const char* replacement;
    const char* refusal;
  } const cases[] = {
      {"\"api_version\": \"partita/v1\", ", "", "s.json:1: 'api_version' is missing"},
      {"BatchSchedule", "ServingPlan",
       "s.json:2: 'kind' is 'ServingPlan', must be 'BatchSchedule'"},
      {"\"gpu_model\": \"A30-24GB\", ", "", "s.json:1: 'gpu_model' is missing"},
      {"\"gpus\": 1", "\"gpus\": 0", "s.json:3: 'gpus' is 0, must be at least 1"},
      {"\"gpus\": 1", "\"gpus\": 1001", "s.json:3: 'gpus' is 1001, must be at most 1000"},
      {"\"gpus\": 1", "\"gpus\": 2, \"gpu_models\": [\"A30-24GB\"]",
       "s.json:3: 'gpu_models' has 1 names, 'gpus' is 2"},
      {"\"gpus\": 1", "\"gpus\": 1, \"gpu_models\": [\"A100-80GB\"]",
       "s.json:3: the first of 'gpu_models' must be the 'gpu_model', 'A30-24GB'"},
      {"\"gpus\": 1", "\"gpus\": 1, \"optimal\": 1", "s.json:3: 'optimal' must be true or false"},
      {"\"gpus\": 1", "\"gpus\": 1, \"makespan_s\": \"7\"",
       "s.json:3: 'makespan_s' must be a finite number"},
      {"\"gpus\": 1", "\"gpus\": 1, \"explanation\": [3]",
       "s.json:3: 'explanation' must list texts"},
      {"\"gpus\": 1", "\"gpus\": 1, \"stats\": {\"nodes\": -1}",
       "s.json:3: 'nodes' is -1, must be at least 0"},
      {"\"tasks\"", "\"task\"", "s.json:1: 'tasks' is missing"},
      {"\"task\": \"b\"", "\"task\": \"\"", "s.json:5: 'task' is empty"},
      {"\"gpu\": 0", "\"gpu\": -1", "s.json:5: 'gpu' is -1, must be at least 0"},
      {"\"start\": 1", "\"start\": 0.5", "s.json:5: 'start' must be a whole number"},
      {"\"begin_s\": 3", "\"begin_s\": 5e9",
       "s.json:5: 'begin_s' is 5000000000, must be at most 1e+09"},
      {"\"begin_s\": 3, ", "", "s.json:5: 'begin_s' is missing"},
      {"\"profile\": \"1g.6gb\"", "\"profile\": 1", "s.json:5: 'profile' must be a text"},
      {"\"op\": \"create\"", "\"op\": \"make\"",
       "s.json:8: 'op' is 'make', must be 'create' or 'destroy'"},
  };
  for (const auto& c : cases) EXPECT_EQ(schedule_refusal(c.piece, c.replacement), c.refusal);
  EXPECT_EQ(to_string(parse_schedule("s.json", "").error()), "s.json:1: the file is empty");
}

}  // namespace
}  // namespace partita::forms
