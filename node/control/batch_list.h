// What is known of batches, for people and programs: those that are not over, and the newest of the
// others, as the documents `kind: AgentBatch` (one) and `kind: AgentBatches` (all). Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "control/batch.h"

namespace partita::control {

inline constexpr std::size_t kMostShownTasks = 500;  // of all batches together, in one document

enum class BatchState : std::uint8_t {
  waiting,     // nothing of it has a GPU
  running,     // it has some
  paused,      // nothing more of it begins
  cancelling,  // what runs of it is being stopped
  done,        // all tasks
  failed,      // it is over, and some tasks are not done
  cancelled,
};
const char* to_string(BatchState state);

struct BatchInfo {
  long number = 0;
  BatchState state = BatchState::waiting;
  std::string user = {};                               // who handed it in
  std::int64_t received_ms = 0;                        // since 1970
  std::int64_t ended_ms = 0;                           // 0: it is not over
  std::optional<std::int64_t> ends_ms = {};            // as scheduled
  std::string cancelled_by = {};                       // empty: nobody
  std::string paused_by = {};                          // empty: it is not paused
  int waiting = 0, running = 0, done = 0, failed = 0;  // tasks; failed: skipped ones, too
  int cancelled = 0;
  std::vector<std::string> gpus = {};  // UUIDs of those that it has now
  std::vector<BatchTask> tasks = {};   // of one that is over: those that are still kept
  bool operator==(const BatchInfo&) const = default;
};

// At most kMostShownTasks tasks, those of the first batches; numbers of tasks are whole.
std::string batches_json(const std::vector<BatchInfo>& batches);
Result<std::vector<BatchInfo>> parse_batches(const std::string& file, std::string_view text);
DocumentKind batches_kind();
// With all its tasks.
std::string batch_json(const BatchInfo& batch);
Result<BatchInfo> parse_batch(const std::string& file, std::string_view text);
DocumentKind batch_kind();

}  // namespace partita::control
