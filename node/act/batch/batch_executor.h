// BatchExecutor: the brain that carries out a script. Single-threaded and without doors: step(now,
// events) -> actions; whoever runs it (run.h) performs the actions and reports what comes of them.
// It starts everything as early as the script's dependencies allow, one reconfiguration of the node
// at a time (as the driver does anyway), and ends with every instance that it made destroyed.
//
// On trouble: a failed attempt of a task is repeated, then the task has failed and those after it
// are skipped; one that takes too long is asked to end, then killed. A driver that refuses is asked
// again for `patience`; then the instance's tasks are not run, or the instance is left and named. A
// lost GPU ends what runs on it. All else goes on. Takes n log n steps altogether.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/processes.h"
#include "act/batch/change_order.h"
#include "act/batch/operation.h"
#include "act/batch/run_journal.h"
#include "act/batch/run_report.h"
#include "act/batch/script.h"

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

class BatchExecutor {
 public:
  // Refers to `script`.
  BatchExecutor(const Script& script, const Options& options, const Past& past = {});

  Actions step(Nanos now, const std::vector<Event>& events);
  bool finished() const { return finished_; }
  // When to step at the latest, though nothing happened.
  std::optional<Nanos> next_wake() const;
  const RunReport& report() const { return report_; }
  // A GPU that was withdrawn, and on which nothing of the run is left or will be again.
  bool has_left(int gpu) const;

 private:
  enum class Place { waiting, alive, stale, busy, gone, blocked };
  struct VisitNow {
    Place state = Place::waiting;
    Made made;
    std::size_t next = 0;  // the first of its tasks that is not settled
    int at_work = 0;       // its tasks under way: at most one
    std::optional<Nanos> refused_since;
    Nanos not_before = 0;        // of the next try
    std::vector<int> followers;  // visits that wait for its end
  };
  struct TaskNow {
    bool starting = false;
    std::optional<Pid> pid;
    int attempt = 0, failures = 0;
    std::optional<Nanos> stopped;  // when it was asked to end
    bool killed = false, timed_out = false;
    bool adopted = false;       // the attempt was started by an earlier process of the run
    bool stopped_then = false;  // which had asked it to end before its time
    std::string doomed;         // why it is not tried again; empty: it may be
    std::vector<int> followers;
  };
  struct Current {
    int visit = 0;
    Operation::Kind kind = Operation::Kind::look;
    bool clean_up = false;  // of a half-made instance
    bool creates() const { return kind != Operation::Kind::destroy; }
  };

  void take_over(const Past& past);
  void handle(const OperationDone& event);
  void handle(const Started& event);
  void handle(const Exited& event);
  void handle(const Interrupted& event);
  void handle(const Withdrawn& event);
  void looked(int visit, const std::vector<int>& present);
  void created(int visit, const Made& made);
  void destroyed(int visit, bool clean_up);
  void refused(const Current& current, const Outcome& outcome);
  void give_up_creating(int visit, const Error& error);
  void give_up_destroying(int visit, const Error& error);
  void lose_gpu(int gpu, const std::string& reason);
  void attempt_ended(int task, int status);
  void settle(int task, TaskStatus status, const std::string& reason);
  void drop_tasks(int visit, const std::string& reason);
  void doom(int task, const std::string& reason);

  void advance();
  void examine(int visit);
  void examine_waiting(int visit);
  void start_next(int visit);
  void end(int visit, Place state);
  void keep(int visit);
  void watch_times();
  void begin_operation();
  void begin_operation(const Current& next, std::vector<int> present);
  void update_finished();

  bool settled(int task) const;
  bool all_settled(VisitNow& visit, const Visit& script) const;
  bool keeps(int visit) const;
  ChangeRun& change_run(int visit, bool create);
  void record(Record record);
  Record visit_record(Record::Kind kind, int visit) const;
  Record attempt_record(Record::Kind kind, int task) const;

  const Script& script_;
  Options options_;
  ChangeOrder order_;
  RunReport report_;
  std::vector<VisitNow> visits_;
  std::vector<TaskNow> tasks_;
  std::map<Pid, int> by_pid_;
  std::set<int> alive_;         // visits
  std::set<int> withdrawn_;     // GPUs of the script
  std::set<int> touched_;       // visits to be examined
  std::map<int, Nanos> stale_;  // half-made instances, and when they may be cleaned up
  std::optional<Current> current_;
  std::size_t open_visits_ = 0, open_tasks_ = 0;
  bool finished_ = false;
  Nanos now_ = 0;
  Actions out_;
};

}  // namespace partita::exec
