// What a controller of power sees and wants: the contract between the planner's tables, the
// simulator and the loop that sets clocks (`partita power run`). Values only.
#pragma once

#include <optional>
#include <vector>

#include "base/units.h"

namespace partita::power {

// One service of a GPU, since the observation before.
struct ServiceSeen {
  Rps rate;
  std::optional<Millis> p95;
  bool operator==(const ServiceSeen&) const = default;
};

struct Observation {
  Seconds at;
  std::vector<ServiceSeen> services;  // in the order of the table's services
  std::optional<Watts> power;
  bool operator==(const Observation&) const = default;
};

// The setting of one GPU: one clock domain, a share of units per service.
struct Setting {
  Mhz clock;
  std::optional<Watts> cap;
  std::vector<int> units;    // CUs or SMs per service
  std::vector<int> batches;  // per service
  bool operator==(const Setting&) const = default;
};

}  // namespace partita::power
