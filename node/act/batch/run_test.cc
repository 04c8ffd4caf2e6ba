// The three runners of the brain, on processes of a clock and a driver that says what it is told.
#include "act/batch/run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "act/batch/testing/test_batch.h"
#include "base/hash.h"

namespace partita::exec {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Whose appends end with one of them.
struct FillingFiles final : MemoryFiles {
  int appends_left = 1 << 30;
  Result<void> append(const std::string& path, std::string_view text) override {
    if (appends_left-- <= 0) return environment_error(path, "full");
    return MemoryFiles::append(path, text);
  }
};

// A clock that goes on by itself, a little with every look.
struct TickingClock final : Clock {
  std::int64_t now = 0;
  std::int64_t now_ns() override { return now += 100; }
  std::int64_t cpu_ns() override { return now; }
  void sleep_ns(std::int64_t ns) override { now += ns; }
};

// Two tasks of 20 ns each on one instance, which takes 5 to make and 3 to destroy.
struct RunTest : testing::Test {
  RunTest() : processes(clock, [this](const ProcessSpec& spec) { return behaviour(spec); }) {
    driver.gpus[0].index = 0;
    driver.before = [this](const std::string& method) {
      if (method == "create_instance") clock.now += 5;
      if (method == "destroy_instance") clock.now += 3;
    };
    clock.now = settings.origin = 1000;
    settings.paths = {.run = "r1", .log_dir = "d"};
    auto log = RecordLog::open(files, "j", kLogKind);
    settings.journal = std::make_shared<RecordLog>(*std::move(log));
    EXPECT_TRUE(settings.journal->append({record_text(
        {.kind = Record::Kind::run, .run = "r1", .script = fingerprint(script), .origin = 1000})}));
  }
  Doors doors() { return {driver, processes, files, clock}; }
  RunReport simulated(const World& world = {}, const Past& past = {}, const Options& options = {}) {
    BatchExecutor executor(script, options, past);
    end = run_simulated(executor, script, doors(), settings, clock, processes, world);
    return executor.report();
  }
  std::vector<Record> records() {
    std::vector<Record> all = parse_journal("j", files.content["j"]).value().records;
    all.erase(all.begin());
    return all;
  }
  static std::string text(const RunReport& report, std::size_t task) {
    const TaskRun& run = report.tasks[task];
    return fmt::format("{} x{} [{},{}]{}", to_string(run.status), run.attempts, run.begin, run.end,
                       run.reason.empty() ? "" : " " + run.reason);
  }

  Script script = test::row({"a", "b"});
  test::ToldDriver driver;
  ManualClock clock;
  FillingFiles files;
  std::function<SimBehaviour(const ProcessSpec&)> behaviour = [](const ProcessSpec&) {
    return SimBehaviour{.run_ns = 20};
  };
  SimProcesses processes;
  RunSettings settings;
  RunEnd end;
};

// ---- on a simulated clock

TEST_F(RunTest, EverythingHappensWhenItWould) {
  std::vector<std::pair<Nanos, bool>> watched;
  settings.watch = [&](Nanos now, const RunReport& report) {
    watched.emplace_back(now, report.all_finished());
  };
  const RunReport report = simulated();
  EXPECT_EQ(text(report, 0), "finished x1 [5,25]");
  EXPECT_EQ(text(report, 1), "finished x1 [25,45]");
  EXPECT_EQ(report.changes[0][0],
            (ChangeRun{.status = ChangeStatus::done, .tries = 1, .begin = 0, .end = 5}));
  EXPECT_EQ(report.changes[0][1],
            (ChangeRun{.status = ChangeStatus::done, .tries = 1, .begin = 45, .end = 48}));
  EXPECT_EQ(clock.now, 1048);
  EXPECT_THAT(driver.gpus[0].instances, IsEmpty());
  EXPECT_EQ(watched.front(), std::pair(Nanos{0}, false));
  EXPECT_EQ(watched.back(), std::pair(Nanos{48}, true));
  EXPECT_FALSE(end.journal.has_value());
}

TEST_F(RunTest, TheJournalHasAllAndItsHashTellsRunsApart) {
  simulated();
  std::vector<std::string> told;
  std::uint64_t hash = 0;
  for (const Record& record : records()) {
    told.push_back(fmt::format("{} {}{}", record.time, static_cast<int>(record.kind), record.task));
    hash = hash * 31 + text_hash(record_text(record));
  }
  EXPECT_THAT(told, ElementsAre("0 1", "5 2", "5 5a", "25 7a", "25 5b", "45 7b", "48 4"));
  EXPECT_EQ(end.log_hash, hash);
}

TEST_F(RunTest, WithoutAJournalTheHashIsTheSame) {
  simulated();
  const std::uint64_t hash = end.log_hash;
  settings.journal = nullptr;
  clock.now = 1000;
  driver.next_gi = 7;
  EXPECT_TRUE(simulated().all_finished());
  EXPECT_EQ(end.log_hash, hash);
}

TEST_F(RunTest, TheWorldIsAskedBeforeEveryStepAndWhenItWishes) {
  std::vector<Nanos> asked;
  simulated([&](Nanos now) -> std::optional<Nanos> {
    asked.push_back(now);
    if (now < 17) return 17;
    return std::nullopt;
  });
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
  EXPECT_THAT(asked, ElementsAre(0, 5, 17, 25, 45, 48));
}

TEST_F(RunTest, TasksWaitForTheirTimesAndAreEnded) {
  script.tasks[0].release = 11;
  script.tasks[1].timeout = 6;
  const RunReport report = simulated();
  EXPECT_EQ(text(report, 0), "finished x1 [11,31]");
  EXPECT_EQ(text(report, 1), "timed_out x1 [31,37] took too long");
}

TEST_F(RunTest, WhoIsAskedForTheEndEndsIt) {
  settings.interrupted = [&] { return clock.now >= 1010; };
  const RunReport report = simulated([](Nanos now) -> std::optional<Nanos> {
    if (now < 10) return 10;
    return std::nullopt;
  });
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(text(report, 0), "not_run x1 [5,10] the run was interrupted");
  EXPECT_EQ(text(report, 1), "not_run x0 [0,0] the run was interrupted");
  EXPECT_THAT(driver.gpus[0].instances, IsEmpty());
}

TEST_F(RunTest, AGpuIsGivenBackWhenItIsWanted) {
  settings.withdrawn = [&] {
    return clock.now == 1010 ? std::vector<Withdrawn>{{0, true}} : std::vector<Withdrawn>{};
  };
  const RunReport report = simulated([](Nanos now) -> std::optional<Nanos> {
    if (now < 10) return 10;
    return std::nullopt;
  });
  EXPECT_EQ(text(report, 0), "not_run x1 [5,10] its GPU was needed for something else");
  EXPECT_FALSE(report.interrupted);
}

TEST_F(RunTest, WhatCannotBeStartedIsTold) {
  behaviour = [](const ProcessSpec& spec) {
    SimBehaviour one{.run_ns = 20};
    if (spec.environment.at("PARTITA_TASK") == "a")
      one.refused = Error{ErrorCode::environment, "none", "sh"};
    return one;
  };
  const RunReport report = simulated();
  EXPECT_EQ(text(report, 0), "failed x1 [5,5] sh: none");
  EXPECT_EQ(text(report, 1), "finished x1 [5,25]");
}

// ---- a journal that cannot be written

TEST_F(RunTest, WhatCannotBeAnnouncedIsNotMade) {
  files.appends_left = 0;
  const RunReport report = simulated();
  EXPECT_EQ(end.journal->message, "full");
  EXPECT_TRUE(report.interrupted);
  EXPECT_THAT(driver.calls, IsEmpty());
  EXPECT_EQ(text(report, 0), "not_run x0 [0,0] the run was interrupted");
}

TEST_F(RunTest, WhatCannotBeAnnouncedIsNotStarted) {
  files.appends_left = 1;
  bool started = false;
  behaviour = [&](const ProcessSpec&) {
    started = true;
    return SimBehaviour{};
  };
  const RunReport report = simulated();
  EXPECT_EQ(end.journal->message, "full");
  EXPECT_TRUE(report.interrupted);
  EXPECT_FALSE(started);
  EXPECT_THAT(driver.gpus[0].instances, IsEmpty()) << "what is there goes all the same";
  EXPECT_THAT(driver.calls, ElementsAre("create_instance", "create_compute", "destroy_compute",
                                        "destroy_instance"));
  EXPECT_EQ(report.count(TaskStatus::not_run), 2);
}

// One that is full once is not written to again: what would follow belongs to nothing.
TEST_F(RunTest, AfterAFailedAppendNothingIsAppended) {
  files.appends_left = 1;
  settings.interrupted = [&] {
    if (files.appends_left < 0) files.appends_left = 1 << 30;
    return false;
  };
  simulated();
  EXPECT_EQ(records().size(), 1U);
  EXPECT_EQ(end.journal->message, "full");
}

// ---- attempts of earlier processes

Past running_past(Pid pid) {
  return {.tasks = {{.attempts = 1, .begin = 2, .running = pid}, {}},
          .visits = {{.state = PastVisit::State::alive, .made = {7, "MIG-7"}}}};
}

TEST_F(RunTest, HowAnAdoptedProcessEndedIsWrittenDown) {
  for (const bool written : {true, false}) {
    clock.now = 1000;
    driver.gpus[0].instances = {test::instance("2g.12gb", 2, 2, 7, "MIG-7")};
    const Pid pid = *processes.start({.argv = {"a"}, .environment = {{"PARTITA_TASK", "a"}}});
    processes.orphan_all();
    ASSERT_TRUE(processes.adopt(pid, processes.identity(pid)));
    settings.adopted = {{pid, {0, 1, {}}}};
    files.content["d/0001-a.1.status"] = written ? "r1 0\n" : "";
    const RunReport report = simulated({}, running_past(pid));
    EXPECT_EQ(text(report, 0), written ? "finished x1 [2,20]" : "finished x2 [20,40]");
  }
}

// The door's own child, told without a status: the same holds for those that were started here.
TEST_F(RunTest, HowOnesOwnProcessEndedIsWrittenDown) {
  files.content["d/0001-a.1.status"] = "r1 3\n";
  const RunReport report = simulated([&](Nanos now) -> std::optional<Nanos> {
    if (now < 10) return 10;
    if (now == 10) {
      const auto running = processes.running();
      processes.orphan_all();
      for (const auto& [pid, process] : running)
        EXPECT_TRUE(processes.adopt(pid, processes.identity(pid)));
    }
    return std::nullopt;
  });
  EXPECT_EQ(text(report, 0), "failed x1 [5,25] exit status 3");
}

// ---- step by step

TEST_F(RunTest, ASteppedRunDoesWhatCanBeDoneNow) {
  script.tasks[1].release = 500;
  script.tasks[0].timeout = 300;
  BatchExecutor executor(script, {});
  SteppedRun run(executor, script, doors(), settings);
  EXPECT_EQ(run.step(), 1305) << "a runs, made within this call: it has 300 from 5 on";
  EXPECT_EQ(processes.running().size(), 1U);
  clock.now = 1024;
  EXPECT_EQ(run.step(), 1305);
  clock.now = 1025;
  EXPECT_EQ(run.step(), 1500);
  EXPECT_EQ(text(executor.report(), 0), "finished x1 [5,25]");
  clock.now = 1500;
  EXPECT_EQ(run.step(), std::nullopt) << "b's end is waited for";
  EXPECT_FALSE(executor.finished());
  clock.now = 1520;
  EXPECT_EQ(run.step(), std::nullopt);
  EXPECT_TRUE(executor.finished());
  EXPECT_EQ(text(executor.report(), 1), "finished x1 [500,520]");
  EXPECT_THAT(driver.gpus[0].instances, IsEmpty());
  EXPECT_EQ(records().size(), 7U);
  std::uint64_t hash = 0;
  for (const Record& record : records()) hash = hash * 31 + text_hash(record_text(record));
  EXPECT_EQ(run.end().log_hash, hash);
}

TEST_F(RunTest, ASteppedRunCanBeInterrupted) {
  bool asked = false;
  settings.interrupted = [&] { return asked; };
  BatchExecutor executor(script, {});
  SteppedRun run(executor, script, doors(), settings);
  run.step();
  asked = true;
  EXPECT_EQ(run.step(), std::optional<std::int64_t>(1005 + 10 * kSecond)) << "then it is killed";
  ++clock.now;
  run.step();
  EXPECT_TRUE(executor.finished());
  EXPECT_THAT(driver.gpus[0].instances, IsEmpty());
}

// ---- in real time

struct RealRunTest : testing::Test {
  RealRunTest() : processes(clock, [](const ProcessSpec&) { return SimBehaviour{.run_ns = 900}; }) {
    driver.gpus[0].index = 0;
  }
  RunReport run(const Script& script) {
    BatchExecutor executor(script, {});
    EXPECT_FALSE(run_real(executor, script, {driver, processes, files, clock}, settings)
                     .journal.has_value());
    return executor.report();
  }

  test::ToldDriver driver;
  TickingClock clock;
  MemoryFiles files;
  SimProcesses processes;
  RunSettings settings;
};

TEST_F(RealRunTest, RunsToTheEnd) {
  Script script = test::row({"a", "b"});
  script.tasks[1].release = 20'000;
  settings.origin = clock.now = 5000;
  Nanos last = -1;
  settings.watch = [&](Nanos now, const RunReport&) {
    EXPECT_GT(now, last);
    last = now;
  };
  const RunReport report = run(script);
  EXPECT_TRUE(report.all_finished());
  EXPECT_LT(report.tasks[0].end, 20'000);
  EXPECT_GE(report.tasks[1].begin, 20'000);
  EXPECT_GE(last, report.tasks[1].end);
  EXPECT_THAT(driver.calls, ElementsAre("create_instance", "create_compute", "destroy_compute",
                                        "destroy_instance"));
}

TEST_F(RealRunTest, LeftAloneEverythingStaysAsItIs) {
  settings.left_alone = [&] { return !processes.running().empty(); };
  const RunReport report = run(test::row({"a", "b"}));
  EXPECT_EQ(processes.running().size(), 1U);
  EXPECT_EQ(driver.gpus[0].instances.size(), 1U);
  EXPECT_EQ(report.count(TaskStatus::finished), 0);
}

// It sleeps until something happens or its poll has passed; a loop that does not would go round
// some ten thousand times.
TEST_F(RealRunTest, WaitsWithoutWork) {
  RealClock real;
  SimProcesses real_processes(
      real, [](const ProcessSpec&) { return SimBehaviour{.run_ns = 30'000'000}; });
  const Script script = test::row({"a"});
  int rounds = 0;
  settings.origin = real.now_ns();
  settings.watch = [&](Nanos, const RunReport&) { ++rounds; };
  BatchExecutor executor(script, {});
  run_real(executor, script, {driver, real_processes, files, real}, settings);
  EXPECT_TRUE(executor.report().all_finished());
  const auto passed_ms = (real.now_ns() - settings.origin) / 1'000'000;
  EXPECT_GE(passed_ms, 30);
  EXPECT_LE(rounds, 100 + 2 * passed_ms);
}

}  // namespace
}  // namespace partita::exec
