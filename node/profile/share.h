// What a model reaches on a share of a whole GPU, read off what was measured on its MIG sizes: a
// share of p % counts as p % of the largest size. Between two measured sizes throughput and batches
// per second are on the straight line; outside them nothing is known. Neighbours on the GPU cost
// nothing here: what they do to caches and memory was not measured.
#pragma once

#include "profile/workload_profile.h"

namespace partita::profile {

// The profile of a share, 0 < percent <= 100, of a GPU whose largest size has `gpcs`: its points
// have that size. Batches and processes that were not measured on both sides are left out.
WorkloadProfile at_share(const WorkloadProfile& profile, int gpcs, double percent);

}  // namespace partita::profile
