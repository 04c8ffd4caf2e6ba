#include "sim/batch_generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "hw/catalogue.h"

namespace partita::sim {
namespace {

using Counts = std::vector<int>;

const hw::GpuModel& model(const char* name) { return *hw::builtin_catalogue().find(name); }

BatchRecipe recipe_of(const char* gpu, Scaling scaling, int count) {
  BatchRecipe recipe = batch_recipe(model(gpu), scaling, TimeRange::wide);
  recipe.count = count;
  return recipe;
}

plan::BatchProblem batch(const BatchRecipe& recipe, const char* gpu, std::uint64_t seed) {
  return generate_batch(recipe, {model(gpu)}, {0}, seed).value();
}

// Many tasks of a single class.
BatchRecipe only(int gpcs, double super_linear) {
  BatchRecipe recipe;
  recipe.count = 4000;
  recipe.shares = {{gpcs, 1}};
  recipe.super_linear = super_linear;
  recipe.shuffle = false;
  return recipe;
}

// The r of t(s+1) = (s+r)/(s+1) t(s), for sizes that the A100 has.
double r_of(const plan::Task& task, int s) {
  const double ratio =
      static_cast<double>(task.times[0][s + 1]) / static_cast<double>(task.times[0][s]);
  return ratio * (s + 1) - s;
}

struct Spread {
  double mean = 0, low = 1e9, high = -1e9, at_ends = 0;
};

Spread spread(const plan::BatchProblem& problem, int s, double low, double high) {
  Spread result;
  const auto count = static_cast<double>(problem.tasks.size());
  for (const plan::Task& task : problem.tasks) {
    const double r = r_of(task, s);
    result.mean += r / count;
    result.low = std::min(result.low, r);
    result.high = std::max(result.high, r);
    if (std::abs(r - low) < 1e-7 || std::abs(r - high) < 1e-7) result.at_ends += 1 / count;
  }
  return result;
}

TEST(BatchGenerator, SharesOfThePaper) {
  const auto shares = [](const char* gpu, Scaling scaling) {
    std::vector<std::pair<int, int>> percent;
    for (const ClassShare& s : batch_recipe(model(gpu), scaling, TimeRange::wide).shares) {
      percent.emplace_back(s.gpcs, static_cast<int>(std::lround(100 * s.share)));
    }
    return percent;
  };
  using Percent = std::vector<std::pair<int, int>>;
  EXPECT_EQ(shares("A100-80GB", Scaling::poor),
            (Percent{{1, 50}, {2, 50}, {3, 0}, {4, 0}, {7, 0}}));
  EXPECT_EQ(shares("A100-80GB", Scaling::mixed),
            (Percent{{1, 20}, {2, 20}, {3, 20}, {4, 20}, {7, 20}}));
  EXPECT_EQ(shares("H100-80GB-SXM5", Scaling::good),
            (Percent{{1, 0}, {2, 0}, {3, 0}, {4, 50}, {7, 50}}));
  EXPECT_EQ(shares("A30-24GB", Scaling::poor), (Percent{{1, 50}, {2, 50}, {4, 0}}));
  EXPECT_EQ(shares("A30-24GB", Scaling::mixed), (Percent{{1, 33}, {2, 33}, {4, 33}}));
  EXPECT_EQ(shares("A30-24GB", Scaling::good), (Percent{{1, 0}, {2, 50}, {4, 50}}));
}

TEST(BatchGenerator, ClassCountsByHand) {
  EXPECT_EQ(class_counts(recipe_of("A100-80GB", Scaling::mixed, 10)), (Counts{2, 2, 2, 2, 2}));
  EXPECT_EQ(class_counts(recipe_of("A100-80GB", Scaling::mixed, 12)), (Counts{3, 3, 2, 2, 2}));
  EXPECT_EQ(class_counts(recipe_of("A100-80GB", Scaling::good, 15)), (Counts{0, 0, 0, 8, 7}));
  EXPECT_EQ(class_counts(recipe_of("A30-24GB", Scaling::mixed, 8)), (Counts{3, 3, 2}));
  EXPECT_EQ(class_counts(recipe_of("A30-24GB", Scaling::mixed, 9)), (Counts{3, 3, 3}));
  EXPECT_EQ(class_counts(recipe_of("A30-24GB", Scaling::mixed, 0)), (Counts{0, 0, 0}));
  // Figure 11 of the paper: 10, 10, 20, 30, 30 %.
  BatchRecipe figure;
  figure.shares = {{1, 0.1}, {2, 0.1}, {3, 0.2}, {4, 0.3}, {7, 0.3}};
  EXPECT_EQ(class_counts(figure), (Counts{1, 1, 2, 3, 3}));
  figure.count = 13;  // 1.3, 1.3, 2.6, 3.9, 3.9
  EXPECT_EQ(class_counts(figure), (Counts{1, 1, 3, 4, 4}));
  figure.leftovers = Leftovers::smallest_class;
  EXPECT_EQ(class_counts(figure), (Counts{4, 1, 2, 3, 3}));
  BatchRecipe good = recipe_of("A100-80GB", Scaling::good, 7);
  good.leftovers = Leftovers::smallest_class;
  EXPECT_EQ(class_counts(good), (Counts{0, 0, 0, 4, 3}));
}

TEST(BatchGenerator, TimesOnOneSliceAreUniformInTheRange) {
  const plan::BatchProblem wide = batch(only(1, 0), "A100-80GB", 1);
  double mean = 0;
  for (const plan::Task& task : wide.tasks) {
    const double time = plan::seconds(task.times[0][1]).value;
    EXPECT_GE(time, 1);
    EXPECT_LE(time, 100);
    mean += time / 4000;
  }
  EXPECT_NEAR(mean, 50.5, 4 * 99 / std::sqrt(12 * 4000.0));
  BatchRecipe narrow = batch_recipe(model("A100-80GB"), Scaling::mixed, TimeRange::narrow);
  narrow.count = 500;
  for (const plan::Task& task : batch(narrow, "A100-80GB", 1).tasks) {
    EXPECT_GE(task.times[0][1], plan::nanos(Seconds{90}));
    EXPECT_LE(task.times[0][1], plan::nanos(Seconds{100}));
  }
}

// Each range of r is one standard deviation to either side of its mean, so clamping puts 31.73 % of
// the values on the ends and truncation none; both keep the mean.
TEST(BatchGenerator, SpeedupsLieInTheirRanges) {
  for (const Clip clip : {Clip::clamp, Clip::truncate}) {
    const auto check = [&](int gpcs, double super_linear, int s, double low, double high) {
      BatchRecipe recipe = only(gpcs, super_linear);
      recipe.clip = clip;
      const Spread r = spread(batch(recipe, "A100-80GB", 7), s, low, high);
      EXPECT_GE(r.low, low - 1e-6);
      EXPECT_LE(r.high, high + 1e-6);
      EXPECT_NEAR(r.mean, (low + high) / 2, 4 * (high - low) / 2 / std::sqrt(4000.0));
      EXPECT_NEAR(r.at_ends, clip == Clip::clamp ? 0.3173 : 0, 0.03);
    };
    check(1, 0, 1, 0.5, 1);   // nothing scales beyond its class
    check(1, 1, 1, 0.5, 1);   // a class of one slice has no super-linear tasks
    check(2, 1, 1, -0.5, 0);  // memory-bound
    check(2, 0, 1, 0, 0.2);   // compute-bound
    check(2, 1, 2, 0.5, 1);   // beyond its class
    check(7, 0, 3, 0, 0.2);
    check(3, 0, 3, 0.5, 1);
  }
}

TEST(BatchGenerator, TheTransitionFollowsItsProbability) {
  // Share of class-7 tasks that still are super-linear from s to s+1 slices: 0.7^(s-1).
  const auto super_linear_at = [](const BatchRecipe& recipe, int s) {
    int found = 0;
    for (const plan::Task& task : batch(recipe, "A100-80GB", 3).tasks) {
      found += r_of(task, s) <= 1e-7;
    }
    return found / static_cast<double>(recipe.count);
  };
  BatchRecipe recipe = only(7, 1);
  EXPECT_EQ(super_linear_at(recipe, 1), 1);
  EXPECT_NEAR(super_linear_at(recipe, 2), 0.7, 0.03);
  EXPECT_NEAR(super_linear_at(recipe, 3), 0.49, 0.033);
  recipe.transition = Transition::none;
  EXPECT_EQ(super_linear_at(recipe, 3), 1);
  // After the transition: sub-linear (at least 0.5) or near-linear (at most 0.2).
  for (const Transition after : {Transition::sub_linear, Transition::near_linear}) {
    recipe.transition = after;
    recipe.transition_probability = 1;
    for (const plan::Task& task : batch(recipe, "A100-80GB", 3).tasks) {
      EXPECT_EQ(r_of(task, 2) > 0.4, after == Transition::sub_linear);
    }
  }
}

TEST(BatchGenerator, HalfOfAClassIsMemoryBoundRoundedUp) {
  BatchRecipe recipe = only(2, 0.5);
  recipe.count = 5;
  const plan::BatchProblem problem = batch(recipe, "A100-80GB", 11);
  int memory_bound = 0;
  for (const plan::Task& task : problem.tasks) memory_bound += r_of(task, 1) < 0;
  // Clamping may put r at exactly 0 on either side: at most the three are below it.
  EXPECT_LE(memory_bound, 3);
  recipe.clip = Clip::truncate;
  memory_bound = 0;
  for (const plan::Task& task : batch(recipe, "A100-80GB", 11).tasks) {
    memory_bound += r_of(task, 1) < 0;
  }
  EXPECT_EQ(memory_bound, 3);
}

TEST(BatchGenerator, SameSeedSameBytesAndOtherSeedsDiffer) {
  const BatchRecipe recipe = recipe_of("A100-80GB", Scaling::mixed, 40);
  const plan::BatchProblem a = batch(recipe, "A100-80GB", 5), b = batch(recipe, "A100-80GB", 5);
  EXPECT_EQ(a.tasks, b.tasks);
  EXPECT_NE(a.tasks, batch(recipe, "A100-80GB", 6).tasks);
  EXPECT_EQ(a.tasks.front().name, "t01");
  EXPECT_EQ(a.tasks.back().name, "t40");
}

TEST(BatchGenerator, ShufflingMovesClassesAboutAndKeepsTheirNumbers) {
  BatchRecipe recipe = recipe_of("A100-80GB", Scaling::poor, 200);
  recipe.super_linear = 0;
  const auto good = [&](bool shuffle) {
    recipe.shuffle = shuffle;
    std::vector<bool> scales;
    for (const plan::Task& t : batch(recipe, "A100-80GB", 2).tasks)
      scales.push_back(r_of(t, 1) < 0.3);
    return scales;
  };
  const std::vector<bool> sorted = good(false), mixed = good(true);
  EXPECT_EQ(std::ranges::count(sorted, true), 100);
  EXPECT_EQ(std::ranges::count(mixed, true), 100);
  EXPECT_TRUE(std::ranges::is_sorted(sorted));
  EXPECT_FALSE(std::ranges::is_sorted(mixed));
}

TEST(BatchGenerator, TimesNeverRiseWithTheSizeAndNeverFallBelowAMillisecond) {
  BatchRecipe recipe = recipe_of("A100-80GB", Scaling::mixed, 300);
  recipe.shortest = Seconds{0.001};
  recipe.longest = Seconds{0.004};
  for (const plan::Task& task : batch(recipe, "A100-80GB", 9).tasks) {
    plan::Nanos previous = plan::kMaxTaskTime;
    for (const int size : {1, 2, 3, 4, 7}) {
      EXPECT_LE(task.times[0][size], previous);
      EXPECT_GE(task.times[0][size], kShortestGeneratedTime);
      previous = task.times[0][size];
    }
    EXPECT_EQ(task.times[0][5], 0);
    EXPECT_EQ(task.times[0][6], 0);
  }
}

TEST(BatchGenerator, EveryModelOfTheCatalogueGetsItsSizes) {
  for (const hw::GpuModel& gpu : hw::builtin_catalogue().gpus) {
    BatchRecipe recipe = batch_recipe(gpu, Scaling::mixed, TimeRange::wide);
    recipe.count = 20;
    const auto problem = generate_batch(recipe, {gpu, model("A30-24GB")}, {0, 1}, 1);
    ASSERT_TRUE(problem) << gpu.name;
    std::set<int> expected;
    for (const hw::MigProfile& profile : gpu.profiles) expected.insert(profile.gpcs);
    for (const plan::Task& task : problem->tasks) {
      std::set<int> sizes;
      for (int s = 1; s <= hw::kMaxSlices; ++s) {
        if (task.times[0][s] > 0) sizes.insert(s);
        if (task.times[0][s] > 0 && task.times[1][s] > 0) {
          EXPECT_EQ(task.times[0][s], task.times[1][s]);
        }
      }
      EXPECT_EQ(sizes, expected);
    }
  }
}

TEST(BatchGenerator, RecipesOutOfRangeAreRefused) {
  const auto refused = [](auto&& change) {
    BatchRecipe recipe = recipe_of("A30-24GB", Scaling::mixed, 5);
    change(recipe);
    const auto problem = generate_batch(recipe, {model("A30-24GB")}, {0}, 1);
    return problem ? std::string() : problem.error().context;
  };
  EXPECT_EQ(refused([](BatchRecipe&) {}), "");
  EXPECT_EQ(refused([](BatchRecipe& r) { r.count = -1; }), "count");
  EXPECT_EQ(refused([](BatchRecipe& r) { r.count = plan::kMaxTasks + 1; }), "count");
  EXPECT_EQ(refused([](BatchRecipe& r) { r.shares[0].share = 0.9; }), "shares");
  EXPECT_EQ(refused([](BatchRecipe& r) { r.shares[0].share = NAN; }), "shares");
  EXPECT_EQ(refused([](BatchRecipe& r) { r.shares[1].gpcs = 1; }), "shares");
  EXPECT_EQ(refused([](BatchRecipe& r) { r.shortest = Seconds{0}; }), "times");
  EXPECT_EQ(refused([](BatchRecipe& r) { r.shortest = Seconds{101}; }), "times");
  EXPECT_EQ(refused([](BatchRecipe& r) { r.longest = Seconds{1e9}; }), "times");
  EXPECT_EQ(refused([](BatchRecipe& r) { r.super_linear = 1.1; }), "super_linear");
  EXPECT_EQ(refused([](BatchRecipe& r) { r.transition_probability = -1; }),
            "transition_probability");
}

}  // namespace
}  // namespace partita::sim
