// What requests of language models burn, where watts count: as those of other services they keep
// their part of a GPU as busy as full batches would. A replica is busy for a request while it
// computes its prompt, and for its part of every step of a full batch: of as many sequences as it
// may have at once, as keep TPOT, and as its KV cache holds. With prefill apart, or beside, either
// kind of engines is busy on its own part. Smaller batches, of replicas that are asked for little,
// burn more per request than that.
#pragma once

#include "plan/serving.h"
#include "profile/token_engine.h"

namespace partita::planners::serving {

// Joules above idle of a request, with so many sequences at once at most; `entry` has a power.
double joules_per_answer(const plan::FleetEntry& entry, const plan::Service& service,
                         const profile::TokenEngine& engine, int sequences);

}  // namespace partita::planners::serving
