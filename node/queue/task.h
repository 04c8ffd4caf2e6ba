// What waits in a queue: a task as somebody submitted it, and what became of it. Values; forms are
// in task_forms.h. Times of day are milliseconds since 1970.
// Limits: kMaxOpenTasks that have not ended, kMostOfUser of one user where nothing else is said,
// kMaxArray tasks of one submission.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/processes.h"
#include "hw/layout.h"

namespace partita::queue {

inline constexpr std::size_t kMaxOpenTasks = 200'000;
inline constexpr int kMaxArray = 100'000;
inline constexpr int kMostOfUser = 100'000;
inline constexpr std::size_t kMaxCommand = 65'536;  // bytes
inline constexpr int kMaxRetries = 1'000;
inline constexpr int kMaxGpus = 64;      // instances of one task
inline constexpr int kMaxPriority = 10;  // and as far below 0

enum class State {
  waiting,
  held,
  starting,  // about to be started: whether it was, the machine says
  running,
  done,       // it ended with status 0
  failed,     // any other way, after all retries
  cancelled,  // by somebody
  skipped,    // what it waits for will not come
};
const char* to_string(State state);
bool is_over(State state);
// "task 7, which it waits for, ended as failed"
std::string ended_otherwise(long task, State state);

// Until when a task waits for another one.
struct Dependency {
  enum class Kind { ok, any, not_ok };  // it ended with status 0; it ended; it did not end with 0
  long task = 0;
  Kind kind = Kind::ok;
  bool met_by(State ended) const;
  bool operator==(const Dependency&) const = default;
};

// How long it takes on an instance of so many compute slices, as far as its owner knows.
struct KnownTime {
  int gpcs = 0;  // 0: on any
  double time_s = 0;
  bool operator==(const KnownTime&) const = default;
};

struct Spec {
  std::string name;     // its times are learned under this name; empty: under its command
  std::string command;  // for /bin/sh
  std::string user;
  std::string directory = {};  // where it runs; empty: where the queue does
  int count = 1;               // an array: so many tasks, $PARTITA_ARRAY_INDEX from 0
  std::vector<Dependency> after = {};
  int priority = 0;                         // each step counts twice as much
  std::optional<double> deadline_s = {};    // from its submission
  std::optional<double> time_limit_s = {};  // of one attempt
  int retries = 0;
  std::optional<double> memory_gib = {};   // of the GPU that it needs
  std::vector<std::string> profiles = {};  // that it may run on; none: all that have the memory
  std::vector<KnownTime> times = {};
  double time_cv = 0.3;  // of these
  int gpus = 1;          // so many instances of one profile at once; of none named, whole GPUs
  int cpus = 0;
  double ram_gib = 0;
  bool preemptible = false;     // may be ended for one of higher priority, and begins again later
  std::string checkpoint = {};  // run before that; its end is waited for
  bool held = false;            // waits until it is released
  bool flexible = false;        // may wait for cheap hours, as long as it meets its deadline
  bool operator==(const Spec&) const = default;
};

// Where an attempt runs.
struct Place : hw::Placement {
  int gpu = 0;         // of the node
  std::string device;  // UUID of the MIG device
  bool operator==(const Place&) const = default;
};

struct Task {
  long id = 0;     // from 1, ascending
  long array = 0;  // id of the first task of its array; 0: none
  int index = 0;   // within the array
  Spec spec;
  State state = State::waiting;
  long submitted_ms = 0;
  int attempts = 0, failures = 0;
  long began_ms = 0, ended_ms = 0;  // of the last attempt
  int status = 0;                   // its exit status
  std::string reason = {};          // why it is not done
  std::vector<Place> places = {};   // of the attempt under way, or the last one
  std::string ending = {};          // why its attempt was asked to end: an outcome of Run
  Pid pid = 0;                      // running
  std::string identity = {};        // of that process
  std::string boot = {};            // of the machine, when it was started
  bool operator==(const Task&) const = default;
};

// One attempt that ended.
struct Run {
  long task = 0;
  int attempt = 0;
  long began_ms = 0, ended_ms = 0;
  int status = 0;
  std::string outcome;  // "done", "failed", "timed out", "preempted", "cancelled", "lost"
  std::vector<Place> places = {};
  // That its instances took, of what was measured; nothing: nobody measured all the while.
  std::optional<double> energy_j = {};
  // Of CPUs and memory, its part by its CPU time; of that, idle power. Nothing: not all told.
  std::optional<double> host_energy_j = {}, host_idle_j = {};
  // By the tariff of the hours in which it ran; and what waiting saved: against the hours from its
  // submission on. Nothing: nobody said, or it does not wait for hours.
  std::optional<double> cost = {}, co2_g = {}, saved_cost = {}, saved_co2_g = {};
  bool operator==(const Run&) const = default;
};

}  // namespace partita::queue
