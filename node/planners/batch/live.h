// Planning while running: what waits on some GPUs is planned again (tail.h) whenever something came,
// ended, or took longer than thought, and what is to begin now is said. Holds what runs, which
// instances exist and what is being created or destroyed; who carries it out reports what came of
// it. What has begun is never changed. Times are the caller's clock; task times are expectations.
// Deterministic. Single-threaded, no door.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "planners/batch/tail.h"

namespace partita::planners::batch {

using LiveOp = plan::Reconfiguration::Op;

struct LiveTask {
  long id = 0;                         // unique
  std::vector<plan::SizeTimes> times;  // expected, per GPU model; 0 where it does not fit
  double weight = 1;                   // > 0
  std::optional<Nanos> deadline = {};
  Nanos release = 0;
  std::vector<long> after = {};  // ids: of those that wait or run here it waits for the end
  double cv = 0;                 // of its time: standard deviation / mean
  long rank = 0;                 // tasks wait in the order of rank, then of id
  Nanos since = 0;               // when it came
  int cpus = 0;                  // of capacity()
  double ram_gib = 0;
};

struct LiveOptions {
  TailAim aim = {};
  // Slices wasted cost what they delay: `aim.area` grows with how busy the machine has been lately.
  double area_by_load = 1;
  Nanos load_window = 600 * plan::kNanosInSecond;
  long appends = 60'000;   // of the search of one planning
  int window = 1'000;      // of the waiting tasks the first so many are planned
  Nanos ageing = 0;        // a task's weight doubles in this time of waiting; 0: it stays
  std::uint64_t seed = 1;
};

struct Decisions {
  struct Start {
    long task = 0;
    int node = 0;
  };
  struct Change {
    LiveOp op = LiveOp::create;
    int node = 0;
  };
  std::vector<Start> starts;
  std::vector<Change> changes;  // at most one per reconfigurer that is free
  std::optional<Nanos> wake;    // when to decide again, though nothing happened
};

class LivePlanner {
 public:
  // On the GPUs of the problem; its tasks do not matter. bad_input as make_forest().
  static Result<LivePlanner> create(plan::BatchProblem problem, const LiveOptions& options);

  const Forest& forest() const { return forest_; }

  // ---- what happens
  // What all tasks together may use beside instances; 0: it is not counted.
  void capacity(int cpus, double ram_gib) { cpus_ = cpus, ram_gib_ = ram_gib; }
  void add(LiveTask task);     // it waits
  void change(LiveTask task);  // what is known of one that waits
  void remove(long id);  // one that waits
  // A task that was decided to start did not, or runs no more: its instance is idle.
  void ended(long id, Nanos now);
  // An instance that is there, though nobody here decided it; idle.
  void found(int node);
  // A task that runs there since then.
  void found_running(const LiveTask& task, int node, Nanos began);
  // What came of a change: done, or refused, and then the node is as it was before.
  void changed(const Decisions::Change& change, bool done, Nanos now);
  void vanished(int node);  // an idle instance is gone
  // Columns of the node are others' from now on, or no longer.
  void close(int node, bool closed);
  // Nothing is tried there until then: the driver has just refused.
  void avoid(int node, Nanos until);
  // Begins to destroy an idle instance that nobody waits for; false: not now.
  bool retire(int node, Nanos now);

  // ---- what to do
  Decisions decide(Nanos now);

  // ---- what is known
  bool waits(long id) const { return waiting_.contains(id); }
  std::optional<int> node_of(long running) const;
  std::size_t waiting() const { return waiting_.size(); }
  bool idle(int node) const;
  bool fits(long waiting, int node) const;
  std::vector<int> instances() const;
  // When it is expected to begin and end, by the last plan.
  struct Expected {
    int node = 0;
    Nanos begin = 0, end = 0;
  };
  std::optional<Expected> expected(long id) const;
  const TailPlan& last_plan() const { return plan_; }
  long plannings() const { return plannings_; }

 private:
  LivePlanner(plan::BatchProblem problem, Forest forest, const LiveOptions& options);

  struct Running {
    LiveTask task;
    int node = 0;
    Nanos began = 0;
    Nanos time = 0;  // expected
  };
  struct Instance {
    enum class State { creating, idle, busy, destroying } state = State::idle;
    Nanos until = 0;  // expected end of creating or destroying
    long task = 0;    // busy
  };

  void replan(Nanos now);
  TimedBatch tail(Nanos now);
  Start start(Nanos now) const;
  Nanos expected_end(const Running& running, Nanos now) const;
  double load(Nanos now);
  bool fits_somewhere(const LiveTask& task) const;
  void fill_times(Forest& forest) const;
  void take_starts(Nanos now, Decisions& decisions);
  void take_changes(Nanos now, Decisions& decisions);
  bool free_for(int node) const;
  bool can_begin(const LiveTask& task, Nanos now) const;
  bool has_room(const LiveTask& task) const;
  double least_area_of(const LiveTask& task) const;

  LiveOptions options_;
  plan::BatchProblem gpus_;  // without tasks
  Forest forest_;            // without tasks
  std::vector<int> gpcs_;    // per node
  std::map<long, LiveTask> waiting_;
  std::set<std::pair<long, long>> order_;  // rank and id of what waits
  std::map<long, Running> running_;
  std::map<int, Instance> instances_;   // by node
  std::vector<int> closed_;             // per column: how many close it
  std::map<int, Nanos> avoided_;        // nodes, and until when
  int cpus_ = 0;                        // in all; 0: not counted
  double ram_gib_ = 0;
  std::vector<char> reconfiguring_;     // per reconfigurer
  bool stale_ = true;                   // something happened that the plan did not foresee
  TailPlan plan_;
  std::vector<long> planned_;           // per task of the plan its id
  Nanos planned_at_ = 0;
  long plannings_ = 0;
  // Work that came lately: (time, least area in column nanoseconds).
  std::vector<std::pair<Nanos, double>> came_;
};

}  // namespace partita::planners::batch
