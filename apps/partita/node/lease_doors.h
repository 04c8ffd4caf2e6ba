// What leases need of a node, and looking after them whenever a command has the node.
#pragma once

#include <cstdint>
#include <string>

#include "act/lease/leases.h"
#include "context.h"
#include "node/devices.h"

namespace partita::cli {

// Milliseconds since 1970.
std::int64_t wall_clock_ms();
// The doors of leases on this node, `processes` being theirs.
lease::LeaseDoors lease_doors(Context& context, const OpenDriver& open, Processes& processes);
// Brings leases in order, for who has the lock of the node; complains where that cannot be.
void settle_leases(Context& context, const OpenDriver& open, const std::string& log);

}  // namespace partita::cli
