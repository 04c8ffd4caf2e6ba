// Patterns of one GPU for the fleet: a clock and shares of services, each with the part of its
// service's rate that it carries. Pricing finds the pattern that is worth most under prices per
// service: per clock a knapsack of units with at most one share per service, exactly.
#pragma once

#include <optional>
#include <vector>

#include "plan/power.h"
#include "planners/power/response.h"

namespace partita::power {

struct PatternShare {
  std::size_t service = 0;
  const ServiceOption* option = nullptr;  // owned by the ServiceOptions
  double part = 0;                        // of the service's rate, in (0, 1]
};

struct Pattern {
  std::size_t clock = 0;
  std::vector<PatternShare> shares;  // by service
  double watts = 0;
  double worth = 0;  // prices x parts - watts
};

class PatternPricing {
 public:
  // Both must outlive it.
  PatternPricing(const plan::PowerProblem& problem, const std::vector<ServiceOptions>& options);

  // What carries the rest of a service is worth `finish` times its price more: a search that rounds
  // wants few small rests. It is worth `whole` more, too, and half of that any share that carries
  // less, however little.
  struct Wanted {
    std::vector<double> prices;
    std::vector<double> left;  // the most of each service's rate that it may carry
    double finish = 0;
    std::vector<std::size_t> clocks = {};  // of the table; none: all of them
    std::vector<double> whole = {};        // per service; empty: 0
  };
  struct Priced {
    std::vector<Pattern> patterns;  // per clock that has any
    double most = -1e300;           // what any is worth at most, were there no cap
  };
  // Per clock the pattern that is worth most; where its full power is above the cap, one that is
  // worth less.
  Priced best(const Wanted& wanted) const;

  // What the pattern is when there is no more left than that of each service.
  Pattern cut(const Pattern& pattern, const std::vector<double>& left) const;

 private:
  struct Item {  // the best use of so many units for a service
    double worth = 0;
    double part = 0;
    const ServiceOption* option = nullptr;
  };
  // A use of a service's option: at a step of its busy power, or at all that it carries.
  struct Use {
    int units = 0;
    double part = 0, watts = 0;
    const ServiceOption* option = nullptr;
  };
  std::vector<Use> uses_of(std::size_t service, std::size_t clock) const;
  std::vector<Item> items_of(std::size_t service, std::size_t clock, const Wanted& wanted) const;
  struct Sack;
  Sack fill(std::size_t clock, const Wanted& wanted) const;
  Pattern pattern_of(const Sack& sack, std::size_t units) const;
  bool within_cap(const Pattern& pattern) const;

  const plan::PowerProblem& problem_;
  const std::vector<ServiceOptions>& options_;
  std::vector<std::vector<std::vector<Use>>> uses_;  // by service and clock
};

}  // namespace partita::power
