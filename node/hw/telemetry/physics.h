// What physics allows a sample to say, alone and after the one before it. Readers of every form
// (log.h, dcgm.h) check with it, so that a wrong unit is refused and not averaged. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "hw/telemetry/sample.h"

namespace partita::telemetry {

// More than any board draws, holds, clocks or survives: what is above is another unit.
inline constexpr Watts kMostPower{5000};
inline constexpr Mib kMostMemory{16.0 * 1024 * 1024};
inline constexpr Mhz kMostClock{20'000};
inline constexpr Celsius kLeastDegrees{-60}, kMostDegrees{150};
inline constexpr Seconds kLatest{32'503'680'000.0};  // the year 3000
inline constexpr int kMostSlices = 64;

// The value where physics allows it; what stands for "not known" is beyond that.
template <class Unit>
std::optional<Unit> plausible(double value, Unit low, Unit high) {
  return value >= low.value && value <= high.value ? std::optional(Unit{value}) : std::nullopt;
}
// So many watts; of 0 and less nothing is known.
inline std::optional<Watts> plausible_power(double watts) {
  return watts > 0 ? plausible(watts, Watts{0}, kMostPower) : std::nullopt;
}

// Why this sample alone cannot be; empty when it can.
std::string fault_of(const Sample& sample);

// The samples of a log, one after another.
class Continuity {
 public:
  // Why the sample cannot come after those before: fault_of(sample), a time that does not grow, an
  // energy counter that grows by more than a board can draw, or falls further than to what it can
  // have drawn since a reset. Empty when it can; then it counts as seen.
  std::string fault_of(const Sample& sample);

 private:
  struct Counter {
    Seconds at;
    Joules energy;
  };
  bool any_ = false;
  Seconds last_;
  std::map<int, Counter> counters_;  // by index of the GPU
};

}  // namespace partita::telemetry
