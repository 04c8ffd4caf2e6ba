// The node that a command works on: which driver, and what stands behind it. This is where drivers
// and commands meet; commands see only the door.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "act/lease/leases.h"
#include "act/loans/loans.h"
#include "base/processes.h"
#include "context.h"
#include "device/health.h"
#include "device/node_driver.h"
#include "device/node_forms.h"
#include "drivers/sim/shared_machine.h"

namespace CLI {
class App;
}

namespace partita::cli {

struct DeviceFlags {
  std::string driver = "nvml";  // or "amd", "sim"
  std::string machine;          // description of the simulated machine; empty: $PARTITA_SIM
  std::string catalogue;        // directory; empty: the compiled-in one
};

// Adds --driver, --machine and --catalogue.
void add_device_flags(CLI::App& command, DeviceFlags& flags);

// A driver with all that it refers to. Everything lives as long as this does.
struct OpenDriver {
  std::unique_ptr<hw::Catalogue> catalogue;
  std::unique_ptr<drivers::sim::SharedMachine> machine;  // of driver sim
  std::unique_ptr<device::NodeDriver> driver;  // shows what is lent as held (act/lease)
  // The same without leases, for act/lease alone; part of `driver`.
  device::NodeDriver* bare = nullptr;
};

// Opens the driver that the flags name. no_driver where NVIDIA's is missing, with what to do about
// it; bad_input where the description of the simulated machine is wrong.
Result<OpenDriver> open_driver(Context& context, const DeviceFlags& flags);

// Resets a GPU of the driver that nothing runs on, as actuate::Doors has it; empty where only the
// driver itself does that.
std::function<Result<void>(int gpu)> gpu_reset(const OpenDriver& driver);

// What hears of the health of the driver's GPUs; null where nothing can. It must not outlive
// `driver`.
Result<std::unique_ptr<device::HealthWatch>> open_health(const DeviceFlags& flags,
                                                         const OpenDriver& driver);

// Who runs on which MIG device, from the assignment in a state directory; empty when there is none.
// One that cannot be read is complained about and taken for none.
device::Occupants load_occupants(Context& context, const std::string& state_directory);

// The change that the journal of a state directory says is not done. A journal that cannot be read
// is complained about and taken for none.
std::optional<device::Unfinished> load_unfinished(Context& context,
                                                  const std::string& state_directory);

// The state directory: where apply keeps its journal and the assignment of segments, one directory
// per node. Whoever works on the same node must find the same directory, so it is chosen from what
// the node is: the simulated machine's state file, else the UUIDs of its GPUs.

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
// The socket where that agent is asked; empty: it has none, or there is no agent.
std::string agent_socket(Context& context, const OpenDriver& open, const device::NodeState& node);

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

// What leases need of a node, and looking after them whenever a command has the node.

// Milliseconds since 1970.
std::int64_t wall_clock_ms();
// The doors of leases on this node, `processes` being theirs.
lease::LeaseDoors lease_doors(Context& context, const OpenDriver& open, Processes& processes);
// Brings leases in order, for who has the lock of the node; complains where that cannot be.
void settle_leases(Context& context, const OpenDriver& open, const std::string& log);

// Where commands borrow instances of the node: its lock, its log of loans, and the doors to both.
// While it is open nobody else changes the node. What dead commands left is gone once it is open.

class LoanDesk {
 public:
  // in_use while another command changes the node. The driver outlives it, at the same place.
  static Result<std::unique_ptr<LoanDesk>> open(Context& context, const OpenDriver& driver);
  exec::Loans& loans() { return *loans_; }

 private:
  RealProcesses processes_;
  FileLock lock_;
  std::optional<exec::Loans> loans_;
};

}  // namespace partita::cli
