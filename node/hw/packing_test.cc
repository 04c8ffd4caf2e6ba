#include "hw/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "hw/catalogue.h"

namespace partita::hw {
namespace {

std::vector<int> with_double_memory(const GpuModel& gpu) {
  std::vector<int> profiles = plain_profiles(gpu);
  for (std::size_t p = 0; p < gpu.profiles.size(); ++p)
    if (gpu.profiles[p].double_memory()) profiles.push_back(static_cast<int>(p));
  return profiles;
}

// Fewest GPUs by exhaustive search over fills, for small counts.
class BruteForce {
 public:
  explicit BruteForce(const PackingRules& rules) : rules_(rules) {}
  int gpus(const std::vector<int>& counts) {
    if (std::all_of(counts.begin(), counts.end(), [](int n) { return n == 0; })) return 0;
    const auto known = known_.find(counts);
    if (known != known_.end()) return known->second;
    int best = 1 << 20;
    for (const Fill& fill : rules_.fills) {
      std::vector<int> left = counts;
      for (std::size_t k = 0; k < left.size(); ++k) left[k] = std::max(0, left[k] - fill.counts[k]);
      if (left != counts) best = std::min(best, 1 + gpus(left));
    }
    return known_[counts] = best;
  }

 private:
  const PackingRules& rules_;
  std::map<std::vector<int>, int> known_;
};

TEST(Packing, A100FacetsAreTheHandDerivedOnes) {
  const GpuModel& gpu = *builtin_catalogue().find("A100-80GB");
  const PackingRules rules = packing_rules(gpu, plain_profiles(gpu));
  EXPECT_EQ(rules.fills.size(), 12u);  // the inclusion-maximal multisets of the 19 layouts
  const std::vector<Facet> expected = {
      {{0, 0, 0, 1, 1}, 1}, {{0, 1, 1, 2, 3}, 3}, {{1, 2, 3, 4, 7}, 7}, {{1, 2, 4, 4, 8}, 8}};
  EXPECT_EQ(rules.facets, expected);
}

TEST(Packing, FacetsHoldForEveryFillAndFillsAreLegal) {
  for (const GpuModel& gpu : builtin_catalogue().gpus) {
    const PackingRules rules = packing_rules(gpu, with_double_memory(gpu));
    ASSERT_FALSE(rules.fills.empty());
    for (const Fill& fill : rules.fills) {
      EXPECT_TRUE(conflicts(gpu, fill.layout).empty()) << gpu.name;
      EXPECT_EQ(gpus_needed(rules, fill.counts), 1) << gpu.name;
    }
    // One instance more than a maximal fill never fits.
    for (const Fill& fill : rules.fills)
      for (std::size_t k = 0; k < fill.counts.size(); ++k) {
        std::vector<int> more = fill.counts;
        ++more[k];
        EXPECT_FALSE(pack(rules, more, 1)) << gpu.name;
      }
  }
}

TEST(Packing, EqualsBruteForceOnEveryGpuModel) {
  Rng rng(1);
  for (const GpuModel& gpu : builtin_catalogue().gpus) {
    const PackingRules rules = packing_rules(gpu, with_double_memory(gpu));
    BruteForce brute(rules);
    for (int round = 0; round < test_rounds(60); ++round) {
      std::vector<int> counts(rules.profiles.size());
      for (int& n : counts) n = static_cast<int>(rng.below(6));
      const int fewest = brute.gpus(counts);
      EXPECT_EQ(gpus_needed(rules, counts), fewest) << gpu.name;
      const auto used = pack(rules, counts, fewest);
      ASSERT_TRUE(used) << gpu.name;
      std::vector<int> offered(counts.size(), 0);
      int gpus = 0;
      for (const auto& [fill, times] : *used) {
        gpus += times;
        for (std::size_t k = 0; k < offered.size(); ++k)
          offered[k] += times * rules.fills[static_cast<std::size_t>(fill)].counts[k];
      }
      EXPECT_LE(gpus, fewest);
      for (std::size_t k = 0; k < counts.size(); ++k) EXPECT_GE(offered[k], counts[k]);
      if (fewest > 0) {
        EXPECT_FALSE(pack(rules, counts, fewest - 1));
      }
    }
  }
}

TEST(Packing, ManyInstancesPackAtOnce) {
  const GpuModel& gpu = *builtin_catalogue().find("A100-80GB");
  const PackingRules rules = packing_rules(gpu, plain_profiles(gpu));
  const std::vector<int> counts = {12345, 6789, 2345, 4321, 99};
  EXPECT_TRUE(pack(rules, counts, gpus_needed(rules, counts)));
}

}  // namespace
}  // namespace partita::hw
