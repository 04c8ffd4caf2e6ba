#include "hw/packing.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <numeric>
#include <set>

#include "base/check.h"

namespace partita::hw {
namespace {

using Weights = std::vector<std::int64_t>;

bool dominates(const std::vector<int>& big, const std::vector<int>& small) {
  for (std::size_t k = 0; k < big.size(); ++k)
    if (big[k] < small[k]) return false;
  return true;
}

std::vector<Fill> maximal_fills(const GpuModel& gpu, const std::vector<int>& profiles) {
  std::map<std::vector<int>, Layout> by_counts;
  for (const Layout& layout : maximal_layouts(gpu, profiles)) {
    std::vector<int> counts(profiles.size(), 0);
    for (const PlacedProfile& placed : layout) {
      const auto at = std::find(profiles.begin(), profiles.end(), placed.profile);
      ++counts[static_cast<std::size_t>(at - profiles.begin())];
    }
    by_counts.emplace(std::move(counts), layout);
  }
  std::vector<Fill> fills;
  for (const auto& [counts, layout] : by_counts) {
    const auto larger = [&](const auto& other) {
      return other.first != counts && dominates(other.first, counts);
    };
    if (std::none_of(by_counts.begin(), by_counts.end(), larger)) fills.push_back({counts, layout});
  }
  return fills;
}

// An extreme ray of a cone, with the set of constraints that it meets with equality.
template <std::size_t kMaxConstraints>
struct Ray {
  Weights at;  // one entry per class, then the homogenising one
  std::bitset<kMaxConstraints> tight;
};

void reduce(Weights& at) {
  std::int64_t divisor = 0;
  for (const std::int64_t x : at) divisor = std::gcd(divisor, x);
  if (divisor > 1)
    for (std::int64_t& x : at) x /= divisor;
}

// One step of the double description method: the rays of the cone cut by capacity - weight . counts
// >= 0.
template <class Ray>
std::vector<Ray> cut(const std::vector<Ray>& rays, const std::vector<int>& counts,
                     std::size_t constraint) {
  const std::size_t classes = counts.size();
  std::vector<std::int64_t> value;
  for (const Ray& ray : rays) {
    std::int64_t v = ray.at[classes];
    for (std::size_t k = 0; k < classes; ++k) v -= ray.at[k] * counts[k];
    value.push_back(v);
  }
  std::vector<Ray> result;
  for (std::size_t i = 0; i < rays.size(); ++i) {
    if (value[i] < 0) continue;
    result.push_back(rays[i]);
    if (value[i] == 0) result.back().tight.set(constraint);
  }
  for (std::size_t i = 0; i < rays.size(); ++i) {
    if (value[i] <= 0) continue;
    for (std::size_t j = 0; j < rays.size(); ++j) {
      if (value[j] >= 0) continue;
      const auto common = rays[i].tight & rays[j].tight;
      if (common.count() + 1 < classes) continue;  // neighbours share a face of dimension two
      const auto between = [&](const Ray& other) {
        return &other != &rays[i] && &other != &rays[j] && (common & ~other.tight).none();
      };
      if (std::any_of(rays.begin(), rays.end(), between)) continue;  // not neighbours
      Ray ray{Weights(classes + 1), common};
      for (std::size_t k = 0; k <= classes; ++k)
        ray.at[k] = value[i] * rays[j].at[k] - value[j] * rays[i].at[k];
      reduce(ray.at);
      ray.tight.set(constraint);
      result.push_back(std::move(ray));
    }
  }
  return result;
}

// The undominated vertices of { weight >= 0 : weight . counts <= 1 for every fill }.
template <std::size_t kMaxConstraints>
std::vector<Facet> facets_within(const std::vector<Fill>& fills, std::size_t classes) {
  CHECK(fills.size() + classes + 1 <= kMaxConstraints);
  std::vector<Ray<kMaxConstraints>> rays;
  for (std::size_t k = 0; k <= classes; ++k) {
    Ray<kMaxConstraints> ray{Weights(classes + 1, 0), {}};
    ray.at[k] = 1;
    for (std::size_t other = 0; other <= classes; ++other)
      if (other != k) ray.tight.set(other);
    rays.push_back(std::move(ray));
  }
  for (std::size_t f = 0; f < fills.size(); ++f) rays = cut(rays, fills[f].counts, classes + 1 + f);

  std::vector<Facet> vertices;
  for (const auto& ray : rays) {
    CHECK(ray.at[classes] > 0);  // every class is in some fill, so the weights are bounded
    vertices.push_back({Weights(ray.at.begin(), ray.at.end() - 1), ray.at[classes]});
  }
  const auto below = [](const Facet& a, const Facet& b) {
    for (std::size_t k = 0; k < a.weight.size(); ++k)
      if (a.weight[k] * b.capacity > b.weight[k] * a.capacity) return false;
    return true;
  };
  std::vector<Facet> facets;
  for (const Facet& facet : vertices) {
    const auto above = [&](const Facet& other) { return !(other == facet) && below(facet, other); };
    if (std::none_of(vertices.begin(), vertices.end(), above)) facets.push_back(facet);
  }
  std::sort(facets.begin(), facets.end(), [](const Facet& a, const Facet& b) {
    return std::tie(a.capacity, a.weight) < std::tie(b.capacity, b.weight);
  });
  return facets;
}

// Small sets for the models that there are.
std::vector<Facet> facets_of(const std::vector<Fill>& fills, std::size_t classes) {
  return fills.size() + classes + 1 <= 64 ? facets_within<64>(fills, classes)
                                          : facets_within<1024>(fills, classes);
}

std::int64_t load(const Facet& facet, const std::vector<int>& counts) {
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) sum += facet.weight[k] * counts[k];
  return sum;
}

// Depth-first search over fills; a fill is used as often as the facets allow, then once.
class Packer {
 public:
  explicit Packer(const PackingRules& rules) : rules_(rules) {}

  bool place(const std::vector<int>& counts, int gpus) {
    if (std::all_of(counts.begin(), counts.end(), [](int n) { return n == 0; })) return true;
    if (gpus <= 0 || ++nodes_ > kPackNodes || failed_.contains({counts, gpus})) return false;
    for (const auto& [fill, times] : moves(counts, gpus)) {
      std::vector<int> left = counts;
      for (std::size_t k = 0; k < left.size(); ++k)
        left[k] = std::max(0, left[k] - times * rules_.fills[fill].counts[k]);
      used_.emplace_back(static_cast<int>(fill), times);
      if (place(left, gpus - times)) return true;
      used_.pop_back();
    }
    failed_.insert({counts, gpus});
    return false;
  }

  std::vector<std::pair<int, int>> used() && { return std::move(used_); }

 private:
  // Fills with the number of times, most times first; only those after which the facets still hold.
  std::vector<std::pair<std::size_t, int>> moves(const std::vector<int>& counts, int gpus) const {
    std::vector<std::pair<std::size_t, int>> result;
    for (std::size_t f = 0; f < rules_.fills.size(); ++f) {
      const int times = repeats(rules_.fills[f], counts, gpus);
      if (times > 0) result.emplace_back(f, times);
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return result;
  }

  int repeats(const Fill& fill, const std::vector<int>& counts, int gpus) const {
    std::int64_t times = gpus;
    bool whole = true;  // no slot of the fill stays empty
    for (std::size_t k = 0; k < counts.size(); ++k) {
      if (fill.counts[k] == 0) continue;
      whole = whole && counts[k] >= fill.counts[k];
      times = std::min<std::int64_t>(times, counts[k] / fill.counts[k]);
    }
    if (!whole) {
      std::vector<int> left = counts;
      for (std::size_t k = 0; k < left.size(); ++k) left[k] = std::max(0, left[k] - fill.counts[k]);
      return left != counts && gpus_needed(rules_, left) <= gpus - 1 ? 1 : 0;
    }
    for (const Facet& facet : rules_.facets) {
      const std::int64_t spare = facet.capacity * gpus - load(facet, counts);
      const std::int64_t waste = facet.capacity - load(facet, fill.counts);
      if (spare < 0) return 0;
      if (waste > 0) times = std::min(times, spare / waste);
    }
    return static_cast<int>(times);
  }

  const PackingRules& rules_;
  std::vector<std::pair<int, int>> used_;
  std::set<std::pair<std::vector<int>, int>> failed_;
  int nodes_ = 0;
};

}  // namespace

PackingRules packing_rules(const GpuModel& gpu, const std::vector<int>& profiles) {
  PackingRules rules{profiles, maximal_fills(gpu, profiles), {}};
  rules.facets = facets_of(rules.fills, profiles.size());
  return rules;
}

int gpus_needed(const PackingRules& rules, const std::vector<int>& counts) {
  std::int64_t gpus = 0;
  for (const Facet& facet : rules.facets)
    gpus = std::max(gpus, (load(facet, counts) + facet.capacity - 1) / facet.capacity);
  return static_cast<int>(gpus);
}

std::optional<std::vector<std::pair<int, int>>> pack(const PackingRules& rules,
                                                     const std::vector<int>& counts, int gpus) {
  if (gpus_needed(rules, counts) > gpus) return std::nullopt;
  Packer packer(rules);
  if (!packer.place(counts, gpus)) return std::nullopt;
  return std::move(packer).used();
}

}  // namespace partita::hw
