// The ParvaGPU planners (Lee et al., SC24, Algorithms 1 and 2): a baseline of legal plans only.
//
// Segment Configurator: per service the segment of most throughput per GPC, as often as it is fully
// used, then the smallest one that carries the rest. Segment Allocator: segments in descending
// size, each on the first GPU with room. Allocation Optimization: from the last GPU to the first,
// GPUs with few GPCs in use are dissolved into segments of sizes 1 and 2, which go to the first
// GPUs with room.
//
// Where the paper leaves a choice, or its released code is wrong:
//  - Latency: the problem's SLO rule decides (the paper halves the SLO; its code takes 0.45 of it).
//  - Starts: only those which strand no compute slice, so size 3 goes to slot 4 only, as in the
//    code ("priority" in the paper); size 2 to 0, 2, 4 (5 is no legal start). The code's overlaps
//    and lost segments cannot occur.
//  - No last segment is queued when nothing is left of the rate.
//  - SMALLSEGMENTS is not spelt out: here the better of sizes 1 and 2 per GPC while it is fully
//    used, then the smaller one. This gives the GPU and GPC counts of the code for all its
//    scenarios. Surplus is carried over.
//  - A segment is freed at its own throughput (the code credits some with another's), and put back
//    whole when its service cannot run on sizes 1 and 2 (the code crashes).
//  - The threshold of 4 GPCs is for GPUs of 7; others take the same share.
//  - A service without a feasible segment is refused (the code drops it); min_replicas is met by
//    adding smallest segments at the end; anti_affinity and GPU counts are only checked.
// Only the first fleet entry and its plain profiles are used. Lower bounds are not claimed.
#pragma once

#include "planners/serving/planner.h"

namespace partita::planners::serving {

// Plans of more segments are refused.
inline constexpr int kMaxSegments = 1'000'000;

// ParvaGPU as published.
Outcome plan_parvagpu(const plan::ServingProblem& problem, const Options& options);
// One process per instance: no MPS.
Outcome plan_parvagpu_single(const plan::ServingProblem& problem, const Options& options);
// Without the Allocation Optimization.
Outcome plan_parvagpu_unoptimized(const plan::ServingProblem& problem, const Options& options);

}  // namespace partita::planners::serving
