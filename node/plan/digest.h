// Digests of problems: 16 hexadecimal digits that a plan carries (key `problem_digest`), so that a
// plan for other inputs is recognised. Against mistakes, not against forgers. Equal for equal
// content, whatever the order of services, GPU models, points, tasks or names that keep apart, and
// whatever file it came from.
#pragma once

#include <string>

#include "plan/batch.h"
#include "plan/kernels.h"
#include "plan/power.h"
#include "plan/serving.h"

namespace partita::plan {

// Of the services with their traffic, the SLO rule, how many GPUs may be lost and, per GPU model
// of the fleet, the points of the models that the services use, with where predicted ones come
// from. How many GPUs there are, what they cost and how many processes may share an instance
// does not count: a plan made under tighter limits answers the same question.
std::string digest(const ServingProblem& problem);

// Of the tasks with their times on the GPUs' models, releases and predecessors, and of the GPUs.
// Commands, deadlines and priorities are wishes and do not count.
std::string digest(const BatchProblem& problem);

// Of all of it; workers and options are known by their place.
std::string digest(const KernelProblem& problem);

// Of the services, the points of their models, the powers of the idle board, gating and promise.
// How many GPUs there are, their cap and what unused ones take do not count.
std::string digest(const PowerProblem& problem);

}  // namespace partita::plan
