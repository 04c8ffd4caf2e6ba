#include "control/sim/sim_troubles.h"

#include <algorithm>

namespace partita::control {
namespace {

constexpr std::int64_t kDayNs = 86'400'000'000'000;
constexpr std::int64_t kNeverNs = INT64_MAX / 4;

double per_day(const SimTroubles& t, Trouble kind) {
  const double per_day[kTroubles] = {t.reboots,       t.lost_gpus,       t.xids, t.ecc, t.foreign,
                                     t.worker_deaths, t.gateway_restarts};
  return per_day[static_cast<std::size_t>(kind)];
}

}  // namespace

SimTroubles usual_troubles() {
  return {.reboots = 0.1,
          .lost_gpus = 0.1,
          .xids = 0.3,
          .ecc = 0.1,
          .foreign = 0.3,
          .worker_deaths = 2,
          .gateway_restarts = 0.3,
          .driver_faults = 0.005};
}

TroubleDates::TroubleDates(const SimTroubles& troubles, Rng& rng) : troubles_(troubles), rng_(rng) {
  for (std::size_t kind = 0; kind < kTroubles; ++kind) draw(static_cast<Trouble>(kind), 0);
}

bool TroubleDates::calm(std::int64_t now_ns) const {
  constexpr std::int64_t kHalfDay = kDayNs / 2;
  const auto calm = static_cast<std::int64_t>(troubles_.calm_hours * 3600e9);
  return now_ns % kHalfDay >= kHalfDay - calm;
}

std::int64_t TroubleDates::next() const { return *std::ranges::min_element(next_); }

bool TroubleDates::due(Trouble kind, std::int64_t now_ns) const {
  return next_[static_cast<std::size_t>(kind)] <= now_ns;
}

void TroubleDates::draw(Trouble kind, std::int64_t now_ns) {
  std::int64_t& next = next_[static_cast<std::size_t>(kind)];
  next = kNeverNs;
  const double often = per_day(troubles_, kind);
  if (often <= 0) return;
  next = now_ns + static_cast<std::int64_t>(rng_.exponential() * kDayNs / often) + 1;
  while (calm(next)) next += kDayNs / 24;
}

}  // namespace partita::control
