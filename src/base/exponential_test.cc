#include "base/exponential.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace partita {
namespace {

// The law itself is the oracle: the largest distance of the empirical distribution from 1 - e^-x
// (Kolmogorov and Smirnov: beyond 1.63 / sqrt(n) in one of a hundred samples), and the shares far
// out, within four standard deviations.
TEST(Exponentials, FollowTheLaw) {
  const Exponentials exponentials;
  Rng rng(7);
  constexpr int kDraws = 1'000'000;
  std::vector<double> drawn;
  for (int i = 0; i < kDraws; ++i) drawn.push_back(exponentials.draw(rng));
  std::sort(drawn.begin(), drawn.end());
  EXPECT_GE(drawn.front(), 0);
  double farthest = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double law = -std::expm1(-drawn[static_cast<std::size_t>(i)]);
    farthest = std::max(
        {farthest, std::abs(law - 1.0 * i / kDraws), std::abs(law - 1.0 * (i + 1) / kDraws)});
  }
  EXPECT_LT(farthest, 1.63 / std::sqrt(1.0 * kDraws));
  for (const double far : {5.0, 7.5, 7.9, 9.0}) {
    const double expected = kDraws * std::exp(-far);
    const auto beyond =
        static_cast<double>(drawn.end() - std::upper_bound(drawn.begin(), drawn.end(), far));
    EXPECT_NEAR(beyond, expected, 4 * std::sqrt(expected)) << far;
  }
}

// Neighbours in the sequence know nothing of each other.
TEST(Exponentials, AreIndependent) {
  const Exponentials exponentials;
  Rng rng(8);
  constexpr int kDraws = 200'000;
  double before = exponentials.draw(rng), sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double now = exponentials.draw(rng);
    sum += (before - 1) * (now - 1);
    before = now;
  }
  EXPECT_NEAR(sum / kDraws, 0, 4 / std::sqrt(1.0 * kDraws));
}

}  // namespace
}  // namespace partita
