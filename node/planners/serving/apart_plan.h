// Plans for services that must keep apart: the master's bound, a first plan by a dive, then fewer
// GPUs from the bound upwards, then fewer slices on that many. A bound is proven by the master
// alone; what dives do not find stands as a gap.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "planners/serving/apart_search.h"
#include "planners/serving/place.h"

namespace partita::planners::serving {

struct ApartResult {
  bool attempted = false;        // false: too many services that keep apart for the master
  double bound = 0;              // of GPUs, or of the price of a fleet of several models
  bool refuted_cheaper = false;  // nothing cheaper than the plan is possible
  std::optional<std::vector<FilledGpu>> gpus;
  std::vector<Counts> covers;  // per service
  std::vector<int> counts;     // GPUs per model
  int gpcs = 0;
  int gpc_bound = 0;  // at that price
  long nodes = 0;     // left
  std::vector<std::string> explanation;
};

struct ApartOptions {
  double bound = 0;  // what is known already
  long nodes = 0;    // search nodes that may be used; a linear program counts kNodesPerRow per row
};
inline constexpr long kNodesPerRow = 10;
ApartResult plan_apart(const plan::ServingProblem& problem, const Fleet& fleet,
                       const KindTable& kinds, const ApartOptions& options);

}  // namespace partita::planners::serving
