// The judge of kernel plans: recomputes everything from the problem alone. Pure.
#pragma once

#include <optional>
#include <vector>

#include "plan/kernels.h"
#include "plan/reason.h"

namespace partita::verify {

// All violations; empty means the plan is right. Word, subject, meaning:
//   workers     plan       not as many as the problem has
//   kernels     worker W   not one option per kernel
//   option      worker W   an option that the problem does not have
//   switches    worker W   more than the budget, or another number than the options make
//   time        worker W   disagrees with the options
//   mean_units  worker W   disagrees with the options
//   objective   plan       disagrees with the workers
//   bound       plan       above the objective, or optimal although it is below
//   lane        worker W   the lane of some units has another number of kernels than the plan
//               plan       a lane of no worker
//   lane_units  worker W   a lane of another number of units than it says, or units that the GPU
//                          has not
//   die         worker W   a lane without a unit of some die, or with shares of the dies that
//                          differ by more than an atom: its least share, and that of equal ones
//   atom        worker W   a lane that splits atoms: how many units of its mask are in such
//   predicted   worker W   what it is said to take beside the others is not what the plan comes to
// Numbers are compared with a relative 1e-9. That a bound is true is the planner's claim.
std::vector<plan::Reason> verify(const plan::KernelProblem& problem, const plan::KernelPlan& plan);
// The lanes of a plan that is right.
std::vector<plan::Reason> verify(const plan::KernelProblem& problem, const plan::KernelPlan& plan,
                                 const plan::Lanes& lanes, const hw::Topology& topology);
// The times of the workers beside the others, where they are stated.
std::vector<plan::Reason> verify(const plan::KernelProblem& problem, const plan::KernelPlan& plan,
                                 const std::vector<std::optional<double>>& predicted);

}  // namespace partita::verify
