// The judge of power: looks every share up in the response table, asks its own queue
// (paced_queue.h) whether the SLO holds, and adds up power and energy by itself. Shares nothing
// with the planners. Pure.
#pragma once

#include <vector>

#include "plan/power.h"
#include "plan/reason.h"

namespace partita::verify {

// All violations; empty means the plan is right. Word, subject, meaning:
//   gpus        plan       more than there are, or used and unused do not add up
//   gating      plan       counts on another gating than the problem allows
//   promise     plan       made for another meaning of "within the SLO"
//   clock       gpu G      not a clock of the table
//   units       gpu G      its shares have more units than it has
//   point       share      the table has no such units or batch for the model
//   service     share      the problem has no such service, or the GPU has two shares of it
//   rate        service    its shares carry another rate than it has
//   slo         share      late under its rate
//   cap         gpu G      less than it takes when all shares are busy, or above the problem's
//   power       gpu G, plan  not what the table comes to
//   bound       plan       above the power, or optimal although below it
// Numbers are compared with a relative 1e-6. That a bound is true is the planner's claim.
std::vector<plan::Reason> verify(const plan::PowerProblem& problem, const plan::PowerPlan& plan);

// The same words for the steps of a schedule ("at 12 s"); `steps` where it has another number than
// the trace, `energy`, `changes` where they are not what the settings come to.
std::vector<plan::Reason> verify(const plan::PowerProblem& problem, const plan::PowerTrace& trace,
                                 const plan::TransitionCost& cost,
                                 const plan::PowerSchedule& schedule);

}  // namespace partita::verify
