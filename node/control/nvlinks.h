// Which GPUs of a node NVLink joins, as its settings or its driver say: groups of GPUs of a
// language model are within such a domain. Pure.
#pragma once

#include <map>
#include <vector>

#include "device/node_state.h"

namespace partita::control {

// As settings say it: so many GPUs at a time, by their numbers; or these. Neither: the driver says.
struct NvLinks {
  int each = 0;
  std::vector<std::vector<int>> domains = {};
  bool operator==(const NvLinks&) const = default;
};

// By GPU, its domain: the lowest number of a GPU in it, so its own where it is joined with no
// other. One between whose GPUs others are counts as several. Empty: nobody says, and all count as
// joined.
std::map<int, int> nvlink_domains(const NvLinks& said, const device::NodeState& state);

}  // namespace partita::control
