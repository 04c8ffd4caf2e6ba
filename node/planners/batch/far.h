// FAR (family of allocations and repartitioning): Villarrubia, Costero, Igual, Olcoz, "Improving
// GPU multi-tenancy through dynamic multi-instance GPU reconfiguration", JPDC 204 (2025), Sections
// 3 and 5. Phase 1 makes a family of allocations (far_family.h); phase 2 (Algorithm 1) schedules
// each by list scheduling down the tree of instances and keeps the shortest; phase 3
// (far_refine.h) moves and swaps tasks of that one.
// The schedule is made with realise() under FAR's own service rule, first_ready, in every ablation
// alike. It differs from Algorithm 1's own times where those destroy an instance for nothing, and
// where a create becomes ready while a destroy waits.
// Deviations: an instance of 3 slices at the start of an A100 blocks the fourth in phase 3 too; the
// refined schedule is kept only when it is shorter with its real creates and destroys; several GPU
// models (far_family.h); release times and predecessors are obeyed, not planned for. Allocations
// that provably cannot be shorter are left out, which changes nothing else. Limit: at most
// kMaxListed tasks are listed in phase 2, over all allocations; those that come later in the family
// are left out.
#pragma once

#include <vector>

#include "planners/batch/forest.h"
#include "planners/batch/physical.h"
#include "planners/batch/scheduler.h"

namespace partita::planners::batch {

inline constexpr long kMaxListed = 100'000'000;

enum class FarPhases {
  whole,
  unrefined,  // phases 1 and 2
  first,      // phase 2 of the first allocation alone
};

// A list schedule of one allocation.
struct ListSchedule {
  std::vector<int> assignment;  // task -> node
  Nanos makespan = 0;           // as Algorithm 1 counts it
};

struct FarResult {
  std::vector<int> assignment;  // task -> node
  Visits visits;
  Physical physical;             // of the visits; no release times, no predecessors
  Nanos makespan = 0;            // physical.makespan
  int moves = 0, swaps = 0;      // of phase 3, also when its schedule was not kept
  Nanos unrefined_makespan = 0;  // before phase 3
  Nanos list_makespan = 0;       // before phase 3, as Algorithm 1 counts it
  long listed = 0;               // tasks listed in phase 2
};

// FAR on a forest, every task of which fits some node.
FarResult far_on(const Forest& forest, FarPhases phases = FarPhases::whole);

// The `most` shortest different list schedules of the whole family, shortest first; among equals
// the earlier allocation. Start points for searches.
std::vector<ListSchedule> far_assignments(const Forest& forest, int most);

// The scheduler `far`. Argument: "" whole, "unrefined", "first".
Outcome far(const plan::BatchProblem& problem, const Options& options);

}  // namespace partita::planners::batch
