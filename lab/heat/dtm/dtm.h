// Dynamic thermal management simulated: work is done at the rate that the clock allows, power
// follows clock and voltage, the reduced thermal model follows power, a governor sets the clock. A
// run is a pure function of its inputs.
//
//   rate of work  = 1 / (memory + (1 - memory) * top / clock)   memory: share that no clock helps
//   dynamic power = trace * rate * (V / V_top)^2
//   idle power    = idle * (1 - clocked + clocked * clock / top * (V / V_top)^2)
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "heat/rom.h"
#include "heat/dtm/governor.h"

namespace partita::dtm {

inline constexpr long kMostEpochs = 50'000'000;  // of one run

// What the chip can be set to: MHz, ascending, with volts growing evenly between the ends.
struct ClockTable {
  std::vector<double> mhz;
  double low_volts = 0.65, high_volts = 1.06;

  double volts(int clock) const;
};
// 131, 200, 300 ... 1700: the 17 steps of the dissertation.
ClockTable pascal_clocks();

// What runs: watts per block at the highest clock above idle, a row per interval of work; rows
// repeat until the work is done.
struct HotWork {
  std::string name;
  std::vector<std::vector<double>> rows;
  Seconds row{0.01};
  Seconds work{1};          // at the highest clock
  double memory_share = 0;  // of the time at the highest clock
};

// Who owns which blocks; a block that nobody owns heats for all.
struct HotTenant {
  std::string name;
  std::vector<int> blocks;
};

struct DtmCase {
  std::vector<double> idle_watts;  // per block
  double idle_clocked = 0.4;       // share of the idle power that follows clock and voltage
  ClockTable clocks = pascal_clocks();
  double sensor_step_k = 0;  // sensors round down to it; 0: exact
  double power_error = 0;    // predictive: by which share it takes powers wrongly
  std::vector<HotTenant> tenants;
  std::size_t moments = 0;  // of a run to keep, evenly spread: between half as many and this
};

struct TenantHeat {
  std::string name;
  double energy_j = 0;  // of its blocks above idle
  double throttle_share =
      0;  // of the work lost to throttling: its part in the hottest block's rise
};

// A run at the end of an epoch.
struct DtmMoment {
  double at_s = 0, hottest_k = 0, mhz = 0;
  std::vector<double> rises_k;  // of the hottest block, by each tenant's own heat
};

struct DtmRun {
  bool finished = false;  // the work was done within kMostEpochs
  double seconds = 0, work_s = 0, energy_j = 0;
  double over_cap_s = 0, worst_over_k = 0;
  double max_k = 0, mean_k = 0;     // of the hottest block over time
  std::vector<double> clock_share;  // of the time, per clock
  long epochs = 0;
  std::vector<TenantHeat> tenants;
  std::vector<DtmMoment> moments;  // DtmCase::moments
};

// `model`'s interval is the epoch; the run begins with idle power settled. `cap` in kelvin.
DtmRun run_dtm(const thermal::ReducedModel& model, const DtmCase& dtm, const HotWork& work,
               double cap, Governing governing, const GovernorOptions& options = {});

// The hottest block's steady temperature under the work's mean power at a clock, and with idle
// power alone: no governor comes below the lowest clock's for long.
double settled_hottest(const thermal::ReducedModel& model, const DtmCase& dtm, const HotWork& work,
                       int clock);
double idle_hottest(const thermal::ReducedModel& model, const DtmCase& dtm);

// Caps. `percent` less of the run's own maximum, counted in degrees Celsius as the dissertation
// does; and of its rise above the surroundings.
double cap_of_own_maximum(double max_k, double percent);
double cap_of_rise(double max_k, double ambient_k, double percent);

// Refused: sizes that do not fit the model, powers that no block has, an epoch longer than the
// work, clocks that do not ascend, tenants that share a block.
Result<void> check_dtm(const thermal::ReducedModel& model, const DtmCase& dtm, const HotWork& work);

}  // namespace partita::dtm
