// The setting of one GPU that carries given rates with the least power: for every clock an exact
// knapsack of units over the services. Exact under the formulas of response.h; the dissertation's
// policies are the same search over fewer settings (`Choice`).
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "plan/power.h"
#include "planners/power/response.h"

namespace partita::power {

// What may be chosen, and by what it is compared.
struct Choice {
  std::size_t least_clock = 0;                 // of the table
  std::optional<std::vector<int>> fixed = {};  // units per service
  plan::Gating gating = plan::Gating::none;
  // The power at the rates; else with every share always busy, which is what the dissertation's
  // tables hold.
  bool at_rate = true;
  std::optional<Watts> cap = {};
};

struct GpuSetting {
  std::size_t clock = 0;
  std::vector<const ServiceOption*> options;  // per service; owned by the ServiceOptions
  Watts power;                                // as compared
};

// One GPU, its services' options and how its power counts.
struct GpuSearch {
  const plan::ResponseTable& table;
  const std::vector<const ServiceOptions*>& services;
};

// Of a setting at these rates.
Watts power_at(const plan::ResponseTable& table, plan::Gating gating, const GpuSetting& setting,
               const std::vector<Rps>& rates);
// With every share always busy.
Watts full_power(const plan::ResponseTable& table, plan::Gating gating, const GpuSetting& setting);

// The best at one clock; none where no setting carries the rates. Ties: fewer units of the earlier
// services, smaller batches.
std::optional<GpuSetting> best_at_clock(const GpuSearch& search, const std::vector<Rps>& rates,
                                        const Choice& choice, std::size_t clock);
// Over the clocks from choice.least_clock on. Ties: the lower clock.
std::optional<GpuSetting> best_setting(const GpuSearch& search, const std::vector<Rps>& rates,
                                       const Choice& choice);

plan::Setting to_setting(const plan::ResponseTable& table, plan::Gating gating,
                         const GpuSetting& setting);

}  // namespace partita::power
