#include "act/batch/task_runs.h"

#include <gtest/gtest.h>

#include "act/batch/testing/test_batch.h"
#include "base/rng.h"

namespace partita::exec {
namespace {

struct Runs {
  explicit Runs(Script given, int retries = 0) : script(std::move(given)), options{retries, 10} {}
  Script script;
  Options options;
  RunNotes notes;
  TaskRuns runs{script, options, notes};

  void run(int task, Pid pid) {
    runs.start(task, "M");
    runs.started({task, pid, notes.now});
  }
  TaskStatus status(int task) const {
    return notes.report.tasks[static_cast<std::size_t>(task)].status;
  }
  // What was asked of processes since it was asked last.
  std::vector<StopTask> stops() {
    std::vector<StopTask> asked;
    for (const Action& action : notes.out.actions)
      if (const auto* stop = std::get_if<StopTask>(&action)) asked.push_back(*stop);
    notes.out = {};
    return asked;
  }
};

TEST(TaskRuns, WhatTakesTooLongIsAskedToEndThenKilledAndTriedAgain) {
  Script script = test::row({"a"});
  script.tasks[0].timeout = 5;
  Runs all(std::move(script), 1);
  all.run(0, 70);
  EXPECT_EQ(all.runs.next_wake(), 5);
  all.notes.now = 4;
  all.runs.watch_times();
  EXPECT_TRUE(all.stops().empty());
  all.notes.now = 5;
  all.runs.watch_times();
  auto asked = all.stops();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].signal, StopSignal::terminate);
  EXPECT_EQ(all.runs.next_wake(), 15);
  all.notes.now = 15;
  all.runs.watch_times();
  asked = all.stops();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].signal, StopSignal::kill);
  EXPECT_EQ(all.runs.next_wake(), std::nullopt);
  all.runs.exited({70, 0});  // too late, whatever it says
  EXPECT_EQ(all.status(0), TaskStatus::pending);
  EXPECT_EQ(all.runs.next_of(0), 0);
  all.run(0, 71);
  all.notes.now = 20;
  all.runs.watch_times();
  all.runs.exited({71, 3});
  EXPECT_EQ(all.status(0), TaskStatus::timed_out);
  EXPECT_TRUE(all.runs.over());
}

TEST(TaskRuns, WhatIsDroppedIsNotRunAndWhatIsUnderWayMayEndOrIsStopped) {
  for (const bool stop : {false, true}) {
    Runs all(test::row({"a", "b"}));
    all.run(0, 70);
    all.runs.drop(0, "why", stop);
    EXPECT_EQ(all.status(1), TaskStatus::not_run);
    EXPECT_EQ(all.stops().size(), stop ? 1U : 0U);
    EXPECT_TRUE(all.runs.at_work(0));
    all.runs.exited({70, stop ? 15 : 0});
    EXPECT_EQ(all.status(0), stop ? TaskStatus::failed : TaskStatus::finished);
    EXPECT_FALSE(all.runs.at_work(0));
    EXPECT_EQ(all.runs.next_of(0), std::nullopt);
  }
}

// Random orders and failures against the definition: a task is finished if it did and all before
// it did, skipped if one before it is not finished.
TEST(TaskRuns, WhoComesAfterAFailureIsSkippedHoweverFarBehind) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    Script script = test::row({"a", "b", "c", "d", "e", "f", "g", "h"});
    const auto count = static_cast<int>(script.tasks.size());
    std::vector<bool> fails, runs;
    for (int t = 0; t < count; ++t) {
      bool ready = true;
      for (int before = 0; before < t; ++before) {
        if (rng.below(3) != 0) continue;
        script.tasks[static_cast<std::size_t>(t)].after.push_back(before);
        const auto at = static_cast<std::size_t>(before);
        ready = ready && runs[at] && !fails[at];
      }
      fails.push_back(rng.below(4) == 0);
      runs.push_back(ready);
    }
    Runs all(std::move(script));
    while (const auto task = all.runs.next_of(0)) {
      const auto at = static_cast<std::size_t>(*task);
      ASSERT_TRUE(runs[at]) << seed;
      ASSERT_TRUE(all.runs.may_start(*task)) << seed;
      all.run(*task, 100 + *task);
      all.runs.exited({100 + *task, fails[at] ? 1 : 0});
    }
    for (int t = 0; t < count; ++t) {
      const auto at = static_cast<std::size_t>(t);
      EXPECT_EQ(all.status(t), !runs[at]   ? TaskStatus::skipped
                               : fails[at] ? TaskStatus::failed
                                           : TaskStatus::finished)
          << seed << " " << t;
    }
    EXPECT_TRUE(all.runs.over());
  }
}

}  // namespace
}  // namespace partita::exec
