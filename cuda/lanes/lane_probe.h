// LaneProbe: what the lanes of a device cost and do, measured through the LaneDriver door: creating
// and switching them, whether work-groups stay on their masks, how a kernel's time falls with the
// units it gets, and whether kernels that each have half of the device disturb each other less than
// kernels that share all of it. Uses a driver that has no lanes; leaves it so when nothing failed.
// Times are medians of settings.rounds repetitions, in microseconds, on whatever else the device
// and the host do meanwhile.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/lane_driver.h"
#include "device/probe_kernels.h"

namespace partita::exec {

// Masks to time one kernel on, by growing number of units.
struct MaskFamily {
  std::string name;  // "packed"
  std::vector<hw::UnitMask> masks;
};

struct LaneProbeSettings {
  int rounds = 30;                   // of each measurement
  std::vector<hw::UnitMask> masks;   // different ones; creation and placement are tried on them
  std::vector<MaskFamily> families;  // for `scaling`
  hw::UnitMask all, half, rest;  // all units; two parts without a common unit; `rest` may be none
  double kernel_us = 200;        // wanted for the kernels of `scaling` on all units
  std::function<void(const std::string& what)> progress = [](const std::string&) {};
};

struct MedianTime {
  double median_us = 0, most_us = 0;
};

struct ScalingPoint {
  std::string family;
  int units = 0;
  double us = 0;
};

// A short computing kernel whose end is waited for each time, while another lane is kept full of
// kernels; each on `all`, or each on its part.
struct Disturbance {
  std::string other;  // what the other lane runs: "computing" or "reading"
  MedianTime alone, alone_on_half, sharing_all, on_halves;
};

struct LaneProbe {
  device::LaneDriverInfo info;
  MedianTime create_new, create_again, destroy;  // lanes of a new mask, of one seen before
  int lanes = 0;                                 // that existed at the same time
  std::optional<double> bytes_per_lane;          // of the device's memory
  MedianTime launch;                             // until the call returns
  MedianTime round_trip;                         // launched and waited for
  double queued_us = 0;                          // per kernel, many on one lane
  // Per kernel, alternating between two lanes by events; each waited for by the host; of one graph
  // on one lane, on two.
  std::optional<double> event_switch_us, host_switch_us, graph_us, graph_switch_us;
  std::int64_t groups = 0, groups_outside = 0;  // work-groups checked, not on their mask
  std::vector<ScalingPoint> scaling;
  std::vector<Disturbance> disturbances;
};

// The driver's first error where one of its calls fails.
Result<LaneProbe> probe_lanes(device::LaneDriver& driver, device::ProbeKernels& kernels,
                              Clock& clock, const LaneProbeSettings& settings);

}  // namespace partita::exec
