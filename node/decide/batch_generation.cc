#include "decide/batch_generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/parse_number.h"
#include "base/rng.h"
#include "base/split.h"

namespace partita::decide {
namespace {

// Streams of --seed beside the generator's own.
constexpr std::uint64_t kReleaseStream = 0x72656c65617365;  // "release"
constexpr plan::Nanos kMillisecond = 1'000'000;

Result<double> number_in(const std::string& flag, const std::string& text) {
  const std::optional<double> value = parse_number<double>(text);
  if (!value) return bad_input(flag, fmt::format("'{}' is not a number", text));
  return *value;
}

// "1:0.2,2:0.8".
Result<std::vector<sim::ClassShare>> parse_shares(const std::string& text) {
  std::vector<sim::ClassShare> shares;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> pair = split(part, ':');
    if (pair.size() != 2) {
      return bad_input("--shares", fmt::format("'{}' is not SIZE:SHARE, for instance 2:0.5", part));
    }
    const double size = TRY(number_in("--shares", pair[0]));
    const double share = TRY(number_in("--shares", pair[1]));
    if (!(size >= 1 && size <= hw::kMaxSlices && size == static_cast<int>(size))) {
      return bad_input("--shares", fmt::format("'{}' is not a number of slices", pair[0]));
    }
    shares.push_back({static_cast<int>(size), share});
  }
  return shares;
}

// "90,100" into the recipe.
Result<sim::BatchRecipe> with_range(sim::BatchRecipe recipe, const std::string& text) {
  const std::vector<std::string> ends = split(text, ',');
  if (ends.size() != 2) {
    return bad_input("--time-range", fmt::format("'{}' is not a range such as 90,100", text));
  }
  const double shortest = TRY(number_in("--time-range", ends[0]));
  const double longest = TRY(number_in("--time-range", ends[1]));
  recipe.shortest = {shortest};
  recipe.longest = {longest};
  return recipe;
}

Result<sim::BatchRecipe> recipe_of(const BatchWords& words, const hw::GpuModel& model) {
  const auto scaling = words.scaling == "poor"   ? sim::Scaling::poor
                       : words.scaling == "good" ? sim::Scaling::good
                                                 : sim::Scaling::mixed;
  const auto range = words.times == "narrow" ? sim::TimeRange::narrow : sim::TimeRange::wide;
  sim::BatchRecipe recipe = sim::batch_recipe(model, scaling, range);
  recipe.count = words.count;
  recipe.super_linear = words.super_linear;
  recipe.transition_probability = words.transition;
  recipe.clip = words.clip == "truncate" ? sim::Clip::truncate : sim::Clip::clamp;
  recipe.transition = words.after_transition == "none"          ? sim::Transition::none
                      : words.after_transition == "near-linear" ? sim::Transition::near_linear
                                                                : sim::Transition::sub_linear;
  recipe.leftovers = words.leftovers == "smallest-class" ? sim::Leftovers::smallest_class
                                                         : sim::Leftovers::largest_remainder;
  recipe.shuffle = words.order == "shuffled";
  if (!words.shares.empty()) {
    recipe.shares = TRY(parse_shares(words.shares));
  }
  if (!words.time_range.empty()) return with_range(std::move(recipe), words.time_range);
  return recipe;
}

plan::Nanos shortest_time(const plan::Task& task) {
  plan::Nanos shortest = plan::kMaxTaskTime;
  for (const plan::SizeTimes& times : task.times) {
    for (const plan::Nanos time : times.by_gpcs) {
      if (time > 0) shortest = std::min(shortest, time);
    }
  }
  return shortest;
}

// Release times, uniform over the first --releases seconds in whole milliseconds, and deadlines
// --deadlines times the shortest time after them.
void add_wishes(plan::BatchProblem& problem, const BatchWords& words) {
  Rng random = Rng(words.seed).split(kReleaseStream);
  for (plan::Task& task : problem.tasks) {
    if (words.releases > 0) {
      task.release =
          static_cast<plan::Nanos>(random.uniform() * words.releases * 1e3) * kMillisecond;
    }
    if (words.deadlines > 0) {
      const double allowed = std::min(words.deadlines * static_cast<double>(shortest_time(task)),
                                      static_cast<double>(plan::kMaxTaskTime - task.release));
      task.deadline = task.release + static_cast<plan::Nanos>(allowed);
    }
  }
}

}  // namespace

Result<plan::BatchProblem> generate_batch(const BatchWords& words, const GpuList& gpus) {
  const sim::BatchRecipe recipe = TRY(recipe_of(words, gpus.models.front()));
  Result<plan::BatchProblem> problem =
      sim::generate_batch(recipe, gpus.models, gpus.gpus, words.seed);
  if (!problem) {
    const Error& error = problem.error();
    return bad_input(error.context == "times" ? "--time-range" : "--" + error.context,
                     error.message);
  }
  add_wishes(*problem, words);
  return problem;
}

}  // namespace partita::decide
