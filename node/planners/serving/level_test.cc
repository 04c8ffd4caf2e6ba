#include "planners/serving/level.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "hw/catalogue.h"
#include "hw/layout.h"

namespace partita::planners::serving {
namespace {

// Classes 1g, 2g, 3g, 4g, 7g of an A100.
struct Packing {
  hw::PackingRules rules;
  Prices slices{};
};
Packing a100() {
  const hw::GpuModel gpu = *hw::builtin_model("A100-80GB");
  const std::vector<int> profiles = hw::plain_profiles(gpu);
  Packing packing{hw::packing_rules(gpu, profiles), {}};
  for (std::size_t k = 0; k < profiles.size(); ++k)
    packing.slices[k] = gpu.profiles[static_cast<std::size_t>(profiles[k])].gpcs;
  return packing;
}

int gpus_for(const hw::PackingRules& rules, const std::vector<Counts>& covers) {
  std::vector<int> sum(rules.profiles.size(), 0);
  for (const Counts& counts : covers)
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += counts[k];
  return hw::gpus_needed(rules, sum);
}

Levelling offering(const Packing& packing, const std::vector<std::vector<Counts>>& offers,
                   std::size_t allowed_from = 0) {
  return {packing.slices, [&](std::size_t s, const Prices&) { return offers[s]; },
          [allowed_from](std::size_t s, const Counts&) { return s >= allowed_from; }};
}

// Two 3g on each GPU leave a slice idle; 2g and 1g take as many slices and less of the memory.
TEST(Level, FillsWholeGpus) {
  const Packing packing = a100();
  ASSERT_EQ(packing.slices[2], 3);
  const std::vector<std::vector<Counts>> offers(200, {Counts{1, 1, 0, 0, 0}});
  std::vector<Counts> covers(200, Counts{0, 0, 1, 0, 0});
  EXPECT_EQ(gpus_for(packing.rules, covers), 100);
  EXPECT_EQ(level(packing.rules, covers, offering(packing, offers)), 86);  // 600 slices / 7
  EXPECT_EQ(gpus_for(packing.rules, covers), 86);
  // No more are changed than that takes: 200 x 4 - 112 = 688 = 86 x 8 slices of memory.
  const auto changed = std::count(covers.begin(), covers.end(), offers[0][0]);
  EXPECT_GE(changed, 112);
  EXPECT_LE(changed, 116);
}

TEST(Level, TakesNothingThatIsNotAllowed) {
  const Packing packing = a100();
  const std::vector<std::vector<Counts>> offers(200, {Counts{1, 1, 0, 0, 0}});
  std::vector<Counts> covers(200, Counts{0, 0, 1, 0, 0});
  EXPECT_EQ(level(packing.rules, covers, offering(packing, offers, 150)), 94);  // (800 - 50) / 8
  for (std::size_t s = 0; s < 150; ++s) EXPECT_EQ(covers[s], (Counts{0, 0, 1, 0, 0}));
}

// Against all choices: never better than possible, never worse than before, mostly near the best.
TEST(Level, NearTheBestOfAllChoices) {
  const Packing packing = a100();
  Rng rng(5);
  int above = 0;
  const int rounds = 60;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<Counts>> offers(8);
    std::vector<Counts> covers(8);
    const auto random_cover = [&] {
      Counts counts{};
      for (std::size_t k = 0; k < 4; ++k) counts[k] = static_cast<int>(rng.below(k == 2 ? 6 : 3));
      counts[2] += 1;
      return counts;
    };
    for (std::size_t s = 0; s < 8; ++s) {
      covers[s] = random_cover();
      offers[s] = {random_cover(), random_cover()};
    }
    int best = gpus_for(packing.rules, covers);
    const int before = best;
    for (int choice = 0; choice < 6561; ++choice) {
      std::vector<Counts> chosen = covers;
      for (int s = 0, rest = choice; s < 8; ++s, rest /= 3)
        if (rest % 3 > 0)
          chosen[static_cast<std::size_t>(s)] =
              offers[static_cast<std::size_t>(s)][static_cast<std::size_t>(rest % 3 - 1)];
      best = std::min(best, gpus_for(packing.rules, chosen));
    }
    std::vector<Counts> found = covers;
    const int gpus = level(packing.rules, found, offering(packing, offers));
    EXPECT_EQ(gpus, gpus_for(packing.rules, found)) << round;
    EXPECT_GE(gpus, best) << round;
    EXPECT_LE(gpus, before) << round;
    above += gpus - best;
  }
  EXPECT_LE(above, rounds * 3 / 2);  // of 15 GPUs each
}

}  // namespace
}  // namespace partita::planners::serving
