#include "control/batch.h"

#include <fmt/format.h>

#include <map>

namespace partita::control {
namespace {

constexpr std::initializer_list<const char*> kBatchTaskStates = {"waiting", "running", "done",
                                                                 "failed",  "skipped", "cancelled"};
constexpr Range kBatchTimes{.high = 4e15};
constexpr Range kBatchNumbers{.high = 1e15};
constexpr Range kBatchCounts{.high = 1e9};

void describe_run(Form& f, BatchRunNow& run) {
  f.lines("  ");
  f.document("AgentBatchRun");
  f.note("key", run.key, "of the run");
  f.boolean("over", run.over, "nothing of it is left on its GPUs");
  f.note("error", run.error, "why it cannot begin or go on");
  f.list("tasks", run.tasks, describe_batch_task, {.indent = "    "}, "of the run");
  f.notes("left", run.left, {.indent = "    "}, "instances that could not be destroyed");
  f.optional(!run.returned.empty())
      .notes("returned", run.returned, {.indent = "    "}, "GPUs that it has left, by UUID");
}

}  // namespace

const char* to_string(BatchTaskState state) {
  return kBatchTaskStates.begin()[static_cast<int>(state)];
}

bool is_over(BatchTaskState state) {
  return state != BatchTaskState::waiting && state != BatchTaskState::running;
}

std::string batch_key(const BatchKept& batch) {
  return fmt::format("{}-{}-{:x}", batch.number, batch.run, batch.received_ms);
}

void describe_batch_task(Form& f, BatchTask& task) {
  f.whole("batch", task.batch, kBatchNumbers, "its number");
  f.note("name", task.name, "of the task");
  f.word("state", task.state, kBatchTaskStates, "how far it is");
  f.optional(!task.gpu_uuid.empty()).note("gpu_uuid", task.gpu_uuid, "where it runs");
  f.optional(!task.profile.empty()).note("profile", task.profile, "of its MIG instance");
  f.optional(!task.profile.empty())
      .integer("start", task.start, {.high = 1023}, "first memory slice");
  f.optional(task.begin_ms > 0)
      .whole("begin_ms", task.begin_ms, kBatchTimes, "since 1970; waiting: as expected");
  f.optional(task.end_ms > 0)
      .whole("end_ms", task.end_ms, kBatchTimes, "since 1970; not over: as expected");
  f.optional(task.attempts > 0).integer("attempts", task.attempts, kBatchCounts, "so far");
  f.optional(!task.reason.empty()).note("reason", task.reason, "why it is as it is");
}

void describe_batch_kept(Form& f, BatchKept& batch) {
  f.lines("    ");
  f.whole("number", batch.number, kBatchNumbers, "of the batch");
  f.note("user", batch.user, "who handed it in");
  f.note("text", batch.text, "a tasks file");
  f.whole("received_ms", batch.received_ms, kBatchTimes, "since 1970");
  f.whole("run", batch.run, kBatchNumbers, "the last one; 0: none was begun");
  f.notes("gpus", batch.gpus, {.indent = "      "}, "of the run under way, by UUID");
  f.optional(!batch.returned.empty())
      .notes("returned", batch.returned, {.indent = "      "}, "those of them that it has left");
  f.list("over", batch.over, describe_batch_task, {.indent = "      "}, "tasks");
  f.integer("barren", batch.barren, kBatchCounts, "runs in a row that brought nothing");
  f.whole("not_before_ms", batch.not_before_ms, kBatchTimes, "of the next run");
  f.optional(!batch.cancelled_by.empty())
      .note("cancelled_by", batch.cancelled_by, "who; missing: it goes on");
  f.optional(batch.cancelled_ms > 0)
      .whole("cancelled_ms", batch.cancelled_ms, kBatchTimes, "since 1970");
  f.optional(!batch.paused_by.empty())
      .note("paused_by", batch.paused_by, "who; missing: it is not paused");
}

void describe_batch_past(Form& f, BatchPast& batch) {
  f.whole("number", batch.number, kBatchNumbers, "of the batch");
  f.note("user", batch.user, "who handed it in");
  f.whole("received_ms", batch.received_ms, kBatchTimes, "since 1970");
  f.whole("ended_ms", batch.ended_ms, kBatchTimes, "since 1970");
  f.integer("done", batch.done, kBatchCounts, "tasks");
  f.integer("failed", batch.failed, kBatchCounts, "tasks, or skipped");
  f.integer("cancelled", batch.cancelled, kBatchCounts, "tasks");
  f.optional(!batch.cancelled_by.empty())
      .note("cancelled_by", batch.cancelled_by, "who; missing: nobody");
}

std::string batch_run_json(const BatchRunNow& run) { return write_form(run, describe_run); }

Result<BatchRunNow> parse_batch_run(const std::string& file, std::string_view text) {
  return read_form<BatchRunNow>(file, text, describe_run);
}

std::vector<std::string> skip_after_failures(const std::vector<BatchNames>& tasks,
                                             std::vector<BatchTask>& over, long batch,
                                             std::int64_t now_ms) {
  std::map<std::string, BatchTaskState> known;
  for (const BatchTask& one : over) known[one.name] = one.state;
  // A file may name a task before the one that it comes after.
  for (bool again = true; again;) {
    again = false;
    for (const BatchNames& task : tasks) {
      if (known.contains(task.name)) continue;
      for (const std::string& before : task.after) {
        const auto found = known.find(before);
        if (found == known.end() || found->second == BatchTaskState::done) continue;
        known[task.name] = BatchTaskState::skipped;
        BatchTask& skipped = over.emplace_back();
        skipped.batch = batch;
        skipped.name = task.name;
        skipped.state = BatchTaskState::skipped;
        skipped.end_ms = now_ms;
        skipped.reason = before + " did not finish";
        again = true;
        break;
      }
    }
  }
  std::vector<std::string> left;
  for (const BatchNames& task : tasks)
    if (!known.contains(task.name)) left.push_back(task.name);
  return left;
}

}  // namespace partita::control
