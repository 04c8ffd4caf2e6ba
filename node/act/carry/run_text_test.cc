#include "act/carry/run_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::carry {
namespace {

using exec::ChangeStatus;
using exec::kSecond;
using exec::RunReport;
using exec::TaskStatus;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// b is planned to end before a, c with it; five tasks on one instance.
exec::Script five() {
  exec::Script script;
  script.gpus = {{.device = 3, .model = "A30-24GB"}};
  script.visits = {{.place = {"1g.6gb", 2}, .size = 1, .tasks = {0, 1, 2, 3, 4}}};
  script.gpus[0].changes = {{.visit = 0, .create = true}, {.visit = 0, .create = false}};
  script.tasks = {{.name = "a", .planned = {0, 20 * kSecond}},
                  {.name = "b", .planned = {0, 10 * kSecond}},
                  {.name = "c", .planned = {0, 20 * kSecond}},
                  {.name = "d", .planned = {0, 30 * kSecond}},
                  {.name = "e", .planned = {0, 40 * kSecond}}};
  script.planned_makespan = 40 * kSecond;
  return script;
}

RunReport report_of(const exec::Script& script) {
  RunReport report;
  report.tasks.resize(script.tasks.size());
  for (const exec::ScriptGpu& gpu : script.gpus) report.changes.emplace_back(gpu.changes.size());
  return report;
}

TEST(RunText, IsATableAndWhatToKnowAboutIt) {
  const exec::Script script = five();
  RunReport report = report_of(script);
  report.tasks[0] = {.status = TaskStatus::finished, .attempts = 1, .end = 25 * kSecond};
  report.tasks[1] = {
      .status = TaskStatus::timed_out, .end = 12 * kSecond, .reason = "took too long"};
  report.tasks[2] = {.status = TaskStatus::not_run, .reason = "no"};
  report.tasks[3] = {.status = TaskStatus::finished, .end = 15 * kSecond};
  report.tasks[4] = {
      .status = TaskStatus::failed, .end = 41 * kSecond + 2'500'000, .reason = "exit status 1"};
  report.refusals = {"no room", "denied"};
  report.left = {"1g.6gb@2 on GPU 3: held"};
  report.resumed = 1;
  EXPECT_EQ(run_text(script, report, {.driver = "", .scheduler = "", .run = ""}),
            "TASK  INSTANCE  PLANNED END s  REAL END s  DEVIATION %  STATUS\n"
            "b     1g.6gb@2         10.000      12.000            -  timed out\n"
            "a     1g.6gb@2         20.000      25.000       +25.00  finished\n"
            "c     1g.6gb@2         20.000           -            -  not run\n"
            "d     1g.6gb@2         30.000      15.000       -50.00  finished\n"
            "e     1g.6gb@2         40.000      41.002            -  failed\n"
            "\nend of the last task: 40.000 s planned, 41.002 s real\n"
            "2 of 5 tasks finished, 1 of them before this resumption\n"
            "task b: timed out, took too long\n"
            "task c: not run, no\n"
            "task e: failed, exit status 1\n"
            "refused: no room\n"
            "refused: denied\n"
            "left behind: 1g.6gb@2 on GPU 3: held\n");
}

TEST(RunText, OfAWholeRunSaysHowLateItWas) {
  exec::Script script = five();
  script.tasks.resize(1);
  script.gpus.push_back({.device = 5, .model = "A30-24GB"});
  RunReport report = report_of(script);
  report.tasks[0] = {.status = TaskStatus::finished, .end = 42 * kSecond};
  const std::string text =
      run_text(script, report, {.driver = "", .scheduler = "", .run = "", .simulated_clock = true});
  EXPECT_THAT(text, HasSubstr("SIMULATED END s"));
  EXPECT_THAT(text, HasSubstr("1g.6gb@2 on GPU 3"));
  EXPECT_THAT(text, HasSubstr("40.000 s planned, 42.000 s simulated (+5.00 %)\n"));
  EXPECT_THAT(text, testing::EndsWith("1 of 1 task finished\n"));
}

TEST(ProgressText, NamesWhatRuns) {
  const exec::Script script = five();
  RunReport report = report_of(script);
  EXPECT_EQ(progress_text(script, report, 12'340'000'000),
            "0 of 5 tasks, 12.3 s of 40.0 s: waiting");
  report.tasks[0].status = TaskStatus::finished;
  report.tasks[2].status = TaskStatus::running;
  EXPECT_EQ(progress_text(script, report, 0), "1 of 5 tasks, 0.0 s of 40.0 s: c 1g.6gb@2");
  for (const std::size_t t : {1U, 3U}) report.tasks[t].status = TaskStatus::running;
  EXPECT_EQ(progress_text(script, report, 0),
            "1 of 5 tasks, 0.0 s of 40.0 s: b 1g.6gb@2, c 1g.6gb@2, d 1g.6gb@2");
  for (const std::size_t t : {0U, 4U}) report.tasks[t].status = TaskStatus::running;
  EXPECT_EQ(progress_text(script, report, 0),
            "0 of 5 tasks, 0.0 s of 40.0 s: a 1g.6gb@2, b 1g.6gb@2, c 1g.6gb@2 and 2 more");
}

TEST(News, AreWhatWentWrongSinceTheLastLook) {
  const exec::Script script = five();
  const RunReport before = report_of(script);
  RunReport now = before;
  now.tasks[0] = {.status = TaskStatus::running, .attempts = 1};
  now.tasks[1] = {.status = TaskStatus::running, .attempts = 2};
  now.tasks[2] = {.status = TaskStatus::finished, .attempts = 1};
  now.tasks[3] = {.status = TaskStatus::skipped, .reason = "c did not finish"};
  now.tasks[4] = {.status = TaskStatus::failed, .attempts = 3, .reason = "exit status 1"};
  now.changes[0][1].reason = "in use";
  EXPECT_THAT(news(script, before, now),
              ElementsAre("task b: attempt 2", "task d: skipped, c did not finish",
                          "task e: attempt 3", "task e: failed, exit status 1", "in use"));
  EXPECT_THAT(news(script, now, now), IsEmpty());
  RunReport later = now;
  later.changes[0][0].reason = "another";
  later.changes[0][1].reason.clear();
  EXPECT_THAT(news(script, now, later), ElementsAre("another"));
}

}  // namespace
}  // namespace partita::carry
