// Problems for planner tests: random services over random or published profiles, and oracles that
// share nothing with the planners but hw's layouts: exhaustive search, and CBC on the
// straightforward integer program.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/rng.h"
#include "plan/serving.h"

namespace partita::planning_test {

// Throughput per size under the rule, one row per service: what a plan may take from each plain MIG
// profile. rates[service][k], k over hw::plain_profiles; 0 when no point meets the rule.
std::vector<std::vector<double>> rates_of(const plan::ServingProblem& problem,
                                          const plan::FleetEntry& entry);

// One GPU model, `services` random services (at most that many), each its own random profile with
// one point per size; sizes are missing now and then, throughput grows with the size at random.
plan::ServingProblem random_problem(Rng& rng, const std::string& gpu, int services, double scale);

// Random services over the published profiles of eleven models, and the published scenarios.
plan::ServingProblem published_problem(Rng& rng, int services, double scale);
plan::ServingProblem scenario(int number);

// GPUs and compute slices of an optimum (fewest GPUs, then fewest slices) by exhaustive search. For
// tiny problems.
std::pair<int, int> brute_force(const plan::ServingProblem& problem);

// The same by CBC; nothing when CBC is not built in or does not finish in time. With several fleet
// entries `first` is the least price instead of the number of GPUs.
struct MilpOptimum {
  double first = 0;
  int gpcs = 0;
};
std::optional<MilpOptimum> milp(const plan::ServingProblem& problem);

}  // namespace partita::planning_test
