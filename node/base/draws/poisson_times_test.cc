#include "base/draws/poisson_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace partita {
namespace {

TEST(PoissonTimes, LogsAreThoseOfTheLibrary) {
  Rng rng(7);
  double worst = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = std::ldexp(1 - rng.uniform(), -static_cast<int>(rng.below(54)));
    const double right = -std::log(x);
    worst = std::max(worst, std::abs(minus_log(x) - right) / std::max(right, 0x1p-53));
  }
  EXPECT_LT(worst, 4 * 0x1p-53);
  EXPECT_EQ(minus_log(1), 0);
  EXPECT_NEAR(minus_log(0x1p-53), 53 * std::log(2), 1e-14);
}

// Chunks of both kinds, and the borders between them: every gap is the log of the stream's draw.
TEST(PoissonTimes, GapsAreTheLogsOfOneStream) {
  constexpr std::size_t kMany = 2 * kLargePageNumbers + 20 * PoissonTimes::kChunk;
  PoissonTimes times(99);
  times.at(kMany);  // far ahead first
  Rng rng(99);
  double sum = 0;
  for (std::size_t i = 0; i <= kMany; ++i) {
    sum -= std::log(1 - rng.uniform());
    ASSERT_NEAR(times.at(i), sum, 1e-12 * (1 + sum)) << i;
  }
  EXPECT_NEAR(sum / static_cast<double>(kMany + 1), 1, 0.01);
  EXPECT_EQ(times.chunk(20)[5], times.at(20 * PoissonTimes::kChunk + 5));
}

}  // namespace
}  // namespace partita
