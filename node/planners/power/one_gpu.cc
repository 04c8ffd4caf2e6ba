#include "planners/power/one_gpu.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/index.h"

namespace partita::power {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

int used_units(const GpuSetting& setting) {
  int used = 0;
  for (const ServiceOption* option : setting.options) used += option->units;
  return used;
}

// The cheapest option of one service for every number of units.
struct Cheapest {
  double watts = kImpossible;
  const ServiceOption* option = nullptr;
};

std::vector<Cheapest> cheapest_by_units(const std::vector<ServiceOption>& options, Rps rate,
                                        const Choice& choice, int fixed, int units) {
  std::vector<Cheapest> best(at(units) + 1);
  for (const ServiceOption& option : options) {
    if (option.capacity < rate || option.units > units || (fixed > 0 && option.units != fixed))
      continue;
    const double watts = (choice.at_rate ? option.busy.at(rate) : option.busy.full()).value;
    Cheapest& entry = best[at(option.units)];
    if (watts < entry.watts) entry = {watts, &option};
  }
  return best;
}

// least[s][u]: services 0..s-1 on exactly u units.
struct Knapsack {
  std::vector<std::vector<double>> least;
  std::vector<std::vector<Cheapest>> chosen;
};

Knapsack fill(const GpuSearch& search, const std::vector<Rps>& rates, const Choice& choice,
              std::size_t clock) {
  const int units = search.table.units();
  Knapsack sack;
  std::vector<double> first(at(units) + 1, kImpossible);
  first[0] = 0;
  sack.least.push_back(std::move(first));
  for (std::size_t s = 0; s < search.services.size(); ++s) {
    const int fixed = choice.fixed ? (*choice.fixed)[s] : 0;  // 0: any
    const std::vector<Cheapest> one =
        cheapest_by_units((*search.services[s])[clock], rates[s], choice, fixed, units);
    std::vector<double> next(at(units) + 1, kImpossible);
    std::vector<Cheapest> taken(at(units) + 1);
    for (std::size_t own = 1; own < one.size(); ++own) {
      if (!one[own].option) continue;
      for (std::size_t all = own; all < next.size(); ++all) {
        const double watts = sack.least.back()[all - own] + one[own].watts;
        if (watts < next[all]) next[all] = watts, taken[all] = one[own];
      }
    }
    sack.least.push_back(std::move(next));
    sack.chosen.push_back(std::move(taken));
  }
  return sack;
}

GpuSetting setting_of(const Knapsack& sack, std::size_t clock, std::size_t units) {
  GpuSetting setting{clock, std::vector<const ServiceOption*>(sack.chosen.size()), {0}};
  for (std::size_t s = sack.chosen.size(); s-- > 0;) {
    setting.options[s] = sack.chosen[s][units].option;
    units -= at(setting.options[s]->units);
  }
  return setting;
}

}  // namespace

Watts power_at(const plan::ResponseTable& table, plan::Gating gating, const GpuSetting& setting,
               const std::vector<Rps>& rates) {
  Watts power = ready_power(table, gating, setting.clock, used_units(setting));
  for (std::size_t s = 0; s < setting.options.size(); ++s)
    power += setting.options[s]->busy.at(rates[s]);
  return power;
}

Watts full_power(const plan::ResponseTable& table, plan::Gating gating, const GpuSetting& setting) {
  Watts power = ready_power(table, gating, setting.clock, used_units(setting));
  for (const ServiceOption* option : setting.options) power += option->busy.full();
  return power;
}

std::optional<GpuSetting> best_at_clock(const GpuSearch& search, const std::vector<Rps>& rates,
                                        const Choice& choice, std::size_t clock) {
  const Knapsack sack = fill(search, rates, choice, clock);
  std::optional<GpuSetting> best;
  for (std::size_t units = 1; units < sack.least.back().size(); ++units) {
    if (sack.least.back()[units] == kImpossible) continue;
    const Watts power = ready_power(search.table, choice.gating, clock, static_cast<int>(units)) +
                        Watts{sack.least.back()[units]};
    if (best && power >= best->power) continue;
    GpuSetting setting = setting_of(sack, clock, units);
    if (choice.cap && full_power(search.table, choice.gating, setting) > *choice.cap) continue;
    setting.power = power;
    best = std::move(setting);
  }
  return best;
}

std::optional<GpuSetting> best_setting(const GpuSearch& search, const std::vector<Rps>& rates,
                                       const Choice& choice) {
  std::optional<GpuSetting> best;
  for (std::size_t c = choice.least_clock; c < search.table.clocks.size(); ++c) {
    auto one = best_at_clock(search, rates, choice, c);
    if (one && (!best || one->power < best->power)) best = std::move(one);
  }
  return best;
}

plan::Setting to_setting(const plan::ResponseTable& table, plan::Gating gating,
                         const GpuSetting& setting) {
  plan::Setting out{table.clocks[setting.clock].clock, {}, {}, {}};
  for (const ServiceOption* option : setting.options) {
    out.units.push_back(option->units);
    out.batches.push_back(option->batch);
  }
  out.cap = Watts{std::ceil(full_power(table, gating, setting).value - 1e-9)};
  return out;
}

}  // namespace partita::power
