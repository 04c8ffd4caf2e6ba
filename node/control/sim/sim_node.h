// SimNode: the world of an agent in virtual time. A machine of drivers/sim, a disk in memory,
// workers that follow the assignment and take their time to be ready, a gateway that counts what
// the traffic makes of their capacity, and what goes wrong: reboots, GPUs that fall off the bus,
// XIDs, uncorrected ECC errors, people who change instances, calls of the driver that fail, workers
// and gateways that die; and outages that last, which others begin and end (break_down).
// One thread; all of it follows from one seed.
//
// Requests are not played one by one. In a stretch of constant rate and capacity the share in SLO
// is that of a queue whose tail falls exponentially with the idle capacity, through the point that
// the plan promises (attained()); above capacity the gateway sheds the rest.
// Limits: a segment is ready or not as a whole.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "control/host/agent.h"
#include "control/sim/sim_traffic.h"
#include "device/adaptors.h"
#include "device/health.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"

namespace partita::control {

// Events per day; 0: never.
struct SimTroubles {
  double reboots = 0, lost_gpus = 0, xids = 0, ecc = 0, foreign = 0, worker_deaths = 0,
         gateway_restarts = 0;
  double driver_faults = 0;  // chance per changing call
  // Hours at the end of every twelve in which nothing of that happens.
  double calm_hours = 0;
};
SimTroubles usual_troubles();

struct SimService {
  plan::Service wanted;
  SimTraffic traffic;
};

struct SimNodeOptions {
  drivers::sim::Machine machine;
  std::vector<SimService> services;
  std::vector<plan::FleetEntry> profiles;  // what segments carry at most
  std::string services_text;               // the services file
  SimTroubles troubles;
  std::uint64_t seed = 1;
  // What clocks do to segments, by GPU model, units being compute slices. Then workers are as busy
  // as their requests make them, and as fast as their board's clock allows. Empty: clocks do
  // nothing.
  std::vector<plan::ResponseTable> tables = {};
  drivers::sim::PowerRights power_rights = drivers::sim::PowerRights::anybody;
};

// Share of requests in SLO of a service that `planned` req/s were promised for at `percentile`, on
// segments that carry `most` req/s at full batches. 1 at rate 0, percentile / 100 at `planned`.
double attained(double rate, double planned, double most, double percentile);

// What became of a service so far.
struct SimTally {
  double arrived = 0, in_slo = 0, missed = 0, shed = 0;  // requests
  double short_s = 0, longest_short_s = 0;  // time with a rate above what is ready; in one piece
  double short_now_s = 0;
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
  // A process holds a MIG device, until it lets go.
  void hold(const std::string& device, Pid pid, const std::string& name);
  void let_go(Pid pid);
  // A program of the node writes a file.
  void write(const std::string& path, const std::string& text);
  void remove(const std::string& path) { disk_.content.erase(path); }
  // All that is on its disk, by path.
  const std::map<std::string, std::string>& disk() const { return disk_.content; }
  // The machine stops and comes back after some minutes without instances.
  void reboot();
  bool reboot_due() const { return reboot_due_; }
  bool calm(std::int64_t now_ns) const;
  // Begins and ends an outage; `which`: of the services or GPUs, where one is meant. One of a kind
  // at a time.
  void break_down(SimOutage outage, int which);
  void mend(SimOutage outage);
  bool broken(SimOutage outage) const { return broken_.contains(outage); }
  bool gateway_answers() const { return gateway_ != 0 && !hung_; }
  // A watch of the GPUs' health that has only just begun: what was said before is not heard.
  void watch_anew();

  std::int64_t now_ns() const { return now_; }
  // What the boards have drawn so far, by their own meters; joules.
  double energy_j();
  device::NodeDriver& meters() { return *inner_; }
  std::int64_t wall_ms() const { return kStartMs + now_ / 1'000'000; }
  const std::vector<SimService>& services() const { return options_.services; }
  const SimTally& tally(std::size_t service) const { return tallies_[service]; }
  double rate(std::size_t service) const;
  double ready_rps(std::size_t service) const;  // planned, of its segments that are ready
  // Share of its requests that are answered in time now.
  double share_in_time(std::size_t service) const;
  int gpus_used() const;                        // with instances
  double gpu_seconds() const { return gpu_seconds_; }
  long created() const { return created_; }
  // From now on: how long each service's ready workers carried less than that at full batches,
  // which is what a gateway says and apply goes by; in seconds.
  void watch_floors(std::vector<double> floors) {
    below_s_.assign(floors.size(), 0);
    floors_ = std::move(floors);
  }
  const std::vector<double>& below_floor_s() const { return below_s_; }
  // MIG devices that others made.
  const std::set<std::string>& foreign() const { return foreign_; }
  const std::map<std::string, long>& events() const { return events_; }
  drivers::sim::Machine machine();
  device::NodeState look();
  actuate::Assignment assignment();
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

 private:
  class ClockDoor;
  class FilesDoor;
  class DriverDoor;
  enum class Trouble : std::uint8_t { reboot, lost, xid, ecc, foreign, worker, gateway, count };
  struct Crew {  // the workers of a device
    actuate::AssignedSegment segment;
    std::int64_t pid = 0;  // 0: they do not run
    std::int64_t ready_ns = 0;
    std::optional<std::int64_t> leave_ns = {};
    std::int64_t start_ns = 0;  // not before
    double speed = 1;           // of what it carries at the highest clock
  };
  struct Later {
    std::int64_t at_ns = 0;
    std::function<void()> what;
  };

  void count(const std::string& what, const std::string& text);
  template <class Use>
  void with_machine(Use use);
  std::int64_t next_event() const;
  void account(std::int64_t until_ns);
  std::pair<double, double> ready(std::size_t service) const;
  void pace_crews();
  void follow_assignment();
  void settle_crews();
  bool may_start(const std::string& device, const Crew& crew) const;
  void end_crew(Crew& crew);
  std::string workers_text() const;
  std::vector<HealthEvent> take_health();
  void start_crew(const std::string& device, Crew& crew);
  void happen();
  void trouble(Trouble kind);
  void lose_gpu(int gpu, int xid);
  void foreign_change();
  void report_xid(const std::string& uuid, int xid);
  void draw_next(Trouble kind);
  double per_day(Trouble kind) const;
  int healthy_gpu();
  void start_gateway();
  void start_supervisor();
  void regain_gpu(int gpu, const std::string& uuid);
  actuate::GatewayState gateway_state();
  double most_rps(const actuate::AssignedSegment& segment) const;

  SimNodeOptions options_;
  const hw::Catalogue& catalogue_;
  std::int64_t now_ = 0;
  Rng rng_;
  std::unique_ptr<ClockDoor> clock_;
  std::unique_ptr<FilesDoor> files_;
  std::unique_ptr<drivers::sim::SharedMachine> machine_;
  std::unique_ptr<drivers::sim::SimDriver> inner_;
  std::unique_ptr<device::FaultyDriver> faulty_;
  std::unique_ptr<DriverDoor> driver_, batch_driver_;
  std::unique_ptr<SimProcesses> processes_;
  MemoryFiles disk_;
  std::string followed_;
  actuate::Assignment followed_assignment_;  // what that text says
  std::map<std::string, Crew> crews_;        // by MIG device
  std::vector<Later> later_;
  std::array<std::int64_t, static_cast<std::size_t>(Trouble::count)> next_{};
  std::vector<HealthEvent> health_;  // XIDs that were not heard yet
  std::map<std::string, device::HealthReading> ills_;  // by UUID
  device::HealthChanges health_changes_;
  std::map<SimOutage, int> broken_;  // and which
  std::vector<SimTally> tallies_;       // by service
  std::vector<SimTally> counted_;       // since the gateway began
  std::vector<actuate::RecentRequests> recent_;
  std::optional<actuate::GatewayState> hung_;  // what it said last
  std::map<std::string, double> most_;  // see most_rps
  std::map<std::string, long> events_;
  Pid gateway_ = 0, supervisor_ = 0;
  actuate::SupervisorRecord supervisor_record_;
  long supervised_revision_ = 0, boots_ = 1;
  std::int64_t next_pid_ = 500'000;
  std::vector<double> floors_, below_s_;  // by service
  std::set<std::string> foreign_;
  double gpu_seconds_ = 0;
  long created_ = 0;
  bool reboot_due_ = false, in_advance_ = false;
  std::int64_t told_second_ = 0;  // the last one that at_second was called for
};

}  // namespace partita::control
