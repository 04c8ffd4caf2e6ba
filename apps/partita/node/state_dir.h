// The state directory: where apply keeps its journal and the assignment of segments, one directory
// per node. Whoever works on the same node must find the same directory, so it is chosen from what
// the node is: the simulated machine's state file, else the UUIDs of its GPUs.
#pragma once

#include <string>

#include "node/devices.h"

namespace CLI {
class App;
}

namespace partita::cli {

// Adds --state-dir.
void add_state_dir(CLI::App& command, std::string& directory);

// `flag` when it is not empty; else $PARTITA_STATE_DIR; else, below /var/lib/partita (root),
// $XDG_STATE_HOME/partita or ~/.local/state/partita, a directory named after the node's GPUs.
std::string state_directory(const std::string& flag, const device::NodeState& node);

// The same; the node is asked who it is only where neither the flag nor the environment says it.
Result<std::string> found_state_directory(Context& context, const DeviceFlags& device,
                                          const std::string& flag);

// The lock of the node itself, for whoever changes it, in whatever state directory: beside the
// state file of a simulated machine, else a file named after the node's GPUs where state
// directories are. in_use when another process has it. A machine that nobody else can see needs
// none.
Result<FileLock> lock_node(Context& context, const OpenDriver& open, const device::NodeState& node);

// The log of instances that are lent on this node (exec/loans), beside that lock; empty where the
// node needs none.
std::string loan_log(const OpenDriver& open, const device::NodeState& node);

}  // namespace partita::cli
