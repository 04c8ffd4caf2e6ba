#include "base/matching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"

namespace partita {
namespace {

std::int64_t total(const Weights& weights, const std::vector<int>& column_of) {
  std::int64_t sum = 0;
  for (int r = 0; r < weights.rows; ++r)
    sum += weights.at(r, column_of[static_cast<std::size_t>(r)]);
  return sum;
}

std::int64_t best_of_all(const Weights& weights) {
  std::vector<int> columns(static_cast<std::size_t>(weights.columns));
  std::iota(columns.begin(), columns.end(), 0);
  std::int64_t best = -kMaxWeight * 8;
  do {
    best = std::max(best, total(weights, columns));
  } while (std::next_permutation(columns.begin(), columns.end()));
  return best;
}

TEST(Matching, EqualsTryingAllPermutations) {
  Rng rng(7);
  for (int round = 0; round < 400; ++round) {
    Weights weights;
    weights.columns = 1 + static_cast<int>(rng.below(6));
    weights.rows = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(weights.columns)));
    const std::int64_t scale = round % 3 == 0 ? kMaxWeight / 8 : 5;
    for (int i = 0; i < weights.rows * weights.columns; ++i) {
      weights.value.push_back(static_cast<std::int64_t>(rng.below(8)) * (scale / 4) - scale);
    }
    const std::vector<int> column_of = heaviest_matching(weights);
    std::vector<int> sorted = column_of;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
    EXPECT_EQ(total(weights, column_of), best_of_all(weights)) << "round " << round;
  }
}

TEST(Matching, NothingToMatch) { EXPECT_TRUE(heaviest_matching({0, 3, {}}).empty()); }

}  // namespace
}  // namespace partita
