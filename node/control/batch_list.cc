#include "control/batch_list.h"

#include <algorithm>

#include "base/form_rules.h"

namespace partita::control {
namespace {

constexpr std::initializer_list<const char*> kBatchStates = {
    "waiting", "running", "paused", "cancelling", "done", "failed", "cancelled"};
constexpr Range kListTimes{.high = 4e15};
constexpr Range kListNumbers{.high = 1e15};
constexpr Range kListCounts{.high = 1e9};

void describe_info(Form& f, BatchInfo& b) {
  f.whole("number", b.number, kListNumbers, "of the batch");
  f.word("state", b.state, kBatchStates, "how far it is");
  f.note("user", b.user, "who handed it in");
  f.whole("received_ms", b.received_ms, kListTimes, "since 1970");
  f.optional(b.ended_ms > 0).whole("ended_ms", b.ended_ms, kListTimes, "since 1970; missing: not");
  long ends = static_cast<long>(b.ends_ms.value_or(0));
  f.optional(b.ends_ms.has_value()).whole("ends_ms", ends, kListTimes, "as scheduled");
  if (f.reading() && f.reading()->has("ends_ms")) b.ends_ms = ends;
  f.optional(!b.cancelled_by.empty()).note("cancelled_by", b.cancelled_by, "who; missing: nobody");
  f.optional(!b.paused_by.empty()).note("paused_by", b.paused_by, "who; missing: nobody");
  f.integer("waiting", b.waiting, kListCounts, "tasks");
  f.integer("running", b.running, kListCounts, "tasks");
  f.integer("done", b.done, kListCounts, "tasks");
  f.integer("failed", b.failed, kListCounts, "tasks, or skipped");
  f.integer("cancelled", b.cancelled, kListCounts, "tasks");
  f.notes("gpus", b.gpus, {}, "that it has now, by UUID");
  f.list("tasks", b.tasks, describe_batch_task, {.indent = "      "},
         "of one that is over: those that are still kept");
}

void describe_one(Form& f, BatchInfo& batch) {
  f.lines("  ");
  f.document("AgentBatch");
  describe_info(f, batch);
}

void describe_all(Form& f, std::vector<BatchInfo>& batches) {
  f.lines("  ");
  f.document("AgentBatches");
  f.list("batches", batches, describe_info, {.indent = "    "},
         "not over, and the newest others; newest first");
}

}  // namespace

const char* to_string(BatchState state) { return kBatchStates.begin()[static_cast<int>(state)]; }

std::string batches_json(const std::vector<BatchInfo>& batches) {
  std::vector<BatchInfo> shown = batches;
  std::size_t left = kMostShownTasks;
  for (BatchInfo& one : shown) {
    one.tasks.resize(std::min(one.tasks.size(), left));
    left -= one.tasks.size();
  }
  return write_form(shown, describe_all);
}

Result<std::vector<BatchInfo>> parse_batches(const std::string& file, std::string_view text) {
  return read_form<std::vector<BatchInfo>>(file, text, describe_all);
}

DocumentKind batches_kind() {
  return document_kind<std::vector<BatchInfo>, describe_all, "AgentBatches",
                       "the batches that an agent was handed">();
}

std::string batch_json(const BatchInfo& batch) { return write_form(batch, describe_one); }

Result<BatchInfo> parse_batch(const std::string& file, std::string_view text) {
  return read_form<BatchInfo>(file, text, describe_one);
}

DocumentKind batch_kind() {
  return document_kind<BatchInfo, describe_one, "AgentBatch",
                       "a batch that an agent was handed, with its tasks">();
}

}  // namespace partita::control
