// What a simulated board draws, how hot it gets and how fast it runs: idle power, watts of what
// runs on its instances, clocks that give way to the power limit and to heat, an energy counter
// that is the integral of the power. A value and functions of it: no clock, no randomness; the same
// board at the same time draws the same in every process. Formulas: docs/drivers.md.
#pragma once

#include <cstdint>
#include <vector>

#include "device/power_settings.h"
#include "drivers/sim/figures.h"
#include "hw/telemetry/sample.h"

namespace partita::drivers::sim {

// Of an instance, or of the processes outside any, since SimPower::at_ns.
struct SimLoad {
  int gi_id = -1;          // -1: outside any instance
  std::uint64_t seed = 0;  // of what runs there; 0: nothing does
  double share = 0;        // of the board's compute slices
  double level = 0;        // mean activity, in [0, 1]
  double busy_s = 0;       // integral of the activity until SimPower::at_ns
  bool operator==(const SimLoad&) const = default;
  bool same_work(const SimLoad& other) const {
    return gi_id == other.gi_id && seed == other.seed && share == other.share &&
           level == other.level;
  }
};

struct SimPower {
  device::PowerSettings settings;  // empty: the board's defaults
  double ambient_c = 30;
  std::int64_t at_ns = -1;  // of what follows; -1: nobody has looked yet
  double energy_j = 0, average_w = 0, chip_c = 0, memory_c = 0;
  std::vector<SimLoad> loads;  // in force since at_ns, by gi_id
  bool operator==(const SimPower&) const = default;
};

// The board at `now_ns`, its loads as they were; the first look starts the counter at zero.
SimPower evolved(const SimPower& power, const Figures& board, std::int64_t now_ns);

// A bit of NVML's reasons to be slow.
enum class Throttle : unsigned {
  idle = 1,
  power_cap = 4,
  software_heat = 0x20,
  hardware_heat = 0x40,
};
struct PowerReading {
  double watts = 0, sm_mhz = 0;
  unsigned reasons = 0;            // of Throttle
  std::vector<double> activities;  // in the order of SimPower::loads
};
// What a board that is at SimPower::at_ns does at that moment.
PowerReading reading_of(const SimPower& power, const Figures& board);

// How an activity of the whole, 0 to 1, is spread over the units of the SMs: each its own part,
// which depends on what runs.
telemetry::Activity activity_of(const SimLoad& load, double activity);

// What the board can be set to; not_supported without figures. The clocks are those that NVML
// lists: every 15 MHz down from the highest.
device::PowerState power_state(const SimPower& power, const Figures& board);
// Why the settings cannot be; empty when they can.
std::string settings_fault(const device::PowerSettings& settings, const Figures& board);

}  // namespace partita::drivers::sim
