// Covers (cover.h) and what they burn. The instances of a service share its rate in proportion to
// their throughputs; a request costs joules by the class that serves it. Two figures per cover:
//   watts  with the points and shares that a plan would have,
//   least  that no plan with these instances goes below: shares at will, every point allowed whose
//          full batches end within the SLO.
// Bounds are made of `least`, plans are chosen by `watts`. Instances that are on and idle cost
// nothing here: GPUs do (energy.h).
#pragma once

#include <limits>
#include <vector>

#include "planners/serving/cover.h"
#include "planners/serving/fleet.h"
#include "planners/serving/points.h"

namespace partita::planners::serving {

inline constexpr double kNoWatts = std::numeric_limits<double>::infinity();  // of what is not there

// What requests of a kind cost.
struct Burn {
  double rate = 0;             // requests/s that arrive
  Prices least{};              // joules per request, of the best point of a class
  Prices most{};               // requests/s that an instance of a class carries by any point
  std::vector<Prices> joules;  // per mode: joules per request of its points
  auto operator<=>(const Burn&) const = default;
};

// Kinds (fleet.h) that agree in what they burn, too.
struct BurningKinds {
  KindTable table;
  std::vector<Burn> burns;  // per kind
};
// Joules of a request on an instance at a measured point, when it is always busy.
struct PointAt {
  int gpcs = 0, batch = 0, processes = 0;
};
double joules_per_request(const plan::FleetEntry& entry, const std::string& model,
                          const PointAt& point);

BurningKinds make_burning_kinds(const plan::ServingProblem& problem,
                                const std::vector<PointTables>& modes, const Fleet& fleet);

// Watts of a service with these instances, and the mode in which they are least; mode -1: none
// covers it.
struct Burnt {
  double watts = 0;
  int mode = -1;
};
Burnt burnt(const Kind& kind, const Burn& burn, const Counts& counts, int classes);
// The least watts; infinite where no mode covers it.
double least_burnt(const Kind& kind, const Burn& burn, const Counts& counts, int classes);

// The cover whose instances, at these prices (watts), and least_burnt come to least. `bound`: no
// cover comes to less. Exact within kPricingNodes per mode.
PricedCover cheapest_burning(const Kind& kind, const Burn& burn, const Prices& prices, int classes);

// Covers that cost at most `budget` at these prices, least_burnt included, but those that another
// one beats in every class. Complete unless `covers` were not enough.
Enumeration burning_covers(const Kind& kind, const Burn& burn, const Prices& prices,
                           const EnumerationLimits& limits, int classes);

}  // namespace partita::planners::serving
