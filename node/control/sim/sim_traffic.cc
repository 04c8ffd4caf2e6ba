#include "control/sim/sim_traffic.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/check.h"

namespace partita::control {
namespace {

constexpr int kDay = plan::kMinutesOfDay;
constexpr double kLeastLevel = 0.7, kMostLevel = 1.3;

double normal(Rng& rng) {
  const double u = 1 - rng.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * rng.uniform());
}

// Of a day without shifts, bursts and noise; `phase` moves the top of the hill.
double of_the_day(const plan::Service& service, const TrafficShape& shape, int minute,
                  double phase) {
  if (!service.traffic.rates.empty()) return rate_at(service.traffic.rates, minute % kDay).value;
  const double turn = 2 * std::numbers::pi * ((minute % kDay) - phase) / kDay;
  const double hill = (1 + std::cos(turn)) / 2;
  return service.rate.value * (shape.trough + (1 - shape.trough) * hill);
}

// Per minute the factor of bursts: they rise and fall on ramps.
std::vector<double> bursts(const TrafficShape& shape, int minutes, Rng rng) {
  std::vector<double> factor(static_cast<std::size_t>(minutes), 1.0);
  if (shape.bursts_per_day <= 0) return factor;
  const double ramp = std::max(shape.ramp_minutes, 1.0);
  for (double at = 0;;) {
    at += rng.exponential() * kDay / shape.bursts_per_day;
    if (at >= minutes) return factor;
    const double height = shape.burst * (0.4 + 0.6 * rng.uniform());
    const double holds = shape.burst_minutes * (0.5 + rng.uniform());
    for (int m = static_cast<int>(at); m < std::min<double>(minutes, at + 2 * ramp + holds); ++m) {
      const double in = m - at;
      const double share = std::clamp(std::min(in / ramp, (2 * ramp + holds - in) / ramp), 0., 1.);
      double& now = factor[static_cast<std::size_t>(m)];
      now = std::max(now, 1 + height * share);
    }
  }
}

}  // namespace

SimTraffic::SimTraffic(const plan::Service& service, const TrafficShape& shape, int minutes,
                       Rng rng) {
  CHECK(minutes > 0);
  const std::vector<double> burst = bursts(shape, minutes, rng.split(1));
  Rng shifts = rng.split(2), noise = rng.split(3);
  const double phase = kDay * (14.0 / 24 + (rng.uniform() - 0.5) / 6);
  double level = 1, wanted = 1;
  for (int m = 0; m < minutes; ++m) {
    if (shifts.uniform() < shape.shifts_per_day / kDay)
      wanted = std::clamp(wanted * (1 + shape.shift * (2 * shifts.uniform() - 1)), kLeastLevel,
                          kMostLevel);
    level += (wanted - level) / 10;  // it takes ten minutes or so
    const bool weekend = (m / kDay) % 7 >= 5;
    rates_.push_back(of_the_day(service, shape, m, phase) * level * (weekend ? shape.weekend : 1) *
                     burst[static_cast<std::size_t>(m)] *
                     std::max(0.5, 1 + shape.noise * normal(noise)));
  }
}

void SimTraffic::add(const SimTraffic& other, double times) {
  CHECK(rates_.size() == other.rates_.size());
  for (std::size_t m = 0; m < rates_.size(); ++m) rates_[m] += times * other.rates_[m];
}

double SimTraffic::rate(std::int64_t minute) const {
  const auto last = static_cast<std::int64_t>(rates_.size()) - 1;
  return rates_[static_cast<std::size_t>(std::clamp<std::int64_t>(minute, 0, last))];
}

double SimTraffic::peak() const { return std::ranges::max(rates_); }
double SimTraffic::mean() const {
  return std::accumulate(rates_.begin(), rates_.end(), 0.0) / static_cast<double>(rates_.size());
}

}  // namespace partita::control
