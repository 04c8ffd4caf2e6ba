// What goes into the brain of a batch run and comes out of it (batch_executor.h): options, what an
// earlier process of the run left, events and actions. Values only.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "act/batch/operation.h"
#include "act/batch/run_journal.h"
#include "act/batch/script.h"
#include "base/processes.h"

namespace partita::exec {

struct Options {
  int retries = 0;                // of a task, after its first attempt failed
  Nanos grace = 10 * kSecond;     // from asking a process to end to killing it
  Nanos patience = 30 * kSecond;  // how long a refused reconfiguration is tried again
  Nanos pause = kSecond / 5;      // between two tries
  bool keep = false;              // leave the instances that are there at the end
};

// ---- what an earlier process of this run left (recovery.h) ----

struct PastTask {
  int attempts = 0;
  Nanos begin = 0;  // of the last attempt
  std::optional<Nanos> finished = {};
  std::optional<Pid> running = {};  // the attempt goes on, as this process of ours
  std::optional<int> status = {};   // the attempt ended with this while nobody watched
  bool stopped = false;             // it had been asked to end before its time
  bool left_out = false;            // its place in the order is over; not run
  std::optional<int> failed = {};   // it failed for good with this; else it is tried again
  bool operator==(const PastTask&) const = default;
};
struct PastVisit {
  enum class State { waiting, alive, stale, gone } state = State::waiting;
  Made made = {};
  Planned created = {};  // begin and end of its creation
  Nanos destroyed = 0;
  bool operator==(const PastVisit&) const = default;
};
struct Past {
  Nanos now = 0;
  std::vector<PastTask> tasks;    // as Script::tasks, or empty
  std::vector<PastVisit> visits;  // as Script::visits, or empty
  bool operator==(const Past&) const = default;
};

// ---- events and actions ----

struct OperationDone {
  Outcome outcome;
};
struct Started {
  int task = 0;
  Result<Pid> pid;
  Nanos begin = 0;  // before which it did not run
};
struct Exited {
  Pid pid = 0;
  int status = 0;
};
struct Interrupted {};  // somebody wants the run to end
// A GPU of the script is needed for something else: nothing new begins there, what is there goes as
// soon as it can be. `stop`: what runs there is ended; else it may come to its end.
struct Withdrawn {
  int gpu = 0;
  bool stop = false;
  bool operator==(const Withdrawn&) const = default;
};
using Event = std::variant<OperationDone, Started, Exited, Interrupted, Withdrawn>;

struct BeginOperation {
  Operation operation;
};
struct StartTask {
  int task = 0, attempt = 0;
  std::string device;  // UUID of the MIG device
};
struct StopTask {
  Pid pid = 0;
  StopSignal signal = StopSignal::terminate;
};
using Action = std::variant<BeginOperation, StartTask, StopTask>;

struct Actions {
  std::vector<Record> journal;  // to be made durable before the actions are performed
  std::vector<Action> actions;  // in this order
};

}  // namespace partita::exec
