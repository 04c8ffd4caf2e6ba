// The state between two plans: everything that both want, at once, on as few GPUs more as were
// found. Internal to decide.
#pragma once

#include "plan/changes.h"
#include "plan/serving.h"

namespace partita::decide {

struct Between {
  // The old plan as it is once all that is in the way of the new one has its stand-ins: the same
  // instances, some of them elsewhere. For the judge, against the old rates.
  plan::ServingPlan stood_in;
  plan::Changes changes;
  int stand_ins = 0;
  int gpus = 0;  // in use with the old plan, the new one and the stand-ins at once
};

// Both plans are judged, and of this problem's fleet. Stand-ins go where there is room on a GPU
// that either plan uses, else on spare ones; services that keep apart do so there too.
Between between(const plan::ServingProblem& problem, const plan::ServingPlan& from,
                const plan::ServingPlan& to);

}  // namespace partita::decide
