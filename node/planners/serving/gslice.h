// The GSLICE planner (Dhakal et al., "GSLICE: Controlled Spatial Sharing of GPUs for a Scalable
// Inference Platform", SoCC'20): a baseline of MPS shares on whole GPUs, one share per service.
//
// Its controller watches a service, takes the largest batch that meets the limit (adaptive
// batching) and moves the share a step up while it falls short of its rate and a step down while
// it would keep it with less. Here the watching is a look at the profile, and the plan is where the
// controller comes to rest.
//
// No code is public; read after the abstract and ParvaGPU's account of it (SC24, Section II).
// Deviations:
//  - Steps of 5 %, from half a GPU on. The paper measures while it serves; what is measured here
//    lies between MIG sizes (shares.h), and neighbours cost nothing, as nothing of theirs is known.
//  - The paper has one GPU and scales shares down when they do not fit. Here services go, in the
//    order in which they are listed, onto the first GPU with as much free, or a new one.
//  - A service that needs more than one whole GPU is refused, as the paper has no answer to it.
//  - Its own rule is execution:0.5: how the SLO is split into waiting and running is our choice.
// Lower bounds are not claimed; anti_affinity, min_replicas and GPU counts are only checked.
#pragma once

#include "planners/serving/planner.h"

namespace partita::planners::serving {

Outcome plan_gslice(const plan::ServingProblem& problem, const Options& options);

}  // namespace partita::planners::serving
