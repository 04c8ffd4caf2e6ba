// Whether the workers' supervisor has let go of a MIG device or a whole GPU that was taken out of
// the assignment.
// A driver cannot tell: it knows who has opened the device, not who has only just been started or
// is about to be. Reads the supervisor's state file and the list of processes; changes nothing.
//
// Why it is enough: apply writes the assignment, then asks; the supervisor says in its state file
// that it follows, then reads the assignment. Whichever comes second sees what the other wrote.
#pragma once

#include <string>

#include "act/workers_state.h"
#include "base/files.h"
#include "base/processes.h"

namespace partita::actuate {

struct WorkersDoors {
  Processes& processes;
  Files& files;
  std::string state_file;  // workers_path()
};

// Who keeps the device (a GPU: alone or with others), in words; empty when nobody does and nobody
// will, as long as the assignment of `revision` is the last one and `device` is not in it. Refused:
// a damaged state file.
Result<std::string> workers_on(const WorkersDoors& doors, const std::string& device, long revision);

}  // namespace partita::actuate
