#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/pool.h"

namespace partita::model {
namespace {

// The most requests that come beyond the mean in any stretch of the first so many.
std::vector<double> surpluses(std::uint64_t seed, const std::vector<std::size_t>& firsts) {
  UnitPoisson units(seed);
  std::vector<double> result;
  double lowest = 0, most = 0;
  for (std::size_t i = 0; i < firsts.back(); ++i) {
    const double beyond = static_cast<double>(i + 1) - units.at(i);
    lowest = std::min(lowest, beyond);
    most = std::max(most, beyond - lowest);
    if (i + 1 == firsts[result.size()]) result.push_back(most);
  }
  return result;
}

TEST(PoolSeed, IsUnluckierThanMost) {
  constexpr int kOthers = 200;
  const std::vector<std::size_t> firsts{3'000, 5'000, 12'000, 30'000};
  const std::vector<double> ours = surpluses(kPoolSeed, firsts);
  std::vector<int> luckier(firsts.size(), 0);
  for (std::uint64_t seed = 1; seed <= kOthers; ++seed) {
    const std::vector<double> theirs = surpluses(seed, firsts);
    for (std::size_t k = 0; k < firsts.size(); ++k) luckier[k] += theirs[k] < ours[k] ? 1 : 0;
  }
  for (std::size_t k = 0; k < firsts.size(); ++k) {
    EXPECT_GT(luckier[k], 0.65 * kOthers) << firsts[k];
    EXPECT_LT(luckier[k], 0.97 * kOthers) << firsts[k];  // or plans would waste GPUs
  }
}

}  // namespace
}  // namespace partita::model
