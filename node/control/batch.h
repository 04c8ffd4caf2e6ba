// Batches beside services: what a loop keeps of a batch that was handed in, what it tells whoever
// carries one out, and what that tells of it. A batch is carried out in runs: one run is the tasks
// that are left, on whole GPUs that no service has meanwhile. A run is known by its key, never made
// twice: who carries it out finds by it what an earlier process left. Values, and their forms.
// Limits: kMostBatches, kMostBatchTasks, kMostBatchText.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "base/result.h"
#include "hw/layout.h"

namespace partita::control {

inline constexpr std::size_t kMostBatches = 200;          // that are not over
inline constexpr std::size_t kMostBatchTasks = 2'000;     // of a batch
inline constexpr std::size_t kMostBatchText = 1u << 20U;  // of all batches that are not over
inline constexpr std::size_t kMostPastBatches = 100;      // that are over, kept
inline constexpr std::size_t kMostPastTasks = 200;        // kept of batches that are over

enum class BatchTaskState : std::uint8_t {
  waiting,  // with a place and times: as scheduled
  running,
  done,       // its command ended with status 0
  failed,     // it ended with another one, or cannot be run
  skipped,    // a task that it comes after has failed
  cancelled,  // its batch was, before it came to its end
};
const char* to_string(BatchTaskState state);
bool is_over(BatchTaskState state);

struct BatchTask : hw::Placement {  // no profile: it has no place yet
  long batch = 0;
  std::string name = {};
  BatchTaskState state = BatchTaskState::waiting;
  std::string gpu_uuid = {};
  std::int64_t begin_ms = 0, end_ms = 0;    // since 1970; of what is not over: as expected
  int attempts = 0;
  std::string reason = {};  // why it failed, was skipped or waits again
  bool operator==(const BatchTask&) const = default;
};

// A batch that is not over.
struct BatchKept {
  long number = 0;
  std::string user = {}, text = {};  // a tasks file
  std::int64_t received_ms = 0;
  long run = 0;                            // number of the last run; 0: none was begun
  std::vector<std::string> gpus = {};      // UUIDs, of the run that is not over; empty: none is
  std::vector<std::string> returned = {};  // those of them that the run has left for good
  std::vector<BatchTask> over = {};        // tasks
  int barren = 0;                          // runs in a row that brought nothing
  std::int64_t not_before_ms = 0;          // of the next run
  std::string cancelled_by = {};           // who; empty: it goes on
  std::int64_t cancelled_ms = 0;           // when
  std::string paused_by = {};              // who; empty: it is not paused
  bool operator==(const BatchKept&) const = default;
};

// A batch that is over, in short.
struct BatchPast {
  long number = 0;
  std::string user = {};
  std::int64_t received_ms = 0, ended_ms = 0;
  int done = 0, failed = 0, cancelled = 0;  // tasks; failed: skipped ones, too
  std::string cancelled_by = {};            // who; empty: nobody
  bool operator==(const BatchPast&) const = default;
};

// ---- what is told to whoever carries batches out ----

struct BatchGpu {
  int index = 0;  // the driver's
  std::string uuid = {}, model = {};
  bool leave = false;  // wanted back: nothing new begins there
  bool stop = false;   // and what runs there is ended
  bool operator==(const BatchGpu&) const = default;
};

// A run that shall be under way.
struct BatchDeed {
  std::string key = {};
  long batch = 0;
  std::string tasks = {};              // text of a tasks file
  std::vector<std::string> over = {};  // those of its tasks that are not part of this run
  std::int64_t waited_ms = 0;          // since the batch was handed in: releases count from then
  std::vector<BatchGpu> gpus = {};
  int retries = 0;     // of a task that fails
  double grace_s = 0;  // from asking a task to end to killing it
  bool operator==(const BatchDeed&) const = default;
};

// ---- what that tells ----

struct BatchRunNow {
  std::string key = {};
  bool over = false;                       // nothing of it is left on its GPUs
  std::string error = {};                  // why it cannot begin or go on; empty: it does
  std::vector<BatchTask> tasks = {};       // those not over did not run, or were stopped
  std::vector<std::string> left = {};      // instances that could not be destroyed, and why
  std::vector<std::string> returned = {};  // GPUs that were wanted back and have nothing of it
  bool operator==(const BatchRunNow&) const = default;
};

std::string batch_key(const BatchKept& batch);

void describe_batch_task(Form& f, BatchTask& task);
void describe_batch_kept(Form& f, BatchKept& batch);
void describe_batch_past(Form& f, BatchPast& batch);
// The document `kind: AgentBatchRun`; parse_batch_run(batch_run_json(r)) == r.
std::string batch_run_json(const BatchRunNow& run);
Result<BatchRunNow> parse_batch_run(const std::string& file, std::string_view text);

// The tasks of a batch by name, with those that they come after, in the order of the file.
struct BatchNames {
  std::string name;
  std::vector<std::string> after;
};
// The tasks that are left when `over` are: those after a task that failed become skipped there.
std::vector<std::string> skip_after_failures(const std::vector<BatchNames>& tasks,
                                             std::vector<BatchTask>& over, long batch,
                                             std::int64_t now_ms);

}  // namespace partita::control
