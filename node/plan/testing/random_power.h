// Small random problems of power that physics would allow, for tests of several modules.
#pragma once

#include <string>

#include "base/rng.h"
#include "plan/power.h"

namespace partita::plan {

// Two clusters of three units, three clocks, two models, batches 1, 2 and 4.
inline ResponseTable random_power_table(Rng& rng) {
  ResponseTable table;
  table.gpu = "2x3";
  table.units_in = {3, 3};
  table.idle = {5 + 10 * rng.uniform()};
  const double unit_idle = 1 + 4 * rng.uniform();
  for (const double clock : {900.0, 1200.0, 1600.0})
    table.clocks.push_back({{clock}, table.idle + Watts{6 * unit_idle * clock / 1600}});
  for (const char* name : {"cnn", "lm"}) {
    ModelResponse model{name, {}};
    const double base = 2 + 20 * rng.uniform(), memory = rng.uniform(), serial = rng.uniform();
    const double work = (1 + 20 * rng.uniform()) * base * 1e-3, fixed = 0.1 + 0.8 * rng.uniform();
    for (const ClockIdle& clock : table.clocks)
      for (const int units : {1, 2, 4, 6})
        for (const int batch : {1, 2, 4}) {
          const double slower = memory + (1 - memory) * 1600 / clock.clock.value;
          const double ms =
              base * slower * (serial + (1 - serial) * 6 / units) * (fixed + (1 - fixed) * batch);
          const double volts = 0.7 + 0.3 * clock.clock.value / 1600;
          const double joules = work * batch * volts * volts;
          model.points.push_back({clock.clock, units, batch, Millis{ms}, Rps{batch / ms * 1e3},
                                  clock.active_idle + Watts{joules / ms * 1e3}});
        }
    table.models.push_back(std::move(model));
  }
  return table;
}

inline PowerProblem random_power_problem(Rng& rng, int services) {
  PowerProblem problem;
  problem.table = random_power_table(rng);
  problem.gating = static_cast<Gating>(rng.below(3));
  for (int s = 0; s < services; ++s) {
    const ModelResponse& model = problem.table.models[rng.below(2)];
    const PowerPoint& whole = model.points[model.points.size() - 3];  // batch 1, all units
    problem.services.push_back({"s" + std::to_string(s), model.model,
                                whole.max_rate * (0.02 + 0.3 * rng.uniform() / services),
                                whole.p95 * (3 + 6 * rng.uniform()), 95});
  }
  return problem;
}

}  // namespace partita::plan
