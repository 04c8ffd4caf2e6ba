// From an order of tasks and a node for each to times, fast enough to be called hundreds of
// thousands of times a second. Each task is appended to the instance on its node; where that
// instance does not exist, the instances in its way are destroyed after their last tasks and it is
// created, each reconfiguration in the earliest gap that the others of its reconfigurer leave.
// Predecessors come earlier in the order, so nothing waits in a circle. Same rules as realise(),
// which differs only in how concurrent reconfigurations take turns. visits() and realise() of them
// agree where nothing exists at the start.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "planners/batch/forest.h"
#include "planners/batch/physical.h"

namespace partita::planners::batch {

using Wide = __int128;

// A batch problem with numbers for names. Weights are the priorities in steps of 2^-30 of the
// largest, so that sums are exact and do not depend on the order of adding.
struct TimedBatch {
  Forest forest;
  std::vector<Nanos> release, deadline;  // deadline kNever: none
  std::vector<std::int64_t> weight;      // at least 1
  std::vector<std::vector<int>> before;  // per task its predecessors, each once, ascending
  std::vector<std::vector<int>> behind;  // per task its successors
  std::vector<int> topological;          // predecessors first; ties by number
  // Per task how many nodes of its class it takes at once, all for as long as it runs; empty: one.
  // A choice names one of them; which the others are follows: those that are available first.
  std::vector<int> width = {};
  int width_of(int task) const { return width.empty() ? 1 : width[at(task)]; }
  double weight_unit = 1;  // priority of weight 1
  // What it finds; empty: nothing exists, everything is free at 0. A column without an instance
  // that is never free again is kNever.
  Start start = {};
};

// Names in `after` that are no task's are passed over. CHECKs that there is no cycle.
TimedBatch make_timed(const plan::BatchProblem& problem, Forest forest);

// What is decided: the order of appending, predecessors first, and per task its node, one that it
// fits.
struct Choice {
  std::vector<int> order;
  std::vector<int> node;
  bool operator==(const Choice&) const = default;
};

// What a choice is worth; less is better, the first member first. Units: weight x nanoseconds.
struct Worth {
  Wide lateness = 0;
  Nanos makespan = 0;
  Wide finishing = 0;  // sum of weight x end
  auto operator<=>(const Worth&) const = default;
};

// One scalar out of a Worth: weighted values, and weighted excesses over a target.
struct Energy {
  double lateness = 0, makespan = 0, finishing = 0;  // per unit
  double lateness_excess = 0, makespan_excess = 0;   // per unit above the target
  double lateness_target = 0, makespan_target = 0;
  double of(const Worth& worth) const;
};

class TimedDecoder {
 public:
  explicit TimedDecoder(const TimedBatch& batch);

  // Forgets all tasks.
  void clear();
  // Where a task appended to the node now could begin, releases and predecessors aside.
  Nanos available(int node);
  // Appends a task whose predecessors have all been appended; returns its end.
  Nanos append(int task, int node);
  // Where the last one runs: that node first.
  const std::vector<int>& taken() const { return taken_; }
  Nanos end(int task) const { return end_[static_cast<std::size_t>(task)]; }
  // When a task's release has passed and its predecessors, appended before, have ended.
  Nanos ready(int task) const;
  const Worth& worth() const { return worth_; }

  // clear() and append all; stops early as soon as the energy exceeds `limit`, and says so.
  bool play(const Choice& choice, const Energy& energy, double limit);
  Worth play(const Choice& choice);
  // The times of everything; `after` is left empty.
  Physical physical(const Choice& choice);
  // The visits that the choice means.
  Visits visits(const Choice& choice);

 private:
  struct Life {
    int node = 0;
    Nanos end = 0;    // of its last task, or of its creation
    Nanos gone = -1;  // end of its destruction; -1: exists
  };
  struct Lean {  // of a Node, what appending reads
    int reconfigurer = 0, first_column = 0, columns = 0, size_class = 0, token = -1;
    Nanos create = 0, destroy = 0;
  };
  struct Span {
    Nanos begin = 0, end = 0;
  };
  struct Gap {
    Nanos begin = 0;
    std::size_t position = 0;
  };

  void find(const Start& start);
  Gap gap(const std::vector<Span>& busy, Nanos ready, Nanos length) const;
  int alive(int node) const;
  void find_in_the_way(const Lean& node);
  void take_others(int node, int count);
  int open(int node_index);
  void record(plan::Reconfiguration::Op op, int node, Nanos begin, Nanos end);

  const TimedBatch& batch_;
  std::vector<Lean> nodes_;
  std::vector<Life> lives_;
  std::vector<int> last_;                // per column and token its latest life, or -1
  std::vector<std::vector<Span>> busy_;  // per reconfigurer what it does, ascending
  std::vector<Life> found_lives_;        // as the batch finds them
  std::vector<int> found_last_;
  std::vector<std::vector<Span>> found_busy_;
  std::vector<Nanos> end_;       // per task
  std::vector<int> in_the_way_;  // lives, by end
  std::vector<int> taken_;       // nodes
  Nanos gone_ = 0;               // when the latest destroyed one in the way is gone
  Worth worth_;
  bool recording_ = false;
  std::vector<Op> ops_;
  std::vector<std::vector<int>> others_;  // per task, while recording
};

}  // namespace partita::planners::batch
