// What every serving planner does at its end: rows of services, predicted latencies, timings.
#pragma once

#include "planners/serving/planner.h"

namespace partita::planners::serving {

// CPU time of a planner, apart from what turning points into rates took under the queueing rule.
class Stopwatch {
 public:
  explicit Stopwatch(const Options& options) : options_(options), start_(now()) {}
  // Call when the best points are known.
  void points_done(const plan::SloRule& rule) {
    if (rule.kind == plan::SloRule::Kind::queueing) capacity_ms_ = now() - start_;
  }
  double capacity_ms() const { return capacity_ms_; }
  double planning_ms() const { return now() - start_ - capacity_ms_; }

 private:
  double now() const { return options_.cpu_ms ? options_.cpu_ms() : 0; }
  const Options& options_;
  double start_;
  double capacity_ms_ = 0;
};

// Fills in gpu_model, planner, rule, the service rows and the timings of a plan; refusals pass
// through. The plan's GPUs and objective are the planner's.
Outcome complete(Outcome outcome, const plan::ServingProblem& problem, const std::string& planner,
                 const Stopwatch& watch);

// The same options without progress: for what is solved on the side.
Options quietly(const Options& options);
// Whether the objective is proven: GPUs (or cost, in a fleet of several models) and compute slices
// at their bounds.
bool meets_its_bounds(const plan::ServingProblem& problem, const plan::Objective& objective);

}  // namespace partita::planners::serving
