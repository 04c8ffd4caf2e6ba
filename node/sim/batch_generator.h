// Synthetic batches after FAR, Section 6.3 (Villarrubia et al., JPDC 204, 2025): a task runs well
// up to the size of its class and badly beyond it. What the paper leaves open is a named option;
// the defaults are the readings that fit its text best. Times are generated for every size up to
// the largest of the GPU models and those that a model does not have are dropped, so a batch is the
// same on all models of one largest size. Deterministic: same recipe, models and seed, same batch.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "plan/batch.h"

namespace partita::sim {

inline constexpr plan::Nanos kShortestGeneratedTime = 1'000'000;  // 1 ms; shorter ones become it

// "N(mean, deviation) clipped to [a, b]": values outside become the nearer end (and exact ties of
// time x size arise), or are drawn again.
enum class Clip { clamp, truncate };

// What follows the super-linear part of a memory-bound task, once it has become compute-bound.
enum class Transition {
  sub_linear,   // the paper's example of the A30
  near_linear,  // up to the size of its class, as for compute-bound tasks
  none,         // it never does
};

// Shares times count are floored; what is left goes to the class farthest below its share (the
// paper's footnote; the smaller class among equals), or all to the smallest class with a share (the
// authors' script).
enum class Leftovers { largest_remainder, smallest_class };

// Tasks that run well up to `gpcs` compute slices.
struct ClassShare {
  int gpcs = 0;
  double share = 0;
  bool operator==(const ClassShare&) const = default;
};

struct BatchRecipe {
  int count = 10;
  std::vector<ClassShare> shares;     // ascending gpcs; the shares add up to 1
  Seconds shortest{1}, longest{100};  // on one slice, uniform between
  // Per class the share of tasks that are memory-bound: super-linear from one slice to two. Rounded
  // up. The paper prints 0.5 in one figure only; its Table 4 fits 0.
  double super_linear = 0.5;
  double transition_probability = 0.3;  // per further slice
  Clip clip = Clip::clamp;
  Transition transition = Transition::sub_linear;
  Leftovers leftovers = Leftovers::largest_remainder;
  bool shuffle = true;  // false: class after class, memory-bound first
};

enum class Scaling { poor, mixed, good };
enum class TimeRange { wide, narrow };

// The six configurations of the paper for the sizes of a GPU model: poor = half of the tasks in
// each of the two smallest classes, mixed = the same share in all, good = half in each of the two
// largest; wide = 1 to 100 s, narrow = 90 to 100 s.
BatchRecipe batch_recipe(const hw::GpuModel& model, Scaling scaling, TimeRange range);

// How many tasks each class of a valid recipe gets.
std::vector<int> class_counts(const BatchRecipe& recipe);

// The batch: tasks t1, t2, ... with as many digits as the last needs, times in whole nanoseconds.
// bad_input when a number of the recipe is out of range.
Result<plan::BatchProblem> generate_batch(const BatchRecipe& recipe,
                                          const std::vector<hw::GpuModel>& models,
                                          const std::vector<int>& gpus, std::uint64_t seed);

}  // namespace partita::sim
