// The linear programme of a fleet: how many GPUs run which pattern, so that the shares carry what
// is left of every service, with the least power. Patterns come as pricing finds them. Its value is
// a bound below every plan, its prices say what a service costs where the fleet is.
//
// Beside the row of what is carried, each service has one that says: one share carries it all, or
// two carry a part each. A share counts 1 in it that carries all, 1/2 otherwise; in every plan the
// sum is at least 1. Without it the programme takes 1.1 GPUs that carry 0.91 of a service each.
#pragma once

#include <utility>
#include <vector>

#include "planners/power/patterns.h"
#include "planners/serving/simplex.h"

namespace partita::power {

inline constexpr double kDoesNotFit = 1e-4;  // in services: what is missing is no rounding

struct FleetPrices {
  std::vector<double> prices;  // per service, for all of its rate
  std::vector<double> whole;   // more for a share that carries all that is left, half for others
  double bound = -1e300;       // watts above that of as many unused GPUs
  double missing = 0;          // what does not fit at all, in services
  std::vector<std::pair<double, Pattern>> used;  // how many of a pattern, the most first
};

// What a programme has to carry, on how many GPUs.
struct FleetDemand {
  std::vector<double> left;  // of each service's rate
  int gpus = 0;
};

class FleetMaster {
 public:
  // The first two must outlive it.
  FleetMaster(const plan::PowerProblem& problem, const PatternPricing& pricing, FleetDemand demand);

  // A pattern that is known already; it is cut to the demand.
  void offer(const Pattern& pattern);
  // Prices patterns in for so many rounds at most.
  FleetPrices solve(int rounds);
  // All that pricing found.
  const std::vector<Pattern>& found() const { return found_; }

 private:
  std::vector<double> right_hand_sides() const;
  std::vector<double> unit(std::size_t row, double value) const;
  std::size_t carried_row(std::size_t service) const { return rows_[service]; }
  std::size_t whole_row(std::size_t service) const { return rows_[service] + active_; }
  double wholeness(const PatternShare& share) const;
  void add(const Pattern& pattern);
  // Patterns at these prices, and what the bound comes to there.
  struct Priced;
  Priced price(const std::vector<double>& duals) const;
  std::vector<Pattern> of_the_rest(PatternPricing::Wanted wanted, std::vector<Pattern> last,
                                   double least) const;
  double reduced(const Pattern& pattern, const std::vector<double>& duals) const;
  FleetPrices result(double bound, const std::vector<double>& duals) const;

  const plan::PowerProblem& problem_;
  const PatternPricing& pricing_;
  const FleetDemand demand_;
  const double unused_;
  std::size_t active_ = 0;         // services with demand
  std::vector<std::size_t> rows_;  // per service
  planners::serving::Simplex simplex_;
  std::vector<std::pair<std::size_t, Pattern>> columns_;  // with their columns
  std::vector<Pattern> found_;
};

}  // namespace partita::power
