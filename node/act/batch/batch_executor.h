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
#include <vector>

#include "act/batch/change_order.h"
#include "act/batch/task_runs.h"

namespace partita::exec {

class BatchExecutor {
 public:
  // Refers to `script`.
  BatchExecutor(const Script& script, const Options& options, const Past& past = {});

  Actions step(Nanos now, const std::vector<Event>& events);
  bool finished() const { return finished_; }
  // When to step at the latest, though nothing happened.
  std::optional<Nanos> next_wake() const;
  const RunReport& report() const { return notes_.report; }
  // A GPU that was withdrawn, and on which nothing of the run is left or will be again.
  bool has_left(int gpu) const;

 private:
  enum class Place { waiting, alive, stale, busy, gone, blocked };
  struct VisitNow {
    Place state = Place::waiting;
    Made made;
    std::optional<Nanos> refused_since;
    Nanos not_before = 0;        // of the next try
    std::vector<int> followers;  // visits that wait for its end
  };
  struct Current {
    int visit = 0;
    Operation::Kind kind = Operation::Kind::look;
    bool clean_up = false;  // of a half-made instance
    bool creates() const { return kind != Operation::Kind::destroy; }
  };

  void take_over(const Past& past);
  void handle(const OperationDone& event);
  void handle(const Started& event) { tasks_.started(event); }
  void handle(const Exited& event) { tasks_.exited(event); }
  void handle(const Interrupted& event);
  void handle(const Withdrawn& event);
  void looked(int visit, const std::vector<int>& present);
  void created(int visit, const Made& made);
  void destroyed(int visit, bool clean_up);
  void refused(const Current& current, const Outcome& outcome);
  void give_up_creating(int visit, const Error& error);
  void give_up_destroying(int visit, const Error& error);
  void lose_gpu(int gpu, const std::string& reason);

  void advance();
  void examine(int visit);
  void examine_waiting(int visit);
  void end(int visit, Place state);
  void begin_operation();
  void begin_operation(const Current& next, std::vector<int> present);

  bool keeps(int visit) const;
  ChangeRun& change_run(int visit, bool create);
  Record visit_record(Record::Kind kind, int visit) const;

  const Script& script_;
  Options options_;
  ChangeOrder order_;
  RunNotes notes_;
  TaskRuns tasks_;
  std::vector<VisitNow> visits_;
  std::set<int> alive_;         // visits
  std::map<int, Nanos> stale_;  // half-made instances, and when they may be cleaned up
  std::optional<Current> current_;
  std::size_t open_visits_ = 0;
  bool finished_ = false;
};

}  // namespace partita::exec
