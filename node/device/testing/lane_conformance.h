// The suite that every LaneDriver passes: each sentence of lane_driver.h's contract as a check.
// Knows no driver; what it finds wrong comes back as sentences. It uses a driver that is lent to it
// without lanes and events, and leaves it so. What ran where and when is told by the kernels.
// Limits: kMaxLaneViolations sentences.
#pragma once

#include <string>
#include <vector>

#include "device/lane_driver.h"
#include "device/probe_kernels.h"

namespace partita::device {

inline constexpr std::size_t kMaxLaneViolations = 40;

// What the driver does otherwise than the contract says; empty when it conforms.
std::vector<std::string> check_lanes(LaneDriver& driver, ProbeKernels& kernels);

}  // namespace partita::device
