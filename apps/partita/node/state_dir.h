// The state directory: where apply keeps its journal and the assignment of segments, one directory
// per node. Whoever works on the same node must find the same directory, so it is chosen from what
// the node is: the simulated machine's state file, else the UUIDs of its GPUs.
#pragma once

#include <string>
#include <vector>

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

// Where what belongs to single GPUs lies, whatever state directory is used, as what the names begin
// with: beside the state file of a simulated machine, else in lock_directory(). Empty: a machine
// that nobody else can see, which needs no locks.
std::string gpu_prefix(const OpenDriver& open);

// The locks of these GPUs, by UUID, for whoever changes anything of them: instances, clocks,
// limits. One file per UUID, taken in their order, so that whoever wants several gets all or
// none. in_use, with who it is, when another process has one of them.
Result<FileLock> lock_gpus(Context& context, const OpenDriver& open,
                           std::vector<std::string> uuids);
// The same of GPUs by index, for who has not read the node.
Result<FileLock> lock_gpus(Context& context, const OpenDriver& open, const std::vector<int>& gpus);
// The locks of all GPUs, and that of the node itself: one change of its layout at a time. Leases
// are in order once it is there: expired ones have ended, none is half made.
Result<FileLock> lock_node(Context& context, const OpenDriver& open, const device::NodeState& node);

// The lock of the node alone, for who brings leases in order himself (lease/lease_desk.h).
Result<FileLock> lock_node_only(Context& context, const OpenDriver& open,
                                const device::NodeState& node);

// Where the agent of this process, which holds the node's lock, is asked: said to whoever wants the
// lock.
void tell_address(Context& context, const OpenDriver& open, const device::NodeState& node,
                  const std::string& address);

// The lock of the queue of this node: instances of a queue are known by their places, so a second
// one, of another state directory, would take them for its own.
Result<FileLock> lock_queue(Context& context, const OpenDriver& open,
                            const device::NodeState& node);

// The log of leases (act/lease): of a simulated machine, of the real one; beside the node's lock.
// Empty where the node needs none.
std::string lease_log_of_machine(const OpenDriver& open);
std::string lease_log_of_node(const device::NodeState& node);
std::string lease_log(const OpenDriver& open, const device::NodeState& node);

// The log of instances that are lent on this node (act/loans), beside that lock; empty where the
// node needs none.
std::string loan_log(const OpenDriver& open, const device::NodeState& node);

}  // namespace partita::cli
