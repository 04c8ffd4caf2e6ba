// What an agent works with, from its settings file and the node: profiles of the node's GPU models,
// the SLO rule, the policy.
#pragma once

#include <string>

#include "context.h"
#include "control/host/agent_file.h"
#include "control/loop.h"
#include "node/devices.h"

namespace partita::cli {

// The settings file; relative paths in it are from beside it. `path` empty: the defaults.
Result<control::AgentFile> load_agent_file(Context& context, const std::string& path);

// Refused: profiles that cannot be read. A GPU model without profiles is left out.
Result<control::World> agent_world(Context& context, const control::AgentFile& file,
                                   const hw::Catalogue& catalogue,
                                   const std::vector<std::string>& models);
std::string host_name();
// The catalogue names of a node's GPUs.
std::vector<std::string> models_of(const device::NodeState& node);

}  // namespace partita::cli
