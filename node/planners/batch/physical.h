// From decisions to a schedule. A decision is a list of visits: a visit is the life of an instance
// (created, runs tasks one after the other, destroyed when something else needs its slices). Of two
// visits that conflict the earlier one in the list lives first. Creates and destroys of a
// reconfigurer (a GPU's, or its node's) run one at a time, each as soon as it can; among those
// ready the Service rule chooses.
#pragma once

#include <optional>
#include <vector>

#include "planners/batch/forest.h"

namespace partita::planners::batch {

struct Visit {
  int node = 0;
  std::vector<int> tasks;  // in order; a visit without tasks is left out
};
using Visits = std::vector<Visit>;

// What a batch finds when it starts: instances that exist, when each is free, and when GPUs can be
// reconfigured next. Empty: nothing exists, everything is free at 0.
struct Start {
  struct Alive {
    int node = 0;
    Nanos free = 0;
    bool operator==(const Alive&) const = default;
  };
  std::vector<Alive> alive;         // pairwise without conflict
  std::vector<Nanos> column;        // per column (and token): free from then on; empty = all 0
  std::vector<Nanos> reconfigurer;  // each is free from then on; empty = all 0
};

enum class Service {
  first_ready,   // in the order of becoming ready, then of the list (FAR's Algorithm 1)
  longest_tail,  // the one with the longest chain of work behind it
};

struct Op {
  plan::Reconfiguration::Op op;
  int node = 0;
  Nanos begin = 0, end = 0;
};

struct Physical {
  std::vector<int> node;                      // per task, -1 when it is in no visit
  std::vector<std::vector<int>> others = {};  // per task the further ones that it has; may be empty
  std::vector<Nanos> begin, end;              // per task
  std::vector<Op> ops;                        // in order of begin
  Nanos makespan = 0;                         // last end of a task of these visits
  Start after;                                // what the next batch finds
};

// Times of everything. A visit on a node that still exists when its turn comes (alive at the start,
// or no conflicting visit since its last one) continues there, without a create. Release times
// and predecessors are obeyed when `problem` is given: a task waits, and its instance with it.
// Nothing when the visits wait for each other in a circle.
std::optional<Physical> realise(const Forest& forest, const Visits& visits, Service service,
                                const Start& start = {},
                                const plan::BatchProblem* problem = nullptr);

// The visits of an assignment (task -> node) in tree order: `forward`, larger instances before
// those inside them, as FAR does, or the reverse. Tasks in the order of `task_order` (all tasks of
// the batch, each once).
enum class Direction { forward, reverse };
Visits visits_of(const Forest& forest, const std::vector<int>& assignment, Direction direction,
                 const std::vector<int>& task_order);

// Tasks by falling time on their node, ties by number: the order in FAR's instances.
std::vector<int> longest_first(const Forest& forest, const std::vector<int>& assignment);
// By Smith's rule, rising time / priority: the order that finishes tasks early at the same
// makespan.
std::vector<int> smith_order(const Forest& forest, const plan::BatchProblem& problem,
                             const std::vector<int>& assignment);

// The schedule in the vocabulary's terms: names, placements, makespan; lower_bound 0, no claims.
plan::BatchSchedule to_schedule(const Forest& forest, const plan::BatchProblem& problem,
                                const Physical& physical);

}  // namespace partita::planners::batch
