// Response tables that nobody measured: from the published times of kernels on 1, 2 ... units at
// the highest clock, a stated model of what a slower clock does to them and of the power. For GPUs
// whose clocks one may not touch, and to compare policies. Every table says that it is modelled.
//
// Time: a kernel's part above the launch floor takes m + (1 - m) fmax / f of its time at fmax, m
// being the share bound by memory, whose clock stays. A batch of b on u units takes what one
// request takes on u / b (as many work-groups per unit), interpolated in 1 / units.
// Power: board = idle + units x unit idle(f) + energy of a batch / time of a batch, with
//   unit idle(f) = unit_idle x (leak V/Vmax + (1 - leak) f/fmax (V/Vmax)^2), V linear in f
//   energy = unit_busy x work x ((1 - m) (V/Vmax)^2 + m), work in unit-seconds at fmax.
#pragma once

#include <string>
#include <vector>

#include "plan/power.h"
#include "profile/kernel_profile.h"

namespace partita::power {

// Defaults: an MI50 as in the dissertation where it gives figures (clocks from 925 to 1725 MHz in
// nine steps, 15 W at rest); steps of 100 MHz, voltages and watts per unit are assumed.
struct ClockModel {
  std::vector<Mhz> clocks = {{925}, {1025}, {1125}, {1225}, {1325}, {1425}, {1525}, {1625}, {1725}};
  Watts idle{15};
  Watts unit_idle{1.0};  // clocked, nothing to do, highest clock
  Watts unit_busy{2.0};  // more, with work, highest clock
  double leak = 0.35;    // share of unit_idle that does not clock
  double low_volts = 0.75, high_volts = 1.10;
  double memory_share = 0.2;  // m
  double floor_us = 10;       // of a kernel's time, whatever the clock
  std::vector<int> batches = {1, 2, 4, 8};
  int unit_step = 1;  // units 1, 1 + step ... ; the whole GPU always
};

// `models`: all with as many units as `units_in` has together. Needs ascending clocks.
plan::ResponseTable modelled_table(const std::string& gpu, const std::vector<int>& units_in,
                                   const std::vector<profile::ModelKernels>& models,
                                   const ClockModel& model);

}  // namespace partita::power
