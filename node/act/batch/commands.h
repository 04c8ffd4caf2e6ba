// Commands: how a task's command is started, where it leaves its output and its exit status, and
// how the processes of a run that was killed are found again. A command runs in a shell of its own
// inside one that notes the exit status in a file, so that it is known also to who comes later.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "act/batch/run_events.h"
#include "act/batch/recovery.h"

namespace partita::exec {

struct RunPaths {
  std::string run;      // name of the run, unique on this machine
  std::string log_dir;  // output and exit statuses of the tasks; empty: thrown away
};

// The environment has CUDA_VISIBLE_DEVICES (the MIG device), PARTITA_TASK, PARTITA_PROFILE,
// PARTITA_ATTEMPT and PARTITA_RUN.
ProcessSpec process_of(const Script& script, const StartTask& start, const RunPaths& paths);

// The running attempts of a run, by their environment: task and attempt to the process that leads
// their session. Of this user's processes, as far as the system shows them.
using Attempts = std::map<std::pair<std::string, int>, Pid>;
Attempts find_attempts(const std::string& run);

// The exit status of an attempt that was written down; nothing when none was.
std::optional<int> written_status(const Script& script, const StartTask& attempt,
                                  const RunPaths& paths, Files& files);

// Adopts those that run, and reads the exit statuses of the others where they are written down.
Traces follow(const Script& script, const std::vector<Record>& records, const Attempts& attempts,
              const RunPaths& paths, Processes& processes, Files& files);

}  // namespace partita::exec
