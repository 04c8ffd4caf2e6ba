// Pictures of a node: what is there, and what a change does to it.
#pragma once

#include <string>

#include "act/change.h"
#include "device/node_forms.h"
#include "hw/catalogue.h"

namespace partita::actuate {

std::string node_svg(const device::NodeState& state, const device::Occupants& occupants,
                     const hw::Catalogue& catalogue);

// What stays, goes and comes. The GPUs that the change has nothing to do with are left out.
std::string change_svg(const Change& change, const device::NodeState& state,
                       const hw::Catalogue& catalogue);

}  // namespace partita::actuate
