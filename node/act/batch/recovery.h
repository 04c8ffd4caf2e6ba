// Recovery: what an earlier process of a run left, from its journal, from the GPUs as they are now
// and from the traces of its task processes. Reads only. An instance counts as ours when the
// journal names its MIG device, or when its creation had been announced and what is now at that
// place is still without a compute instance or idle.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "act/batch/run_events.h"

namespace partita::exec {

// What became of attempts whose end nobody recorded, by task and attempt.
struct Traces {
  std::map<std::pair<std::string, int>, Pid>
      running;                                       // processes that live, and are ours (adopted)
  std::map<std::pair<std::string, int>, int> ended;  // exit statuses
};

// The attempts whose start is recorded and whose end is not.
std::vector<std::pair<std::string, int>> open_attempts(const std::vector<Record>& records);

// Bad input when the journal is of another script. Driver errors as read()'s.
Result<Past> recover(const Script& script, const std::vector<Record>& records, const Traces& traces,
                     device::NodeDriver& driver);

}  // namespace partita::exec
