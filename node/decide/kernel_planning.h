// From kernel profiles to a judged plan with its lanes, for `kernels plan`, the policy eclip of
// `kernels simulate`, and the demo.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "forms/kernel_forms.h"
#include "hw/topology.h"
#include "plan/judged.h"
#include "plan/kernels.h"
#include "plan/reason.h"
#include "planners/mask/right_size.h"
#include "profile/kernel_profile.h"

namespace partita::decide {

inline constexpr int kMaxSwitches = 1000;
// Entries of the planner's tables: kernels x numbers of units x switches, over all workers.
inline constexpr double kMaxPlanTable = 5e7;

// The problem of workers that share the GPU, where a kernel may have any of the numbers `configs`;
// no switch_cost, overlap of others. Refused if it is too large to be planned.
Result<plan::KernelProblem> kernel_problem(const hw::Topology& topology,
                                           const std::vector<profile::ModelKernels>& models,
                                           const std::vector<int>& configs, int switches);

// The numbers of units of every kernel.
std::vector<std::vector<int>> units_of_kernels(const plan::KernelProblem& problem,
                                               const plan::KernelPlan& plan);

// The exact plan and its lanes. An Error only if the judge refuses them.
Result<plan::Judged<plan::PlannedKernels>> plan_kernels(const plan::KernelProblem& problem,
                                                        const hw::Topology& topology, int atom);

// What the judge says of a plan that somebody else made. Its digest is not compared: only those who
// plan know between which numbers of units they chose.
std::vector<plan::Reason> violations_of(const forms::KernelClaim& claim);

// How many units each kernel of a model shall have. kernel: the fewest within the tolerance; model:
// the model's knee for all; critical, critical-greedy: the least units x time with the whole model
// within the tolerance.
planners::mask::RightSize right_size(const std::string& method, const profile::ModelKernels& model,
                                     double tolerance, const std::vector<int>& sizes);

}  // namespace partita::decide
