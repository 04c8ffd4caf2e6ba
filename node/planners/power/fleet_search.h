// The search for a fleet's plan by its linear programme: patterns of which the programme takes most
// are taken one after the other, the programme is solved again for the rest (a dive); then a few
// GPUs at a time are emptied and their services dealt anew by a dive of their own. Counts steps, no
// clock: the same problem gives the same plan.
#pragma once

#include <optional>
#include <vector>

#include "base/rng.h"
#include "planners/power/fleet_master.h"

namespace partita::power {

// Services times GPUs up to which a fleet is small: what is slow is tried as well.
inline constexpr std::size_t kSmallFleet = 300;

// Patterns that together carry everything, or what they leave.
struct Cover {
  std::vector<Pattern> gpus;
  std::vector<double> left;
  double watts = 0;  // above that of as many unused GPUs

  double missing() const;
};

struct SearchLimits {
  int rounds = 0;     // GPUs emptied and filled anew
  double enough = 0;  // watts above those of unused GPUs: the search stops there
};

class FleetSearch {
 public:
  // All but the last must outlive it: the prices and the patterns of the fleet's programme.
  FleetSearch(const plan::PowerProblem& problem, const PatternPricing& pricing,
              const FleetPrices& prices, std::vector<Pattern> known);

  // The best cover found; none if nothing that was found carries everything.
  std::optional<Cover> run(const SearchLimits& limits);

 private:
  Cover start();
  // Carries the demand, or stops where no plan below `limit` watts is left.
  Cover dive(const FleetDemand& demand, double limit, double chance);
  void take_most(const FleetPrices& prices, int most_gpus, double chance, Cover& cover);
  void improve(Cover& now, double chance);
  std::vector<std::size_t> some_gpus(const Cover& cover);
  double waste(const Pattern& pattern) const;
  Cover fill(PatternPricing::Wanted wanted, int most_gpus) const;
  void take(const Pattern& pattern, Cover& cover) const;

  const plan::PowerProblem& problem_;
  const PatternPricing& pricing_;
  const FleetPrices& prices_;
  const double unused_;
  const std::vector<Pattern> known_;
  Rng rng_{0x90e5};
};

}  // namespace partita::power
