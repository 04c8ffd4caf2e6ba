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

// What the queue expects of a task that waits, or why it is not planned.
struct Shown {
  Task task;
  std::optional<double> begins_in_s = {}, ends_in_s = {};
  std::string why = {};
  bool operator==(const Shown&) const = default;
};

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
