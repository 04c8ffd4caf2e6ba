// Documents of the queue: QueueSubmission (what somebody wants run), QueueTask and QueueTasks (what
// became of it), QueueRuns; and lines of text for people. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "queue/task.h"

namespace partita::queue {

// What became of a task's deadline, or is expected to. Missed is also what ended otherwise than
// done, and what is not over when it passes.
enum class Promise { met, missed, likely_met, likely_missed, unknown };
struct Deadline {
  Promise promise = Promise::unknown;
  std::optional<double> late_s = {};  // its end, or the expected one, after the deadline; negative
                                      // before it. Nothing: it never is done, or nothing is known
  bool operator==(const Deadline&) const = default;
};
// What the queue expects of a task that waits or runs, or why it is not planned.
struct Shown {
  Task task;
  std::optional<double> begins_in_s = {}, ends_in_s = {};
  std::string why = {};
  std::optional<Deadline> deadline = {};  // of one that has one
  bool operator==(const Shown&) const = default;
};

// Nothing: the task has no deadline. `ends_in_s` as in Shown.
std::optional<Deadline> deadline_of(const Task& task, std::optional<double> ends_in_s,
                                    double now_s);

std::string submission_json(const Spec& spec);
Result<Spec> parse_submission(const std::string& file, std::string_view text);

// In a line, for stores; all of a task.
std::string task_line(const Task& task);
Result<Task> parse_task(const std::string& file, std::string_view text);
std::string run_line(const Run& run);
Result<Run> parse_run(const std::string& file, std::string_view text);

std::string task_json(const Shown& shown, const std::vector<Run>& runs);
Result<Shown> parse_shown(const std::string& file, std::string_view text);  // without its runs
// The newest last.
struct TasksDocument {
  std::vector<Shown> tasks;
  bool operator==(const TasksDocument&) const = default;
};
std::string tasks_json(const TasksDocument& tasks);
Result<TasksDocument> parse_tasks(const std::string& file, std::string_view text);

std::string task_text(const Shown& shown);
std::string tasks_text(const TasksDocument& tasks);
std::string tasks_lines(const TasksDocument& tasks);  // the same without the line above them

DocumentKind submission_kind();
DocumentKind task_kind();
DocumentKind tasks_kind();

}  // namespace partita::queue
