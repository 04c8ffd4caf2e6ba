#include "control/bills.h"

#include <algorithm>

namespace partita::control {
namespace {

constexpr double kMsPerSecond = 1e3;

void add(std::optional<double>& sum, const std::optional<double>& more, bool first) {
  if (first) sum = 0;
  sum = sum && more ? std::optional(*sum + *more) : std::nullopt;
}

}  // namespace

void Bills::see(std::int64_t now_ms, const std::map<std::string, Draw>& gpus,
                const std::map<std::string, Draw>& host) {
  if (tariff_.empty()) return;
  std::map<std::string, double> joules;
  for (const auto* draws : {&gpus, &host})
    for (const auto& [tenant, draw] : *draws) joules[tenant] += draw.joules;
  const auto rate = plan::rate_at(tariff_, static_cast<double>(now_ms) / kMsPerSecond);
  for (const auto& [tenant, all] : joules) {
    const auto [found, first] = bills_.try_emplace(tenant);
    plan::EnergyBill& has = found->second;
    const double more_j = std::max(0.0, all - has.joules);
    if (more_j <= 0 && !first) continue;
    const plan::EnergyBill more = plan::bill(more_j, rate);
    add(has.cost, more.cost, first);
    add(has.co2_g, more.co2_g, first);
    has.joules = std::max(has.joules, all);
  }
}

}  // namespace partita::control
