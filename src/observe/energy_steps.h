// Joules of a GPU between the samples of a log. NVML's powers are means over a window and repeat
// themselves between updates, and its energy counter, which is exact, moves in steps that are
// longer than many intervals. So: the powers say how the energy is spread over the intervals, and
// the counter says how much there is between two of its steps; the sum over a log is exactly what
// the counter grew by. Pure.
//
// Limits: without a counter the sum is that of the powers; a counter that started anew counts from
// zero on, what was drawn before it did in that interval is lost.
#pragma once

#include <vector>

#include "telemetry/log.h"

namespace partita::observe {

enum class EnergySource { counter, power, none };  // none: nothing is known, energy is 0
const char* to_string(EnergySource source);

struct EnergyStep {
  Seconds from, to;
  Joules energy;
  EnergySource source = EnergySource::none;
  bool operator==(const EnergyStep&) const = default;
  Watts mean() const { return Watts{energy.value / (to - from).value}; }
};

// One per interval between samples that have the GPU with this index, ascending.
std::vector<EnergyStep> energy_steps(const telemetry::Log& log, int gpu);

}  // namespace partita::observe
