#include "planners/serving/level.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/index.h"

namespace partita::planners::serving {
namespace {

constexpr int kMostPasses = 4;
// What a unit of the scarce facet may cost in slices, from "nothing" on.
constexpr double kPremiums[] = {0.01, 0.3, 0.7};

std::int64_t load(const hw::Facet& facet, const Counts& counts) {
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < facet.weight.size(); ++k) sum += facet.weight[k] * counts[k];
  return sum;
}

// What all covers together take of each facet.
class Balance {
 public:
  Balance(const hw::PackingRules& rules, std::vector<Counts>& covers, const Levelling& levelling)
      : rules_(rules), covers_(covers), levelling_(levelling), taken_(rules.facets.size(), 0) {
    for (const Counts& counts : covers) add(counts, 1);
  }

  // True when another facet may be lowered now.
  bool lower_the_scarcest() {
    const std::size_t scarce = scarcest();
    bool lowered = false;
    std::vector<bool> changed(covers_.size(), false);
    for (const Swap& swap : swaps(scarce)) {
      if (scarcest() != scarce) return lowered;
      if (changed[swap.service] || !levelling_.allowed(swap.service, swap.cover)) continue;
      add(covers_[swap.service], -1);
      add(swap.cover, 1);
      covers_[swap.service] = swap.cover;
      changed[swap.service] = lowered = true;
    }
    return false;
  }

  int gpus() const {
    std::vector<int> sum(rules_.profiles.size(), 0);
    for (const Counts& counts : covers_)
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += counts[k];
    return hw::gpus_needed(rules_, sum);
  }

 private:
  struct Swap {
    double price;  // slices for each unit of the scarce facet
    std::size_t service;
    Counts cover;
    bool operator<(const Swap& other) const {
      return std::tie(price, service, cover) < std::tie(other.price, other.service, other.cover);
    }
  };

  void add(const Counts& counts, int sign) {
    for (std::size_t f = 0; f < taken_.size(); ++f)
      taken_[f] += sign * load(rules_.facets[f], counts);
  }
  std::size_t scarcest() const {
    std::size_t most = 0;
    const auto gpus = [&](std::size_t f) {
      return static_cast<double>(taken_[f]) / static_cast<double>(rules_.facets[f].capacity);
    };
    for (std::size_t f = 1; f < taken_.size(); ++f)
      if (gpus(f) > gpus(most)) most = f;
    return most;
  }

  std::vector<Swap> swaps(std::size_t scarce) const {
    const hw::Facet& facet = rules_.facets[scarce];
    const int classes = static_cast<int>(facet.weight.size());
    std::vector<Swap> all;
    for (std::size_t s = 0; s < covers_.size(); ++s) {
      std::set<Counts> found;
      for (const double premium : kPremiums) {
        Prices prices = levelling_.slices;
        for (std::size_t k = 0; k < facet.weight.size(); ++k)
          prices[k] += premium * static_cast<double>(facet.weight[k]);
        for (const Counts& counts : levelling_.offers(s, prices)) found.insert(counts);
      }
      for (const Counts& counts : found) {
        const auto less = static_cast<double>(load(facet, covers_[s]) - load(facet, counts));
        if (less <= 0) continue;
        const double more =
            cost(counts, levelling_.slices, classes) - cost(covers_[s], levelling_.slices, classes);
        all.push_back({more / less, s, counts});
      }
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  const hw::PackingRules& rules_;
  std::vector<Counts>& covers_;
  const Levelling& levelling_;
  std::vector<std::int64_t> taken_;  // per facet
};

}  // namespace

int level(const hw::PackingRules& rules, std::vector<Counts>& covers, const Levelling& levelling) {
  Balance state(rules, covers, levelling);
  int gpus = state.gpus();
  for (int pass = 0; pass < kMostPasses; ++pass) {
    std::vector<Counts> before = covers;
    const bool more = state.lower_the_scarcest();
    const int now = state.gpus();
    if (now > gpus) covers = std::move(before);
    gpus = std::min(gpus, now);
    if (!more) break;
  }
  return gpus;
}

}  // namespace partita::planners::serving
