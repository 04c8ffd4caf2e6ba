// Which GPU of the node becomes which GPU of the wanted layout. Internal to actuate.
#pragma once

#include <vector>

#include "act/change.h"

namespace partita::actuate {

// Per wanted GPU the position of its GPU in state.gpus: the one of its UUID, or by
// plan::match_gpus. Refused as plan_change says.
Result<std::vector<int>> match_gpus(const device::NodeState& state, const Assignment& assignment,
                                    const Wanted& wanted, const hw::Catalogue& catalogue,
                                    const ChangeOptions& options);

}  // namespace partita::actuate
