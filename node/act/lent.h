// What is lent (act/lease) in the way of what is to be placed.
#pragma once

#include <vector>

#include "device/node_state.h"
#include "hw/layout.h"

namespace partita::actuate {

// The lent instances of the GPU that leave no room for these placements; none: all fit together.
std::vector<const device::Instance*> lent_against(const device::GpuState& gpu,
                                                  const hw::GpuModel& model,
                                                  std::vector<hw::PlacedProfile> placed);

}  // namespace partita::actuate
