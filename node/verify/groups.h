// Whether groups of GPUs that serve a language model together stand as they must. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/serving.h"
#include "verify/findings.h"

namespace partita::verify {

// Groups of GPUs: one instance alone on each, which are alike and follow one another. Where all
// GPUs are of one model, or their NVLink domains are known one by one, their numbers say which
// domain a group is in; else there has to be a way to give every group a domain with room for it.
void check_groups(const plan::ServingPlan& plan, const plan::FleetEntry& entry, bool only_model,
                  Findings& findings);

// By position of a GPU in the plan: the positions of those that serve nothing any more when it is
// lost, itself among them: all of its group.
std::vector<std::vector<std::size_t>> lost_with(const plan::ServingPlan& plan);

}  // namespace partita::verify
