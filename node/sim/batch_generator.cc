#include "sim/batch_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "hw/layout.h"

namespace partita::sim {
namespace {

using plan::Nanos;

constexpr double kRounding = 1e-9;  // of products like 10 x 0.3

// Components of a batch that draw from streams of their own.
enum Stream : std::uint64_t { kTimes = 1, kOrder = 2 };

struct Speedup {
  double mean, deviation, low, high;
};
constexpr Speedup kSuperLinear{-0.25, 0.25, -0.5, 0};
constexpr Speedup kNearLinear{0.1, 0.1, 0, 0.2};
constexpr Speedup kSubLinear{0.75, 0.25, 0.5, 1};

// Box and Muller, one of the two values.
double normal(Rng& rng) {
  const double radius = std::sqrt(2 * rng.exponential());
  return radius * std::cos(2 * std::numbers::pi * rng.uniform());
}

double draw(const Speedup& speedup, Clip clip, Rng& rng) {
  while (true) {
    const double value = speedup.mean + speedup.deviation * normal(rng);
    if (clip == Clip::clamp) return std::clamp(value, speedup.low, speedup.high);
    if (speedup.low <= value && value <= speedup.high) return value;
  }
}

struct Kind {
  int gpcs = 0;
  bool memory_bound = false;
};

std::vector<Kind> kinds_of(const BatchRecipe& recipe) {
  const std::vector<int> counts = class_counts(recipe);
  std::vector<Kind> kinds;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    const int gpcs = recipe.shares[c].gpcs;
    const double bound = std::ceil(recipe.super_linear * counts[c] - kRounding);
    for (int i = 0; i < counts[c]; ++i) kinds.push_back({gpcs, gpcs > 1 && i < bound});
  }
  return kinds;
}

// Times on 1, 2, ... `largest` slices, seconds.
std::vector<double> times_of(const Kind& kind, const BatchRecipe& recipe, int largest, Rng& rng) {
  const double range = recipe.longest.value - recipe.shortest.value;
  std::vector<double> times = {recipe.shortest.value + range * rng.uniform()};
  bool memory_bound = kind.memory_bound;
  for (int s = 1; s < largest; ++s) {
    if (memory_bound && s > 1 && recipe.transition != Transition::none) {
      memory_bound = rng.uniform() >= recipe.transition_probability;
    }
    const bool sub_linear = s >= kind.gpcs || (kind.memory_bound && !memory_bound &&
                                               recipe.transition == Transition::sub_linear);
    const Speedup& speedup = sub_linear ? kSubLinear : memory_bound ? kSuperLinear : kNearLinear;
    const double r = draw(speedup, recipe.clip, rng);
    times.push_back((s + r) / (s + 1) * times.back());
  }
  return times;
}

Result<void> check(const BatchRecipe& recipe) {
  const auto fraction = [](double value) { return value >= 0 && value <= 1; };
  if (recipe.count < 0 || recipe.count > plan::kMaxTasks) {
    return bad_input("count",
                     fmt::format("{} tasks, not between 0 and {}", recipe.count, plan::kMaxTasks));
  }
  double sum = 0;
  int last = 0;
  for (const ClassShare& share : recipe.shares) {
    if (share.gpcs <= last || share.gpcs > hw::kMaxSlices || !fraction(share.share)) {
      return bad_input("shares", "sizes must rise and shares lie between 0 and 1");
    }
    last = share.gpcs;
    sum += share.share;
  }
  if (!(std::abs(sum - 1) < 1e-6)) return bad_input("shares", "shares must add up to 1");
  const double least = plan::seconds(kShortestGeneratedTime).value;
  const double most = plan::seconds(plan::kMaxTaskTime).value;
  if (!(recipe.shortest.value >= least && recipe.shortest <= recipe.longest &&
        recipe.longest.value <= most)) {
    return bad_input("times", fmt::format("the range must lie between {} s and {} s", least, most));
  }
  if (!fraction(recipe.super_linear)) {
    return bad_input("super_linear", "must lie between 0 and 1");
  }
  if (!fraction(recipe.transition_probability)) {
    return bad_input("transition_probability", "must lie between 0 and 1");
  }
  return {};
}

std::vector<int> sizes_of(const hw::GpuModel& model) {
  std::set<int> sizes;
  for (const int p : hw::plain_profiles(model)) {
    sizes.insert(model.profiles[static_cast<std::size_t>(p)].gpcs);
  }
  return {sizes.begin(), sizes.end()};
}

plan::SizeTimes times_on(const std::vector<int>& sizes, const std::vector<double>& times) {
  plan::SizeTimes result;
  for (const int size : sizes) {
    const Nanos time = plan::nanos({times[static_cast<std::size_t>(size - 1)]});
    result[size] = std::max(time, kShortestGeneratedTime);
  }
  return result;
}

}  // namespace

BatchRecipe batch_recipe(const hw::GpuModel& model, Scaling scaling, TimeRange range) {
  BatchRecipe recipe;
  if (range == TimeRange::narrow) recipe.shortest = Seconds{90};
  const std::vector<int> sizes = sizes_of(model);
  const std::size_t all = sizes.size();
  const std::size_t used = scaling == Scaling::mixed ? all : std::min<std::size_t>(all, 2);
  const std::size_t first = scaling == Scaling::good ? all - used : 0;
  for (std::size_t i = 0; i < all; ++i) {
    const bool in = first <= i && i < first + used;
    recipe.shares.push_back({sizes[i], in ? 1.0 / static_cast<double>(used) : 0});
  }
  return recipe;
}

std::vector<int> class_counts(const BatchRecipe& recipe) {
  std::vector<int> counts;
  std::vector<double> missing;
  for (const ClassShare& share : recipe.shares) {
    const double exact = recipe.count * share.share;
    counts.push_back(static_cast<int>(std::floor(exact + kRounding)));
    missing.push_back(exact - counts.back());
  }
  int left = recipe.count - std::accumulate(counts.begin(), counts.end(), 0);
  while (left > 0) {
    // Shares of 1/3 and the like differ by rounding alone.
    std::size_t best = 0;
    for (std::size_t c = 1; c < counts.size(); ++c) {
      const bool smallest = recipe.leftovers == Leftovers::smallest_class;
      if (smallest ? recipe.shares[best].share <= 0 : missing[c] > missing[best] + kRounding) {
        best = c;
      }
    }
    ++counts[best];
    missing[best] -= 1;
    --left;
  }
  return counts;
}

Result<plan::BatchProblem> generate_batch(const BatchRecipe& recipe,
                                          const std::vector<hw::GpuModel>& models,
                                          const std::vector<int>& gpus, std::uint64_t seed) {
  if (auto valid = check(recipe); !valid) return failed(valid.error());
  plan::BatchProblem problem{.tasks = {}, .models = models, .gpus = gpus};
  std::vector<std::vector<int>> sizes;
  int largest = 1;
  for (const hw::GpuModel& model : models) {
    sizes.push_back(sizes_of(model));
    if (!sizes.back().empty()) largest = std::max(largest, sizes.back().back());
  }
  Rng order = Rng(seed).split(kOrder);
  std::vector<Kind> kinds = kinds_of(recipe);
  if (recipe.shuffle) {
    for (std::size_t i = kinds.size(); i > 1; --i) std::swap(kinds[i - 1], kinds[order.below(i)]);
  }
  Rng rng = Rng(seed).split(kTimes);
  const std::size_t digits = std::to_string(kinds.size()).size();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::vector<double> times = times_of(kinds[i], recipe, largest, rng);
    plan::Task task{.name = fmt::format("t{:0{}}", i + 1, digits), .times = {}};
    for (const std::vector<int>& of_model : sizes) task.times.push_back(times_on(of_model, times));
    problem.tasks.push_back(std::move(task));
  }
  return problem;
}

}  // namespace partita::sim
