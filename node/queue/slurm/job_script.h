// A job script of Slurm's, by its #SBATCH lines, as a submission to the queue. What the queue has
// no word for, and what only Slurm knows, is said. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "queue/task.h"

namespace partita::slurm {

struct JobScript {
  queue::Spec spec;
  std::vector<std::string> said;  // what was left out and what is not known, a sentence each
};

// `path`: where the script is, which the task runs. bad_input with FILE:LINE: options that cannot
// be read, values that are none.
Result<JobScript> parse_job_script(const std::string& file, std::string_view text,
                                   const std::string& path);

// Seconds of Slurm's "30" (minutes), "30:00", "1:30:00", "2-0", "2-12:00", "2-12:00:00"; nothing:
// it is none. UNLIMITED and 0 are no limit, infinite.
std::optional<double> parse_time_limit(std::string_view text);

}  // namespace partita::slurm
