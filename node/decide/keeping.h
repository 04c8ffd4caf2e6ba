// Planning beside what runs: every instance of a service that is asked for at its rate, or at more,
// stays as it is, and what is missing is made where there is room. Pure.
#pragma once

#include <vector>

#include "decide/beside_lent.h"

namespace partita::decide {

// As make_plan_beside for services of which nothing runs: with the fewest GPUs and compute slices,
// however many instances that takes.
Result<MadeAgain> make_new_beside(const plan::ServingProblem& problem,
                                  const plan::ServingPlan& current,
                                  const std::vector<LentPlace>& lent, const PlanOptions& options);

// As make_plan_beside, but that nothing of `planned` changes for a service of which no less is
// asked for than is planned: instances that stay may carry its promise whatever else is made. A
// service of which less is asked for is planned again. A pipeline, a language model or a set of
// which more is asked for is planned again, too. `current` is what runs; of it, and of `planned`,
// only what the problem asks for counts. No plan where there is no room beside what stays, or the
// judge refuses all of it together. Not for problems in which a GPU may be lost.
Result<Made<plan::ServingPlan>> make_plan_keeping(const plan::ServingProblem& problem,
                                                  const plan::ServingPlan& current,
                                                  const plan::ServingPlan& planned,
                                                  const std::vector<LentPlace>& lent,
                                                  const PlanOptions& options);

// Whether one can follow the other, instance after instance, so that no service of the problem is
// without all that it had before all that it shall have is there. False also where an instance is
// to have other batches or processes: its workers begin anew.
bool follows_in_turn(const plan::ServingProblem& problem, const plan::ServingPlan& current,
                     const plan::ServingPlan& next);

}  // namespace partita::decide
