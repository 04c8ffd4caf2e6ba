// Forest: a batch problem flattened for search. Every legal placement of a plain MIG profile (of
// make_whole_forest: of nearly any) on
// every GPU is a node; placements are nested or disjoint, so the nodes of a GPU form trees. A
// column is a memory slice that decides something: the last memory slice of an A100 is covered only
// together with the one before, so it has none of its own. Nodes whose columns meet cannot exist at
// the same time; a node's ancestors and descendants are exactly those. Immutable once made.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index.h"
#include "base/result.h"
#include "hw/layout.h"
#include "plan/batch.h"

namespace partita::planners::batch {

using plan::Nanos;

// A time that is longer than any schedule; three of them can be added.
inline constexpr Nanos kNever = INT64_MAX / 4;

struct Node : hw::PlacedProfile {
  int gpu = 0;
  int size_class = 0;    // column of Forest::times; one per GPU model and size
  int parent = -1;       // the smallest node that contains it, or -1
  int first_column = 0;  // global number of its first column
  int columns = 0;       // how many it covers, consecutive
  Nanos create = 0, destroy = 0;
  bool plain = true;  // of a plain profile
  // A number after all columns, where of several nodes of the GPU one may exist at a time: those
  // with its media extensions. Else -1.
  int token = -1;
};

struct Forest {
  std::vector<Node> nodes;  // by GPU; within one, parents before children, left before right
  std::vector<std::vector<int>> children;  // per node, left to right
  std::vector<int> first_node;             // per GPU, and one past the last
  std::vector<int> first_column;           // per GPU, and one past the last
  int gpus = 0;
  int tokens = 0;
  plan::Reconfigurer reconfigurer;  // whose numbers Start::reconfigurer goes by
  int tasks = 0;
  int classes = 0;
  std::vector<int> class_columns;  // per class the fewest columns that a node of it covers
  std::vector<Nanos> times;        // tasks x classes, kNever where the task does not fit

  Nanos time(int task, int node) const {
    return times[at(task * classes) + at(nodes[at(node)].size_class)];
  }
  int columns() const { return first_column.back(); }
  int held() const { return columns() + tokens; }  // what nodes hold: columns, then tokens
  template <class Look>
  void each_held(int node, const Look& look) const {
    const Node& of = nodes[at(node)];
    for (int c = of.first_column; c < of.first_column + of.columns; ++c) look(c);
    if (of.token >= 0) look(of.token);
  }
  bool conflict(int a, int b) const;  // something held by both
  int reconfigurers() const { return reconfigurer.count(gpus); }
  int reconfigurer_of(int node) const { return reconfigurer.number(nodes[at(node)].gpu); }
};

// The forest of a problem. Unsupported when instances of a GPU model overlap without one containing
// the other, or when disjoint ones cannot exist together (no GPU of the catalogue).
Result<Forest> make_forest(const plan::BatchProblem& problem);
// Beside plain profiles also those of double memory and with media extensions (1g.20gb,
// 1g.10gb+me), each a class of its own; the problem's tasks fit none of these.
Result<Forest> make_whole_forest(const plan::BatchProblem& problem);

// Least area of a task, in column nanoseconds: over the sizes that it fits, time x columns.
Nanos least_area(const Forest& forest, int task);

// A time that no schedule undercuts, by areas and long tasks alone: the larger of the mean column
// (least areas over all columns, and the shortest create: a column that is used needs one, one that
// is not leaves more to the others; of GPUs that share a reconfigurer each waits for the creates of
// those before it) and, for each task, its shortest time with its create.
Nanos area_bound(const Forest& forest);

}  // namespace partita::planners::batch
