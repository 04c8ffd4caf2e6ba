// Session: the start of a run or its going on, as far as that is the journal's matter: which run
// this is, since when, and what an earlier process of it left. Holds the journal's lock (FILE.lock)
// while it lives. Reads the GPUs, changes nothing on them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "exec/run.h"

namespace partita::exec {

struct SessionFlags {
  std::string journal;  // path; empty: none is kept, nothing can go on
  bool resume = false;  // go on with the run of the journal
  std::string run;      // name of a new run
  std::string log_dir = {};
  // The running attempts of a run (find_attempts on real machines).
  std::function<Attempts(const std::string& run)> find = {};
};

struct Session {
  RunSettings settings;
  Past past;
  FileLock lock;
};

// With `resume` and no run in the journal a new one begins. Bad input: there is an unfinished run
// and `resume` is not set; the journal is damaged, or of another script. in_use: another process
// has it.
Result<Session> open_session(const Script& script, const Doors& doors, const SessionFlags& flags);

}  // namespace partita::exec
