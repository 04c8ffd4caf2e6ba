// The brain alone, step by step: what it wants done and written down after what has happened. On a
// simulated machine: tests/execution.
#include "act/batch/batch_executor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "act/batch/testing/test_batch.h"
#include "base/append.h"

namespace partita::exec {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = Record::Kind;
using State = PastVisit::State;

// A clock in small numbers: 10 from asking to killing, 30 of patience, 2 between two tries.
const Options kShort{.grace = 10, .patience = 30, .pause = 2};
Options with_retries(int retries) {
  Options options = kShort;
  options.retries = retries;
  return options;
}
Options keeping() {
  Options options = kShort;
  options.keep = true;
  return options;
}

// ---- events

OperationDone ok() { return {}; }
OperationDone found(std::vector<int> present = {}) { return {{.present = std::move(present)}}; }
OperationDone made(int gi_id) { return {{.made = Made{gi_id, fmt::format("M{}", gi_id)}}}; }
Error error(ErrorCode code) { return {code, "no", "driver"}; }
OperationDone refused(ErrorCode code = ErrorCode::in_use) { return {{.error = error(code)}}; }
OperationDone half_made(int gi_id, ErrorCode code = ErrorCode::environment) {
  return {{.made = Made{gi_id, ""}, .error = error(code)}};
}
Started began(int task, Pid pid, Nanos begin) { return {task, pid, begin}; }
Exited ended(Pid pid, int status = 0) { return {pid, status}; }

// ---- what is asked for, as text

std::string text_of(const Record& record) {
  static const char* const kinds[] = {"run",   "create", "created", "stale", "destroyed",
                                      "start", "stop",   "end",     "done"};
  std::string text = kinds[static_cast<int>(record.kind)];
  if (record.task.empty()) {
    append(text, " {}", record.visit);
  } else {
    append(text, " {}/{}", record.task, record.attempt);
  }
  if (record.kind == Kind::created || record.kind == Kind::stale)
    append(text, " gi{}{}", record.made.gi_id, record.made.uuid);
  if (record.kind == Kind::end) append(text, "={}{}", record.status, record.in_time ? "" : " late");
  return text;
}

class Play {
 public:
  explicit Play(Script script, const Options& options = kShort, const Past& past = {})
      : script_(std::move(script)), executor(script_, options, past) {}

  // "records -> actions"
  std::string step(Nanos now, const std::vector<Event>& events = {}) {
    const Actions out = executor.step(now, events);
    std::vector<std::string> records, actions;
    for (const Record& record : out.journal) {
      EXPECT_EQ(record.time, now);
      records.push_back(text_of(record));
    }
    for (const Action& action : out.actions)
      actions.push_back(std::visit([this](const auto& a) { return text(a); }, action));
    return fmt::format("{}{}{}", fmt::join(records, "; "),
                       actions.empty() ? "" : (records.empty() ? "-> " : " -> "),
                       fmt::join(actions, "; "));
  }
  // Its only instance is made and its first task runs as process 70 from 3 on.
  void begin() {
    step(0);
    step(1, {found()});
    step(2, {made(7)});
    EXPECT_EQ(step(3, {began(0, 70, 3)}), "");
  }

  std::string task(int index) const {
    const TaskRun& run = executor.report().tasks[static_cast<std::size_t>(index)];
    return fmt::format("{} {} x{} [{},{}]{}", script_.tasks[static_cast<std::size_t>(index)].name,
                       to_string(run.status), run.attempts, run.begin, run.end,
                       run.reason.empty() ? "" : " " + run.reason);
  }
  std::string change(int visit, bool create) const {
    const ChangeOrder order(script_);
    const ChangeId id = order.id(visit, create);
    const ChangeRun& run =
        executor.report()
            .changes[static_cast<std::size_t>(id.gpu)][static_cast<std::size_t>(id.rank)];
    return fmt::format("{}{} {} x{} [{},{}]{}", visit, create ? "+" : "-", to_string(run.status),
                       run.tries, run.begin, run.end, run.reason.empty() ? "" : " " + run.reason);
  }
  std::optional<Nanos> wake() const { return executor.next_wake(); }
  bool over() const { return executor.finished(); }

 private:
  std::string text(const BeginOperation& action) const {
    const Operation& one = action.operation;
    const auto visit = std::ranges::find_if(script_.visits, [&](const Visit& v) {
      return v.place == one.place &&
             script_.gpus[static_cast<std::size_t>(v.gpu)].device == one.device;
    });
    EXPECT_TRUE(visit != script_.visits.end());
    EXPECT_EQ(visit->nvml_enum, one.nvml_enum);
    EXPECT_EQ(visit->size, one.size);
    static const char* const kinds[] = {"look", "create", "destroy"};
    std::string text = fmt::format("{} {}:{}@{}", kinds[static_cast<int>(one.kind)], one.device,
                                   one.place.profile, one.place.start);
    if (!one.present.empty()) append(text, " beside {}", fmt::join(one.present, ","));
    if (one.kind == Operation::Kind::destroy)
      append(text, " gi{}{}", one.made.gi_id, one.made.uuid);
    return text;
  }
  std::string text(const StartTask& action) const {
    return fmt::format("run {}/{} on {}", script_.tasks[static_cast<std::size_t>(action.task)].name,
                       action.attempt, action.device);
  }
  static std::string text(const StopTask& action) {
    return fmt::format("{} {}", action.signal == StopSignal::kill ? "kill" : "ask", action.pid);
  }

  const Script script_;

 public:
  BatchExecutor executor;
};

// ---- without trouble

TEST(BatchExecutor, CarriesOutAScript) {
  Play play(test::halves());
  EXPECT_EQ(play.step(0), "-> look 4:4g.24gb@0");
  EXPECT_EQ(play.change(0, true), "0+ running x1 [0,0]");
  EXPECT_EQ(play.step(1, {found({5})}), "create 0 -> create 4:4g.24gb@0 beside 5");
  EXPECT_EQ(play.step(2, {made(7)}), "created 0 gi7M7; start c/1 -> run c/1 on M7");
  EXPECT_EQ(play.task(0), "c running x1 [2,0]");
  EXPECT_EQ(play.step(3, {began(0, 70, 3)}), "");
  EXPECT_EQ(play.task(0), "c running x1 [3,0]");
  EXPECT_EQ(play.wake(), std::nullopt) << "only its end is waited for";
  EXPECT_EQ(play.step(9, {ended(70)}), "end c/1=0 -> destroy 4:4g.24gb@0 gi7M7");
  EXPECT_EQ(play.step(10, {ok()}), "destroyed 0 -> look 4:2g.12gb@0");
  EXPECT_EQ(play.step(11, {found()}), "create 1 -> create 4:2g.12gb@0");
  EXPECT_EQ(play.step(12, {made(8)}),
            "created 1 gi8M8; start a/1 -> run a/1 on M8; look 4:2g.12gb@2");
  EXPECT_EQ(play.step(13, {began(1, 71, 12), found({8})}),
            "create 2 -> create 4:2g.12gb@2 beside 8");
  EXPECT_EQ(play.step(14, {made(9)}), "created 2 gi9M9; start b/1 -> run b/1 on M9");
  EXPECT_EQ(play.step(15, {began(2, 72, 15)}), "");
  EXPECT_EQ(play.step(20, {ended(71)}), "end a/1=0 -> destroy 4:2g.12gb@0 gi8M8");
  EXPECT_EQ(play.step(21, {ok()}), "destroyed 1");
  EXPECT_FALSE(play.over());
  EXPECT_EQ(play.step(30, {ended(72)}), "end b/1=0 -> destroy 4:2g.12gb@2 gi9M9");
  EXPECT_FALSE(play.over());
  EXPECT_EQ(play.step(31, {ok()}), "destroyed 2");
  EXPECT_TRUE(play.over());
  EXPECT_EQ(play.wake(), std::nullopt);

  EXPECT_EQ(play.task(0), "c finished x1 [3,9]");
  EXPECT_EQ(play.task(1), "a finished x1 [12,20]");
  EXPECT_EQ(play.task(2), "b finished x1 [15,30]");
  EXPECT_EQ(play.change(0, true), "0+ done x1 [0,2]");
  EXPECT_EQ(play.change(0, false), "0- done x1 [9,10]");
  EXPECT_EQ(play.change(1, true), "1+ done x1 [10,12]");
  EXPECT_EQ(play.change(2, true), "2+ done x1 [12,14]");
  EXPECT_EQ(play.change(1, false), "1- done x1 [20,21]");
  EXPECT_EQ(play.change(2, false), "2- done x1 [30,31]");
  const RunReport& report = play.executor.report();
  EXPECT_TRUE(report.all_finished());
  EXPECT_FALSE(report.interrupted);
  EXPECT_EQ(report.resumed, 0);
  EXPECT_THAT(report.left, IsEmpty());
  EXPECT_THAT(report.refusals, IsEmpty());
}

TEST(BatchExecutor, NothingToDoIsOverAtOnce) {
  Play play(Script{});
  EXPECT_FALSE(play.over()) << "until it was looked";
  EXPECT_EQ(play.step(0), "");
  EXPECT_TRUE(play.over());
}

TEST(BatchExecutor, AnInstanceWithoutTasksIsNotMade) {
  Play play(test::row({}));
  EXPECT_EQ(play.step(0), "");
  EXPECT_TRUE(play.over());
  EXPECT_EQ(play.change(0, true), "0+ skipped x0 [0,0]");
  EXPECT_EQ(play.change(0, false), "0- skipped x0 [0,0]");
}

TEST(BatchExecutor, TasksOfAnInstanceRunOneAfterTheOther) {
  Play play(test::row({"a", "b"}));
  play.begin();
  EXPECT_EQ(play.step(5), "");
  EXPECT_EQ(play.step(6, {ended(70)}), "end a/1=0; start b/1 -> run b/1 on M7");
  EXPECT_EQ(play.step(7), "") << "it is being started";
  EXPECT_EQ(play.step(8, {began(1, 71, 8)}), "");
  EXPECT_EQ(play.step(9, {ended(99)}), "") << "somebody else's process";
  EXPECT_EQ(play.step(9, {ended(71)}), "end b/1=0 -> destroy 0:2g.12gb@2 gi7M7");
}

TEST(BatchExecutor, WhatIsNotPlannedToGoCanBeKept) {
  Play play(test::row({"a"}), keeping());
  play.begin();
  EXPECT_EQ(play.step(6, {ended(70)}), "end a/1=0");
  EXPECT_TRUE(play.over());
  EXPECT_EQ(play.change(0, false), "0- kept x0 [0,0]");
  EXPECT_THAT(play.executor.report().left, IsEmpty());
  Play planned(test::halves(), keeping());
  planned.begin();
  EXPECT_EQ(planned.step(9, {ended(70)}), "end c/1=0 -> destroy 4:4g.24gb@0 gi7M7");
}

TEST(BatchExecutor, ATaskWaitsForItsRelease) {
  Script script = test::row({"a", "b"});
  script.tasks[0].release = 50;
  Play play(script);
  play.step(0);
  play.step(1, {found()});
  EXPECT_EQ(play.step(2, {made(7)}), "created 0 gi7M7");
  EXPECT_EQ(play.wake(), 50);
  EXPECT_EQ(play.step(49), "");
  EXPECT_EQ(play.step(50), "start a/1 -> run a/1 on M7");
  EXPECT_EQ(play.wake(), std::nullopt) << "a release that has passed wakes nobody";
}

// a is on another GPU than b, which comes after it.
TEST(BatchExecutor, ATaskWaitsForThoseThatItComesAfter) {
  Script script = test::row({"a"});
  script.gpus.push_back({.device = 1, .model = "A30-24GB"});
  script.visits.push_back(
      {.gpu = 1, .place = {"2g.12gb", 0}, .nvml_enum = 1, .size = 2, .tasks = {1}});
  script.gpus[1].changes = {{.visit = 1, .create = true, .planned = Planned{0, 10}},
                            {.visit = 1, .create = false}};
  script.tasks.push_back({.name = "b", .command = "run b", .visit = 1, .after = {0}});
  {
    Play play(script);
    play.begin();
    EXPECT_EQ(play.step(4, {found()}), "create 1 -> create 1:2g.12gb@0");
    EXPECT_EQ(play.step(5, {made(8)}), "created 1 gi8M8");
    EXPECT_EQ(play.step(9, {ended(70)}),
              "end a/1=0; start b/1 -> run b/1 on M8; destroy 0:2g.12gb@2 gi7M7");
    EXPECT_EQ(play.step(10, {began(1, 71, 10), ok()}), "destroyed 0");
    EXPECT_FALSE(play.over());
  }
  Play play(script);  // and is skipped with it
  play.begin();
  play.step(4, {found()});
  play.step(5, {made(8)});
  EXPECT_EQ(play.step(9, {ended(70, 1)}), "end a/1=1 -> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(play.task(1), "b skipped x0 [0,0] a did not finish");
  EXPECT_EQ(play.step(10, {ok()}), "destroyed 0 -> destroy 1:2g.12gb@0 gi8M8");
}

// ---- tasks that fail

TEST(BatchExecutor, AFailedAttemptIsRepeatedAsOftenAsWished) {
  Script script = test::row({"a", "b", "c"});
  script.tasks[1].after = {0};
  Play play(script, with_retries(1));
  play.begin();
  EXPECT_EQ(play.step(5, {ended(70, 3)}), "end a/1=3; start a/2 -> run a/2 on M7");
  EXPECT_EQ(play.task(0), "a running x2 [5,5]");
  play.step(6, {began(0, 71, 6)});
  EXPECT_EQ(play.step(8, {ended(71, 4)}), "end a/2=4; start c/1 -> run c/1 on M7");
  EXPECT_EQ(play.task(0), "a failed x2 [6,8] exit status 4");
  EXPECT_EQ(play.task(1), "b skipped x0 [0,0] a did not finish");
  play.step(9, {began(2, 72, 9)});
  EXPECT_EQ(play.step(10, {ended(72)}), "end c/1=0 -> destroy 0:2g.12gb@2 gi7M7");
  play.step(11, {ok()});
  EXPECT_TRUE(play.over());
  EXPECT_EQ(play.executor.report().count(TaskStatus::finished), 1);
}

// Skipped is also who comes after who is skipped, and once.
TEST(BatchExecutor, AllThatComesAfterAFailedTaskIsSkipped) {
  Script script = test::row({"a", "b", "c"});
  script.tasks[1].after = {0};
  script.tasks[2].after = {1, 0};
  Play play(script);
  play.begin();
  EXPECT_EQ(play.step(5, {ended(70, kUnknownStatus)}), "end a/1=-1 -> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(play.task(0), "a failed x1 [3,5] its exit status is unknown");
  EXPECT_EQ(play.task(2), "c skipped x0 [0,0] a did not finish");
  play.step(6, {ok()});
  EXPECT_TRUE(play.over());
}

TEST(BatchExecutor, WhatCannotBeStartedHasFailed) {
  Play play(test::row({"a"}), with_retries(1));
  play.step(0);
  play.step(1, {found()});
  play.step(2, {made(7)});
  EXPECT_EQ(play.step(3, {Started{0, failed({ErrorCode::environment, "none", "sh"}), 3}}),
            "end a/1=127; start a/2 -> run a/2 on M7");
  Play same(test::row({"a"}));
  same.step(0);
  same.step(1, {found()});
  same.step(2, {made(7)});
  EXPECT_EQ(same.step(3, {Started{0, failed({ErrorCode::environment, "none", "sh"}), 3}}),
            "end a/1=127 -> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(same.task(0), "a failed x1 [3,3] sh: none");
  // What was wrong the first time is not said of the second.
  play.step(4, {began(0, 70, 4)});
  play.step(5, {ended(70, 9)});
  EXPECT_EQ(play.task(0), "a failed x2 [4,5] exit status 9");
}

TEST(BatchExecutor, OneThatTakesTooLongIsAskedThenKilled) {
  Script script = test::row({"a", "b"});
  script.tasks[0].timeout = 20;
  Play play(script, with_retries(1));
  play.begin();
  EXPECT_EQ(play.wake(), 23);
  EXPECT_EQ(play.step(22), "");
  EXPECT_EQ(play.step(23), "-> ask 70");
  EXPECT_EQ(play.wake(), 33);
  EXPECT_EQ(play.step(32), "");
  EXPECT_EQ(play.step(33), "-> kill 70");
  EXPECT_EQ(play.wake(), std::nullopt);
  EXPECT_EQ(play.step(40), "") << "once";
  // The next attempt has its own time.
  EXPECT_EQ(play.step(41, {ended(70, 137)}), "end a/1=137 late; start a/2 -> run a/2 on M7");
  play.step(42, {began(0, 71, 42)});
  EXPECT_EQ(play.wake(), 62);
  EXPECT_EQ(play.step(62), "-> ask 71");
  EXPECT_EQ(play.step(72), "-> kill 71");
  EXPECT_EQ(play.step(73, {ended(71)}), "end a/2=0 late; start b/1 -> run b/1 on M7");
  EXPECT_EQ(play.task(0), "a timed_out x2 [42,73] took too long");
  play.step(74, {began(1, 72, 74)});
  EXPECT_EQ(play.wake(), std::nullopt);
  EXPECT_EQ(play.step(999), "");
}

TEST(BatchExecutor, AnAttemptAfterOneThatTookTooLongFailsByItself) {
  Script script = test::row({"a"});
  script.tasks[0].timeout = 20;
  Play play(script, with_retries(1));
  play.begin();
  play.step(23);
  play.step(24, {ended(70, 143)});
  play.step(25, {began(0, 71, 25)});
  EXPECT_EQ(play.step(26, {ended(71, 2)}), "end a/2=2 -> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(play.task(0), "a failed x2 [25,26] exit status 2");
}

// ---- somebody wants the end

TEST(BatchExecutor, InterruptedItEndsWhatRunsAndBeginsNothing) {
  Play play(test::row({"a", "b"}), with_retries(3));
  play.begin();
  EXPECT_EQ(play.step(5, {Interrupted{}}), "stop a/1 -> ask 70");
  EXPECT_TRUE(play.executor.report().interrupted);
  EXPECT_EQ(play.wake(), 15);
  EXPECT_EQ(play.step(6, {Interrupted{}}), "");
  EXPECT_EQ(play.step(15), "-> kill 70");
  EXPECT_EQ(play.step(16, {ended(70, 137)}), "end a/1=137 late -> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(play.task(0), "a not_run x1 [3,16] the run was interrupted");
  EXPECT_EQ(play.task(1), "b not_run x0 [0,0] the run was interrupted");
  EXPECT_FALSE(play.over());
  EXPECT_EQ(play.step(17, {ok()}), "destroyed 0");
  EXPECT_TRUE(play.over());
}

TEST(BatchExecutor, OneThatIsBeingStartedIsAskedToEndOnceItRuns) {
  Play play(test::row({"a"}));
  play.step(0);
  play.step(1, {found()});
  play.step(2, {made(7)});
  EXPECT_EQ(play.step(3, {Interrupted{}}), "");
  EXPECT_EQ(play.step(4, {began(0, 70, 4)}), "stop a/1 -> ask 70");
  EXPECT_EQ(play.step(5, {ended(70, 143)}), "end a/1=143 late -> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(play.task(0), "a not_run x1 [4,5] the run was interrupted");
}

// Asked to end, it comes to its end in time after all: it was not asked by then as far as it knows,
// but nobody can tell.
TEST(BatchExecutor, WhatEndsBeforeItIsToldHasFinished) {
  Play play(test::row({"a"}));
  play.begin();
  EXPECT_EQ(play.step(5, {ended(70), Interrupted{}}), "end a/1=0 -> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(play.task(0), "a finished x1 [3,5]");
}

TEST(BatchExecutor, WhatIsNeededNoMoreIsNotMade) {
  Play play(test::row({"a"}));
  play.step(0);
  EXPECT_EQ(play.step(1, {Interrupted{}}), "");
  EXPECT_EQ(play.step(2, {found()}), "");
  EXPECT_TRUE(play.over());
  EXPECT_EQ(play.change(0, true), "0+ skipped x1 [0,0]");
  EXPECT_EQ(play.change(0, false), "0- skipped x0 [0,0]");
}

// ---- a driver that refuses

TEST(BatchExecutor, OnlyWhatMayPassIsTriedAgain) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::timeout); ++code) {
    const auto one = static_cast<ErrorCode>(code);
    if (one == ErrorCode::lost) continue;
    const bool passes = one == ErrorCode::in_use || one == ErrorCode::no_room ||
                        one == ErrorCode::timeout || one == ErrorCode::environment ||
                        one == ErrorCode::limit;
    Play play(test::row({"a"}));
    play.step(0);
    EXPECT_EQ(play.step(1, {refused(one)}), "");
    EXPECT_EQ(play.over(), !passes) << code;
    EXPECT_EQ(play.wake(), passes ? std::optional<Nanos>(3) : std::nullopt);
    if (passes) continue;
    EXPECT_EQ(play.change(0, true), "0+ failed x1 [0,1] driver: no");
    EXPECT_EQ(play.change(0, false), "0- skipped x0 [0,0]");
    EXPECT_EQ(play.task(0), "a not_run x0 [0,0] driver: no");
    EXPECT_THAT(play.executor.report().refusals, ElementsAre("driver: no"));
    EXPECT_THAT(play.executor.report().left, IsEmpty());
  }
}

TEST(BatchExecutor, AsLongAsPatienceLasts) {
  Play play(test::row({"a"}));
  play.step(0);
  EXPECT_EQ(play.step(5, {refused()}), "");
  EXPECT_EQ(play.change(0, true), "0+ pending x1 [0,5] driver: no");
  EXPECT_EQ(play.step(6), "");
  EXPECT_EQ(play.step(7), "-> look 0:2g.12gb@2");
  EXPECT_EQ(play.change(0, true), "0+ running x2 [7,5] driver: no");
  EXPECT_EQ(play.step(34, {refused()}), "") << "29 is patience";
  EXPECT_EQ(play.step(36), "-> look 0:2g.12gb@2");
  EXPECT_EQ(play.step(37, {refused()}), "") << "32 is none";
  EXPECT_TRUE(play.over());
  EXPECT_EQ(play.change(0, true), "0+ failed x3 [36,37] driver: no");
  Play just(test::row({"a"}));
  just.step(0);
  just.step(5, {refused()});
  just.step(7);
  just.step(35, {refused()});
  EXPECT_TRUE(just.over()) << "30 is none either";
}

TEST(BatchExecutor, WhatWaitsForItsNextTryIsNotTriedOnceNobodyNeedsIt) {
  Play play(test::row({"a"}));
  play.step(0);
  play.step(1, {refused()});
  EXPECT_EQ(play.step(2, {Interrupted{}}), "");
  EXPECT_TRUE(play.over());
}

TEST(BatchExecutor, EveryReconfigurationHasItsOwnPatience) {
  Play play(test::row({"a"}));
  play.step(0);
  play.step(5, {refused()});
  play.step(30);
  play.step(31, {found()});
  play.step(32, {made(7)});
  play.step(33, {began(0, 70, 33)});
  EXPECT_EQ(play.step(40, {ended(70)}), "end a/1=0 -> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(play.step(50, {refused()}), "");
  EXPECT_FALSE(play.over());
  EXPECT_EQ(play.change(0, false), "0- pending x1 [40,50] driver: no");
  EXPECT_EQ(play.wake(), 52);
  EXPECT_EQ(play.step(51), "");
  EXPECT_EQ(play.step(52), "-> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(play.step(53, {ok()}), "destroyed 0");
  EXPECT_EQ(play.change(0, false), "0- done x2 [52,53] driver: no");
  EXPECT_TRUE(play.over());
}

// No longer announced: what appears there now is somebody else's.
TEST(BatchExecutor, ARefusedCreationIsTakenBackUnlessNobodyKnows) {
  for (const bool unknown : {false, true}) {
    Play play(test::row({"a"}));
    play.step(0);
    play.step(1, {found()});
    OperationDone no = refused();
    no.outcome.unknown = unknown;
    EXPECT_EQ(play.step(2, {no}), unknown ? "" : "destroyed 0");
    EXPECT_EQ(play.wake(), 4);
    EXPECT_EQ(play.step(4), "-> look 0:2g.12gb@2");
    EXPECT_EQ(play.step(5, {found()}), "create 0 -> create 0:2g.12gb@2");
  }
}

TEST(BatchExecutor, WhatCannotBeDestroyedIsLeftAndNamed) {
  Play play(test::row({"a"}));
  play.begin();
  play.step(5, {ended(70)});
  EXPECT_EQ(play.step(6, {refused(ErrorCode::denied)}), "");
  EXPECT_TRUE(play.over());
  EXPECT_EQ(play.change(0, false), "0- failed x1 [5,6] driver: no");
  EXPECT_THAT(play.executor.report().left, ElementsAre("2g.12gb@2 on GPU 0: no"));
  EXPECT_THAT(play.executor.report().refusals, ElementsAre("driver: no"));
  EXPECT_EQ(play.task(0), "a finished x1 [3,5]");
}

// And what cannot exist beside it is not made.
TEST(BatchExecutor, WhatIsLeftIsInTheWayOfOthers) {
  Play play(test::halves());
  play.begin();
  play.step(5, {ended(70)});
  EXPECT_EQ(play.step(6, {refused(ErrorCode::denied)}), "");
  EXPECT_TRUE(play.over());
  EXPECT_EQ(play.task(1), "a not_run x0 [0,0] 4g.24gb@0 is in the way");
  EXPECT_EQ(play.task(2), "b not_run x0 [0,0] 4g.24gb@0 is in the way");
  for (const int visit : {1, 2})
    for (const bool create : {true, false})
      EXPECT_EQ(play.change(visit, create),
                fmt::format("{}{} skipped x0 [0,0]", visit, create ? "+" : "-"));
}

TEST(BatchExecutor, AHalfMadeInstanceIsCleanedUpAndMadeAgain) {
  Play play(test::row({"a"}));
  play.step(0);
  play.step(1, {found()});
  EXPECT_EQ(play.step(2, {half_made(7)}), "stale 0 gi7 -> destroy 0:2g.12gb@2 gi7");
  EXPECT_EQ(play.change(0, true), "0+ pending x1 [0,2] driver: no");
  EXPECT_EQ(play.wake(), std::nullopt);
  EXPECT_EQ(play.step(3, {refused()}), "");
  EXPECT_EQ(play.wake(), 5);
  EXPECT_EQ(play.step(4), "");
  EXPECT_EQ(play.step(5), "-> destroy 0:2g.12gb@2 gi7");
  EXPECT_EQ(play.change(0, false), "0- pending x0 [0,0] driver: no") << "it is none of its own";
  EXPECT_EQ(play.step(6, {ok()}), "destroyed 0 -> look 0:2g.12gb@2");
  EXPECT_EQ(play.step(7, {found()}), "create 0 -> create 0:2g.12gb@2");
  EXPECT_EQ(play.step(8, {made(9)}), "created 0 gi9M9; start a/1 -> run a/1 on M9");
  EXPECT_EQ(play.change(0, true), "0+ done x2 [6,8] driver: no");
}

TEST(BatchExecutor, AfterACleanUpOneWaitsBeforeTheNextTry) {
  Play play(test::row({"a"}));
  play.step(0);
  play.step(1, {found()});
  play.step(2, {half_made(7)});
  EXPECT_EQ(play.step(3, {ok()}), "destroyed 0");
  EXPECT_EQ(play.wake(), 4);
  EXPECT_EQ(play.step(4), "-> look 0:2g.12gb@2");
}

TEST(BatchExecutor, AHalfMadeOneIsCleanedUpThoughItIsNotTriedAgain) {
  Play play(test::row({"a"}));
  play.step(0);
  play.step(1, {found()});
  EXPECT_EQ(play.step(2, {half_made(7, ErrorCode::denied)}),
            "stale 0 gi7 -> destroy 0:2g.12gb@2 gi7");
  EXPECT_EQ(play.task(0), "a not_run x0 [0,0] driver: no");
  EXPECT_FALSE(play.over());
  EXPECT_EQ(play.step(3, {ok()}), "destroyed 0");
  EXPECT_TRUE(play.over());
  EXPECT_EQ(play.change(0, true), "0+ failed x1 [0,2] driver: no");
  EXPECT_EQ(play.change(0, false), "0- skipped x0 [0,0]");
}

TEST(BatchExecutor, AHalfMadeOneThatCannotBeCleanedUpIsLeft) {
  Play play(test::row({"a"}));
  play.step(0);
  play.step(1, {found()});
  play.step(2, {half_made(7)});
  EXPECT_EQ(play.step(3, {refused(ErrorCode::denied)}), "");
  EXPECT_TRUE(play.over());
  EXPECT_THAT(play.executor.report().left, ElementsAre("2g.12gb@2 on GPU 0: no"));
  EXPECT_EQ(play.change(0, true), "0+ failed x1 [0,2] driver: no") << "nothing stays pending";
  EXPECT_EQ(play.change(0, false), "0- failed x0 [0,0] driver: no");
  EXPECT_EQ(play.task(0), "a not_run x0 [0,0] driver: no");
}

// ---- a lost GPU

// c runs on GPU 4, and on another one d.
Script halves_and_another() {
  Script script = test::halves();
  script.gpus.push_back({.device = 1, .model = "A30-24GB"});
  script.visits.push_back(
      {.gpu = 1, .place = {"2g.12gb", 0}, .nvml_enum = 1, .size = 2, .tasks = {3}});
  script.gpus[1].changes = {{.visit = 3, .create = true, .planned = Planned{20, 25}},
                            {.visit = 3, .create = false}};
  script.tasks.push_back({.name = "d", .command = "run d", .visit = 3});
  return script;
}

TEST(BatchExecutor, ALostGpuEndsWhatRunsOnItAndNothingElse) {
  Play play(halves_and_another(), with_retries(5));
  play.begin();
  play.step(22, {found()});  // of d's place, the next one once c's was made
  play.step(23, {made(8)});
  play.step(24, {began(3, 71, 24)});
  EXPECT_EQ(play.step(31, {ended(70)}), "end c/1=0 -> destroy 4:4g.24gb@0 gi7M7");
  EXPECT_EQ(play.step(32, {refused(ErrorCode::lost)}), "");
  EXPECT_EQ(play.task(1), "a not_run x0 [0,0] driver: no");
  EXPECT_EQ(play.task(2), "b not_run x0 [0,0] driver: no");
  EXPECT_EQ(play.change(0, true), "0+ done x1 [0,2]");
  EXPECT_EQ(play.change(0, false), "0- failed x1 [31,32] driver: no");
  EXPECT_EQ(play.change(1, true), "1+ skipped x0 [0,0] driver: no");
  EXPECT_EQ(play.change(1, false), "1- skipped x0 [0,0] driver: no");
  EXPECT_EQ(play.change(3, true), "3+ done x1 [2,23]");
  EXPECT_THAT(play.executor.report().refusals, ElementsAre("driver: no"));
  EXPECT_THAT(play.executor.report().left, IsEmpty()) << "it ends with the reset";
  EXPECT_FALSE(play.over());
  EXPECT_EQ(play.step(40, {ended(71)}), "end d/1=0 -> destroy 1:2g.12gb@0 gi8M8");
  play.step(41, {ok()});
  EXPECT_TRUE(play.over());
}

// Halves on both sides run when the third reconfiguration finds the GPU lost.
TEST(BatchExecutor, ProcessesOnALostGpuAreAskedToEnd) {
  for (const bool withdrawn : {false, true}) {
    Script script = test::halves();
    script.visits[1].after.clear();
    script.visits[2].after.clear();
    script.tasks[1].after.clear();
    script.visits[0].tasks.clear();
    script.visits.erase(script.visits.begin());
    script.tasks.erase(script.tasks.begin());
    script.visits[0].tasks = {0};
    script.visits[1].tasks = {1};
    script.tasks[0].visit = 0;
    script.tasks[1].visit = 1;
    script.gpus[0].changes = {{.visit = 0, .create = true, .planned = Planned{0, 10}},
                              {.visit = 1, .create = true, .planned = Planned{10, 20}},
                              {.visit = 0, .create = false},
                              {.visit = 1, .create = false}};
    Play play(script, with_retries(5));
    play.begin();  // a runs, and b's place is being looked at
    std::vector<Event> events = {refused(ErrorCode::lost)};
    if (withdrawn) events.emplace_back(Withdrawn{0});
    EXPECT_EQ(play.step(4, events), "stop a/1 -> ask 70");
    EXPECT_FALSE(play.over()) << "its process lives";
    EXPECT_FALSE(play.executor.has_left(0));
    EXPECT_EQ(play.step(5, {ended(70, 143)}), "end a/1=143 late");
    EXPECT_EQ(play.task(0),
              withdrawn ? "a not_run x1 [3,5] driver: no" : "a failed x1 [3,5] driver: no");
    EXPECT_EQ(play.task(1), "b not_run x0 [0,0] driver: no");
    EXPECT_EQ(play.change(1, true), "1+ failed x1 [2,4] driver: no");
    EXPECT_TRUE(play.over());
    EXPECT_EQ(play.executor.has_left(0), withdrawn);
  }
}

TEST(BatchExecutor, AHalfMadeInstanceOnALostGpuIsForgotten) {
  Play play(test::row({"a"}));
  play.step(0);
  play.step(1, {found()});
  EXPECT_EQ(play.step(2, {half_made(7, ErrorCode::lost)}), "stale 0 gi7");
  EXPECT_TRUE(play.over());
  EXPECT_EQ(play.wake(), std::nullopt);
  EXPECT_EQ(play.change(0, true), "0+ failed x1 [0,2] driver: no");
  EXPECT_EQ(play.change(0, false), "0- skipped x0 [0,0] driver: no");
}

// One half is to be cleaned up once more when the GPU is lost.
TEST(BatchExecutor, OnALostGpuNothingIsCleanedUp) {
  Script script = test::halves();
  script.visits[1].after.clear();
  script.visits[2].after.clear();
  script.tasks[1].after.clear();
  script.tasks[0].release = 1000;
  script.gpus[0].changes[0].planned = Planned{500, 510};
  script.gpus[0].changes[1].planned = Planned{510, 520};
  Play play(script);
  EXPECT_EQ(play.step(0), "-> look 4:2g.12gb@0");
  play.step(1, {found()});
  EXPECT_EQ(play.step(51, {half_made(7)}), "stale 1 gi7 -> destroy 4:2g.12gb@0 gi7");
  EXPECT_EQ(play.step(52, {refused()}), "-> look 4:2g.12gb@2");
  EXPECT_EQ(play.step(53, {refused(ErrorCode::lost)}), "");
  EXPECT_TRUE(play.over());
  EXPECT_EQ(play.wake(), std::nullopt);
  EXPECT_EQ(play.step(60), "");
}

// ---- a GPU that is wanted back

TEST(BatchExecutor, OnAWithdrawnGpuNothingBeginsAndWhatRunsMayComeToItsEnd) {
  Script script = halves_and_another();
  script.tasks[3].release = 1000;
  Play play(script);
  play.begin();
  EXPECT_EQ(play.step(4, {found()}), "create 3 -> create 1:2g.12gb@0");
  EXPECT_EQ(play.step(4, {made(8)}), "created 3 gi8M8");
  EXPECT_FALSE(play.executor.has_left(0));
  EXPECT_EQ(play.step(5, {Withdrawn{0}}), "");
  EXPECT_EQ(play.task(0), "c running x1 [3,0]");
  EXPECT_EQ(play.task(1), "a not_run x0 [0,0] its GPU was needed for something else");
  EXPECT_EQ(play.task(3), "d pending x0 [0,0]");
  EXPECT_FALSE(play.executor.has_left(0));
  EXPECT_EQ(play.step(6, {ended(70)}), "end c/1=0 -> destroy 4:4g.24gb@0 gi7M7");
  EXPECT_EQ(play.task(0), "c finished x1 [3,6]");
  EXPECT_FALSE(play.executor.has_left(0));
  EXPECT_EQ(play.step(7, {ok()}), "destroyed 0");
  EXPECT_TRUE(play.executor.has_left(0));
  EXPECT_FALSE(play.executor.has_left(1)) << "that one is not wanted back";
}

TEST(BatchExecutor, WithdrawnAtOnceWhatRunsIsEnded) {
  Play play(test::row({"a", "b"}), with_retries(3));
  play.begin();
  EXPECT_EQ(play.step(5, {Withdrawn{0}}), "");
  EXPECT_EQ(play.step(6, {Withdrawn{0, true}}), "stop a/1 -> ask 70") << "later is early enough";
  EXPECT_EQ(play.step(7, {Withdrawn{0, true}}), "");
  EXPECT_EQ(play.step(16), "-> kill 70");
  EXPECT_EQ(play.step(17, {ended(70, 137)}), "end a/1=137 late -> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(play.task(0), "a not_run x1 [3,17] its GPU was needed for something else");
  EXPECT_FALSE(play.executor.has_left(0));
  play.step(18, {ok()});
  EXPECT_TRUE(play.executor.has_left(0));
  EXPECT_TRUE(play.over());
}

TEST(BatchExecutor, AFailedAttemptIsNotRepeatedOnAWithdrawnGpu) {
  Play play(test::row({"a"}), with_retries(3));
  play.begin();
  play.step(5, {Withdrawn{0}});
  EXPECT_EQ(play.step(6, {ended(70, 1)}), "end a/1=1 -> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(play.task(0), "a not_run x1 [3,6] its GPU was needed for something else");
}

// What is not planned waits for what is planned, but on a GPU that is wanted back.
TEST(BatchExecutor, AWithdrawnGpuIsLeftBeforeAllElse) {
  Script script = halves_and_another();
  script.gpus[1].changes[0].planned = Planned{0, 5};
  for (std::size_t c = 0; c < 4; ++c) script.gpus[0].changes[c].planned->begin += 500;
  Play play(script);
  EXPECT_EQ(play.step(0), "-> look 1:2g.12gb@0");
  play.step(1, {found()});
  EXPECT_EQ(play.step(2, {made(8)}),
            "created 3 gi8M8; start d/1 -> run d/1 on M8; look 4:4g.24gb@0");
  play.step(3, {began(3, 71, 3), found()});
  play.step(4, {made(7)});
  play.step(5, {began(0, 70, 5)});
  EXPECT_EQ(play.step(6, {ended(71)}), "end d/1=0") << "others are still to be made";
  EXPECT_EQ(play.step(7, {Withdrawn{1}}), "-> destroy 1:2g.12gb@0 gi8M8");
  play.step(8, {ok()});
  EXPECT_TRUE(play.executor.has_left(1));
}

// ---- what an earlier process left

Past past_of(const Script& script) {
  return {.now = 100,
          .tasks = std::vector<PastTask>(script.tasks.size()),
          .visits = std::vector<PastVisit>(script.visits.size())};
}

TEST(BatchExecutor, GoesOnFromWhatHasFinished) {
  const Script script = test::halves();
  Past past = past_of(script);
  past.tasks[0] = {.attempts = 2, .begin = 3, .finished = 9};
  past.visits[0] = {.state = State::gone, .made = {7, "M7"}, .created = {1, 2}, .destroyed = 11};
  past.visits[1] = {.state = State::alive, .made = {8, "M8"}, .created = {20, 22}};
  Play play(script, kShort, past);
  EXPECT_EQ(play.executor.report().resumed, 1);
  EXPECT_EQ(play.task(0), "c finished x2 [3,9]");
  EXPECT_EQ(play.change(0, true), "0+ done x1 [1,2]");
  EXPECT_EQ(play.change(0, false), "0- done x1 [11,11]");
  EXPECT_EQ(play.change(1, true), "1+ done x1 [20,22]");
  EXPECT_EQ(play.change(2, true), "2+ pending x0 [0,0]");
  EXPECT_EQ(play.step(100), "start a/1 -> run a/1 on M8; look 4:2g.12gb@2");
  play.step(101, {began(1, 71, 101), found({8})});
  play.step(102, {made(9)});
  play.step(103, {began(2, 72, 103)});
  EXPECT_EQ(play.step(104, {ended(71)}), "end a/1=0 -> destroy 4:2g.12gb@0 gi8M8");
  play.step(105, {ok(), ended(72)});
  EXPECT_FALSE(play.over());
  play.step(106, {ok()});
  EXPECT_TRUE(play.over());
}

TEST(BatchExecutor, GoesOnWithWhatRuns) {
  Script script = test::row({"a", "b"});
  script.tasks[0].timeout = 50;
  Past past = past_of(script);
  past.tasks[0] = {.attempts = 2, .begin = 70, .running = 71};
  past.visits[0] = {.state = State::alive, .made = {7, "M7"}, .created = {1, 2}};
  {
    Play play(script, kShort, past);
    EXPECT_EQ(play.task(0), "a running x2 [70,0]");
    EXPECT_EQ(play.step(100), "");
    EXPECT_EQ(play.wake(), 120) << "its time began then";
    EXPECT_EQ(play.step(101, {ended(71)}), "end a/2=0; start b/1 -> run b/1 on M7");
    EXPECT_EQ(play.executor.report().resumed, 0);
  }
  // How it ended is not known: that is no failure, and it is tried again.
  Play play(script, kShort, past);
  play.step(100);
  EXPECT_EQ(play.step(101, {ended(71, kUnknownStatus)}), "end a/2=-1; start a/3 -> run a/3 on M7");
  play.step(102, {began(0, 72, 102)});
  EXPECT_EQ(play.step(103, {ended(72, kUnknownStatus)}), "end a/3=-1; start b/1 -> run b/1 on M7");
  EXPECT_EQ(play.task(0), "a failed x3 [102,103] its exit status is unknown") << "ours is one";
}

TEST(BatchExecutor, AnAdoptedOneThatFailsHasFailed) {
  const Script script = test::row({"a"});
  Past past = past_of(script);
  past.tasks[0] = {.attempts = 1, .begin = 70, .running = 71};
  past.visits[0] = {.state = State::alive, .made = {7, "M7"}};
  Play play(script, kShort, past);
  play.step(100);
  EXPECT_EQ(play.step(101, {ended(71, 3)}), "end a/1=3 -> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(play.task(0), "a failed x1 [70,101] exit status 3");
}

// Whether it was told that it should end nobody knows, so it is told again; its end says nothing of
// it.
TEST(BatchExecutor, WhatHadBeenAskedToEndIsAskedAgain) {
  const Script script = test::row({"a"});
  Past past = past_of(script);
  past.tasks[0] = {.attempts = 1, .begin = 70, .running = 71, .stopped = true};
  past.visits[0] = {.state = State::alive, .made = {7, "M7"}};
  {
    Play play(script, kShort, past);
    EXPECT_EQ(play.step(100), "-> ask 71");
    EXPECT_EQ(play.wake(), 110);
    EXPECT_EQ(play.step(101, {ended(71, 143)}), "end a/1=143 late; start a/2 -> run a/2 on M7");
    play.step(102, {began(0, 72, 102)});
    EXPECT_EQ(play.step(103, {ended(72, 1)}), "end a/2=1 -> destroy 0:2g.12gb@2 gi7M7");
    EXPECT_EQ(play.task(0), "a failed x2 [102,103] exit status 1");
  }
  {
    Play play(script, kShort, past);
    play.step(100);
    EXPECT_EQ(play.step(110), "-> kill 71");
  }
  // It had ended by then.
  past.tasks[0].running.reset();
  past.tasks[0].status = 0;
  Play play(script, kShort, past);
  EXPECT_EQ(play.step(100), "end a/1=0 late; start a/2 -> run a/2 on M7");
}

TEST(BatchExecutor, WhatEndedUnseenCounts) {
  const Script script = test::row({"a", "b", "c"});
  Past past = past_of(script);
  past.tasks[0] = {.attempts = 1, .begin = 70, .status = 0};
  past.tasks[1] = {.attempts = 4, .begin = 60, .failed = 5};
  past.tasks[2].left_out = true;
  past.visits[0] = {.state = State::alive, .made = {7, "M7"}};
  Play play(script, kShort, past);
  EXPECT_EQ(play.step(100), "end a/1=0 -> destroy 0:2g.12gb@2 gi7M7");
  EXPECT_EQ(play.task(0), "a finished x1 [70,100]");
  EXPECT_EQ(play.task(1), "b failed x4 [60,0] exit status 5");
  EXPECT_EQ(play.task(2),
            "c not_run x0 [0,0] later instances are in its place; resume once more when they are "
            "gone");
  EXPECT_EQ(play.executor.report().resumed, 0);
  play.step(101, {ok()});
  EXPECT_TRUE(play.over());
}

TEST(BatchExecutor, WhatHasFinishedIsNotLeftOut) {
  const Script script = test::row({"a"});
  Past past = past_of(script);
  past.tasks[0] = {.attempts = 1, .begin = 70, .finished = 80, .left_out = true, .failed = 1};
  past.visits[0] = {.state = State::gone};
  Play play(script, kShort, past);
  EXPECT_EQ(play.task(0), "a finished x1 [70,80]");
  EXPECT_EQ(play.step(100), "");
  EXPECT_TRUE(play.over());
}

TEST(BatchExecutor, AHalfMadeOneOfBeforeIsCleanedUpFirst) {
  const Script script = test::halves();
  Past past = past_of(script);
  past.visits[0] = {.state = State::stale, .made = {7, ""}};
  Play play(script, kShort, past);
  EXPECT_EQ(play.wake(), 0);
  EXPECT_EQ(play.change(0, true), "0+ pending x0 [0,0]");
  EXPECT_EQ(play.step(100), "-> destroy 4:4g.24gb@0 gi7");
  EXPECT_EQ(play.step(101, {refused()}), "");
  EXPECT_EQ(play.step(102), "") << "nothing is made where it still is";
  EXPECT_EQ(play.step(103), "-> destroy 4:4g.24gb@0 gi7");
  EXPECT_EQ(play.step(104, {ok()}), "destroyed 0 -> look 4:4g.24gb@0");
}

}  // namespace
}  // namespace partita::exec
