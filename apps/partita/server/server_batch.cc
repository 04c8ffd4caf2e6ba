#include <fmt/format.h>

#include "base/input.h"
#include "base/table.h"
#include "control/batch_list.h"
#include "past/past.h"
#include "server/remote.h"

namespace partita::cli {

namespace {

std::string time_or_nothing(std::int64_t ms) { return ms > 0 ? local_time(ms) : ""; }

std::string tasks_table(const std::vector<control::BatchTask>& tasks) {
  Table table{{"BATCH", "TASK", "STATE", "GPU", "INSTANCE", "BEGIN", "END", ""}, {}};
  for (const control::BatchTask& one : tasks)
    table.rows.push_back({std::to_string(one.batch), one.name, control::to_string(one.state),
                          one.gpu_uuid,
                          one.profile.empty() ? "" : fmt::format("{}@{}", one.profile, one.start),
                          time_or_nothing(one.begin_ms), time_or_nothing(one.end_ms), one.reason});
  return table.rows.empty() ? std::string() : to_string(table);
}

std::string end_of(const control::BatchInfo& one) {
  if (one.ended_ms > 0) return local_time(one.ended_ms);
  return one.ends_ms ? "about " + local_time(*one.ends_ms) : "";
}

std::string batches_table(const std::vector<control::BatchInfo>& batches) {
  Table table{{"BATCH", "STATE", "BY", "HANDED IN", "END", "WAIT", "RUN", "DONE",
               "FAILED OR SKIPPED", "CANCELLED", ""},
              {}};
  for (const control::BatchInfo& one : batches)
    table.rows.push_back({std::to_string(one.number), control::to_string(one.state), one.user,
                          local_time(one.received_ms), end_of(one), std::to_string(one.waiting),
                          std::to_string(one.running), std::to_string(one.done),
                          std::to_string(one.failed), std::to_string(one.cancelled),
                          one.cancelled_by.empty() ? "" : "cancelled by " + one.cancelled_by});
  return to_string(table);
}

}  // namespace

// The tasks of batches that are not over; the rest in numbers.
std::string batch_text(const control::BatchNow& batch) {
  if (batch.waiting + batch.running + batch.done + batch.failed + batch.cancelled == 0) return {};
  std::string text =
      fmt::format("batches: {} tasks wait, {} run, {} are done, {} failed or were skipped",
                  batch.waiting, batch.running, batch.done, batch.failed);
  if (batch.cancelled > 0) text += fmt::format(", {} were cancelled", batch.cancelled);
  return text + "\n" + tasks_table(batch.tasks);
}

Result<std::string> batches_answer_text(const std::string& answer) {
  const auto batches = TRY(control::parse_batches("the server's answer", answer));
  return batches.empty() ? "no batch has been handed in\n" : batches_table(batches);
}

Result<std::string> batch_answer_text(const std::string& answer) {
  const auto batch = TRY(control::parse_batch("the server's answer", answer));
  return batches_table({batch}) + "\n" + tasks_table(batch.tasks);
}

// A batch beside the agent's services. How it is carried out is the agent's policy.
Result<Exit> remote_batch_run(const Remote& remote) {
  if (!remote.said.positionals().empty())
    return bad_input("SCHEDULE", "an agent schedules tasks itself: hand in --tasks FILE alone");
  for (const char* flag :
       {"--scheduler", "--seed", "--budget", "--gpu", "--command", "--retries", "--timeout",
        "--grace", "--patience", "--keep", "--simulate", "--resume", "--state-dir", "--log-dir"})
    if (remote.said.given(flag))
      return bad_input(flag,
                       "not with --server: policy.batch of the agent's settings says how "
                       "batches are carried out, and each task has its own command");
  const std::string file = remote.said.text("--tasks");
  if (file.empty()) return bad_input("--tasks", "is required: a tasks file");
  const auto text = TRY(read_input(remote.context.files, "--tasks", file));
  return remote.ask("submit_tasks", "", text);
}

}  // namespace partita::cli
