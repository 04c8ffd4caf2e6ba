#include "planners/serving/incremental_counts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/index.h"

namespace partita::planners::serving {
namespace {

constexpr int kItemNodes = 3000;
constexpr std::size_t kMaxCandidates = 24;  // covers per service
constexpr double kSlack = 1e-6;             // of bounds and of rows

void add(const std::vector<double>& load, double sign, std::vector<double>& sum) {
  for (std::size_t r = 0; r < sum.size(); ++r) sum[r] += sign * load[r];
}

// The last two rows only bound what is kept; every choice of covers can respect them.
bool fits(const std::vector<double>& load, const std::vector<double>& limit) {
  for (std::size_t r = 0; r + 2 < load.size(); ++r)
    if (load[r] > limit[r] + kSlack) return false;
  return true;
}

double excess(const std::vector<double>& load, const std::vector<double>& limit) {
  double over = 0;
  for (std::size_t r = 0; r + 2 < load.size(); ++r)
    over += std::max(0.0, load[r] - limit[r]) / (1 + limit[r]);
  return over;
}

template <typename Chosen>
std::vector<double> sum_of(const Chosen& chosen) {
  std::vector<double> sum(chosen.empty() ? 0 : chosen[0].load.size(), 0);
  for (const auto& candidate : chosen) add(candidate.load, 1, sum);
  return sum;
}

}  // namespace

NearestCounts::NearestCounts(const Site& site)
    : site_(site), running_(site.kinds.size(), Counts{}), candidates_(site.kinds.size()) {
  const auto models = at(site.entries());
  std::vector<std::vector<std::vector<double>>> kept(2, std::vector<std::vector<double>>(models));
  for (const SiteGpu& gpu : site.gpus) {
    double slices = 0;
    for (const auto* list : {&gpu.running, &gpu.clashing})
      for (const Running& running : *list) {
        const Spot& spot = site.spot(gpu.model, running.spot);
        ++running_[static_cast<std::size_t>(running.service)][spot.cls];
        slices += spot.gpcs;
      }
    // A group is kept on all of its GPUs.
    const Unit& unit = site.unit(gpu.model);
    for (int k = 0; k < unit.gpus; ++k) {
      kept[0][at(unit.entry)].push_back(
          k == 0 ? static_cast<double>(gpu.running.size() + gpu.clashing.size()) : 0);
      kept[1][at(unit.entry)].push_back(slices / unit.gpus);
    }
  }
  for (auto& what : kept)
    for (auto& list : what) {
      std::sort(list.begin(), list.end(), std::greater<>());
      list.insert(list.begin(), 0);
      std::partial_sum(list.begin(), list.end(), list.begin());
    }
  most_kept_ = std::move(kept);
  for (const Row& row : site.fleet.rows) {
    Constraint constraint;
    for (std::size_t k = 0; k < row.weight.size(); ++k)
      constraint.weight[k] = static_cast<double>(row.weight[k]);
    rows_.push_back(constraint);
  }
  for (const GroupRow& row : site.fleet.group_rows) {
    Constraint& constraint = rows_.emplace_back();
    for (std::size_t k = 0; k < row.weight.size(); ++k)
      constraint.weight[k] = static_cast<double>(row.weight[k]);
  }
  Constraint instances, slices;
  for (std::size_t k = 0; k < static_cast<std::size_t>(site.fleet.classes); ++k) {
    instances.kept[k] = 1;
    slices.kept[k] = site.fleet.gpcs[k];
  }
  rows_.push_back(instances);
  rows_.push_back(slices);
  multipliers_.assign(rows_.size(), 0);
}

std::vector<double> NearestCounts::limits(const std::vector<int>& gpus) const {
  std::vector<double> result;
  for (const Row& row : site_.fleet.rows)
    result.push_back(static_cast<double>(row.capacity) * gpus[static_cast<std::size_t>(row.model)]);
  for (const GroupRow& row : site_.fleet.group_rows)
    result.push_back(static_cast<double>(row.most));
  for (const auto& what : most_kept_) {
    double sum = 0;
    for (std::size_t m = 0; m < gpus.size(); ++m)
      sum += what[m][std::min(static_cast<std::size_t>(gpus[m]), what[m].size() - 1)];
    result.push_back(sum);
  }
  return result;
}

NearestCounts::Candidate NearestCounts::candidate(std::size_t service, const Counts& counts) const {
  Candidate result{counts, 0, std::vector<double>(rows_.size(), 0)};
  for (std::size_t k = 0; k < static_cast<std::size_t>(site_.fleet.classes); ++k) {
    const int kept = std::min(counts[k], running_[service][k]);
    result.created += counts[k] - kept;
    for (std::size_t r = 0; r < rows_.size(); ++r)
      result.load[r] += rows_[r].weight[k] * counts[k] + rows_[r].kept[k] * kept;
  }
  return result;
}

PricedCover NearestCounts::cheapest(std::size_t service,
                                    const std::vector<double>& multipliers) const {
  const Kind& kind = site_.kinds[service];
  std::vector<Item> items;  // kept instances of a class, and created ones
  for (int cls = 0; cls < site_.fleet.classes; ++cls) {
    const std::size_t k = at(cls);
    if (kind.rate[k] <= 0) continue;
    double price = 0, kept = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      price += multipliers[r] * rows_[r].weight[k];
      kept += multipliers[r] * rows_[r].kept[k];
    }
    // A kept instance may always be counted as a created one instead.
    if (running_[service][k] > 0)
      items.push_back({kind.rate[k], price + std::min(kept, 1.0), cls, running_[service][k]});
    items.push_back({kind.rate[k], price + 1, cls, INT32_MAX});
  }
  return cheapest_of(kind, items, kItemNodes);
}

void NearestCounts::remember(std::size_t service, const Candidate& candidate) {
  auto& list = candidates_[service];
  if (list.size() < kMaxCandidates && std::find(list.begin(), list.end(), candidate) == list.end())
    list.push_back(candidate);
}

void NearestCounts::price(const std::vector<int>& gpus, int target, int steps) {
  const std::vector<double> limit = limits(gpus);
  std::vector<double> multipliers = multipliers_;
  double best = -std::numeric_limits<double>::infinity(), scale = 1;
  for (int step = 0, idle = 0; step < steps; ++step) {
    Cut cut{multipliers, 0};
    std::vector<double> load_sum(rows_.size(), 0);
    for (std::size_t s = 0; s < running_.size(); ++s) {
      const PricedCover priced = cheapest(s, multipliers);
      cut.value += priced.bound;
      const Candidate found = candidate(s, priced.counts);
      add(found.load, 1, load_sum);
      remember(s, found);
    }
    double value = cut.value, norm = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      value -= multipliers[r] * limit[r];
      const double over = load_sum[r] - limit[r];
      if (over > 0 || multipliers[r] > 0) norm += over * over;
    }
    if (value > best + 1e-9) {
      best = value;
      multipliers_ = multipliers;
      cuts_.push_back(std::move(cut));
      idle = 0;
    } else if (++idle >= 5) {
      scale /= 2;
      idle = 0;
      multipliers = multipliers_;
    }
    if (norm < 1e-12 || scale < 1e-3 || std::ceil(best - kSlack) >= target) break;
    const double length = scale * std::max(0.5, target - value) / norm;
    for (std::size_t r = 0; r < rows_.size(); ++r)
      multipliers[r] = std::max(0.0, multipliers[r] + length * (load_sum[r] - limit[r]));
  }
}

int NearestCounts::bound(const std::vector<int>& gpus) const {
  const std::vector<double> limit = limits(gpus);
  double best = 0;
  for (const Cut& cut : cuts_) {
    double value = cut.value;
    for (std::size_t r = 0; r < rows_.size(); ++r) value -= cut.multipliers[r] * limit[r];
    best = std::max(best, value);
  }
  return static_cast<int>(std::ceil(best - kSlack * (1 + best * 1e-3)));
}

// Exchanges covers until all fits: at every step the exchange that removes the most excess per
// created instance.
std::optional<NearestCounts::Chosen> NearestCounts::repaired(
    Chosen chosen, const std::vector<double>& limit) const {
  std::vector<double> sum = sum_of(chosen);
  for (std::size_t step = 0; step <= chosen.size() + 50 && !fits(sum, limit); ++step) {
    double best = 0;
    std::size_t service = chosen.size();
    const Candidate* cover = nullptr;
    const double before = excess(sum, limit);
    for (std::size_t s = 0; s < chosen.size(); ++s) {
      for (const Candidate& other : candidates_[s]) {
        std::vector<double> next = sum;
        add(chosen[s].load, -1, next);
        add(other.load, 1, next);
        const double gain = before - excess(next, limit);
        const double value = gain / std::max(0.1, 0.5 + other.created - chosen[s].created);
        if (gain > 1e-9 && value > best) best = value, service = s, cover = &other;
      }
    }
    if (!cover) return std::nullopt;
    add(chosen[service].load, -1, sum);
    chosen[service] = *cover;
    add(chosen[service].load, 1, sum);
  }
  if (!fits(sum, limit)) return std::nullopt;
  return chosen;
}

// Exchanges of one cover that create less and still fit.
void NearestCounts::improve(Chosen& chosen, const std::vector<double>& limit) const {
  std::vector<double> sum = sum_of(chosen);
  for (bool better = true; better;) {
    better = false;
    for (std::size_t s = 0; s < chosen.size(); ++s)
      for (const Candidate& other : candidates_[s]) {
        if (other.created >= chosen[s].created) continue;
        std::vector<double> next = sum;
        add(chosen[s].load, -1, next);
        add(other.load, 1, next);
        if (!fits(next, limit)) continue;
        sum = std::move(next);
        chosen[s] = other;
        better = true;
      }
  }
}

std::vector<Counts> NearestCounts::counts(const std::vector<int>& gpus,
                                          const std::vector<Counts>& start, bool thorough) {
  const std::vector<double> limit = limits(gpus);
  const auto created = [](const Chosen& chosen) {
    int sum = 0;
    for (const Candidate& c : chosen) sum += c.created;
    return sum;
  };
  Chosen best;
  for (std::size_t s = 0; s < start.size(); ++s) best.push_back(candidate(s, start[s]));
  improve(best, limit);
  if (thorough) {
    Chosen nearest;
    for (std::size_t s = 0; s < start.size(); ++s) {
      nearest.push_back(candidate(s, cheapest(s, multipliers_).counts));
      remember(s, nearest.back());
    }
    if (auto fitting = repaired(std::move(nearest), limit)) {
      improve(*fitting, limit);
      if (created(*fitting) < created(best)) best = std::move(*fitting);
    }
  }
  std::vector<Counts> result;
  for (const Candidate& c : best) result.push_back(c.counts);
  return result;
}

}  // namespace partita::planners::serving
