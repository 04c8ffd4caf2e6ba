// The gpulet planner (Choi et al., "Serving Heterogeneous Machine Learning Models on Multi-GPU
// Servers with Spatio-Temporal Sharing", USENIX ATC'22, elastic partitioning): a baseline of MPS
// shares on whole GPUs, at most two to a GPU.
//
// Services in ascending rate x SLO. While some of a service's rate is left, its ideal size is the
// smaller of the most efficient one (the end of the steepest step of throughput over size) and the
// smallest that carries what is left. It goes to the smallest free second half that is as large and
// takes all of it, else to a new GPU, where it takes the ideal size and leaves the rest free. Its
// batch grows while execution latency, and in a second half interference, stay below the limit.
//
// Read with the public code of ParvaGPU's authors (github.com/0909wlgur/Gpulet at d1303a6, which
// made ParvaGPU's figures); casys-kaist/glet is that of the paper. Deviations:
//  - Sizes are 20, 40, 50, 60, 80 and 100 % as there; what a model reaches on them lies between its
//    MIG sizes (shares.h), where they measured under MPS.
//  - Interference: their linear model and coefficients. It asks for the L2 and memory utilisation
//    of both, which profiles lack: here the means over their ten models at 50 % of the GPU by
//    batch (data/published/gpulet), in proportion to the share.
//  - As in their code, the utilisation of the service itself is that of the ideal size.
//  - Throughput over size is read at batch 16, or where that was not measured at the next smaller
//    one (else the smallest). All measured batches are tried, theirs end at 64.
//  - A size or half where no batch meets the limit is passed over; theirs takes batch 1 and misses.
//  - No time sharing of one partition (the paper has it, the code does not).
//  - Its own rule is execution:0.5, as the paper wants 2 x latency <= SLO.
// Lower bounds are not claimed; anti_affinity, min_replicas and GPU counts are only checked.
#pragma once

#include "planners/serving/planner.h"

namespace partita::planners::serving {

// What its second partition on a GPU adds to a batch, for two batches on two shares, percent.
struct Gpulet {
  int batch = 0;
  double percent = 0;
};
Millis gpulet_interference(const Gpulet& mine, const Gpulet& other);

Outcome plan_gpulet(const plan::ServingProblem& problem, const Options& options);

}  // namespace partita::planners::serving
