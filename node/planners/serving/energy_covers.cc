#include "planners/serving/energy_covers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "base/index.h"

namespace partita::planners::serving {
namespace {

bool serves(const Mode& mode) {
  return std::isfinite(mode.demand) &&
         std::ranges::any_of(mode.rate, [](double rate) { return rate > 0; });
}

bool covers_in(const Mode& mode, const Counts& counts, int classes) {
  for (std::size_t k = 0; k < at(classes); ++k)
    if (counts[k] > 0 && mode.rate[k] <= 0) return false;
  return serves(mode) && carried(mode, counts, classes) >= needed(mode);
}

// Watts above idle of an instance that is always busy.
double busy_watts(const plan::FleetEntry& entry, const std::string& model, int gpcs) {
  const auto measured = entry.power->measured.find(model);
  if (measured != entry.power->measured.end()) {
    const auto found = measured->second.find(gpcs);
    if (found != measured->second.end()) return found->second.value;
  }
  return (entry.power->busy - entry.power->idle).value * gpcs / entry.gpu.compute_slices;
}

// One service's figures, class by class.
class BurnMaker {
 public:
  BurnMaker(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
            const Fleet& fleet)
      : problem_(problem), modes_(modes), fleet_(fleet) {}

  Burn make(std::size_t service) const {
    Burn burn;
    burn.rate = problem_.services[service].rate.value;
    burn.joules.assign(modes_.size(), Prices{});
    for (std::size_t e = 0; e < problem_.fleet.size(); ++e)
      for (std::size_t k = 0; k < modes_.front()[e].profiles.size(); ++k)
        add_class(burn, service, e, k);
    return burn;
  }

 private:
  void add_class(Burn& burn, std::size_t service, std::size_t e, std::size_t k) const {
    const plan::FleetEntry& entry = problem_.fleet[e];
    const std::string& model = problem_.services[service].model;
    const auto found = entry.profiles.find(model);
    if (found == entry.profiles.end()) return;
    const std::size_t cls = at(fleet_.first_class[e]) + k;
    const int gpcs = entry.gpu.profiles[at(modes_.front()[e].profiles[k])].gpcs;
    const double watts = busy_watts(entry, model, gpcs);
    const bool pooled = problem_.rule.kind == plan::SloRule::Kind::pooled;
    double fastest = 0, carries = 0;
    for (const profile::ProfilePoint& point : found->second.points)
      if (point.gpcs == gpcs && point.processes <= problem_.max_processes &&
          in_time(point, problem_.services[service]))
        fastest = std::max(fastest, point.throughput.value);
    for (std::size_t m = 0; m < modes_.size(); ++m) {
      const auto& best = modes_[m][e].best[service][k];
      if (!best) continue;
      burn.joules[m][cls] = joules_per_request(entry, model, {gpcs, best->batch, best->processes});
      carries = std::max(carries, best->throughput.value);
    }
    if (fastest <= 0) return;
    burn.least[cls] = watts / fastest;
    burn.most[cls] = pooled ? fastest : carries;
  }

  // Whether full batches of a point end as the rule asks.
  bool in_time(const profile::ProfilePoint& point, const plan::Service& service) const {
    const bool execution = problem_.rule.kind == plan::SloRule::Kind::execution;
    return execution ? point.latency < problem_.rule.fraction * service.slo
                     : profile::batch_time(point) <= service.slo;
  }

  const plan::ServingProblem& problem_;
  const std::vector<PointTables>& modes_;
  const Fleet& fleet_;
};

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

// Branch and bound over the classes of one mode, those that burn least first. The bound of what is
// left comes from the dual of its linear relaxation: with theta joules per request and z watts per
// unit of capacity such that no instance is worth more than its price.
class BurningPricer {
 public:
  BurningPricer(const Kind& kind, const Mode& mode, const Burn& burn, const Prices& prices,
                int classes)
      : kind_(kind), mode_(mode), burn_(burn), prices_(prices), classes_(classes) {
    cheapest_ = kNoWatts;
    for (std::size_t k = 0; k < at(classes); ++k) {
      if (mode.rate[k] <= 0) continue;
      order_.push_back(k);
    }
    for (std::size_t k = 0; k < at(classes); ++k)
      if (burn.most[k] > 0) cheapest_ = std::min(cheapest_, burn.least[k]);
    std::ranges::sort(order_, {}, [&](std::size_t k) {
      return std::tuple(burn.least[k], prices[k] / mode.rate[k], k);
    });
    served_ = std::min(burn.rate, mode.demand);
    for (std::size_t i = 0; i <= order_.size(); ++i) duals_.push_back(duals_from(i));
  }

  PricedCover solve(double best) {
    best_ = best;
    const double rest = (burn_.rate - served_) * cheapest_;
    const double root = bound_of(0, served_, needed(mode_)) + rest;
    for (const std::size_t k : order_) {
      Counts one{};
      one[k] = static_cast<std::int32_t>(
          std::max(std::ceil(needed(mode_) / mode_.rate[k]), 1.0 * kind_.min_count));
      keep(one);
    }
    visit(0, {served_, needed(mode_), rest, 0});
    return {nodes_ > kPricingNodes ? std::min(root, best_) : std::min(best_, stretched_), counts_};
  }

 private:
  struct Dual {
    double theta, z;
  };
  struct Left {
    double rate, demand, spent;
    int taken;
  };

  std::vector<Dual> duals_from(std::size_t first) const {
    std::vector<double> thetas;
    double most = kNoWatts;
    for (std::size_t i = first; i < order_.size(); ++i) {
      const std::size_t k = order_[i];
      thetas.push_back(burn_.least[k]);
      most = std::min(most, burn_.least[k] + prices_[k] / burn_.most[k]);
    }
    thetas.push_back(most);
    std::vector<Dual> duals;
    for (const double theta : thetas) {
      if (!std::isfinite(theta) || theta > most) continue;
      double z = kNoWatts;
      for (std::size_t i = first; i < order_.size(); ++i) {
        const std::size_t k = order_[i];
        const double worth = burn_.most[k] * std::max(0.0, theta - burn_.least[k]);
        z = std::min(z, std::max(0.0, prices_[k] - worth) / mode_.rate[k]);
      }
      duals.push_back({theta, z});
    }
    return duals;
  }

  double bound_of(std::size_t i, double rate, double demand) const {
    if (duals_[i].empty()) return rate > 0 || demand > 0 ? kNoWatts : 0;
    double most = 0;
    for (const Dual& dual : duals_[i])
      most = std::max(most, dual.theta * std::max(0.0, rate) + dual.z * std::max(0.0, demand));
    return most;
  }

  bool improves(double bound) const { return bound < best_ - 1e-10 * (1 + std::abs(bound)); }

  void visit(std::size_t i, const Left& left) {
    if (left.demand <= 0) return finish(left);
    if (i == order_.size() || ++nodes_ > kPricingNodes) return;
    if (!improves(left.spent + bound_of(i, left.rate, left.demand))) return;
    const std::size_t k = order_[i];
    const double enough = std::ceil(left.demand / mode_.rate[k]);
    for (auto n = static_cast<std::int32_t>(std::min(enough, 1e9)); n >= 0; --n) {
      if (++nodes_ > kPricingNodes) break;
      const double part = std::min(left.rate, n * burn_.most[k]);
      const Left next{left.rate - part, left.demand - n * mode_.rate[k],
                      left.spent + n * prices_[k] + part * burn_.least[k], left.taken + n};
      if (next.demand > 0 && !improves(next.spent + bound_of(i + 1, next.rate, next.demand)))
        continue;
      chosen_[k] = n;
      visit(i + 1, next);
    }
    chosen_[k] = 0;
  }

  // A cover; with replicas missing, as many more of the cheapest class, which may carry something.
  void finish(const Left& left) {
    Counts counts = chosen_;
    const int extra = kind_.min_count - left.taken;
    if (extra > 0) {
      std::size_t least = order_.front();
      for (const std::size_t k : order_)
        if (prices_[k] < prices_[least]) least = k;
      counts[least] += extra;
      // Others than the cheapest might carry at less: no better than this.
      stretched_ = std::min(stretched_, cost(counts, prices_, classes_) + burn_.rate * cheapest_);
    }
    keep(counts);
  }
  void keep(const Counts& counts) {
    const double watts =
        cost(counts, prices_, classes_) + least_burnt(kind_, burn_, counts, classes_);
    if (!improves(watts)) return;
    best_ = watts;
    counts_ = counts;
  }

  const Kind& kind_;
  const Mode& mode_;
  const Burn& burn_;
  const Prices& prices_;
  const int classes_;
  std::vector<std::size_t> order_;
  std::vector<std::vector<Dual>> duals_;  // of the classes from there on
  double served_ = 0, cheapest_ = 0;
  Counts chosen_{}, counts_{};
  double best_ = kNoWatts, stretched_ = kNoWatts;
  int nodes_ = 0;
};

// All covers of one mode within the budget that no other beats.
class BurningEnumerator {
 public:
  BurningEnumerator(const Kind& kind, const Burn& burn, const Prices& prices,
                    const EnumerationLimits& limits, int classes)
      : kind_(kind), burn_(burn), prices_(prices), limits_(limits), classes_(classes) {}

  void add(const Mode& mode) {
    if (!serves(mode)) return;
    std::vector<std::size_t> order;
    double least = kNoWatts;
    for (std::size_t k = 0; k < at(classes_); ++k)
      if (mode.rate[k] > 0) {
        order.push_back(k);
        least = std::min(least, burn_.least[k]);
      }
    std::ranges::sort(order, {}, [&](std::size_t k) { return std::pair(-mode.rate[k], k); });
    floor_ = least * burn_.rate;
    visit(mode, order, 0, needed(mode));
  }

  Enumeration result() {
    Enumeration out;
    out.complete = complete_;
    for (const Found& found : found_) out.covers.push_back(found.counts);
    return out;
  }

 private:
  struct Found {
    Counts counts;
    double least, watts;
  };

  void visit(const Mode& mode, const std::vector<std::size_t>& order, std::size_t i, double left) {
    if (!complete_) return;
    if (++nodes_ > 64 * limits_.covers) {
      complete_ = false;
      return;
    }
    if (cost(chosen_, prices_, classes_) + floor_ > limits_.budget) return;
    if (i == order.size()) {
      if (left <= 0 && total(chosen_) >= kind_.min_count) keep();
      return;
    }
    const std::size_t k = order[i];
    const double most = std::max(std::ceil(needed(mode) / mode.rate[k]), 1.0 * kind_.min_count);
    for (std::int32_t n = 0; n <= most && complete_; ++n) {
      chosen_[k] = n;
      visit(mode, order, i + 1, left - n * mode.rate[k]);
    }
    chosen_[k] = 0;
  }

  bool beats(const Found& a, const Found& b) const {
    if (a.least > b.least || a.watts > b.watts) return false;
    for (std::size_t k = 0; k < at(classes_); ++k)
      if (a.counts[k] > b.counts[k]) return false;
    return true;
  }

  void keep() {
    const Found fresh{chosen_, least_burnt(kind_, burn_, chosen_, classes_),
                      burnt(kind_, burn_, chosen_, classes_).watts};
    if (fresh.least + cost(chosen_, prices_, classes_) > limits_.budget) return;
    if (std::ranges::any_of(found_, [&](const Found& f) { return beats(f, fresh); })) return;
    std::erase_if(found_, [&](const Found& f) { return beats(fresh, f); });
    found_.push_back(fresh);
    if (found_.size() > limits_.covers) complete_ = false;
  }

  const Kind& kind_;
  const Burn& burn_;
  const Prices& prices_;
  const EnumerationLimits& limits_;
  const int classes_;
  double floor_ = 0;
  Counts chosen_{};
  std::vector<Found> found_;
  bool complete_ = true;
  std::size_t nodes_ = 0;
};

}  // namespace

double joules_per_request(const plan::FleetEntry& entry, const std::string& model,
                          const PointAt& point) {
  const auto* measured =
      profile::find_point(entry.profiles.at(model), point.gpcs, point.batch, point.processes);
  return busy_watts(entry, model, point.gpcs) / measured->throughput.value;
}

BurningKinds make_burning_kinds(const plan::ServingProblem& problem,
                                const std::vector<PointTables>& modes, const Fleet& fleet) {
  BurningKinds kinds;
  const BurnMaker maker(problem, modes, fleet);
  std::map<std::tuple<std::vector<Mode>, int, Burn>, std::size_t> known;
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    std::vector<Mode> ways;
    for (const PointTables& tables : modes) ways.push_back(mode_in(problem, tables, fleet, s));
    Burn burn = maker.make(s);
    const int least = problem.services[s].min_replicas;
    const auto [entry, fresh] = known.emplace(std::tuple(ways, least, burn), kinds.burns.size());
    if (fresh) {
      Kind kind{ways.front(), {ways.begin() + 1, ways.end()}, least};
      kinds.table.kinds.push_back(std::move(kind));
      kinds.table.services.emplace_back();
      kinds.burns.push_back(std::move(burn));
    } else {
      ++kinds.table.kinds[entry->second].copies;
    }
    kinds.table.services[entry->second].push_back(static_cast<int>(s));
  }
  return kinds;
}

Burnt burnt(const Kind& kind, const Burn& burn, const Counts& counts, int classes) {
  Burnt best{kNoWatts, -1};
  for (int m = 0; m < modes(kind); ++m) {
    const Mode& one = mode(kind, m);
    if (!covers_in(one, counts, classes)) continue;
    double joules = 0;
    for (std::size_t k = 0; k < at(classes); ++k)
      joules += counts[k] * one.rate[k] * burn.joules[at(m)][k];
    const double watts = burn.rate * joules / carried(one, counts, classes);
    if (watts < best.watts) best = {watts, m};
  }
  return best;
}

double least_burnt(const Kind& kind, const Burn& burn, const Counts& counts, int classes) {
  double least = kNoWatts;
  for (int m = 0; m < modes(kind); ++m)
    if (const Mode& one = mode(kind, m); covers_in(one, counts, classes))
      least = std::min(least, filled(burn, counts, one.demand, classes));
  return least;
}

PricedCover cheapest_burning(const Kind& kind, const Burn& burn, const Prices& prices,
                             int classes) {
  PricedCover best{kNoWatts, Counts{}};
  double least = kNoWatts;
  for (int m = 0; m < modes(kind); ++m) {
    if (!serves(mode(kind, m))) continue;
    const PricedCover priced =
        BurningPricer(kind, mode(kind, m), burn, prices, classes).solve(least);
    best.bound = std::min(best.bound, priced.bound);
    if (total(priced.counts) == 0) continue;  // none is cheaper
    best.counts = priced.counts;
    least = cost(best.counts, prices, classes) + least_burnt(kind, burn, best.counts, classes);
  }
  return best;
}

Enumeration burning_covers(const Kind& kind, const Burn& burn, const Prices& prices,
                           const EnumerationLimits& limits, int classes) {
  BurningEnumerator enumerator(kind, burn, prices, limits, classes);
  for (int m = 0; m < modes(kind); ++m) enumerator.add(mode(kind, m));
  return enumerator.result();
}

}  // namespace partita::planners::serving
