// The adaptors of node/device around the simulated driver.
#include "device/adaptors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/error_code.h"
#include "base/source_text.h"
#include "device/node_forms.h"
#include "device/recognise.h"
#include "drivers/sim/sim_driver.h"
#include "hw/telemetry/log.h"

namespace partita::device {
namespace {

using drivers::sim::Machine;

// Two empty A100s, with MIG on. Twins answer alike.
class Node {
 public:
  Node() = default;
  NodeDriver& driver() { return driver_; }
  NodeState state() {
    const auto state = read_node(driver_);
    EXPECT_TRUE(state);
    return state.value_or(NodeState{});
  }

 private:
  ManualClock clock_;
  std::unique_ptr<drivers::sim::SharedMachine> machine_ = drivers::sim::own_machine(
      Machine({{.model = hw::builtin_catalogue().find("A100-80GB"), .count = 2, .mig = true}},
              "twin"),
      clock_, 1);
  drivers::sim::SimDriver driver_{*machine_};
};

constexpr Placement kHalf{.nvml_enum = 2, .start = 4};   // 3g.40gb
constexpr Placement kSmall{.nvml_enum = 0, .start = 0};  // 1g.10gb

Call any_change() {
  const int gpu = *rc::gen::inRange(0, 3);  // there are two
  switch (*rc::gen::inRange(0, 9)) {
    case 0:
      return {Method::set_mig_mode, {gpu, *rc::gen::inRange(0, 2)}};
    case 1:
      return {Method::destroy_instance, {gpu, *rc::gen::inRange(1, 15)}};
    case 2:
      return {Method::destroy_compute, {gpu, *rc::gen::inRange(1, 15), 0}};
    case 3:
    case 4:
      return {Method::create_compute, {gpu, *rc::gen::inRange(1, 15)}};
    case 7: {  // limits below, in and above what the board takes, and clocks as well
      const auto limit = rc::gen::element(-1, 50'000, 150'000, 250'500, 400'000, 700'000);
      const auto clock = rc::gen::element(-1, 210, 600, 1410, 3000);
      const int low = *clock;
      return {Method::set_power_settings, {gpu, *limit, low, low < 0 ? -1 : *clock}};
    }
    default:
      return {Method::create_instance, {gpu, *rc::gen::inRange(0, 4), *rc::gen::inRange(0, 8)}};
  }
}

std::string told(const Error& error) {
  return fmt::format("{} {}", to_string(error.code), to_string(error));
}

// What a call of set_power_settings sets.
PowerSettings settings_of(const Call& call) {
  const std::vector<int>& a = call.arguments;
  PowerSettings settings;
  if (a[1] >= 0) settings.limit = Watts{a[1] / 1000.0};
  if (a[2] >= 0 || a[3] >= 0) settings.clocks = {Mhz{1.0 * a[2]}, Mhz{1.0 * a[3]}};
  return settings;
}

// Makes the call; what it answered, as text.
std::string made(NodeDriver& driver, const Call& call) {
  const std::vector<int>& a = call.arguments;
  const auto text = [](const auto& result, const auto& value) {
    return result ? fmt::format("ok {}", value(*result)) : told(result.error());
  };
  const auto number = [](int id) { return id; };
  const auto done = [](const Result<void>& result) {
    return result ? std::string("ok") : told(result.error());
  };
  switch (call.method) {
    case Method::set_mig_mode:
      return text(driver.set_mig_mode(a[0], a[1] != 0),
                  [](ModeChange change) { return change == ModeChange::done ? 0 : 1; });
    case Method::create_instance:
      return text(driver.create_instance(a[0], {a[1], a[2]}), number);
    case Method::destroy_instance:
      return done(driver.destroy_instance(a[0], a[1]));
    case Method::create_compute:
      return text(driver.create_compute(a[0], a[1]), [](const ComputeInstance& made) {
        return fmt::format("{} {} {}", made.ci_id, made.gpcs, made.uuid);
      });
    case Method::destroy_compute:
      return done(driver.destroy_compute(a[0], a[1], a[2]));
    case Method::set_power_settings:
      return done(driver.set_power_settings(a[0], settings_of(call)));
    default:
      return "not a change";
  }
}

std::vector<Call> some_changes() {
  std::vector<Call> calls;
  for (int i = *rc::gen::inRange(1, 30); i > 0; --i) calls.push_back(any_change());
  return calls;
}

// ---- faults ----

TEST(Faults, HitTheCallTheyAreMeantForAndNoOther) {
  Node node;
  ManualClock clock;
  FaultyDriver faulty(node.driver(), clock,
                      {{.method = "create_instance", .call = 2, .code = ErrorCode::in_use}}, {});
  EXPECT_TRUE(faulty.info());
  EXPECT_EQ(faulty.create_instance(0, kSmall).value_or(-1) >= 0, true);
  EXPECT_FALSE(faulty.destroy_instance(0, 99));  // of another method
  const auto second = faulty.create_instance(0, kHalf);
  ASSERT_FALSE(second);
  EXPECT_EQ(told(second.error()),
            "in_use create_instance(gpu 0, nvml_enum 2, start 4): a fault of the script");
  EXPECT_EQ(node.state().gpus[0].instances.size(), 1U);
  EXPECT_TRUE(faulty.create_instance(0, kHalf));
}

TEST(Faults, TakeTheirTime) {
  Node node;
  ManualClock clock;
  FaultyDriver faulty(node.driver(), clock,
                      {{.method = "", .call = 1, .code = ErrorCode::timeout, .hang_ns = 5'000}},
                      {});
  EXPECT_FALSE(faulty.create_instance(0, kHalf));
  EXPECT_EQ(clock.now, 5'000);
}

TEST(Faults, MayKillAfterTheEffect) {
  struct Death {};
  for (const bool after : {false, true}) {
    Node node;
    ManualClock clock;
    FaultyDriver faulty(
        node.driver(), clock,
        {{.method = "create_instance", .call = 1, .after_effect = after, .dies = true}},
        [] { throw Death(); });
    EXPECT_THROW((void)faulty.create_instance(0, kHalf), Death);
    EXPECT_EQ(node.state().gpus[0].instances.size(), after ? 1U : 0U);
  }
}

// The n-th change with a fault before its effect is as if it were left out, with one after its
// effect as if there were none; every other answer is that of the driver.
RC_GTEST_PROP(Faults, LeaveOutExactlyTheirCall, ()) {
  const std::vector<Call> calls = some_changes();
  const auto hit = *rc::gen::inRange<std::size_t>(0, calls.size());
  const bool of_method = *rc::gen::arbitrary<bool>();
  Fault fault;
  fault.code = ErrorCode::lost;
  fault.after_effect = *rc::gen::arbitrary<bool>();
  if (of_method) fault.method = name_of(calls[hit].method);
  for (std::size_t i = 0; i <= hit; ++i)
    fault.call += !of_method || calls[i].method == calls[hit].method;
  Node node, twin;
  ManualClock clock;
  FaultyDriver faulty(node.driver(), clock, {fault}, {});
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string answer = made(faulty, calls[i]);
    std::string expected;
    if (i != hit || fault.after_effect) expected = made(twin.driver(), calls[i]);
    if (i == hit) expected = fmt::format("lost {}: a fault of the script", to_string(calls[i]));
    RC_ASSERT(answer == expected);
  }
  RC_ASSERT(node.state() == twin.state());
}

// ---- limits ----

TEST(Limits, ReadOnlyDeniesEveryChange) {
  Node node;
  const int gi_id = node.driver().create_instance(0, kHalf).value_or(-1);
  ASSERT_TRUE(node.driver().create_compute(0, gi_id));
  const NodeState before = node.state();
  LimitedDriver limited(node.driver(), {.read_only = true, .gpus = {}});
  for (const Call& call :
       {Call{Method::set_mig_mode, {0, 0}}, Call{Method::create_instance, {0, 0, 0}},
        Call{Method::destroy_instance, {0, gi_id}}, Call{Method::create_compute, {0, gi_id}},
        Call{Method::destroy_compute, {0, gi_id, 0}},
        Call{Method::set_power_settings, {0, 300'000, -1, -1}}})
    EXPECT_EQ(made(limited, call),
              fmt::format("denied {}: this driver only reads", to_string(call)));
  EXPECT_EQ(node.state(), before);
  EXPECT_EQ(read_node(limited).value_or(NodeState{}), before);
  EXPECT_EQ(limited.profiles(0).value_or(std::vector<ProfileInfo>{}).size(), 7U);
  EXPECT_TRUE(limited.telemetry(0) && limited.power_settings(0)) << "reading is not a change";
}

TEST(Limits, KeepToTheirGpus) {
  Node node;
  LimitedDriver limited(node.driver(), {.read_only = false, .gpus = std::vector<int>{1}});
  EXPECT_EQ(limited.create_instance(0, kHalf).error().code, ErrorCode::denied);
  EXPECT_TRUE(limited.create_instance(1, kHalf));
  EXPECT_TRUE(limited.read(0));
}

// ---- recording and replay ----

// All that a board says of its settings; bits, not digits.
std::string power_text(const PowerState& state) {
  const auto watts = [](const std::optional<Watts>& value) {
    return value ? fmt::format("{:a}", value->value) : std::string("-");
  };
  std::string text =
      fmt::format("{} {} {} {} {}", watts(state.now.limit), watts(state.default_limit),
                  watts(state.least_limit), watts(state.most_limit), state.clocks_told);
  if (state.now.clocks)
    text += fmt::format(" [{} {}]", state.now.clocks->low.value, state.now.clocks->high.value);
  for (const Mhz clock : state.clocks) text += fmt::format(" {}", clock.value);
  return text;
}

// Changes and what was read in between, all as text.
std::vector<std::string> played(NodeDriver& driver, const std::vector<Call>& calls) {
  std::vector<std::string> answers;
  for (std::size_t i = 0; i <= calls.size(); ++i) {
    const auto state = read_node(driver);
    answers.push_back(state ? state_json(*state) : told(state.error()));
    const auto profiles = driver.profiles(static_cast<int>(i % 3));
    answers.push_back(profiles ? "" : told(profiles.error()));
    if (profiles)
      for (const ProfileInfo& p : *profiles)
        answers.back() += fmt::format("{} {} {};", p.name, p.remaining, fmt::join(p.starts, ","));
    const int gpu = static_cast<int>(i % 3);
    const auto sample = driver.telemetry(gpu);
    answers.push_back(sample ? telemetry::write_line({Seconds{1}, {*sample}})
                             : told(sample.error()));
    const auto power = driver.power_settings(gpu);
    answers.push_back(power ? power_text(*power) : told(power.error()));
    if (i < calls.size()) answers.push_back(made(driver, calls[i]));
  }
  return answers;
}

RC_GTEST_PROP(Replay, AnswersAsTheRecordedDriverDid, ()) {
  const std::vector<Call> calls = some_changes();
  Node node;
  RecordingDriver recording(node.driver());
  const std::vector<std::string> answers = played(recording, calls);
  const auto again = replay("recording.json", recording.json());
  RC_ASSERT(again.has_value());
  RC_ASSERT(played(**again, calls) == answers);
}

// An H100 as its driver (580.159.04, November 2026) describes it: what the catalogue says.
TEST(Recorded, AnH100IsTheCatalogues) {
  const auto board = replay("h100", source_text("data/recorded/h100-80gb-sxm5-580.json"));
  ASSERT_TRUE(board);
  const auto state = (*board)->read(0);
  ASSERT_TRUE(state);
  const hw::GpuModel* const model = recognise(hw::builtin_catalogue(), *state);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->name, "H100-80GB-SXM5");
  const auto profiles = (*board)->profiles(0);
  ASSERT_TRUE(profiles);
  EXPECT_EQ(profiles->size(), 7u);
  EXPECT_TRUE(differences(*model, *profiles).empty());
}

// A replay itself can be recorded, with nothing lost.
RC_GTEST_PROP(Replay, RecordsAsItWasRecorded, ()) {
  const std::vector<Call> calls = some_changes();
  Node node;
  RecordingDriver first(node.driver());
  played(first, calls);
  const auto again = replay("recording.json", first.json());
  RC_ASSERT(again.has_value());
  RecordingDriver second(**again);
  played(second, calls);
  RC_ASSERT(second.json() == first.json());
}

TEST(Replay, AnswersOnlyWhatWasRecorded) {
  Node node;
  RecordingDriver recording(node.driver());
  EXPECT_TRUE(recording.create_instance(1, kHalf));
  EXPECT_TRUE(recording.read(1));
  const auto driver = replay("recording.json", recording.json());
  ASSERT_TRUE(driver);
  EXPECT_EQ((*driver)->info().error().code, ErrorCode::not_found);
  EXPECT_EQ(
      told((*driver)->create_instance(0, kHalf).error()),
      "not_found create_instance(gpu 0, nvml_enum 2, start 4): the recording has no such call "
      "here");
  // Nothing was used up; before the change, the first reading after it is the best there is.
  EXPECT_EQ((*driver)->read(1).value_or(GpuState{}).instances.size(), 1U);
  EXPECT_TRUE((*driver)->create_instance(1, kHalf));
  EXPECT_EQ((*driver)->create_instance(1, kHalf).error().code, ErrorCode::not_found);
}

template <class T>
bool same(const Result<T>& one, const Result<T>& other) {
  return one && other && *one == *other;
}

// Hand values: what is set is read back as recorded, and settings that were not are not found.
TEST(Replay, SettingsAreAChangeLikeOthers) {
  Node node;
  RecordingDriver recording(node.driver());
  const PowerSettings low{Watts{250.5}, ClockRange{Mhz{600}, Mhz{900}}};
  const auto before = recording.power_settings(0);
  ASSERT_TRUE(recording.set_power_settings(0, low));
  const auto during = recording.power_settings(0);
  const auto sample = recording.telemetry(0);
  const auto refused = recording.set_power_settings(0, {Watts{4000}, {}});
  ASSERT_TRUE(before && during && sample && !refused);
  const auto driver = replay("recording.json", recording.json());
  ASSERT_TRUE(driver) << to_string(driver.error());
  EXPECT_TRUE(same((*driver)->power_settings(0), before));
  EXPECT_EQ((*driver)->set_power_settings(0, {}).error().code, ErrorCode::not_found);
  EXPECT_EQ((*driver)->set_power_settings(1, low).error().code, ErrorCode::not_found);
  EXPECT_TRUE(same((*driver)->power_settings(0), before)) << "nothing was used up";
  EXPECT_TRUE((*driver)->set_power_settings(0, low));
  EXPECT_TRUE(same((*driver)->power_settings(0), during));
  EXPECT_EQ((*driver)->power_settings(0)->now.limit, Watts{250.5});
  EXPECT_TRUE(same((*driver)->telemetry(0), sample));
  EXPECT_EQ((*driver)->telemetry(1).error().code, ErrorCode::not_found);
  EXPECT_EQ(told((*driver)->set_power_settings(0, {Watts{4000}, {}}).error()),
            told(refused.error()));
}

// A board that tells little, as AMD's and old ones do: what is empty stays empty.
TEST(Replay, WhatABoardDoesNotTellStaysUntold) {
  const std::string calls = R"(
    {"call": "telemetry", "gpu": 0, "answer": {"index": 0, "uuid": "GPU-1", "power_average_w": 40}},
    {"call": "power_settings", "gpu": 0, "answer": {"clocks_told": false, "clocks_mhz": []}},
    {"call": "set_power_settings", "gpu": 0, "limit_mw": -1, "low_mhz": -1, "high_mhz": -1,
     "error": {"code": "denied", "message": "m", "context": "c"}})";
  const auto driver = replay("recording.json", R"({"api_version": "partita/v1", "kind": "Recording",
    "calls": [)" + calls + "]}");
  ASSERT_TRUE(driver) << to_string(driver.error());
  telemetry::GpuSample sample;
  sample.uuid = "GPU-1";
  sample.power_average = Watts{40};
  EXPECT_TRUE((*driver)->telemetry(0) && *(*driver)->telemetry(0) == sample);
  PowerState board;
  board.clocks_told = false;
  EXPECT_TRUE((*driver)->power_settings(0) && *(*driver)->power_settings(0) == board);
  EXPECT_EQ(told((*driver)->set_power_settings(0, {}).error()), "denied c: m");
}

TEST(Replay, GivesEveryErrorBack) {
  for (const std::string& word : error_code_words()) {
    const std::string text = fmt::format(
        R"({{"api_version": "partita/v1", "kind": "Recording", "calls": [
          {{"call": "read", "gpu": 0, "error":
            {{"code": "{}", "message": "m", "context": "c"}}}}]}})",
        word);
    const auto driver = replay("recording.json", text);
    ASSERT_TRUE(driver) << to_string(driver.error());
    EXPECT_EQ(told((*driver)->read(0).error()), word + " c: m");
  }
}

TEST(Replay, RefusesBadRecordingsWithTheLine) {
  const auto refusal = [](const std::string& calls) {
    const auto driver =
        replay("r.json",
               R"({"api_version": "partita/v1", "kind": "Recording", "calls": [)" + calls + "]}");
    return driver ? "accepted" : to_string(driver.error());
  };
  EXPECT_EQ(refusal(""), "accepted");
  for (const auto& [calls, part] : std::vector<std::pair<std::string, std::string>>{
           {"\n{\"call\": \"raed\", \"gpu\": 0}",
            "r.json:2: unknown call 'raed'; did you mean 'read'?"},
           {"\n{\"call\": \"read\"}", "r.json:2: "},
           {"\n{\"call\": \"read\", \"gpu\": 0}", "r.json:2: there is neither an 'answer' nor"},
           {"\n{\"call\": \"create_instance\", \"gpu\": 0, \"nvml_enum\": 0, \"start\": 0,\n"
            "\"answer\": \"three\"}",
            "r.json:3: "},
           {"\n{\"call\": \"destroy_instance\", \"gpu\": 0, \"gi_id\": 0, \"answer\": 1}",
            "r.json:2: this call answers nothing"},
           {"\n{\"call\": \"set_mig_mode\", \"gpu\": 0, \"enabled\": true, \"answer\": \"on\"}",
            "r.json:2: 'answer' is 'on', must be 'done' or 'pending_reset'"},
           {"\n{\"call\": \"info\", \"error\": {\"code\": \"buzy\"}}",
            "r.json:2: unknown error code 'buzy'"}})
    EXPECT_NE(refusal(calls).find(part), std::string::npos) << refusal(calls) << "\nnot: " << part;
}

}  // namespace
}  // namespace partita::device
