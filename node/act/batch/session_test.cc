#include "act/batch/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "act/batch/testing/test_batch.h"

namespace partita::exec {
namespace {

using testing::HasSubstr;

struct RefusingFiles final : MemoryFiles {
  std::string refused;  // path
  Result<void> write_atomic(const std::string& path, std::string_view text) override {
    if (path == refused) return environment_error(path, "full");
    return MemoryFiles::write_atomic(path, text);
  }
  Result<void> make_directories(const std::string& path) override {
    if (path == refused) return environment_error(path, "full");
    return MemoryFiles::make_directories(path);
  }
};

struct SessionTest : testing::Test {
  SessionTest() : processes(clock, [](const ProcessSpec&) { return SimBehaviour{}; }) {
    driver.gpus[0].index = 0;
    clock.now = 1000;
  }
  Doors doors() { return {driver, processes, files, clock}; }
  Result<Session> open(const std::string& run = "r1", bool resume = false) {
    flags.run = run;
    flags.resume = resume;
    return open_session(script, doors(), flags);
  }
  // What a session that began a new run leaves when it dies at once.
  void begin() { ASSERT_TRUE(open()); }
  void tell(const std::vector<Record>& records) {
    for (const Record& record : records) files.content["j"] += record_line(record);
  }
  std::string run_line(const std::string& run, std::int64_t origin) const {
    return record_line(
        {.kind = Record::Kind::run, .run = run, .script = fingerprint(script), .origin = origin});
  }

  const Script script = test::row({"a", "b"});
  test::ToldDriver driver;
  ManualClock clock;
  RefusingFiles files;
  SimProcesses processes;
  SessionFlags flags{.journal = "j", .run = "", .log_dir = "logs"};
};

TEST_F(SessionTest, ANewRunIsWrittenDownBeforeAnythingIsDone) {
  const auto session = open();
  ASSERT_TRUE(session);
  EXPECT_EQ(session->settings.paths.run, "r1");
  EXPECT_EQ(session->settings.paths.log_dir, "logs/r1");
  EXPECT_EQ(session->settings.origin, 1000);
  EXPECT_EQ(session->past, Past{});
  EXPECT_EQ(session->open_mark, "j.open");
  EXPECT_EQ(files.content["j"], log_header(kLogKind) + run_line("r1", 1000));
  EXPECT_EQ(files.content["j.open"], "r1\n");
  EXPECT_EQ(open().error().code, ErrorCode::in_use) << "one at a time";
}

TEST_F(SessionTest, WithoutAJournalNothingIsWritten) {
  flags.journal.clear();
  flags.log_dir.clear();
  const auto session = open();
  ASSERT_TRUE(session);
  EXPECT_EQ(session->settings.paths.run, "r1");
  EXPECT_EQ(session->settings.paths.log_dir, "");
  EXPECT_EQ(session->settings.origin, 1000);
  EXPECT_EQ(session->settings.journal, nullptr);
  EXPECT_TRUE(close_session(*session, {}, doors()));
  EXPECT_TRUE(end_session(*session, {}, files));
  EXPECT_TRUE(files.content.empty());
}

TEST_F(SessionTest, ANewRunMayBeRefused) {
  flags.may_begin = [] { return Result<void>(failed({ErrorCode::in_use, "not now", ""})); };
  EXPECT_EQ(open().error().message, "not now");
  EXPECT_FALSE(files.exists("j"));
  flags.may_begin = [] { return Result<void>(); };
  for (const std::string path : {"logs/r1", "j", "j.open"}) {
    files.refused = path;
    const auto session = open();
    ASSERT_FALSE(session) << path;
    EXPECT_EQ(session.error().context, path);
  }
  files.refused.clear();
  files.content.clear();
  begin();
  flags.may_begin = [] { return Result<void>(failed({ErrorCode::in_use, "not now", ""})); };
  EXPECT_TRUE(open()) << "what goes on is not asked";
}

TEST_F(SessionTest, GoesOnWithARunThatDidNotEnd) {
  begin();
  tell({{.kind = Record::Kind::start, .time = 5, .task = "a", .attempt = 1},
        {.kind = Record::Kind::end, .time = 9, .task = "a", .attempt = 1}});
  clock.now = 1200;
  const auto session = open("r2");
  ASSERT_TRUE(session);
  EXPECT_EQ(session->settings.paths.run, "r1") << "it has its name";
  EXPECT_EQ(session->settings.paths.log_dir, "logs/r1");
  EXPECT_EQ(session->settings.origin, 1000);
  EXPECT_EQ(session->past.now, 200);
  EXPECT_EQ(session->past.tasks[0].finished, 9);
  EXPECT_EQ(session->open_mark, "j.open");
}

TEST_F(SessionTest, TheClockMayHaveBegunAnew) {
  begin();
  tell({{.kind = Record::Kind::start, .time = 500, .task = "a", .attempt = 1}});
  clock.now = 1499;
  auto session = open();
  EXPECT_EQ(session->settings.origin, 999) << "the last record is not in the future";
  EXPECT_EQ(session->past.now, 500);
  session = Result<Session>();
  clock.now = 1500;
  session = open();
  EXPECT_EQ(session->settings.origin, 1000);
  EXPECT_EQ(session->past.now, 500);
  session = Result<Session>();
  clock.now = 30;
  session = open();
  EXPECT_EQ(session->settings.origin, -470);
  EXPECT_EQ(session->past.now, 500);
}

TEST_F(SessionTest, FollowsWhatRunsAndWhatHasEnded) {
  begin();
  const Pid pid = *processes.start({.argv = {"b"}});
  processes.orphan_all();
  tell({{.kind = Record::Kind::start, .time = 5, .task = "a", .attempt = 2},
        {.kind = Record::Kind::start, .time = 6, .task = "b", .attempt = 3}});
  files.content["logs/r1/0001-a.2.status"] = "r1 4\n";
  flags.find = [&](const std::string& run) {
    EXPECT_EQ(run, "r1");
    return Attempts{{{"b", 3}, pid}};
  };
  const auto session = open("r2");
  ASSERT_TRUE(session);
  EXPECT_EQ(session->past.tasks[0].status, 4);
  EXPECT_EQ(session->past.tasks[1].running, pid);
  ASSERT_EQ(session->settings.adopted.size(), 1U);
  const StartTask& adopted = session->settings.adopted.at(pid);
  EXPECT_EQ(adopted.task, 1);
  EXPECT_EQ(adopted.attempt, 3);
  processes.crash(pid, 0);
  EXPECT_EQ(processes.exited().size(), 1U) << "it is ours now";
}

// Until the process that ran it ends, the same command reports once more; then it begins anew, but
// for what is to be tried again.
TEST_F(SessionTest, AnEndedRunBeginsAnewOrIsTriedAgain) {
  {
    const auto session = open();
    clock.now = 1300;
    ASSERT_TRUE(close_session(*session, {}, doors()));
  }
  const std::string text = files.content["j"];
  EXPECT_TRUE(text.ends_with(record_line({.kind = Record::Kind::done, .time = 300})));
  EXPECT_EQ(open("r2")->settings.paths.run, "r1") << "its process did not end";
  {
    const auto session = open("r2");
    ASSERT_TRUE(end_session(*session, {}, files));
    EXPECT_FALSE(files.exists("j.open"));
  }
  EXPECT_EQ(open("r2", true)->settings.paths.run, "r1") << "as was wished";
  EXPECT_EQ(files.content["j.open"], "r1\n") << "and it is open again";
  ASSERT_TRUE(files.remove("j.open"));
  EXPECT_EQ(open("r3")->settings.paths.run, "r3");
  EXPECT_EQ(files.content["j"], log_header(kLogKind) + run_line("r3", 1300));
}

TEST_F(SessionTest, OfAnInterruptedRunNoEndIsNoted) {
  const auto session = open();
  const std::string before = files.content["j"];
  RunReport report;
  report.interrupted = true;
  ASSERT_TRUE(close_session(*session, report, doors()));
  ASSERT_TRUE(end_session(*session, report, files));
  EXPECT_EQ(files.content["j"], before);
  EXPECT_TRUE(files.exists("j.open"));
}

// A run that lost its mark has it again; one that has it keeps it.
TEST_F(SessionTest, WhatGoesOnIsOpen) {
  begin();
  files.content["j.open"] = "as it is";
  ASSERT_TRUE(open());
  EXPECT_EQ(files.content["j.open"], "as it is");
  ASSERT_TRUE(files.remove("j.open"));
  ASSERT_TRUE(open());
  EXPECT_EQ(files.content["j.open"], "r1\n");
  ASSERT_TRUE(files.remove("j.open"));
  files.refused = "j.open";
  EXPECT_FALSE(open());
  files.refused = "logs/r1";
  EXPECT_FALSE(open());
}

TEST_F(SessionTest, ADamagedJournalIsRefusedWithItsLine) {
  begin();
  files.content["j"] += "nonsense\n";
  EXPECT_EQ(open().error().context, "j:3");
  files.content["j"] = log_header(kLogKind) + log_line("{}");
  EXPECT_EQ(open().error().context, "j:2");
  // Who empties it takes away what has finished.
  for (const std::string left : {"", "half a line"}) {
    files.content["j"] = left;
    const auto refused = open();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().context, "j:1");
    EXPECT_THAT(refused.error().message, HasSubstr("To begin anew remove it and j.open"));
  }
  ASSERT_TRUE(files.remove("j.open"));
  EXPECT_TRUE(open());
}

TEST_F(SessionTest, OneOfAnotherScriptIsRefusedByItsName) {
  begin();
  const Script other = test::row({"c"});
  const auto refused = open_session(other, doors(), flags);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().context, "j");
  EXPECT_THAT(refused.error().message, HasSubstr("another batch"));
  driver.refuse["read"] = {ErrorCode::timeout, "slow", "read"};
  EXPECT_EQ(to_string(open().error()), "read: slow") << "what is no matter of the journal is not";
}

}  // namespace
}  // namespace partita::exec
