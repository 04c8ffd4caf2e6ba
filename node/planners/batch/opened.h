// A problem opened for scheduling: its forest, or the refusal that every scheduler gives alike.
#pragma once

#include <optional>
#include <string>

#include "planners/batch/forest.h"
#include "planners/batch/scheduler.h"

namespace partita::planners::batch {

// An Outcome that is one refusal.
Outcome refused(std::string constraint, std::string subject, std::string detail);

// A forest every task of which fits some node, or why there is none: gpu_model, does_not_fit.
struct Opened {
  std::optional<Forest> forest;
  Outcome refusal;
};
Opened open_problem(const plan::BatchProblem& problem);

}  // namespace partita::planners::batch
