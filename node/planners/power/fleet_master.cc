#include "planners/power/fleet_master.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace partita::power {
namespace {

constexpr double kNoPattern = 1e5;  // watts for a service that no pattern carries
constexpr double kNearly = 1e-4;    // of the value: the bound is near enough then
constexpr double kNothing = 1e-9;   // of a rate
constexpr int kPasses = 3;          // over services that no pattern of a round has
constexpr double kSmoothing = 0.5;  // how far prices stay with those of the best bound

}  // namespace

struct FleetMaster::Priced {
  double bound = 0;
  std::vector<Pattern> patterns;
};

FleetMaster::FleetMaster(const plan::PowerProblem& problem, const PatternPricing& pricing,
                         FleetDemand demand)
    : problem_(problem),
      pricing_(pricing),
      demand_(std::move(demand)),
      unused_(unused_power(problem).value),
      active_(static_cast<std::size_t>(
          std::ranges::count_if(demand_.left, [](double left) { return left > kNothing; }))),
      rows_(demand_.left.size(), 0),
      simplex_(right_hand_sides()) {
  std::size_t row = 0;
  for (std::size_t s = 0; s < demand_.left.size(); ++s)
    if (demand_.left[s] > kNothing) rows_[s] = row++;
  std::vector<std::size_t> basis;
  for (std::size_t r = 0; r < 2 * active_; ++r)
    basis.push_back(simplex_.add(kNoPattern, unit(r, 1)));
  basis.push_back(simplex_.add(0, unit(2 * active_, 1)));
  for (std::size_t r = 0; r < 2 * active_; ++r) simplex_.add(0, unit(r, -1));
  simplex_.start(basis);
}

std::vector<double> FleetMaster::right_hand_sides() const {
  std::vector<double> sides;
  for (const double left : demand_.left)
    if (left > kNothing) sides.push_back(left);
  sides.resize(2 * active_, 1.0);
  sides.push_back(demand_.gpus);
  return sides;
}

std::vector<double> FleetMaster::unit(std::size_t row, double value) const {
  std::vector<double> entries(2 * active_ + 1, 0.0);
  entries[row] = value;
  return entries;
}

double FleetMaster::wholeness(const PatternShare& share) const {
  return share.part >= demand_.left[share.service] - kNothing ? 1 : 0.5;
}

void FleetMaster::offer(const Pattern& pattern) {
  const Pattern cut = pricing_.cut(pattern, demand_.left);
  if (!cut.shares.empty()) add(cut);
}

void FleetMaster::add(const Pattern& pattern) {
  std::vector<double> entries(2 * active_ + 1, 0.0);
  for (const PatternShare& share : pattern.shares) {
    entries[carried_row(share.service)] = share.part;
    entries[whole_row(share.service)] = wholeness(share);
  }
  entries.back() = 1;
  columns_.emplace_back(simplex_.add(pattern.watts - unused_, entries), pattern);
}

// Patterns of services that are in none yet, each worth more than `least`: a programme needs some
// of every service, and comes to its prices in fewer rounds if it gets them together.
std::vector<Pattern> FleetMaster::of_the_rest(PatternPricing::Wanted wanted,
                                              std::vector<Pattern> last, double least) const {
  std::vector<Pattern> more;
  for (int pass = 0; pass < kPasses && !last.empty(); ++pass) {
    for (const Pattern& pattern : last)
      for (const PatternShare& share : pattern.shares) wanted.left[share.service] = 0;
    last = pricing_.best(wanted).patterns;
    std::erase_if(last, [&](const Pattern& pattern) { return pattern.worth <= least; });
    more.insert(more.end(), last.begin(), last.end());
  }
  return more;
}

FleetMaster::Priced FleetMaster::price(const std::vector<double>& duals) const {
  PatternPricing::Wanted wanted{{}, demand_.left, 0, {}, {}};
  double sum = 0;
  for (std::size_t s = 0; s < demand_.left.size(); ++s) {
    const bool active = demand_.left[s] > kNothing;
    wanted.prices.push_back(active ? duals[carried_row(s)] : 0);
    wanted.whole.push_back(active ? duals[whole_row(s)] : 0);
    sum += wanted.prices.back() * demand_.left[s] + wanted.whole.back();
  }
  PatternPricing::Priced priced = pricing_.best(wanted);
  // What a pattern is worth beyond its GPU's part: how far the prices are too high.
  const double excess = std::max(0.0, priced.most + unused_ + duals.back());
  Priced out{sum + (duals.back() - excess) * demand_.gpus, std::move(priced.patterns)};
  for (Pattern& pattern : of_the_rest(std::move(wanted), out.patterns, -unused_ - duals.back()))
    out.patterns.push_back(std::move(pattern));
  return out;
}

double FleetMaster::reduced(const Pattern& pattern, const std::vector<double>& duals) const {
  double cost = pattern.watts - unused_ - duals.back();
  for (const PatternShare& share : pattern.shares)
    cost -= duals[carried_row(share.service)] * share.part +
            duals[whole_row(share.service)] * wholeness(share);
  return cost;
}

FleetPrices FleetMaster::solve(int rounds) {
  double bound = -1e300;
  std::vector<double> center;
  std::vector<double> duals;
  for (int round = 0; round < rounds; ++round) {
    simplex_.optimise();
    duals = simplex_.duals();
    for (std::size_t r = 0; r + 1 < duals.size(); ++r) duals[r] = std::max(0.0, duals[r]);
    duals.back() = std::min(0.0, duals.back());
    const double value = simplex_.objective();
    const double near = kNearly * (value + unused_ * demand_.gpus);
    if (value - bound < near) break;
    // First between these prices and those of the best bound, which jump less; then at these.
    bool more = false;
    for (const double back : {kSmoothing, 0.0}) {
      if (back > 0 && center.empty()) continue;
      std::vector<double> where = duals;
      if (back > 0)
        for (std::size_t r = 0; r < where.size(); ++r) where[r] += back * (center[r] - where[r]);
      const Priced priced = price(where);
      if (priced.bound > bound) bound = priced.bound, center = where;
      for (const Pattern& pattern : priced.patterns)
        if (reduced(pattern, duals) < -1e-7) {
          add(pattern);
          found_.push_back(pattern);
          more = true;
        }
      if (more) break;
    }
    if (!more) break;
  }
  return result(bound, duals);
}

FleetPrices FleetMaster::result(double bound, const std::vector<double>& duals) const {
  FleetPrices found;
  found.bound = bound;
  for (std::size_t s = 0; s < demand_.left.size(); ++s) {
    const bool active = demand_.left[s] > kNothing;
    found.prices.push_back(active ? duals[carried_row(s)] : 0);
    found.whole.push_back(active ? duals[whole_row(s)] : 0);
    if (active) found.missing += simplex_.value(carried_row(s));  // the first columns
  }
  for (const auto& [column, pattern] : columns_)
    if (const double value = simplex_.value(column); value > 1e-6)
      found.used.emplace_back(value, pattern);
  std::ranges::stable_sort(found.used, std::greater{}, [](const auto& used) { return used.first; });
  return found;
}

}  // namespace partita::power
