// RunReport: what became of a script, as it stands at any moment of the run; and its document
// `kind: BatchRun`. Times are nanoseconds from the start of the run.
#pragma once

#include <string>
#include <vector>

#include "act/batch/script.h"

namespace partita::exec {

enum class TaskStatus {
  pending,
  running,
  finished,   // exit status 0
  failed,     // any other, after all retries
  timed_out,  // stopped for taking too long, after all retries
  skipped,    // a task that it comes after did not finish
  not_run,    // its instance could not be made, or the run was interrupted
};
inline const char* to_string(TaskStatus status) {
  constexpr const char* kWords[] = {"pending",   "running", "finished", "failed",
                                    "timed_out", "skipped", "not_run"};
  return kWords[static_cast<int>(status)];
}
// Whether an attempt came to its end.
bool ran(TaskStatus status);

struct TaskRun {
  TaskStatus status = TaskStatus::pending;
  int attempts = 0;
  Nanos begin = 0, end = 0;  // of the last attempt
  std::string reason = {};   // why it is not finished
  bool operator==(const TaskRun&) const = default;
};

enum class ChangeStatus {
  pending,
  running,
  done,
  skipped,  // nobody needed the instance
  kept,     // not destroyed because that was asked for
  failed,
};
inline const char* to_string(ChangeStatus status) {
  constexpr const char* kWords[] = {"pending", "running", "done", "skipped", "kept", "failed"};
  return kWords[static_cast<int>(status)];
}

struct ChangeRun {
  ChangeStatus status = ChangeStatus::pending;
  int tries = 0;
  Nanos begin = 0, end = 0;  // of the last try
  std::string reason = {};   // the last refusal
  bool operator==(const ChangeRun&) const = default;
};

struct RunReport {
  std::vector<TaskRun> tasks;                   // as Script::tasks
  std::vector<std::vector<ChangeRun>> changes;  // as Script::gpus, and their changes
  std::vector<std::string> left;      // instances that we made and could not destroy, and why
  std::vector<std::string> refusals;  // what the driver refused for good, and why
  bool interrupted = false;
  int resumed = 0;  // tasks that an earlier process of this run had finished
  bool operator==(const RunReport&) const = default;

  // The last end of a task that ran.
  Nanos makespan() const;
  int count(TaskStatus status) const;
  bool all_finished() const;
};

// (real - planned) / planned in percent: +100 is twice as late as planned; 0 when nothing was
// planned. Says something only of what did what was planned: a task that finished, a change that is
// done, a batch whose tasks all finished.
double deviation_percent(Nanos planned, Nanos real);

// The document.
struct RunNames {
  std::string driver, scheduler, run;
  bool simulated_clock = false;
};
std::string report_json(const Script& script, const RunReport& report, const RunNames& names);

}  // namespace partita::exec
