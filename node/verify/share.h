// The judge's own reading of what was measured, for shares of a whole GPU without MIG. Nothing is
// credited or charged for what neighbours do to one another: it was not measured.
#pragma once

#include "profile/workload_profile.h"

namespace partita::verify {

// Points of the size `gpcs`, the whole GPU's, for a share of it: throughput and batches per second
// interpolated linearly between the nearest measured sizes, memory the larger of theirs.
profile::WorkloadProfile shared_workload(const profile::WorkloadProfile& measured, int gpcs,
                                         double percent);

}  // namespace partita::verify
