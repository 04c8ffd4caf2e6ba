#include "act/batch/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "act/batch/testing/test_batch.h"

namespace partita::exec {
namespace {

using test::instance;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using Kind = Record::Kind;
using State = PastVisit::State;

Record on_visit(Kind kind, Nanos time, int visit, Made made = {}) {
  return {.kind = kind, .time = time, .visit = visit, .made = std::move(made)};
}
Record of_task(Kind kind, Nanos time, const std::string& task, int attempt = 1, int status = 0,
               bool in_time = true) {
  return {.kind = kind,
          .time = time,
          .task = task,
          .attempt = attempt,
          .status = status,
          .in_time = in_time};
}

struct RecoveryTest : testing::Test {
  RecoveryTest() {
    driver.gpus[4].index = 4;
    records = {{.kind = Kind::run, .run = "r1", .script = fingerprint(script)}};
  }
  Past past() {
    const auto found = recover(script, records, traces, driver);
    EXPECT_TRUE(found) << to_string(found.error());
    return found.value_or(Past{});
  }
  std::vector<device::Instance>& there() { return driver.gpus[4].instances; }
  void add(std::vector<Record> more) { records.insert(records.end(), more.begin(), more.end()); }
  // The whole of the GPU was made for c, which has finished.
  void c_is_over() {
    add({on_visit(Kind::create, 1, 0), on_visit(Kind::created, 2, 0, {3, "MIG-c"}),
         of_task(Kind::start, 3, "c"), of_task(Kind::end, 9, "c")});
  }

  Script script = test::halves();
  std::vector<Record> records;
  Traces traces;
  test::ToldDriver driver;
};

TEST_F(RecoveryTest, OpenAttemptsHaveNoEnd) {
  EXPECT_THAT(open_attempts({}), IsEmpty());
  EXPECT_THAT(open_attempts({of_task(Kind::start, 1, "a"), of_task(Kind::start, 1, "b"),
                             of_task(Kind::stop, 2, "a"), of_task(Kind::end, 2, "b", 1, 3),
                             of_task(Kind::start, 3, "c"), of_task(Kind::end, 4, "c"),
                             of_task(Kind::start, 5, "c", 2)}),
              ElementsAre(Pair("a", 1), Pair("c", 2)));
}

TEST_F(RecoveryTest, NothingHasHappenedInAnEmptyJournal) {
  records.clear();
  const Past none = past();
  EXPECT_EQ(none.now, 0);
  EXPECT_EQ(none.tasks, std::vector<PastTask>(3));
  EXPECT_EQ(none.visits, std::vector<PastVisit>(3));
}

TEST_F(RecoveryTest, AJournalOfSomethingElseIsRefused) {
  const auto refusal = [&] {
    const auto found = recover(script, records, traces, driver);
    return found ? "" : to_string(found.error());
  };
  add({on_visit(Kind::create, 1, 3)});
  EXPECT_EQ(refusal(), "journal: no visit 3");
  records.back() = of_task(Kind::start, 1, "d");
  EXPECT_EQ(refusal(), "journal: no task d");
  records.back() = on_visit(Kind::create, 1, 2);
  EXPECT_EQ(refusal(), "");
  script.tasks[0].command = "another";
  EXPECT_THAT(refusal(), testing::HasSubstr("belongs to a run of another batch"));
}

TEST_F(RecoveryTest, TheDriverMustAnswerUnlessTheGpuIsLost) {
  c_is_over();
  driver.refuse["read"] = {ErrorCode::timeout, "slow", "read"};
  EXPECT_EQ(recover(script, records, traces, driver).error().code, ErrorCode::timeout);
  driver.refuse["read"] = {ErrorCode::lost, "gone", "read"};
  EXPECT_EQ(past().visits[0].state, State::gone);
}

// ---- tasks

TEST_F(RecoveryTest, TasksAreAsTheJournalSays) {
  add({of_task(Kind::start, 3, "c"), of_task(Kind::end, 9, "c"), of_task(Kind::start, 11, "a"),
       of_task(Kind::stop, 12, "a"), of_task(Kind::end, 13, "a", 1, 143, false),
       of_task(Kind::start, 14, "a", 2), of_task(Kind::start, 15, "b"),
       of_task(Kind::stop, 16, "b")});
  const Past found = past();
  EXPECT_EQ(found.now, 16);
  EXPECT_THAT(found.tasks, ElementsAre(PastTask{.attempts = 1, .begin = 3, .finished = 9},
                                       PastTask{.attempts = 2, .begin = 14},
                                       PastTask{.attempts = 1, .begin = 15, .stopped = true}));
}

TEST_F(RecoveryTest, OnlyStatusZeroInTimeIsFinished) {
  add({of_task(Kind::start, 3, "c"),
       of_task(Kind::end, 9, "c", 1, 1),
       of_task(Kind::start, 3, "a"),
       of_task(Kind::end, 8, "a", 1, 0, false),
       {.kind = Kind::done, .time = 5}});
  EXPECT_EQ(past().now, 9) << "the latest, wherever it stands";
  EXPECT_FALSE(past().tasks[0].finished.has_value());
  EXPECT_FALSE(past().tasks[1].finished.has_value());
}

TEST_F(RecoveryTest, AnOldStopSaysNothingOfALaterAttempt) {
  add({of_task(Kind::start, 3, "c"), of_task(Kind::stop, 4, "c"),
       of_task(Kind::end, 9, "c", 1, 143, false)});
  EXPECT_FALSE(past().tasks[0].stopped);
  add({of_task(Kind::stop, 10, "c"), of_task(Kind::start, 11, "c", 2)});
  EXPECT_FALSE(past().tasks[0].stopped);
}

TEST_F(RecoveryTest, TracesTellOfAttemptsWithoutAnEnd) {
  add({of_task(Kind::start, 3, "c"), of_task(Kind::start, 3, "a", 2), of_task(Kind::start, 3, "b"),
       of_task(Kind::end, 4, "b", 1, 1)});
  traces.running = {{{"c", 1}, 71}, {{"a", 1}, 72}, {{"b", 1}, 73}};
  traces.ended = {{{"c", 1}, 5}, {{"a", 2}, 6}, {{"b", 1}, 7}};
  const Past found = past();
  EXPECT_EQ(found.tasks[0].running, 71);
  EXPECT_EQ(found.tasks[0].status, std::nullopt) << "it runs";
  EXPECT_EQ(found.tasks[1].running, std::nullopt) << "that is an older attempt";
  EXPECT_EQ(found.tasks[1].status, 6);
  EXPECT_EQ(found.tasks[2].running, std::nullopt) << "its end is known";
  EXPECT_EQ(found.tasks[2].status, std::nullopt);
}

// ---- instances

TEST_F(RecoveryTest, AnInstanceThatWasMadeIsAliveWhileItsDeviceIsThere) {
  add({on_visit(Kind::create, 1, 0), on_visit(Kind::created, 2, 0, {3, "MIG-c"})});
  const PastVisit alive{.state = State::alive, .made = {3, "MIG-c"}, .created = {1, 2}};
  there() = {instance("4g.24gb", 0, 4, 3, "MIG-c")};
  EXPECT_THAT(past().visits, ElementsAre(alive, PastVisit{}, PastVisit{}));
  there()[0].compute[0].uuid = "MIG-other";
  EXPECT_EQ(past().visits[0], PastVisit{}) << "another one, and c is still to run";
  there()[0] = instance("4g.24gb", 0, 4, 3);
  EXPECT_EQ(past().visits[0],
            (PastVisit{.state = State::stale, .made = {3, ""}, .created = {1, 2}}))
      << "half of it";
  there()[0].gi_id = 4;
  EXPECT_EQ(past().visits[0], PastVisit{}) << "half of another one";
  there()[0] = instance("4g.24gb", 0, 4, 3, "MIG-c");
  there()[0].compute[0].gpcs = 1;
  EXPECT_EQ(past().visits[0], PastVisit{}) << "no longer whole";
}

TEST_F(RecoveryTest, WhatIsElsewhereOrOfAnotherShapeIsNotIts) {
  add({on_visit(Kind::create, 1, 1), on_visit(Kind::created, 2, 1, {3, "MIG-a"})});
  there() = {instance("2g.12gb", 2, 2, 3, "MIG-a"), instance("1g.6gb", 0, 1, 3, "MIG-a")};
  EXPECT_EQ(past().visits[1], PastVisit{});
  there().push_back(instance("2g.12gb", 0, 2, 3, "MIG-a"));
  add({of_task(Kind::start, 3, "c"), of_task(Kind::end, 4, "c")});
  EXPECT_EQ(past().visits[1].state, State::alive);
}

TEST_F(RecoveryTest, OneThatIsOverIsAliveThoughHalfDestroyedAndElseGone) {
  c_is_over();
  there() = {instance("4g.24gb", 0, 4, 3)};
  EXPECT_EQ(past().visits[0],
            (PastVisit{.state = State::alive, .made = {3, "MIG-c"}, .created = {1, 2}}));
  there().clear();
  EXPECT_EQ(
      past().visits[0],
      (PastVisit{.state = State::gone, .made = {3, "MIG-c"}, .created = {1, 2}, .destroyed = 9}));
  add({on_visit(Kind::destroyed, 11, 0), {.kind = Kind::done, .time = 20}});
  there() = {instance("4g.24gb", 0, 4, 3, "MIG-c")};
  EXPECT_EQ(
      past().visits[0],
      (PastVisit{.state = State::gone, .made = {3, "MIG-c"}, .created = {1, 2}, .destroyed = 11}))
      << "what was destroyed is not looked for";
}

TEST_F(RecoveryTest, WhatAppearedAtAnAnnouncedPlaceIsOursUnlessItIsUsed) {
  add({on_visit(Kind::create, 1, 0)});
  EXPECT_EQ(past().visits[0], PastVisit{});
  there() = {instance("4g.24gb", 0, 4, 3, "MIG-c")};
  const PastVisit stale{.state = State::stale, .made = {3, ""}, .created = {1, 0}};
  EXPECT_EQ(past().visits[0], stale);
  there()[0].compute.clear();
  EXPECT_EQ(past().visits[0], stale);
  there()[0].holders = {{77, "guest"}};
  EXPECT_EQ(past().visits[0], PastVisit{});
}

TEST_F(RecoveryTest, AHalfMadeOneIsKnownByItsNumber) {
  add({on_visit(Kind::create, 1, 0), on_visit(Kind::stale, 2, 0, {3, ""})});
  there() = {instance("4g.24gb", 0, 4, 3)};
  EXPECT_EQ(past().visits[0],
            (PastVisit{.state = State::stale, .made = {3, ""}, .created = {1, 0}}));
  there()[0].gi_id = 5;
  EXPECT_EQ(past().visits[0], PastVisit{});
  there() = {instance("4g.24gb", 0, 4, 3, "MIG-c")};
  EXPECT_EQ(past().visits[0], PastVisit{}) << "it is whole, so it is somebody's";
}

// Its creation was announced, and could not be made; all of its tasks are over all the same.
TEST_F(RecoveryTest, OneWhoseCreationIsAnnouncedIsNotOver) {
  c_is_over();
  add({on_visit(Kind::destroyed, 10, 0), on_visit(Kind::create, 12, 0)});
  EXPECT_EQ(past().visits[0], PastVisit{});
  there() = {instance("4g.24gb", 0, 4, 9, "MIG-z")};
  EXPECT_EQ(past().visits[0].state, State::stale);
}

TEST_F(RecoveryTest, AVisitWithoutTasksThatWereAllRunIsDestroyedAndWaits) {
  add({on_visit(Kind::create, 1, 0), on_visit(Kind::created, 2, 0, {3, "MIG-c"}),
       on_visit(Kind::destroyed, 5, 0)});
  EXPECT_EQ(past().visits[0], PastVisit{});
}

// ---- those before it

// c has failed; the halves after it are there.
TEST_F(RecoveryTest, WhatComesLaterMakesWayForWhatIsTriedAgain) {
  add({on_visit(Kind::create, 1, 1), on_visit(Kind::created, 2, 1, {3, "MIG-a"}),
       on_visit(Kind::create, 1, 2), on_visit(Kind::created, 2, 2, {4, "MIG-b"}),
       of_task(Kind::start, 3, "a"), of_task(Kind::start, 3, "b")});
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a"), instance("2g.12gb", 2, 2, 4, "MIG-b")};
  Past found = past();
  EXPECT_EQ(found.visits[1].state, State::stale) << "nothing runs there";
  EXPECT_EQ(found.visits[2].state, State::stale);
  EXPECT_FALSE(found.tasks[0].left_out);
  traces.running = {{{"b", 1}, 71}};
  found = past();
  EXPECT_EQ(found.visits[1].state, State::stale);
  EXPECT_EQ(found.visits[2].state, State::alive) << "it is at work";
  EXPECT_TRUE(found.tasks[0].left_out);
  EXPECT_FALSE(found.tasks[1].left_out);
}

TEST_F(RecoveryTest, WhatIsOverNeedsNoWay) {
  c_is_over();
  add({on_visit(Kind::destroyed, 10, 0), on_visit(Kind::create, 11, 1),
       on_visit(Kind::created, 12, 1, {3, "MIG-a"}), of_task(Kind::start, 13, "a")});
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a")};
  traces.running = {{{"a", 1}, 71}};
  EXPECT_EQ(past().visits[1].state, State::alive);
  EXPECT_FALSE(past().tasks[0].left_out);
}

TEST_F(RecoveryTest, OfAFailedTaskAmongOthersOnlyThoseThatAreNotFinishedAreLeftOut) {
  script.tasks.push_back({.name = "d", .visit = 0});
  script.visits[0].tasks = {0, 3};
  records[0].script = fingerprint(script);
  add({of_task(Kind::start, 1, "d"), of_task(Kind::end, 2, "d"), on_visit(Kind::create, 1, 1),
       on_visit(Kind::created, 2, 1, {3, "MIG-a"}), of_task(Kind::start, 3, "a")});
  there() = {instance("2g.12gb", 0, 2, 3, "MIG-a")};
  traces.running = {{{"a", 1}, 71}};
  EXPECT_TRUE(past().tasks[0].left_out);
  EXPECT_FALSE(past().tasks[3].left_out) << "it has finished";
}

// Before it comes also what is before what is before it.
TEST_F(RecoveryTest, ThoseBeforeAreThoseOfAllSteps) {
  script.visits[2].after = {1};
  records[0].script = fingerprint(script);
  add({on_visit(Kind::create, 1, 2), on_visit(Kind::created, 2, 2, {4, "MIG-b"}),
       of_task(Kind::start, 3, "a"), of_task(Kind::end, 4, "a"), of_task(Kind::start, 3, "b")});
  there() = {instance("2g.12gb", 2, 2, 4, "MIG-b")};
  EXPECT_EQ(past().visits[2].state, State::stale);
  traces.running = {{{"b", 1}, 71}};
  EXPECT_TRUE(past().tasks[0].left_out);
}

TEST_F(RecoveryTest, EachGpuIsReadByItsOwnNumber) {
  script.gpus.insert(script.gpus.begin(), {.device = 2, .model = "A30-24GB"});
  for (Visit& visit : script.visits) visit.gpu = 1;
  records[0].script = fingerprint(script);
  driver.gpus[2].index = 2;
  add({on_visit(Kind::create, 1, 0), on_visit(Kind::created, 2, 0, {3, "MIG-c"})});
  there() = {instance("4g.24gb", 0, 4, 3, "MIG-c")};
  EXPECT_EQ(past().visits[0].state, State::alive);
}

}  // namespace
}  // namespace partita::exec
