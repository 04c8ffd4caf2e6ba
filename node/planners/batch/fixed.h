// FixPart (Section 6.5 of FAR: Villarrubia et al., JPDC 204, 2025): one layout for the whole batch.
// Its instances are created at the start and never destroyed; every task in turn, in FIFO order,
// goes to the one of those it fits that is free first (the first in the layout among equals).
// Deviations: the creates take their time (the paper's are free); instances that get no task are
// not created; tasks that a layout has no room for are a refusal; release times are waited for and
// predecessors come first. Several GPUs: the layout on each of them.
#pragma once

#include <string>
#include <vector>

#include "hw/layout.h"
#include "planners/batch/scheduler.h"

namespace partita::planners::batch {

// Compute slices of the instances of a layout in words, largest first: "4g+2g+1g", "4+2+1",
// "7x1g". bad_input for anything else.
Result<std::vector<int>> parse_layout(const std::string& text);
// "4g+2g+1g", from sizes largest first.
std::string layout_name(const std::vector<int>& sizes);

// Instances of these sizes (largest first) that may exist together on the model, from its plain
// profiles: of the first maximal layout with exactly these sizes, else part of the first one with
// these and others. bad_input, with all possible layouts, when there is none.
Result<hw::Layout> find_layout(const hw::GpuModel& model, const std::vector<int>& sizes);

// The scheduler `fixed`; argument: the layout.
Outcome fixed(const plan::BatchProblem& problem, const Options& options);
// The scheduler `fixed-best`: the shortest schedule of all maximal layouts, the first among equals.
// With several GPU models one model's layout after the other is changed until nothing improves, so
// the result may not be the best combination.
Outcome fixed_best(const plan::BatchProblem& problem, const Options& options);

}  // namespace partita::planners::batch
