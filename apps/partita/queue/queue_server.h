// A queue of this node: its host on a loop, its socket, driver calls on a thread of their own.
// `partita queue serve` runs one, an agent another one (agent/agent_queue.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/door/loop.h"
#include "context.h"
#include "decide/gpu_costs.h"
#include "device/observe/host_energy.h"
#include "node/devices.h"
#include "queue/host/calls.h"

namespace partita::cli {

struct QueueServeFlags {
  DeviceFlags device;
  std::string state_dir, socket, powercap = observe::HostPaths{}.powercap;
  std::string idle = "60s", grace = "10s", patience = "60s";
  std::vector<std::string> quotas, shares, most_tasks;  // USER=N
  int cpus = 0;
  double ram_gib = 0;
  decide::TariffFiles tariff;
};

// Where a queue of a state directory listens, if nothing else is said.
std::string queue_socket(const std::string& state_dir);

class QueueServer {
 public:
  struct Place {
    const OpenDriver& open;
    const device::NodeState& node;
    std::string state_dir;
  };
  // All must outlive it. On the loop's thread, as everything else.
  static Result<std::unique_ptr<QueueServer>> start(Context& context, serve::Loop& loop,
                                                    const Place& place,
                                                    const QueueServeFlags& flags,
                                                    queue::InstanceDoor& instances);
  virtual ~QueueServer() = default;  // once the driver call under way has ended
  virtual queue::Calls& calls() = 0;
  virtual std::string text() const = 0;  // what it is, for people
};

// In the foreground, until a signal.
Result<Exit> serve_queue(Context& context, const QueueServeFlags& flags);

}  // namespace partita::cli
