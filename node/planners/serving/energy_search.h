// Covers for all services that fit onto given GPUs and burn least. A local search with weights on
// what does not fit, then a depth-first search whose end is a proof. Deterministic.
#pragma once

#include <optional>
#include <vector>

#include "planners/serving/energy_covers.h"
#include "planners/serving/search.h"

namespace partita::planners::serving {

struct BurningProblem {
  const BurningKinds* kinds = nullptr;
  const Fleet* fleet = nullptr;
  std::vector<int> gpus;  // per model
  Prices prices{};        // of the classes, from the master of these GPUs
  double paid = 0;        // what these prices make of the GPUs: prices . N <= paid for all that fit
  double below = 0;       // only watts (of covers) below this are of interest
};

struct BurningResult {
  std::optional<Choice> choice;  // below `below`
  double watts = 0;              // of its covers
  bool exhausted = false;        // nothing below `below` has less than `bound`
  double bound = 0;
};

// `columns`: covers to begin with. Counts `nodes` down.
BurningResult search_burning(const BurningProblem& problem, const std::vector<Column>& columns,
                             long& nodes);

}  // namespace partita::planners::serving
