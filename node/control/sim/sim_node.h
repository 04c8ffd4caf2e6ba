// SimNode: the world of an agent in virtual time. A machine of drivers/sim, a disk in memory,
// workers that follow the assignment and take their time to be ready, a gateway that counts what
// the traffic makes of their capacity, and what goes wrong: reboots, GPUs that fall off the bus,
// XIDs, uncorrected ECC errors, people who change instances, calls of the driver that fail, workers
// and gateways that die; and outages that last, which others begin and end (break_down).
// One thread; all of it follows from one seed.
//
// Its parts: SimBoards (GPUs), SimCrews (workers), SimGateway (requests), TroubleDates. The node
// has the doors and the time, and says what happens to whom.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "control/host/agent.h"
#include "control/sim/sim_boards.h"
#include "control/sim/sim_crews.h"
#include "control/sim/sim_gateway.h"
#include "control/sim/sim_troubles.h"
#include "device/adaptors.h"

namespace partita::control {

struct SimNodeOptions {
  drivers::sim::Machine machine;
  SimSites sites;
  std::string services_text;  // the services file
  SimTroubles troubles;
  std::uint64_t seed = 1;
  drivers::sim::PowerRights power_rights = drivers::sim::PowerRights::anybody;
};

// What can be out of order until somebody mends it.
enum class SimOutage : std::uint8_t {
  workers,     // of one service: all of them end, and none begins
  some,        // the same of every other device, of all services
  supervisor,  // it ends, and its workers with it
  watchless,   // it ends, and its workers run on; who ends is not started again
  gateway,     // it ends
  hung,        // the gateway says nothing and answers nobody
  driver,      // nothing can be read of the node, or changed on it
  gpu,         // one falls off the bus
};
inline constexpr int kSimOutages = 8;
const char* to_string(SimOutage outage);

// What has come of a node so far.
struct SimCounts {
  double gpu_seconds = 0;              // with instances
  long created = 0;                    // instances, by the agent
  std::map<std::string, long> events;  // what happened, and how often
};

class SimNode {
 public:
  SimNode(SimNodeOptions options, const hw::Catalogue& catalogue);
  ~SimNode();

  // The doors as an agent sees them; what it records and notifies is left to the caller.
  AgentDoors doors();
  // Lets time pass: what is due happens in its order.
  void advance(std::int64_t until_ns);
  // The same machine for batches, whose instances are not counted as the agent's.
  device::NodeDriver& batch_driver();
  const hw::Catalogue& catalogue() const { return catalogue_; }
  SimBoards& boards() { return *boards_; }
  SimGateway& gateway() { return gateway_; }
  const SimGateway& gateway() const { return gateway_; }
  // All that is on its disk, by path.
  std::map<std::string, std::string>& disk() { return disk_.content; }
  // The machine stops and comes back after some minutes without instances.
  void reboot();
  bool reboot_due() const { return reboot_due_; }
  bool calm() const { return dates_.calm(now_); }
  // Begins and ends an outage; `which`: of the services or GPUs, where one is meant. One of a kind
  // at a time.
  void break_down(SimOutage outage, int which);
  void mend(SimOutage outage);
  bool broken(SimOutage outage) const { return broken_.contains(outage); }

  std::int64_t now_ns() const { return now_; }
  std::int64_t wall_ms() const { return kStartMs + now_ / 1'000'000; }
  const std::vector<SimService>& services() const { return options_.sites.services; }
  double rate(std::size_t service) const;
  double ready_rps(std::size_t service) const;
  double share_in_time(std::size_t service) const;
  actuate::Assignment assignment() const { return crews_->assignment(); }
  const SimCounts& counts() const { return counts_; }
  // Hears everything that happens, a line each.
  std::function<void(const std::string&)> log = {};
  // Called at every changing call of the agent and while it waits; may throw what ends the agent.
  std::function<void()> at_call = {};
  // Called at every full second, also while the agent waits; may begin and end outages.
  std::function<void()> at_second = {};
  // Why the disk refuses to read a file, or to change it; nothing: it does not.
  std::function<std::optional<Error>(const std::string& path, bool change)> disk_refuses = {};
  // MIG devices that are made and destroyed, by whom: "agent" or "others".
  std::function<void(const std::string& what, const std::string& device)> touched = {};

  static constexpr std::int64_t kStartMs = 1'767'571'200'000;  // a Monday, 00:00 UTC
  static constexpr const char* kDir = "/state";

 private:
  class ClockDoor;
  class FilesDoor;
  class DriverDoor;
  struct Later {
    std::int64_t at_ns = 0;
    std::function<void()> what;
  };

  void count(const std::string& what, const std::string& text);
  std::vector<double> rates() const;
  std::int64_t next_event() const;
  void happen();
  void trouble(Trouble kind);
  void later(double least_h, double spread_h, std::function<void()> what);

  SimNodeOptions options_;
  const hw::Catalogue& catalogue_;
  std::int64_t now_ = 0;
  Rng rng_;
  MemoryFiles disk_;
  std::unique_ptr<ClockDoor> clock_;
  std::unique_ptr<FilesDoor> files_;
  std::unique_ptr<SimBoards> boards_;
  std::unique_ptr<device::FaultyDriver> faulty_;
  std::unique_ptr<DriverDoor> driver_, batch_driver_;
  std::unique_ptr<SimProcesses> processes_;
  std::unique_ptr<SimCrews> crews_;
  SimGateway gateway_;
  TroubleDates dates_;
  std::vector<Later> later_;
  std::map<SimOutage, int> broken_;  // and which
  SimCounts counts_;
  long boots_ = 1;
  bool reboot_due_ = false, in_advance_ = false;
  std::int64_t told_second_ = 0;  // the last one that at_second was called for
};

}  // namespace partita::control
