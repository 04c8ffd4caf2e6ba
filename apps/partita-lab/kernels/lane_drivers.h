// The device that lanes are made on: which LaneDriver, with kernels that it can run. This is where
// lane drivers and commands meet; commands see only the doors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "context.h"
#include "device/lane_driver.h"
#include "device/probe_kernels.h"

namespace partita::cli {

struct LaneDriverFlags {
  std::string driver = "auto";
  std::string gpu = {};        // topology of cpu_mask; empty: a unit per core
  int atom = 0;                // of green_ctx; 0: the device's
  std::string device = "0";    // ordinal of the GPU, or NVIDIA's UUID
  std::string vendor_library =
      {};  // file of CUDA's or HIP's driver library; empty: the installed one
};

// Adds --lane-driver, which takes `more` words, --device and --library; --topology and --atom
// are the command's.
void add_lane_driver_flags(CLI::App& command, LaneDriverFlags& flags,
                           const std::vector<std::string>& more = {});

// Kernels (where they were asked for) and driver live as long as this does; the driver ends first.
struct OpenLaneDriver {
  std::unique_ptr<device::ProbeKernels> kernels;
  std::unique_ptr<device::LaneDriver> driver;
};

// Opens the driver that the flags name; with "auto" the first of green_ctx and hip_mask that opens,
// else cpu_mask. `probes`: with kernels.
Result<OpenLaneDriver> open_lane_driver(const LaneDriverFlags& flags, bool probes = true);

}  // namespace partita::cli
