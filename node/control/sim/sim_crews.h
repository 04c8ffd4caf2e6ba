// SimCrews: the workers of a simulated node and their supervisor. They follow the assignment on the
// node's disk as real ones do: who is no longer assigned takes a moment to leave, who is new takes
// its time to be ready, and both hold their MIG device. A segment is ready or not as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "act/assignment.h"
#include "act/gateway_state.h"
#include "act/workers_state.h"
#include "base/files.h"
#include "base/processes.h"
#include "base/rng.h"
#include "control/sim/sim_boards.h"
#include "control/sim/sim_traffic.h"
#include "plan/power.h"
#include "plan/serving.h"

namespace partita::control {

// What is given of a node's services.
struct SimSites {
  std::vector<SimService> services;
  std::vector<plan::FleetEntry> profiles;  // what segments carry at most
  // What clocks do to segments, by GPU model, units being compute slices. Then workers are as busy
  // as their requests make them, and as fast as their board's clock allows. Empty: clocks do
  // nothing.
  std::vector<plan::ResponseTable> tables = {};
};

// Requests per second of a service's ready segments.
struct ReadyRates {
  double planned = 0, most = 0;  // as planned, and at full batches
};

class SimCrews {
 public:
  // Refers to all of them.
  SimCrews(const SimSites& sites, SimBoards& boards, MemoryFiles& disk, Rng& rng);

  // Looks at the assignment; nothing happens if it is as before.
  void follow(std::int64_t now_ns);
  // Crews that are to go and have gone; those whose device is gone; those that may begin.
  void settle(std::int64_t now_ns);
  // The next time at which settle() may have something to do.
  std::optional<std::int64_t> next(std::int64_t now_ns) const;
  // How fast each is at its board's clock, and how busy the rates (by service) make it.
  void pace(std::int64_t now_ns, const std::vector<double>& rates);
  ReadyRates ready(std::int64_t now_ns, std::size_t service) const;
  double ready_rps(std::int64_t now_ns, std::size_t service) const;  // planned, at full clocks
  // What a gateway sees: workers, and what each service's carry at most.
  std::map<std::string, double> tell(std::int64_t now_ns, actuate::GatewayState& state) const;

  // ---- they end, and begin again after a second if they may
  using Which = std::function<bool(const std::string& service, long place)>;
  void end(std::int64_t now_ns, const Which& which);
  // Any of them: its device, or nothing where it was not there.
  std::optional<std::string> end_any(std::int64_t now_ns);
  Which kept_down = {};  // who may not begin
  void stop();           // the machine does

  // ---- the supervisor, without which none begins
  void supervise(Processes& processes);
  void leave_alone() { supervised_ = false; }
  Pid supervisor() const { return supervised_ ? supervisor_.pid : 0; }
  std::string workers_text() const;

  const actuate::Assignment& followed() const { return followed_assignment_; }
  actuate::Assignment assignment() const;  // that is on the disk

 private:
  struct Crew {  // the workers of a device
    actuate::AssignedSegment segment;
    double most = 0;       // req/s at full batches
    std::int64_t pid = 0;  // 0: they do not run
    std::int64_t ready_ns = 0;
    std::optional<std::int64_t> leave_ns = {};
    std::int64_t start_ns = 0;  // not before
    double speed = 1;           // of what it carries at the highest clock
    bool serves(std::int64_t now_ns) const { return pid != 0 && !leave_ns && ready_ns <= now_ns; }
  };

  std::optional<std::size_t> service_of(const Crew& crew) const;
  double most_rps(const actuate::AssignedSegment& segment) const;
  bool may_start(std::int64_t now_ns, const std::string& device, const Crew& crew) const;
  void start(std::int64_t now_ns, const std::string& device, Crew& crew);
  void end(std::int64_t now_ns, Crew& crew);
  std::int64_t later(std::int64_t now_ns, double least_s, double spread_s);

  const SimSites& sites_;
  SimBoards& boards_;
  MemoryFiles& disk_;
  Rng& rng_;
  std::string followed_;
  actuate::Assignment followed_assignment_;  // what that text says
  std::map<std::string, Crew> crews_;        // by MIG device
  actuate::SupervisorRecord supervisor_;     // the last one, though it has ended
  bool supervised_ = false;
  long supervised_revision_ = 0;
  std::int64_t next_pid_ = 500'000;
};

}  // namespace partita::control
