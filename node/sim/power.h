// One GPU under a controller of power, in virtual time: requests arrive, wait in a queue per
// service, run in batches as long as the response table says at the setting of the moment; the
// controller sees every poll what a server could tell it. What comes out is what happened: real
// percentiles and joules, not the table's promise. A batch keeps the setting under which it began.
// Same seed, same result.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/power.h"

namespace partita::sim {

struct PowerRunOptions {
  plan::PowerTrace trace;  // requests/s over time; at least one step
  bool even = false;       // evenly spaced within the rate instead of Poisson
  std::uint64_t seed = 1;
  Seconds poll{0.5};
  Seconds delay{0};  // until what was decided takes effect
  plan::TransitionCost cost = {};
  Seconds bin{1};  // of PowerRun::bins
};

using PowerDecision = std::function<plan::Setting(const plan::Observation&)>;

struct PowerRunService {
  std::string name;
  long requests = 0, late = 0;
  Millis latency;  // at the service's percentile
  Millis slo;
  double percentile = 95;
  double attained() const {
    return requests == 0 ? 1 : 1 - static_cast<double>(late) / static_cast<double>(requests);
  }
  bool held() const { return attained() >= percentile / 100; }
};

struct PowerRunBin {
  Watts power;
  Mhz clock;      // at its end
  int units = 0;  // in use then
  Rps rate;       // of requests that came
};

struct PowerRun {
  Joules energy;
  Seconds time;
  std::vector<PowerRunService> services;
  int clock_changes = 0, unit_changes = 0;
  std::vector<PowerRunBin> bins;
  Watts mean_power() const { return {energy.value / time.value}; }
};

// `start` and what `decide` gives must be points of the table that all services fit into: a CHECK.
PowerRun simulate_power(const plan::PowerProblem& problem, plan::Gating gating,
                        const plan::Setting& start, const PowerDecision& decide,
                        const PowerRunOptions& options);

}  // namespace partita::sim
