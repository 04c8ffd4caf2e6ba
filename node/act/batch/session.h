// Session: the start of a run or its going on, as far as that is the journal's matter: which run
// this is, since when, and what an earlier process of it left. Holds the journal's lock (FILE.lock)
// while it lives. Reads the GPUs, changes nothing on them.
#pragma once

#include <functional>
#include <string>

#include "act/batch/run.h"

namespace partita::exec {

struct SessionFlags {
  std::string journal;  // path; empty: none is kept, nothing can go on
  bool resume = false;  // go on also with a run that is over: what did not finish is tried again
  std::string run;      // name of a new run
  std::string log_dir = {};  // each run has a directory in it, which is made; empty: none
  // The running attempts of a run (find_attempts on real machines).
  std::function<Attempts(const std::string& run)> find = {};
  // Asked before a new run begins; an error refuses it.
  std::function<Result<void>()> may_begin = {};
};

struct Session {
  RunSettings settings;
  Past past;
  std::string open_mark = {};  // the file that end_session removes; empty: no journal is kept
};

// Goes on with the journal's run when that did not end, else begins a new one. Bad input: the
// journal is damaged, or its unfinished run is one of another script. in_use: another process has
// it.
Result<Session> open_session(const Script& script, const Doors& doors, const SessionFlags& flags);

// Notes that the run is over, once its report is with whom it is for. Nothing of one that was
// interrupted.
Result<void> close_session(const Session& session, const RunReport& report, const Doors& doors);
// The last deed of a run that is over, for just before its process ends: from now on the same
// command begins a new one. Until then it only reports again, since whoever started the process
// saw no end of it. Takes no time, as close_session does, which waits for the disk.
Result<void> end_session(const Session& session, const RunReport& report, Files& files);

}  // namespace partita::exec
