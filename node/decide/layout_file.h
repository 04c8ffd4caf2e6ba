// What a file says to run on a node: a plan, or the state of a node. Read once, then taken by its
// kind.
#pragma once

#include <string>
#include <variant>

#include "decide/input.h"
#include "device/node_forms.h"
#include "plan/serving.h"

namespace partita::decide {

using LayoutFile = std::variant<plan::ServingPlan, device::StateDocument>;

// Refused with FILE:LINE where it is neither.
Result<LayoutFile> read_layout(const Document& document, const hw::Catalogue& catalogue);
Result<LayoutFile> load_layout(Files& files, const std::string& flag, const std::string& path,
                               const hw::Catalogue& catalogue);

// What runs now, from either. GPUs that are lost, and instances of which nobody knows the service,
// come back as such: nothing of them can be kept.
plan::ServingPlan running(LayoutFile layout);

// Says so when nothing of what runs can be kept because it serves others; empty when something can.
std::string serves_others(const plan::ServingPlan& current, const plan::ServingProblem& problem);

}  // namespace partita::decide
