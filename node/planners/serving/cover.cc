#include "planners/serving/cover.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace partita::planners::serving {
namespace {

// Sums of rates carry rounding errors; half of the relative tolerance that plans are judged with.
constexpr double kRateTolerance = 5e-10;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool works(const Mode& mode) {
  return std::any_of(mode.rate.begin(), mode.rate.end(), [](double rate) { return rate > 0; });
}

struct Item {
  int index;
  double rate;
  double price;
};

// Branch and bound over the classes in order of price per rate; each takes from all that is left
// down to none.
class Pricer {
 public:
  // Only covers below `best` are of interest.
  Pricer(const Mode& mode, int min_count, const Prices& prices, int classes, double best)
      : mode_(mode), min_count_(min_count), best_(best) {
    for (int k = 0; k < classes; ++k) {
      const auto at = static_cast<std::size_t>(k);
      if (mode.rate[at] > 0) items_[count_++] = {k, mode.rate[at], prices[at]};
    }
    CHECK(count_ > 0);
    std::sort(items_.begin(), items_.begin() + count_, [](const Item& a, const Item& b) {
      const double left = a.price * b.rate, right = b.price * a.rate;
      return left != right ? left < right : a.rate != b.rate ? a.rate > b.rate : a.index < b.index;
    });
    cheapest_ = 0;
    for (std::size_t i = 1; i < count_; ++i)
      if (items_[i].price < items_[cheapest_].price) cheapest_ = i;
  }

  PricedCover solve() {
    visit(0, needed(mode_), 0, 0);
    PricedCover result{best_, Counts{}};
    for (std::size_t i = 0; i < count_; ++i)
      result.counts[static_cast<std::size_t>(items_[i].index)] = best_counts_[i];
    // The linear relaxation stays a bound where the search stopped.
    if (nodes_ > kPricingNodes)
      result.bound = std::min(best_, items_[0].price / items_[0].rate * needed(mode_));
    return result;
  }

 private:
  void visit(std::size_t i, double left, double spent, int taken) {
    if (left <= 0) return finish(spent, taken);
    if (i == count_ || ++nodes_ > kPricingNodes) return;
    const Item& item = items_[i];
    if (!improves(spent + left * item.price / item.rate)) return;
    const double most = std::ceil(left / item.rate);
    for (auto n = static_cast<std::int32_t>(std::min(most, 1e9)); n >= 0; --n) {
      const double rest = left - n * item.rate;
      const double now = spent + n * item.price;
      if (rest > 0) {
        if (i + 1 == count_) break;
        const Item& next = items_[i + 1];
        // Fewer of this class only make the rest dearer.
        if (!improves(now + rest * next.price / next.rate)) break;
      }
      chosen_[i] = n;
      visit(i + 1, rest, now, taken + n);
    }
    chosen_[i] = 0;
  }

  bool improves(double bound) const { return bound < best_ - 1e-12 * (1 + std::abs(bound)); }

  void finish(double spent, int taken) {
    const int extra = std::max(0, min_count_ - taken);
    const double price = spent + extra * items_[cheapest_].price;
    if (!improves(price)) return;
    best_ = price;
    best_counts_ = chosen_;
    best_counts_[cheapest_] += extra;
  }

  const Mode& mode_;
  const int min_count_;
  std::array<Item, kMaxClasses> items_{};
  std::size_t count_ = 0;
  std::size_t cheapest_ = 0;
  std::array<std::int32_t, kMaxClasses> chosen_{}, best_counts_{};
  double best_;
  int nodes_ = 0;
};

// Depth-first enumeration of the covers that cannot be shrunk.
class Enumerator {
 public:
  Enumerator(const Kind& kind, const Mode& mode, const Prices& prices, const Smaller& smaller,
             const EnumerationLimits& limits)
      : kind_(kind), mode_(mode), prices_(prices), smaller_(smaller), limits_(limits) {
    for (std::size_t k = 0; k < smaller.size(); ++k)
      if (mode.rate[k] > 0) order_.push_back(k);
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return mode.rate[a] != mode.rate[b] ? mode.rate[a] > mode.rate[b] : a < b;
    });
    // ratio_[i]: the least price per rate from position i on.
    ratio_.assign(order_.size() + 1, kInfinity);
    for (std::size_t i = order_.size(); i-- > 0;)
      ratio_[i] = std::min(ratio_[i + 1], prices[order_[i]] / mode.rate[order_[i]]);
    for (const std::size_t k : order_)
      if (std::none_of(smaller[k].begin(), smaller[k].end(),
                       [&](int j) { return mode.rate[static_cast<std::size_t>(j)] > 0; }))
        smallest_.push_back(k);
  }

  Enumeration run() {
    visit(0, needed(mode_), 0, 0);
    return std::move(result_);
  }

 private:
  void visit(std::size_t i, double left, double spent, int taken) {
    if (!result_.complete) return;
    if (left <= 0) return finish(spent, taken);
    if (i == order_.size() || spent + left * ratio_[i] > limits_.budget) return;
    if (++nodes_ > 64 * limits_.covers) {
      result_.complete = false;
      return;
    }
    const std::size_t k = order_[i];
    const double most = std::ceil(left / mode_.rate[k]);
    for (auto n = static_cast<std::int32_t>(std::min(most, 1e9)); n >= 0; --n) {
      const double now = spent + n * prices_[k];
      const double rest = left - n * mode_.rate[k];
      if (now > limits_.budget) continue;
      // Fewer of this class leave more to the dearer ones; stop where nothing later can still
      // afford it.
      if (rest > 0 && i + 1 == order_.size()) break;
      chosen_[k] = n;
      visit(i + 1, rest, now, taken + n);
      if (!result_.complete) break;
    }
    chosen_[k] = 0;
  }

  // Whether an instance could be left out or replaced by a smaller class.
  bool shrinkable(int taken) const {
    double sum = 0;
    for (const std::size_t k : order_) sum += chosen_[k] * mode_.rate[k];
    const double need = needed(mode_);
    for (const std::size_t k : order_) {
      if (chosen_[k] == 0) continue;
      if (sum - mode_.rate[k] >= need && taken > kind_.min_count) return true;
      for (const int j : smaller_[k]) {
        const double other = mode_.rate[static_cast<std::size_t>(j)];
        if (other > 0 && sum - mode_.rate[k] + other >= need) return true;
      }
    }
    return false;
  }

  void finish(double spent, int taken) {
    if (shrinkable(taken)) return;
    if (taken >= kind_.min_count) return keep(spent, taken);
    const int extra = kind_.min_count - taken;
    // Extra replicas are of a smallest class; with several smallest ones only unmixed extras are
    // tried.
    if (smallest_.size() > 1) result_.complete = false;
    for (const std::size_t k : smallest_) {
      chosen_[k] += extra;
      keep(spent + extra * prices_[k], kind_.min_count);
      chosen_[k] -= extra;
    }
  }

  void keep(double spent, int taken) {
    if (spent > limits_.budget || taken > kind_.max_count) return;
    if (result_.covers.size() >= limits_.covers) {
      result_.complete = false;
      return;
    }
    result_.covers.push_back(chosen_);
  }

  const Kind& kind_;
  const Mode& mode_;
  const Prices& prices_;
  const Smaller& smaller_;
  const EnumerationLimits& limits_;
  std::vector<std::size_t> order_;
  std::vector<double> ratio_;
  std::vector<std::size_t> smallest_;
  Counts chosen_{};
  Enumeration result_;
  std::size_t nodes_ = 0;
};

}  // namespace

double needed(const Mode& mode) { return mode.demand * (1 - kRateTolerance); }

double carried(const Mode& mode, const Counts& counts, int classes) {
  double sum = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(classes); ++k)
    sum += counts[k] * mode.rate[k];
  return sum;
}

double cost(const Counts& counts, const Prices& prices, int classes) {
  double sum = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(classes); ++k) sum += counts[k] * prices[k];
  return sum;
}

int total(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), 0); }

bool covers(const Kind& kind, const Counts& counts, int classes) {
  return mode_of(kind, counts, classes) >= 0 && total(counts) >= kind.min_count;
}

int mode_of(const Kind& kind, const Counts& counts, int classes) {
  int best = -1;
  double most = 0;
  for (int m = 0; m < modes(kind); ++m) {
    const Mode& one = mode(kind, m);
    const double sum = carried(one, counts, classes);
    if (!works(one) || sum < needed(one)) continue;
    // Counts with a class that the mode cannot use belong to another mode.
    bool all = true;
    for (std::size_t k = 0; k < static_cast<std::size_t>(classes); ++k)
      all = all && (counts[k] == 0 || one.rate[k] > 0);
    if (!all || (best >= 0 && sum <= most * one.demand)) continue;
    best = m;
    most = one.demand > 0 ? sum / one.demand : kInfinity;
  }
  return best;
}

bool usable(const Kind& kind, std::size_t cls) {
  if (kind.rate[cls] > 0) return true;
  return std::any_of(kind.others.begin(), kind.others.end(),
                     [&](const Mode& other) { return other.rate[cls] > 0; });
}

PricedCover cheapest_cover(const Kind& kind, const Prices& prices, int classes) {
  PricedCover best{kInfinity, Counts{}};
  double least = kInfinity;
  for (int m = 0; m < modes(kind); ++m) {
    if (kind.others.size() > 0 && !works(mode(kind, m))) continue;
    const PricedCover priced =
        Pricer(mode(kind, m), kind.min_count, prices, classes, least).solve();
    best.bound = std::min(best.bound, priced.bound);
    if (least < kInfinity && total(priced.counts) == 0) continue;  // none is cheaper
    best.counts = priced.counts;
    least = cost(best.counts, prices, classes);
  }
  return best;
}

Enumeration enumerate_covers(const Kind& kind, const Prices& prices, const Smaller& smaller,
                             const EnumerationLimits& limits) {
  Enumeration all;
  for (int m = 0; m < modes(kind); ++m) {
    const Mode& one = mode(kind, m);
    if (!works(one)) continue;
    Enumeration some = Enumerator(kind, one, prices, smaller, limits).run();
    all.complete = all.complete && some.complete;
    if (m == 0) {
      all.covers = std::move(some.covers);
    } else {
      all.covers.insert(all.covers.end(), some.covers.begin(), some.covers.end());
    }
  }
  return all;
}

}  // namespace partita::planners::serving
