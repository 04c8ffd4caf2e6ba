#include "planners/serving/incremental_counts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace partita::planners::serving {
namespace {

constexpr double kCountTolerance = 5e-10;  // as in cover.cc
constexpr int kPricingNodes = 3000;
constexpr std::size_t kMaxCandidates = 24;  // covers per service
constexpr double kSlack = 1e-6;             // of bounds and of rows

// Kept instances of a class, of which there are `most`, or created ones.
struct CountItem {
  std::size_t cls = 0;
  double rate = 0, price = 0;
  int most = 0;
};

// The cheapest cover from items of limited numbers; branch and bound in order of price per rate.
class ItemPricer {
 public:
  ItemPricer(const Kind& kind, std::vector<CountItem> items)
      : kind_(kind), items_(std::move(items)), chosen_(items_.size(), 0) {
    std::sort(items_.begin(), items_.end(), [](const CountItem& a, const CountItem& b) {
      const double left = a.price * b.rate, right = b.price * a.rate;
      if (left != right) return left < right;
      return a.rate != b.rate ? a.rate > b.rate : a.cls < b.cls;
    });
  }

  // A bound that holds also when the search stops early, and the counts of the best cover.
  std::pair<double, Counts> solve() {
    const double needed = kind_.demand * (1 - kCountTolerance);
    visit(0, needed, 0, 0);
    Counts counts{};
    for (std::size_t i = 0; i < items_.size(); ++i) counts[items_[i].cls] += best_[i];
    const double relaxed = fraction(0, needed, 0);
    return {nodes_ > kPricingNodes ? std::min(relaxed, cost_) : cost_, counts};
  }

 private:
  double fraction(std::size_t i, double left, double spent) const {
    for (; i < items_.size() && left > 0; ++i) {
      const double share = std::min(left / items_[i].rate, static_cast<double>(items_[i].most));
      spent += share * items_[i].price;
      left -= share * items_[i].rate;
    }
    return spent;
  }

  void visit(std::size_t i, double left, double spent, int taken) {
    if (left <= 0) return finish(spent, taken);
    if (i == items_.size() || (++nodes_ > kPricingNodes && !best_.empty())) return;
    const CountItem& item = items_[i];
    const int most =
        static_cast<int>(std::min(static_cast<double>(item.most), std::ceil(left / item.rate)));
    for (int n = most; n >= 0; --n) {
      const double rest = left - n * item.rate, now = spent + n * item.price;
      if (fraction(i + 1, rest, now) >= cost_ - 1e-12) {
        if (rest > 0) break;  // fewer of this item only make the rest dearer
        continue;
      }
      chosen_[i] = n;
      visit(i + 1, rest, now, taken + n);
    }
    chosen_[i] = 0;
  }

  // Adds the cheapest items left when there are fewer instances than wanted.
  void finish(double spent, int taken) {
    std::vector<int> counts = chosen_;
    std::vector<std::size_t> order(items_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return items_[a].price < items_[b].price;
    });
    for (const std::size_t i : order) {
      const int extra = std::clamp(kind_.min_count - taken, 0, items_[i].most - counts[i]);
      counts[i] += extra;
      taken += extra;
      spent += extra * items_[i].price;
    }
    if (spent >= cost_) return;
    cost_ = spent;
    best_ = std::move(counts);
  }

  const Kind& kind_;
  std::vector<CountItem> items_;
  std::vector<int> chosen_, best_;
  double cost_ = std::numeric_limits<double>::infinity();
  int nodes_ = 0;
};

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
  const std::size_t models = site.spots.size();
  std::vector<std::vector<std::vector<double>>> kept(2, std::vector<std::vector<double>>(models));
  for (const SiteGpu& gpu : site.gpus) {
    double slices = 0;
    for (const auto* list : {&gpu.running, &gpu.clashing})
      for (const Running& running : *list) {
        const Spot& spot = site.spot(gpu.model, running.spot);
        ++running_[static_cast<std::size_t>(running.service)][spot.cls];
        slices += spot.gpcs;
      }
    kept[0][static_cast<std::size_t>(gpu.model)].push_back(
        static_cast<double>(gpu.running.size() + gpu.clashing.size()));
    kept[1][static_cast<std::size_t>(gpu.model)].push_back(slices);
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

NearestCounts::Priced NearestCounts::cheapest(std::size_t service,
                                              const std::vector<double>& multipliers) const {
  const Kind& kind = site_.kinds[service];
  std::vector<CountItem> items;
  for (std::size_t k = 0; k < static_cast<std::size_t>(site_.fleet.classes); ++k) {
    if (kind.rate[k] <= 0) continue;
    double price = 0, kept = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      price += multipliers[r] * rows_[r].weight[k];
      kept += multipliers[r] * rows_[r].kept[k];
    }
    // A kept instance may always be counted as a created one instead.
    if (running_[service][k] > 0)
      items.push_back({k, kind.rate[k], price + std::min(kept, 1.0), running_[service][k]});
    items.push_back({k, kind.rate[k], price + 1, 1'000'000'000});
  }
  const auto [bound, counts] = ItemPricer(kind, std::move(items)).solve();
  return {bound, counts};
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
      const Priced priced = cheapest(s, multipliers);
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
