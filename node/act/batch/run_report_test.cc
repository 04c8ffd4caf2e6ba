#include "act/batch/run_report.h"

#include <gtest/gtest.h>

#include "act/batch/testing/test_batch.h"

namespace partita::exec {
namespace {

Script seconds_script() {
  Script script = test::halves();
  for (ScriptTask& task : script.tasks) {
    task.planned.begin *= kSecond;
    task.planned.end *= kSecond;
  }
  for (Change& change : script.gpus[0].changes)
    if (change.planned)
      change.planned = {change.planned->begin * kSecond, change.planned->end * kSecond};
  script.planned_makespan = 100 * kSecond;
  return script;
}

RunReport report() {
  RunReport report;
  report.tasks = {
      {.status = TaskStatus::finished, .attempts = 2, .begin = 11 * kSecond, .end = 33 * kSecond},
      {.status = TaskStatus::failed,
       .attempts = 1,
       .begin = kSecond / 2,
       .end = 50 * kSecond,
       .reason = "exit status 3"},
      {.status = TaskStatus::not_run, .end = 99 * kSecond, .reason = "no"}};
  report.changes = {{{.status = ChangeStatus::done, .tries = 3, .begin = 1, .end = 15 * kSecond},
                     {.status = ChangeStatus::kept},
                     {.status = ChangeStatus::failed, .tries = 4, .end = 5, .reason = "in use"},
                     {.status = ChangeStatus::running, .tries = 1},
                     {.status = ChangeStatus::done, .tries = 1, .end = 2 * kSecond},
                     {.status = ChangeStatus::skipped}}};
  report.refusals = {"no room"};
  report.left = {"2g.12gb@0 on GPU 4: held", "another"};
  report.interrupted = true;
  report.resumed = 5;
  return report;
}

TEST(RunReport, CountsAndTimesWhatRan) {
  const RunReport one = report();
  EXPECT_EQ(one.makespan(), 50 * kSecond) << "of what ran alone";
  EXPECT_EQ(one.count(TaskStatus::finished), 1);
  EXPECT_EQ(one.count(TaskStatus::skipped), 0);
  EXPECT_FALSE(one.all_finished());
  RunReport whole = one;
  whole.tasks.resize(1);
  EXPECT_TRUE(whole.all_finished());
  EXPECT_EQ(whole.makespan(), 33 * kSecond);
  EXPECT_TRUE(RunReport{}.all_finished());
  EXPECT_EQ(RunReport{}.makespan(), 0);
  for (const TaskStatus status : {TaskStatus::finished, TaskStatus::failed, TaskStatus::timed_out})
    EXPECT_TRUE(ran(status));
  for (const TaskStatus status :
       {TaskStatus::pending, TaskStatus::running, TaskStatus::skipped, TaskStatus::not_run})
    EXPECT_FALSE(ran(status));
}

TEST(RunReport, NamesItsStates) {
  std::string tasks, changes;
  for (int s = 0; s < 7; ++s) tasks += std::string(to_string(static_cast<TaskStatus>(s))) + " ";
  for (int s = 0; s < 6; ++s) changes += std::string(to_string(static_cast<ChangeStatus>(s))) + " ";
  EXPECT_EQ(tasks, "pending running finished failed timed_out skipped not_run ");
  EXPECT_EQ(changes, "pending running done skipped kept failed ");
}

TEST(RunReport, DeviatesByAShareOfThePlannedTime) {
  EXPECT_EQ(deviation_percent(4 * kSecond, 6 * kSecond), 50);
  EXPECT_EQ(deviation_percent(4 * kSecond, kSecond), -75);
  EXPECT_EQ(deviation_percent(0, kSecond), 0);
}

TEST(RunReport, IsADocument) {
  EXPECT_EQ(
      report_json(seconds_script(), report(), {.driver = "sim", .scheduler = "far", .run = "r1"}),
      R"({
 "api_version": "partita/v1",
 "kind": "BatchRun",
 "driver": "sim",
 "scheduler": "far",
 "run": "r1",
 "simulated_clock": false,
 "planned_makespan_s": 100,
 "makespan_s": 50,
 "interrupted": true,
 "finished_earlier": 5,
 "tasks": [
  {"task": "c", "status": "finished", "attempts": 2, "gpu": 4, "profile": "4g.24gb", )"
            R"("start": 0, "planned_begin_s": 10, "planned_end_s": 30, "begin_s": 11, )"
            R"("end_s": 33, "deviation_percent": 10},
  {"task": "a", "status": "failed", "attempts": 1, "gpu": 4, "profile": "2g.12gb", )"
            R"("start": 0, "planned_begin_s": 50, "planned_end_s": 70, "begin_s": 0.5, )"
            R"("end_s": 50, "reason": "exit status 3"},
  {"task": "b", "status": "not_run", "attempts": 0, "gpu": 4, "profile": "2g.12gb", )"
            R"("start": 2, "planned_begin_s": 60, "planned_end_s": 90, "reason": "no"}],
 "reconfigurations": [
  {"gpu": 4, "op": "create", "profile": "4g.24gb", "start": 0, "status": "done", )"
            R"("tries": 3, "planned_begin_s": 0, "planned_end_s": 10, "begin_s": 1e-09, )"
            R"("end_s": 15, "deviation_percent": 50},
  {"gpu": 4, "op": "destroy", "profile": "4g.24gb", "start": 0, "status": "kept", )"
            R"("tries": 0, "planned_begin_s": 30, "planned_end_s": 40},
  {"gpu": 4, "op": "create", "profile": "2g.12gb", "start": 0, "status": "failed", )"
            R"("tries": 4, "planned_begin_s": 40, "planned_end_s": 50, "reason": "in use"},
  {"gpu": 4, "op": "create", "profile": "2g.12gb", "start": 2, "status": "running", )"
            R"("tries": 1, "planned_begin_s": 50, "planned_end_s": 60},
  {"gpu": 4, "op": "destroy", "profile": "2g.12gb", "start": 0, "status": "done", )"
            R"("tries": 1, "begin_s": 0, "end_s": 2},
  {"gpu": 4, "op": "destroy", "profile": "2g.12gb", "start": 2, "status": "skipped", )"
            R"("tries": 0}],
 "refusals": [
  "no room"],
 "left": [
  "2g.12gb@0 on GPU 4: held",
  "another"]
}
)");
}

TEST(RunReport, OfAWholeRunSaysHowLateItWas) {
  Script script = seconds_script();
  script.tasks.resize(1);
  script.gpus.clear();
  script.gpus.push_back({.device = 4, .model = "A30-24GB"});
  RunReport one = report();
  one.tasks.resize(1);
  one.changes = {{}};
  one.refusals.clear();
  one.left.clear();
  const std::string text =
      report_json(script, one, {.driver = "", .scheduler = "", .run = "", .simulated_clock = true});
  EXPECT_NE(text.find("\"makespan_s\": 33,\n \"deviation_percent\": -67,\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("\"simulated_clock\": true,"), std::string::npos);
}

}  // namespace
}  // namespace partita::exec
