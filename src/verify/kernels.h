// The judge of kernel plans: recomputes everything from the problem alone. Pure.
#pragma once

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
// Numbers are compared with a relative 1e-9. That a bound is true is the planner's claim.
std::vector<plan::Reason> verify(const plan::KernelProblem& problem, const plan::KernelPlan& plan);

}  // namespace partita::verify
