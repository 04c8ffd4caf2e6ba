// What GPUs said of themselves at a time: power, energy, temperatures, clocks, activity of every
// instance. Values only: a driver fills them in (device), log.h writes and reads them, energy and
// thermal models use them. What a board does not tell is empty, never zero.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace partita::telemetry {

// Shares of time or of the most there can be, in [0, 1], of the instance or GPU it stands at (not
// of the whole GPU), since the sample before.
struct Activity {
  std::optional<double> graphics_engine = {};     // GR_ENGINE_ACTIVE
  std::optional<double> sm = {}, occupancy = {};  // SM_ACTIVE, SM_OCCUPANCY
  std::optional<double> tensor = {}, fp64 = {}, fp32 = {}, fp16 = {}, integer = {}, dram = {};
  bool operator==(const Activity&) const = default;
};

// A process that holds memory of the GPU.
struct Process {
  std::int64_t pid = 0;
  int gi_id = -1;  // its instance; -1: the GPU outside any instance
  Mib memory = {};
  bool operator==(const Process&) const = default;
};

struct InstanceSample {
  int gi_id = 0;
  std::string uuid = {};  // of the MIG device, "MIG-..."; empty where there is no compute instance
  std::string profile = {};  // "3g.40gb"
  int compute_slices = 0, memory_slices = 0;
  Activity activity = {};
  std::optional<Mib> memory_used = {};
  bool operator==(const InstanceSample&) const = default;
};

struct GpuSample {
  int index = 0;
  std::string uuid = {}, model = {};        // model: catalogue name, empty when it is not known
  int compute_slices = 0;                   // of the whole board: 7; 0 where it has no MIG
  std::optional<Watts> power = {};          // of the board, now
  std::optional<Watts> power_average = {};  // of the board, mean of the last second
  std::optional<Joules> energy = {};        // counter of the board, grows; starts anywhere
  std::optional<Watts> power_limit = {};
  std::optional<Celsius> temperature = {}, memory_temperature = {};
  std::optional<Mhz> sm_clock = {}, memory_clock = {};
  std::vector<std::string> throttle =
      {};                  // reasons in force, sorted: "sw_power_cap", "hw_thermal" ...
  Activity activity = {};  // of the whole GPU
  std::vector<InstanceSample> instances = {};  // by gi_id
  std::vector<Process> processes = {};         // by pid
  bool operator==(const GpuSample&) const = default;
};

struct Sample {
  Seconds at =
      {};  // since the epoch, or since the start where a simulation made it; grows in a log
  std::vector<GpuSample> gpus = {};  // by index
  bool operator==(const Sample&) const = default;
};

}  // namespace partita::telemetry
