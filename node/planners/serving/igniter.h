// The iGniter planner (Xu et al., "iGniter: Interference-Aware GPU Resource Provisioning for
// Predictable DNN Inference in the Cloud", IEEE TPDS 34(3), 2022, Algorithms 1 and 2): a baseline
// of MPS shares on whole GPUs, one share per service.
//
// The batch is what arrives within the limit; the least share is the smallest, in steps of 2.5 %,
// on which that batch meets it alone. Services in descending least share: on every GPU the shares
// of all, the new one's too, are raised step by step until nobody misses the limit beside the
// others; the GPU where that costs least takes the service, a new one where none has the room.
//
// Read with the public code, github.com/icloud-ecnu/igniter at 074bbb1. Deviations:
//  - What a batch takes alone is measured, between MIG sizes (shares.h); theirs fits five
//    coefficients to nine measurements.
//  - The batch is rounded to a measured one, the larger or the smaller neighbour, whichever needs
//    the smaller share; so that the rate is carried, throughput is asked for as well.
//  - Interference: theirs asks for every model's L2 utilisation, power and kernels. Here L2
//    contention slows a batch in proportion to the others' shares, as their four models slow one
//    another on average, and the scheduler delays an average number of kernels (data/published/
//    igniter, V100; igniter_test recomputes the constants).
//  - No clock throttling by power and no PCIe transfer: not known for the GPUs and models here.
//  - A service that needs more than one whole GPU is refused ("workload is too large" there).
//  - Its own rule is execution:0.5: the code halves the SLO.
// Lower bounds are not claimed; anti_affinity, min_replicas and GPU counts are only checked.
#pragma once

#include "planners/serving/planner.h"

namespace partita::planners::serving {

// What a batch that takes `alone` takes beside others on its GPU: how many, of how much together.
Millis igniter_latency(Millis alone, int others, double others_percent);

Outcome plan_igniter(const plan::ServingProblem& problem, const Options& options);

}  // namespace partita::planners::serving
