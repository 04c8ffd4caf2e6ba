#include "planners/serving/cover.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/index.h"

namespace partita::planners::serving {
namespace {

// Sums of rates carry rounding errors; half of the relative tolerance that plans are judged with.
constexpr double kRateTolerance = 5e-10;
constexpr double kRounding = 1e-9;  // of a sum of prices
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kCountPriceSteps = 24;

bool works(const Mode& mode) {
  return std::isfinite(mode.demand) &&
         std::ranges::any_of(mode.rate, [](double rate) { return rate > 0; });
}

// Counts with a class that the mode cannot use belong to another mode.
bool covers_in(const Mode& mode, const Counts& counts, int classes) {
  if (!std::isfinite(mode.demand) || carried(mode, counts, classes) < needed(mode)) return false;
  for (std::size_t k = 0; k < at(classes); ++k)
    if (counts[k] > 0 && mode.rate[k] <= 0) return false;
  return works(mode);
}

// Requests go to the classes that burn least first; what no instance has room for costs the least
// of all.
double filled(const Burn& burn, const Counts& counts, double demand, int classes) {
  std::array<std::pair<double, std::size_t>, kMaxClasses> order;
  std::size_t used = 0;
  double cheapest = kNoWatts;
  for (std::size_t k = 0; k < at(classes); ++k)
    if (burn.most[k] > 0) {
      cheapest = std::min(cheapest, burn.least[k]);
      if (counts[k] > 0) order[used++] = {burn.least[k], k};
    }
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(used));
  double left = std::min(burn.rate, demand), watts = (burn.rate - left) * cheapest;
  for (std::size_t i = 0; i < used && left > 0; ++i) {
    const double part = std::min(left, counts[order[i].second] * burn.most[order[i].second]);
    watts += part * order[i].first;
    left -= part;
  }
  return watts + std::max(0.0, left) * (used > 0 ? order[used - 1].first : 0);
}

// Branch and bound over the items of one mode, those first that are the cheapest per rate (or burn
// least); each takes from all that is left down to none.
template <bool kBurns, std::size_t kMostItems>
class Pricer {
 public:
  // Only covers below `best` are of interest.
  Pricer(const Kind& kind, const Mode& mode, int nodes, double best)
      : kind_(kind), mode_(mode), burn_(kind.burn.get()), nodes_(nodes), best_(best) {}

  void add(const Item& item) { items_[count_++] = item; }
  void add(const Prices& prices, int classes) {
    classes_ = classes;
    for (int k = 0; k < classes; ++k)
      if (mode_.rate[at(k)] > 0) add({mode_.rate[at(k)], prices[at(k)], k, INT32_MAX});
  }

  PricedCover solve() {
    CHECK(count_ > 0);
    Left all{needed(mode_), 0, 0, 0};
    sort();
    if constexpr (kBurns) all = start_burning(all.demand);
    const double root = all.spent + rest(0, all);
    if (all.demand <= 0 || improves(root)) visit(0, all);
    // The relaxation stays a bound where the search stopped.
    PricedCover result{std::min(best_, nodes_ < 0 ? root : stretched_), Counts{}};
    for (std::size_t i = 0; i < count_; ++i) result.counts[at(items_[i].cls)] += best_counts_[i];
    return result;
  }

 private:
  using Numbers = std::array<std::int32_t, kMostItems>;  // per item
  // What is to be carried yet, and (where watts count) requests that no instance has.
  struct Left {
    double demand, rate, spent;
    int taken;
  };
  // Joules per request and watts per unit of capacity such that no instance is worth more than its
  // price: the dual of the relaxation where watts count.
  struct Dual {
    double joules, watts;
  };

  void sort() {
    const auto by_price = [](const Item& a, const Item& b) {
      const double left = a.price * b.rate, right = b.price * a.rate;
      return left != right ? left < right : a.rate != b.rate ? a.rate > b.rate : a.cls < b.cls;
    };
    const auto by_burn = [&](const Item& a, const Item& b) {
      return std::tuple(burn_->least[at(a.cls)], a.price / a.rate, a.cls) <
             std::tuple(burn_->least[at(b.cls)], b.price / b.rate, b.cls);
    };
    const auto end = items_.begin() + static_cast<std::ptrdiff_t>(count_);
    if constexpr (kBurns) return std::sort(items_.begin(), end, by_burn);
    std::sort(items_.begin(), end, by_price);
  }

  Left start_burning(double demand) {
    double cheapest = kNoWatts;
    for (std::size_t k = 0; k < kMaxClasses; ++k)
      if (burn_->most[k] > 0) cheapest = std::min(cheapest, burn_->least[k]);
    joules_ = burn_->rate * cheapest;
    for (std::size_t i = 0; i <= count_; ++i) duals_.push_back(duals_from(i));
    for (std::size_t i = 0; i < count_; ++i) {
      const double number = std::max(std::ceil(demand / items_[i].rate), 1.0 * kind_.min_count);
      chosen_[i] = static_cast<std::int32_t>(std::min(number, 1e9));
      keep(chosen_, burning(chosen_));
      chosen_[i] = 0;
    }
    const double served = std::min(burn_->rate, mode_.demand);
    return {demand, served, (burn_->rate - served) * cheapest, 0};
  }

  std::vector<Dual> duals_from(std::size_t first) const {
    std::vector<double> all;
    double most = kNoWatts;
    for (std::size_t i = first; i < count_; ++i) {
      const std::size_t k = at(items_[i].cls);
      all.push_back(burn_->least[k]);
      most = std::min(most, burn_->least[k] + items_[i].price / burn_->most[k]);
    }
    all.push_back(most);
    std::vector<Dual> duals;
    for (const double joules : all) {
      if (!std::isfinite(joules) || joules > most) continue;
      double watts = kNoWatts;
      for (std::size_t i = first; i < count_; ++i) {
        const std::size_t k = at(items_[i].cls);
        const double worth = burn_->most[k] * std::max(0.0, joules - burn_->least[k]);
        watts = std::min(watts, std::max(0.0, items_[i].price - worth) / items_[i].rate);
      }
      duals.push_back({joules, watts});
    }
    return duals;
  }

  // What the items from i on cost at least for what is left.
  double rest(std::size_t i, const Left& left) const {
    if constexpr (kBurns) return burning_rest(i, left);
    double demand = left.demand, spent = 0;
    for (; i < count_; ++i) {
      const Item& item = items_[i];
      if (demand <= item.most * item.rate) return spent + demand * item.price / item.rate;
      spent += item.most * item.price;
      demand -= item.most * item.rate;
    }
    return kInfinity;
  }
  double burning_rest(std::size_t i, const Left& left) const {
    if (duals_[i].empty()) return left.rate > 0 || left.demand > 0 ? kNoWatts : 0;
    double most = 0;
    for (const Dual& dual : duals_[i])
      most = std::max(most, dual.joules * std::max(0.0, left.rate) +
                                dual.watts * std::max(0.0, left.demand));
    return most;
  }

  bool improves(double bound) const { return bound < best_ - 1e-12 * (1 + std::abs(bound)); }

  void visit(std::size_t i, const Left& left) {
    if (left.demand <= 0) return finish(left);
    if (i == count_ || --nodes_ < 0) return;
    const Item& item = items_[i];
    const double enough = std::min(std::ceil(left.demand / item.rate), 1.0 * item.most);
    for (auto n = static_cast<std::int32_t>(std::min(enough, 1e9)); n >= 0; --n) {
      Left next{left.demand - n * item.rate, left.rate, left.spent + n * item.price,
                left.taken + n};
      if constexpr (kBurns) {
        if (--nodes_ < 0) break;
        const double part = std::min(left.rate, n * burn_->most[at(item.cls)]);
        next.rate -= part;
        next.spent += part * burn_->least[at(item.cls)];
      }
      if (next.demand > 0 && !improves(next.spent + rest(i + 1, next))) {
        if constexpr (kBurns) continue;
        break;  // fewer of this one only make the rest dearer
      }
      chosen_[i] = n;
      visit(i + 1, next);
    }
    chosen_[i] = 0;
  }

  // A cover; with replicas missing, as many more of the cheapest.
  void finish(const Left& left) {
    if (!kBurns && !improves(left.spent)) return;
    Numbers numbers = chosen_;
    double spent = left.spent;
    const bool few = left.taken < kind_.min_count;
    if (few) spent += fill_up(numbers, kind_.min_count - left.taken);
    if constexpr (!kBurns) return keep(numbers, spent);
    // Others than the cheapest might carry at less: no better than this.
    if (few) stretched_ = std::min(stretched_, paid(numbers) + joules_);
    keep(numbers, burning(numbers));
  }
  double fill_up(Numbers& numbers, int extra) const {
    double spent = 0;
    while (extra > 0) {
      std::size_t least = count_;
      for (std::size_t i = 0; i < count_; ++i)
        if (numbers[i] < items_[i].most &&
            (least == count_ || items_[i].price < items_[least].price))
          least = i;
      if (least == count_) return kInfinity;
      const int some = std::min(extra, items_[least].most - numbers[least]);
      numbers[least] += some;
      spent += some * items_[least].price;
      extra -= some;
    }
    return spent;
  }
  double paid(const Numbers& numbers) const {
    double sum = 0;
    for (std::size_t i = 0; i < count_; ++i) sum += numbers[i] * items_[i].price;
    return sum;
  }
  double burning(const Numbers& numbers) const {
    Counts counts{};
    for (std::size_t i = 0; i < count_; ++i) counts[at(items_[i].cls)] += numbers[i];
    return paid(numbers) + least_watts_of(kind_, counts, classes_);
  }
  void keep(const Numbers& numbers, double price) {
    if (!improves(price)) return;
    best_ = price;
    best_counts_ = numbers;
  }

  const Kind& kind_;
  const Mode& mode_;
  const Burn* burn_;
  std::array<Item, kMostItems> items_;
  std::size_t count_ = 0;
  std::vector<std::vector<Dual>> duals_;  // of the items from there on
  Numbers chosen_{}, best_counts_{};
  int nodes_;
  double best_, stretched_ = kInfinity;
  double joules_ = 0;  // of all requests, at least
  int classes_ = kMaxClasses;
};

// Depth-first enumeration, mode by mode, of the covers that can matter.
class Enumerator {
 public:
  Enumerator(const Kind& kind, const Prices& prices, const Smaller& smaller,
             const EnumerationLimits& limits)
      : kind_(kind), prices_(prices), smaller_(smaller), limits_(limits) {}

  void add(const Mode& mode) {
    if (!works(mode)) return;
    mode_ = &mode;
    order_.clear();
    floor_ = kind_.burn ? kNoWatts : 0;
    for (std::size_t k = 0; k < smaller_.size(); ++k) {
      if (mode.rate[k] <= 0) continue;
      order_.push_back(k);
      if (kind_.burn) floor_ = std::min(floor_, kind_.burn->least[k] * kind_.burn->rate);
    }
    std::ranges::sort(order_, {}, [&](std::size_t k) { return std::pair(-mode.rate[k], k); });
    // ratio_[i]: the least price per rate from position i on.
    ratio_.assign(order_.size() + 1, kInfinity);
    for (std::size_t i = order_.size(); i-- > 0;)
      ratio_[i] = std::min(ratio_[i + 1], prices_[order_[i]] / mode.rate[order_[i]]);
    stopped_ = false;
    if (!kind_.burn) nodes_ = 0, first_ = found_.size();
    visit(0, needed(mode), 0, 0);
    complete_ = complete_ && !stopped_;
  }

  Enumeration result() const {
    Enumeration all{{}, complete_};
    all.covers.reserve(found_.size());
    for (const Found& found : found_) all.covers.push_back(found.counts);
    return all;
  }

 private:
  struct Found {
    Counts counts;
    double least, watts;
  };

  // Steps of visit() outside of which the rest, at the least price per rate, is too dear for
  // certain: of much that is asked for they are nearly all, and looking at each takes its time.
  std::pair<std::int32_t, std::int32_t> affordable(std::size_t i, double left, double spent,
                                                   std::int32_t top) const {
    const std::size_t k = order_[i];
    const double ratio = ratio_[i + 1], rate = mode_->rate[k];
    if (kind_.burn || !std::isfinite(ratio)) return {0, top};
    // Each fewer of this class changes what all costs by `more`.
    const double more = rate * ratio - prices_[k];
    const double with_top = spent + top * prices_[k] + (left - top * rate) * ratio;
    const double tolerance = kRounding * (std::abs(with_top) + std::abs(limits_.budget));
    if (std::abs(more) * top <= tolerance) return {0, top};
    const double at_most = (limits_.budget + tolerance - with_top) / more;
    if (more > 0)
      return {0, static_cast<std::int32_t>(std::clamp(std::floor(at_most) + 1, -1.0, 1.0 * top))};
    return {static_cast<std::int32_t>(std::clamp(std::ceil(at_most) - 1, 0.0, top + 1.0)), top};
  }

  void visit(std::size_t i, double left, double spent, int taken) {
    if (stopped_) return;
    const bool all = i == order_.size();
    const bool ends = left <= 0 && (all || !kind_.burn);
    if (ends && !kind_.burn) return finish(spent, taken);
    if (!ends && (all || spent + floor_ + std::max(0.0, left) * ratio_[i] > limits_.budget)) return;
    if (++nodes_ > 64 * limits_.covers) {
      stopped_ = true;
      return;
    }
    if (ends) return finish(spent, taken);
    const std::size_t k = order_[i];
    // Where watts count, more than what carries the rate can burn less.
    double most = std::ceil((kind_.burn ? needed(*mode_) : left) / mode_->rate[k]);
    if (kind_.burn) most = std::max(most, 1.0 * kind_.min_count);
    // Those that are too dear are many where much is asked for; the last one is looked at below.
    if (!kind_.burn && prices_[k] > 0)
      most = std::clamp(std::floor((limits_.budget - spent) / prices_[k]) + 1, 0.0, most);
    const auto top = static_cast<std::int32_t>(std::min(most, 1e9));
    const auto [from, to] = affordable(i, left, spent, top);
    for (std::int32_t step = from; step <= to; ++step) {
      const std::int32_t n = kind_.burn ? step : top - step;  // first those that beat others
      const double now = spent + n * prices_[k];
      const double rest = left - n * mode_->rate[k];
      // Fewer of this class leave more to the dearer ones; stop where nothing later can still
      // afford it.
      const bool dear = now > limits_.budget, short_of = rest > 0 && i + 1 == order_.size();
      if (kind_.burn ? dear : short_of) break;
      if (dear || short_of) continue;
      chosen_[k] = n;
      visit(i + 1, rest, now, taken + n);
      if (stopped_) break;
    }
    chosen_[k] = 0;
  }

  // Whether an instance could be left out or replaced by a smaller class.
  bool shrinkable(int taken) const {
    double sum = 0;
    for (const std::size_t k : order_) sum += chosen_[k] * mode_->rate[k];
    const double need = needed(*mode_);
    for (const std::size_t k : order_) {
      if (chosen_[k] == 0) continue;
      if (sum - mode_->rate[k] >= need && taken > kind_.min_count) return true;
      for (const int j : smaller_[k]) {
        const double other = mode_->rate[at(j)];
        if (other > 0 && sum - mode_->rate[k] + other >= need) return true;
      }
    }
    return false;
  }

  void finish(double spent, int taken) {
    if (kind_.burn) {
      if (taken >= kind_.min_count) keep(spent, taken);
      return;
    }
    if (shrinkable(taken)) return;
    if (taken >= kind_.min_count) return keep(spent, taken);
    // Extra replicas are of a smallest class; with several smallest ones only unmixed extras are
    // tried.
    const int extra = kind_.min_count - taken;
    int smallest = 0;
    for (const std::size_t k : order_) {
      if (std::ranges::any_of(smaller_[k], [&](int j) { return mode_->rate[at(j)] > 0; })) continue;
      if (++smallest > 1) complete_ = false;
      chosen_[k] += extra;
      keep(spent + extra * prices_[k], kind_.min_count);
      chosen_[k] -= extra;
    }
  }

  bool beats(const Found& a, const Found& b) const {
    if (a.least > b.least || a.watts > b.watts) return false;
    for (const std::size_t k : order_)
      if (a.counts[k] > b.counts[k]) return false;
    return true;
  }

  void keep(double spent, int taken) {
    const int classes = static_cast<int>(smaller_.size());
    Found fresh{chosen_, least_watts_of(kind_, chosen_, classes), 0};
    if (spent + fresh.least > limits_.budget || taken > kind_.max_count) return;
    if (kind_.burn) {
      fresh.watts = watts_of(kind_, chosen_, classes).watts;
      if (std::ranges::any_of(found_, [&](const Found& f) { return beats(f, fresh); })) return;
      std::erase_if(found_, [&](const Found& f) { return beats(fresh, f); });
    }
    if (found_.size() - first_ >= limits_.covers) {
      stopped_ = true;
      return;
    }
    found_.push_back(fresh);
  }

  const Kind& kind_;
  const Prices& prices_;
  const Smaller& smaller_;
  const EnumerationLimits& limits_;
  const Mode* mode_ = nullptr;
  std::vector<std::size_t> order_;
  std::vector<double> ratio_;
  double floor_ = 0;  // of the own cost
  Counts chosen_{};
  std::vector<Found> found_;
  std::size_t first_ = 0;  // of this mode
  std::size_t nodes_ = 0;
  bool stopped_ = false, complete_ = true;
};

}  // namespace

double needed(const Mode& mode) { return mode.demand * (1 - kRateTolerance); }

double carried(const Mode& mode, const Counts& counts, int classes) {
  double sum = 0;
  for (std::size_t k = 0; k < at(classes); ++k) sum += counts[k] * mode.rate[k];
  return sum;
}

double cost(const Counts& counts, const Prices& prices, int classes) {
  double sum = 0;
  for (std::size_t k = 0; k < at(classes); ++k) sum += counts[k] * prices[k];
  return sum;
}

int total(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), 0); }

bool covers(const Kind& kind, const Counts& counts, int classes) {
  if (total(counts) < kind.min_count) return false;
  for (int m = 0; m < modes(kind); ++m)
    if (covers_in(mode(kind, m), counts, classes)) return true;
  return false;
}

int mode_of(const Kind& kind, const Counts& counts, int classes) {
  int best = -1;
  double most = 0;
  for (int m = 0; m < modes(kind); ++m) {
    const Mode& one = mode(kind, m);
    if (!covers_in(one, counts, classes)) continue;
    const double sum = carried(one, counts, classes);
    if (best >= 0 && sum <= most * one.demand) continue;
    best = m;
    most = one.demand > 0 ? sum / one.demand : kInfinity;
  }
  return best;
}

bool usable(const Kind& kind, std::size_t cls) {
  if (kind.rate[cls] > 0) return true;
  return std::ranges::any_of(kind.others, [&](const Mode& other) { return other.rate[cls] > 0; });
}

Watted watts_of(const Kind& kind, const Counts& counts, int classes) {
  Watted best;
  for (int m = 0; m < modes(kind); ++m) {
    const Mode& one = mode(kind, m);
    if (!covers_in(one, counts, classes)) continue;
    double joules = 0;
    for (std::size_t k = 0; k < at(classes); ++k)
      joules += counts[k] * one.rate[k] * kind.burn->joules[at(m)][k];
    const double watts = kind.burn->rate * joules / carried(one, counts, classes);
    if (watts < best.watts) best = {watts, m};
  }
  return best;
}

double least_watts_of(const Kind& kind, const Counts& counts, int classes) {
  if (!kind.burn) return 0;
  double least = kNoWatts;
  for (int m = 0; m < modes(kind); ++m)
    if (const Mode& one = mode(kind, m); covers_in(one, counts, classes))
      least = std::min(least, filled(*kind.burn, counts, one.demand, classes));
  return least;
}

namespace {

template <bool kBurns>
PricedCover priced_in(const Kind& kind, const Mode& mode, const Prices& prices, int classes,
                      double best) {
  Pricer<kBurns, kMaxClasses> pricer(kind, mode, kPricingNodes, best);
  pricer.add(prices, classes);
  return pricer.solve();
}

}  // namespace

PricedCover cheapest_cover(const Kind& kind, const Prices& prices, int classes) {
  PricedCover best{kInfinity, Counts{}};
  double least = kInfinity;
  for (int m = 0; m < modes(kind); ++m) {
    if (kind.others.size() > 0 && !works(mode(kind, m))) continue;
    const PricedCover priced = kind.burn
                                   ? priced_in<true>(kind, mode(kind, m), prices, classes, least)
                                   : priced_in<false>(kind, mode(kind, m), prices, classes, least);
    best.bound = std::min(best.bound, priced.bound);
    if (least < kInfinity && total(priced.counts) == 0) continue;  // none is cheaper
    best.counts = priced.counts;
    least = cost(best.counts, prices, classes) + least_watts_of(kind, best.counts, classes);
  }
  return best;
}

PricedCover cheapest_of(const Kind& kind, const std::vector<Item>& items, int nodes) {
  Pricer<false, 2 * kMaxClasses> pricer(kind, kind, nodes, kInfinity);
  for (const Item& item : items) pricer.add(item);
  return pricer.solve();
}

PricedCover cheapest_within(const Kind& kind, const Prices& prices, int classes) {
  PricedCover best = cheapest_cover(kind, prices, classes);
  if (total(best.counts) <= kind.max_count) return best;
  // A price on every instance; the dearest that is of interest makes the fewest instances cheapest.
  double high = 1e-3, low = 0;
  for (std::size_t k = 0; k < at(classes); ++k) high = std::max(high, 64 * prices[k]);
  std::optional<Counts> within;
  for (int step = 0; step < kCountPriceSteps; ++step) {
    const double extra = step == 0 ? high : (low + high) / 2;
    Prices raised = prices;
    for (double& price : raised) price += extra;
    const PricedCover priced = cheapest_cover(kind, raised, classes);
    best.bound = std::max(best.bound, priced.bound - extra * kind.max_count);
    if (total(priced.counts) > kind.max_count) {
      if (step == 0) break;
      low = extra;
      continue;
    }
    high = extra;
    if (!within || cost(priced.counts, prices, classes) < cost(*within, prices, classes))
      within = priced.counts;
  }
  if (within) best.counts = *within;
  return best;
}

Enumeration enumerate_covers(const Kind& kind, const Prices& prices, const Smaller& smaller,
                             const EnumerationLimits& limits) {
  Enumerator enumerator(kind, prices, smaller, limits);
  for (int m = 0; m < modes(kind); ++m) enumerator.add(mode(kind, m));
  return enumerator.result();
}

}  // namespace partita::planners::serving
