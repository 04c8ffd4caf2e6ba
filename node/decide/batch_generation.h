// Batches made up after FAR's paper (sim/batch_generator.h) from the words that people choose, with
// release times and deadlines on top. Pure: same words, same batch.
#pragma once

#include <string>

#include "decide/batch_inputs.h"
#include "sim/batch_generator.h"

namespace partita::decide {

struct BatchWords {
  int count = 0;
  std::string scaling = "mixed", times = "wide";
  std::string shares, time_range;  // empty: as scaling and times say
  double super_linear = sim::BatchRecipe{}.super_linear;
  double transition = sim::BatchRecipe{}.transition_probability;
  std::string clip = "clamp", after_transition = "sub-linear", leftovers = "largest-remainder";
  std::string order = "shuffled";
  double releases = 0;   // seconds over which tasks are released
  double deadlines = 0;  // times the shortest time, after the release; 0: none
  std::uint64_t seed = 1;
};

// Refusals name the flag: --shares, --time-range and those of the recipe's parts.
Result<plan::BatchProblem> generate_batch(const BatchWords& words, const GpuList& gpus);

}  // namespace partita::decide
