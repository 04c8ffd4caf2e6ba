// What Slurm has run, as tasks for the batch commands: the text of `sacct -P -o ...` or `sacct
// --json`, of Slurm 20.11 and later. How long a job took is known on the size that it had; on
// others it is judged as the queue judges it (queue/times.h), by the same user's jobs of that name.
// What cannot be known is said. Times of day without a zone are taken for one zone. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/gpu_model.h"
#include "plan/batch.h"

namespace partita::slurm {

struct PastJob {
  std::string id, name, user, state;
  std::string tres;              // "cpu=4,gres/gpu:3g.40gb=1", what it had
  std::string comment, command;  // as far as sacct says
  std::optional<double> took_s = {};
  std::optional<long> submitted = {};  // seconds since 1970
  bool operator==(const PastJob&) const = default;
};

// Without the steps of jobs. bad_input with FILE:LINE: columns or keys that are needed are missing.
struct PastJobs {
  std::vector<PastJob> jobs;
  long torn = 0;  // rows with another number of cells than the header
};
Result<PastJobs> parse_sacct(const std::string& file, std::string_view text);

// Those that ended well on one instance or one GPU, by submission. `memory_gib`: no task needs more
// of the GPU; without it, sizes with less memory than any that a task ran on are none for it.
struct ImportedTasks {
  plan::BatchProblem problem;
  std::vector<std::string> said;  // what was left out and what is not known, a sentence each
};
Result<ImportedTasks> tasks_of(const PastJobs& past, const hw::GpuModel& model,
                               std::optional<double> memory_gib);

// "1-02:03:04", "02:03:04.5", "03:04"; seconds.
std::optional<double> parse_elapsed(std::string_view text);

}  // namespace partita::slurm
