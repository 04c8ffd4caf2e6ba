#include "observe/energy_steps.h"

#include <algorithm>
#include <optional>

namespace partita::observe {
namespace {

// The counter moves in steps and is read between them: over so long the part of a step that a
// reading misses is small. Powers of the moment place the energy better than that within it.
constexpr Seconds kWindow{2};

struct Seen {
  Seconds at;
  std::optional<Watts> power;
  bool instant = false;  // `power` is of that moment, not a mean
  std::optional<Joules> counter;
};

// The power of now where the board tells it; else the mean of the last second.
std::vector<Seen> seen_of(const telemetry::Log& log, int gpu) {
  std::vector<Seen> all;
  for (const telemetry::Sample& sample : log)
    for (const telemetry::GpuSample& one : sample.gpus)
      if (one.index == gpu)
        all.push_back({sample.at, one.power ? one.power : one.power_average, one.power.has_value(),
                       one.energy});
  return all;
}

// Trapezoid of the powers, or what is known at one end.
std::optional<double> by_power(const Seen& a, const Seen& b) {
  if (!a.power && !b.power) return std::nullopt;
  const double first = a.power.value_or(b.power.value_or(Watts{})).value;
  const double second = b.power.value_or(Watts{first}).value;
  return (first + second) / 2 * (b.at - a.at).value;
}

// Spreads what the counter grew by over steps [first, last), as their powers say.
void spread(std::vector<EnergyStep>& steps, std::size_t first, std::size_t last, double energy) {
  double known = 0, seconds = 0;
  bool all = true;
  for (std::size_t i = first; i < last; ++i) {
    known += steps[i].energy.value;
    seconds += (steps[i].to - steps[i].from).value;
    all = all && steps[i].source != EnergySource::none;
  }
  double given = 0;
  for (std::size_t i = first; i < last; ++i) {
    const double part = all && known > 0 ? steps[i].energy.value / known
                                         : (steps[i].to - steps[i].from).value / seconds;
    steps[i].energy = Joules{i + 1 == last ? energy - given : energy * part};
    given += steps[i].energy.value;
    steps[i].source = EnergySource::counter;
  }
}

}  // namespace

const char* to_string(EnergySource source) {
  switch (source) {
    case EnergySource::counter:
      return "counter";
    case EnergySource::power:
      return "power";
    case EnergySource::none:
      break;
  }
  return "none";
}

std::vector<EnergyStep> energy_steps(const telemetry::Log& log, int gpu) {
  const std::vector<Seen> seen = seen_of(log, gpu);
  std::vector<EnergyStep> steps;
  for (std::size_t i = 1; i < seen.size(); ++i) {
    const auto energy = by_power(seen[i - 1], seen[i]);
    steps.push_back({seen[i - 1].at, seen[i].at, Joules{energy.value_or(0)},
                     energy ? EnergySource::power : EnergySource::none});
  }
  // Between two moves of the counter lies what it grew by. What comes after its last move, and
  // before its first, is in no move: there a counter that stands still says nothing yet.
  std::optional<std::size_t> base;  // sample that the counter's last move was seen at
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (!seen[i].counter) continue;
    if (!base) {
      base = i;
      continue;
    }
    const double grown = (*seen[i].counter - *seen[*base].counter).value;
    const bool last = i + 1 == seen.size();
    if (grown == 0 && !last) continue;
    if (seen[i].instant && seen[i].at - seen[*base].at < kWindow && grown > 0 && !last) continue;
    const double energy = grown < 0 ? seen[i].counter->value : grown;  // it started anew
    spread(steps, *base, i, energy);
    base = i;
  }
  return steps;
}

}  // namespace partita::observe
