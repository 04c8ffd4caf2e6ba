// Planning while running: what waits on some GPUs is planned again (tail.h) whenever something
// came, ended, or took longer than thought, and what is to begin now is said. Who carries that out
// reports what came of it to machine(). What has begun is never changed. Task times are
// expectations. Deterministic. Single-threaded, no door.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planners/batch/live_machine.h"
#include "planners/batch/tail.h"

namespace partita::planners::batch {

struct LiveOptions {
  TailAim aim = {};
  int scenarios = 5;  // as which times may turn out, where they are not exact; 0: none
  int draws = 100;    // more of them for what is decided as times turn out, where few tasks wait
  // So many tasks that may yet come are planned for, while no more than so many wait, per GPU.
  int arrivals = 8;
  double crowd = 3;
  // While more wait: slices that are wasted delay them all.
  TailAim crowded = {.finishing = 1, .makespan = 3, .area = 4};
  // While more wait and no more comes: what is wasted delays nobody else.
  TailAim last = {.finishing = 1, .makespan = 30};
  // Of the search of one planning of 300 tasks or more; of fewer up to three times as many.
  long appends = 100'000;
  int window = 400;  // of the waiting tasks the first so many are planned
  Nanos ageing = 0;  // a task's weight doubles in this time of waiting; 0: it stays
  std::uint64_t seed = 1;
};

struct Decisions {
  struct Start {
    long task = 0;
    std::vector<int> nodes;
  };
  std::vector<Start> starts;
  std::vector<LiveChange> changes;  // at most one per reconfigurer that is free
  std::optional<Nanos> wake;        // when to decide again, though nothing happened
};

class LivePlanner {
 public:
  // On the GPUs of the problem; its tasks do not matter. bad_input as make_forest().
  static Result<LivePlanner> create(plan::BatchProblem problem, const LiveOptions& options);

  LiveMachine& machine() { return machine_; }
  const LiveMachine& machine() const { return machine_; }

  void add(LiveTask task);         // it waits
  void change(LiveTask task);      // what is known of one that waits
  void remove(long id);            // one that waits
  void came(LiveTask task);        // it came once: what is known of what may yet come
  std::size_t remembered() const;  // so many of these count

  // What begins now: it has begun for the planner, and whoever asked does it.
  Decisions decide(Nanos now);

  bool waits(long id) const { return waiting_.contains(id); }
  const std::map<long, LiveTask>& waiting() const { return waiting_; }  // by id
  bool fits(long waiting, int node) const { return machine_.time(waiting_.at(waiting), node) > 0; }
  // When a waiting task is expected to begin and end, by the last plan.
  struct Expected {
    int node = 0;
    Nanos begin = 0, end = 0;
  };
  std::optional<Expected> expected(long id) const;
  long plannings() const { return plannings_; }  // with a search

 private:
  LivePlanner(LiveMachine machine, const LiveOptions& options);

  void replan(Nanos now);
  TimedBatch tail(Nanos now);
  void choose_window();
  double weight(const LiveTask& task, Nanos now) const;
  bool crowded() const {
    return static_cast<double>(planned_.size()) > options_.crowd * machine_.forest().gpus;
  }
  long appends(int tasks) const;
  bool expects(Nanos now) const;  // more to come
  void forget_arrivals(Nanos now);
  void take(const Choice& choice, Nanos now);
  void add_arrivals(TimedBatch& batch, Nanos now) const;
  std::vector<TimedBatch> scenarios(const TimedBatch& batch, Nanos now, int count,
                                    std::uint64_t seed) const;
  std::vector<TimedBatch> futures(Nanos now, int count, int each);
  void roll_out(Nanos now);
  bool ready(const LiveTask& task, Nanos now) const;
  void take_starts(Nanos now, Decisions& decisions);

  LiveOptions options_;
  LiveMachine machine_;
  std::vector<int> of_class_;  // a node of each class
  std::map<long, LiveTask> waiting_;
  std::set<std::pair<long, long>> order_;  // rank and id of what waits
  bool came_something_ = true;             // since the last plan
  long surprises_ = 0;                     // of the machine, that the plan knows
  TailPlan plan_;
  std::vector<long> planned_;   // per task of the plan its id
  std::map<long, int> number_;  // the other way
  Nanos planned_at_ = 0;
  long plannings_ = 0;
  std::deque<LiveTask> came_;  // the last of all that came
};

}  // namespace partita::planners::batch
