// The second phase of MIG-serving: generations of deployments that grow out of the first one.
// Deterministic; its budgets count steps of the tree search. Internal to mig_serving.
#pragma once

#include "planners/serving/mig_serving_configs.h"

namespace partita::planners::serving {

// Of the tree: children of a node, and random configurations that a playout chooses from.
inline constexpr std::size_t kTreeChildren = 8, kPlayoutChoices = 3;
inline constexpr int kTreePlayouts = 24;
// Of the generations: deployments that go on, and GPUs that a crossover takes off at most.
inline constexpr std::size_t kPopulation = 4, kCrossedGpus = 6;
inline constexpr int kMaxGenerations = 200;
inline constexpr long kMaxTreeSteps = 20'000;

struct Evolved {
  GpuConfigs deployment;
  long steps = 0;
};

// A deployment of as many GPUs or fewer; at most `budget` steps.
Evolved evolve(const ConfigSpace& space, GpuConfigs first, long budget);

}  // namespace partita::planners::serving
