// Search: good assignments of tasks to nodes for batches without times of their own, by annealing,
// by re-inserting a few tasks exactly among the others (large-neighbourhood search), and by branch
// and bound to the end where that is affordable. Deterministic; stops at a number of steps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planners/batch/forest.h"

namespace partita::planners::batch {

struct SearchOptions {
  std::uint64_t seed = 1;
  long heuristic_steps = 0;  // annealing moves; a branch-and-bound node counts as kBranchCost
  long proof_steps = 0;      // branch-and-bound nodes for the whole batch at once
  std::function<void(const std::string&)> progress = {};  // a line at every stage; may be empty
};
inline constexpr long kBranchCost = 4;

struct Found {
  std::vector<std::vector<int>> pool;  // assignments, the shortest first, each length once
  Nanos length = 0;                    // longest column of the first
  Nanos lower_bound = 0;               // no assignment, hence no schedule, is shorter
  long steps = 0;
};

// At most kPoolSize assignments, none longer than the shortest of `starts`; at least one start.
inline constexpr std::size_t kPoolSize = 12;
Found search(const Forest& forest, const std::vector<std::vector<int>>& starts,
             const SearchOptions& options);

// A start: tasks by falling least area, each where it adds least to length and mean column.
std::vector<int> greedy(const Forest& forest);

// The longest column of an assignment.
Nanos length_of(const Forest& forest, const std::vector<int>& assignment);

// Heuristic steps that suit the size of a batch, some 25 ms for up to 100 tasks on one GPU.
long usual_steps(const Forest& forest);

}  // namespace partita::planners::batch
