#include "base/nth.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace partita {
namespace {

TEST(Nth, IsThatOfWhatIsSorted) {
  Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<long> values(1 + rng.below(round % 3 == 0 ? 40 : 4'000));
    for (long& value : values) value = static_cast<long>(rng.below(round % 2 == 0 ? 5 : 100'000));
    const std::size_t place = round % 5 == 0 ? values.size() - 1 : rng.below(values.size());
    std::vector<long> sorted = values;
    std::ranges::sort(sorted);
    EXPECT_EQ(nth(values, place), sorted[place]) << round;
  }
}

}  // namespace
}  // namespace partita
