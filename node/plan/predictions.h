// What of a plan rests on predictions: on points of a profile that a law gave and nobody measured.
// Marks for readers; no decision and no verdict depends on them.
#pragma once

#include <string>

#include "plan/serving.h"

namespace partita::plan {

// The plan with its marks as the problem's profiles say, whatever it came with. An instance is
// predicted when a batch size of its curve, up to its largest, is.
ServingPlan with_predictions(const ServingProblem& problem, ServingPlan plan);

// A sentence for people on the marks of a plan: which services, learned on which GPU models, and
// whether these are others than the plan's. Empty when everything was measured. Names as they are.
std::string predictions_text(const ServingPlan& plan);

}  // namespace partita::plan
