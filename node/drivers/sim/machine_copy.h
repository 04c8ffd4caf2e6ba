// A node as it was read, copied into memory, so that something can be rehearsed on it. Pure.
#pragma once

#include "device/node_state.h"
#include "drivers/sim/machine.h"
#include "hw/catalogue.h"

namespace partita::drivers::sim {

// Its GPUs with their instances and holders, as far as the catalogue, which must not be empty,
// knows them.
Machine copy_of(const device::NodeState& node, const hw::Catalogue& catalogue);

}  // namespace partita::drivers::sim
