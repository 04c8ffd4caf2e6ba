#include "planners/mask/right_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/rng.h"
#include "base/test_rounds.h"

namespace partita::planners::mask {
namespace {

using profile::ModelKernels;
using testing::ElementsAre;

ModelKernels random_model(Rng& rng, int units, int kernels) {
  ModelKernels model{"m", units, {}};
  for (int k = 0; k < kernels; ++k) {
    const double work = 1 + 50 * rng.uniform(), knee = 1 + units * rng.uniform();
    profile::KernelProfile kernel{"k", {}};
    for (int n = 1; n <= units; ++n) {
      double time = work * std::max(1.0, knee / n) * (1 + 0.1 * rng.uniform());
      if (rng.below(3) == 0) time = std::ceil(time);
      kernel.time_us.push_back(time);
    }
    model.kernels.push_back(kernel);
  }
  return model;
}

TEST(RightSize, FewestUnitsWithinTheTolerance) {
  const ModelKernels model{"m", 4, {{"a", {40, 20, 13, 10}}, {"b", {9, 8, 8, 8}}}};
  EXPECT_THAT(least_units(model, 0.05), ElementsAre(4, 2));
  EXPECT_THAT(least_units(model, 0.3), ElementsAre(3, 1));
  EXPECT_EQ(knee(model, 0.05), 4);  // 18 on all; 49, 28, 21 on fewer
  EXPECT_EQ(knee(model, 0.2), 3);
}

// The least unit_us of all choices that are fast enough.
double brute_force(const ModelKernels& model, double longest) {
  double best = INFINITY;
  const std::function<void(std::size_t, double, double)> choose = [&](std::size_t k, double time,
                                                                      double spent) {
    if (time > longest) return;
    if (k == model.kernels.size()) {
      best = std::min(best, spent);
      return;
    }
    for (int n = 1; n <= model.units; ++n) {
      const double t = model.kernels[k].on(n);
      choose(k + 1, time + t, spent + n * t);
    }
  };
  choose(0, 0, 0);
  return best;
}

TEST(RightSize, CriticalExactIsAsGoodAsBruteForce) {
  Rng rng(3);
  for (int round = 0; round < test_rounds(1000); ++round) {
    const int units = 2 + static_cast<int>(rng.below(5)),
              kernels = 1 + static_cast<int>(rng.below(5));
    const ModelKernels model = random_model(rng, units, kernels);
    const double tolerance = 0.3 * rng.uniform();
    const double longest = model.time_us(units) * (1 + tolerance) * (1 + 1e-9);
    const RightSize size = critical_exact(model, tolerance);
    const double best = brute_force(model, longest);
    ASSERT_TRUE(size.optimal);
    ASSERT_NEAR(size.unit_us, best, 1e-8 * best) << round;
    ASSERT_LE(size.time_us, longest);
    const RightSize cut = critical_exact(model, tolerance, {}, 1);
    ASSERT_LE(cut.time_us, longest);
    ASSERT_LE(cut.bound, best * (1 + 1e-9));
    ASSERT_GE(cut.unit_us, best * (1 - 1e-8));
    const RightSize greedy = critical_greedy(model, tolerance);
    ASSERT_LE(greedy.time_us, longest);
    ASSERT_GE(greedy.unit_us, best * (1 - 1e-8));
  }
}

TEST(RightSize, CriticalExactOnAWholeModel) {
  Rng rng(4);
  const ModelKernels model = random_model(rng, 60, 300);
  const RightSize exact = critical_exact(model, 0.05), greedy = critical_greedy(model, 0.05);
  EXPECT_LE(exact.unit_us, greedy.unit_us);
  EXPECT_GE(exact.bound, exact.unit_us * 0.999);
}

}  // namespace
}  // namespace partita::planners::mask
