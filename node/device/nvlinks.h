// Which GPUs of a node NVLink joins, from what its driver says of their links. Pure.
#pragma once

#include <map>

#include "device/node_state.h"

namespace partita::device {

// By GPU, its domain: the lowest number of a GPU that links lead to, over switches and other GPUs
// too. GPUs that fell off the bus are in none. Empty, nobody knows: a GPU says nothing of its
// links, or all of them are down, as where MIG is on or in a node without NVLink; or none has any.
std::map<int, int> nvlink_domains(const NodeState& state);

}  // namespace partita::device
