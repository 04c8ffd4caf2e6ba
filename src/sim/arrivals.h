// When requests of one service arrive: Poisson, evenly spaced from a random phase, or recorded.
// A source is a small value with its own random stream; it produces one time after another, so
// that traffic of any length needs no memory.
#pragma once

#include <cstddef>
#include <span>

#include "base/rng.h"
#include "base/units.h"
#include "sim/engine.h"
#include "sim/serving.h"

namespace partita::sim {

class ArrivalSource {
 public:
  ArrivalSource() = default;  // nothing ever arrives
  // rate > 0.
  static ArrivalSource poisson(Rps rate, Rng rng);
  static ArrivalSource uniform(Rps rate, Rng rng);
  // `times_s` ascending; the caller keeps them alive.
  static ArrivalSource recorded(std::span<const double> times_s);

  // The next arrival, never before the previous one; kForever when a recording has ended.
  Nanos next();

 private:
  ArrivalSource(ArrivalKind kind, Rng rng) : kind_(kind), rng_(rng) {}

  ArrivalKind kind_ = ArrivalKind::trace;
  Rng rng_{0};
  double gap_ns_ = 0;    // mean time between arrivals
  double clock_ns_ = 0;  // poisson: the previous arrival; uniform: the phase
  double number_ = 0;    // uniform: arrivals so far
  std::span<const double> times_s_;
};

}  // namespace partita::sim
