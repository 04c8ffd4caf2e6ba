// SimGateway: the gateway of a simulated node: a process that counts what becomes of requests, says
// so, and may end or hang. Requests are not played one by one. In a stretch of constant rate and
// capacity the share in SLO is that of a queue whose tail falls exponentially with the idle
// capacity, through the point that the plan promises (attained()); above capacity the gateway sheds
// the rest. A pipeline does as the step that is tightest at the moment, held to the pipeline's
// percentile: at planned rates that is the promise for the whole way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "act/gateway_state.h"
#include "act/recent_requests.h"
#include "base/processes.h"
#include "control/own_rates.h"
#include "control/sim/sim_crews.h"

namespace partita::control {

// Share of requests in SLO of a service that `planned` req/s were promised for at `percentile`, on
// segments that carry `most` req/s at full batches. 1 at rate 0, percentile / 100 at `planned`.
double attained(double rate, double planned, double most, double percentile);

// What became of a service so far.
struct SimTally {
  double arrived = 0, in_slo = 0, missed = 0, shed = 0;  // requests
  double by_pipelines = 0;                               // of arrived: made by pipelines
  double short_s = 0, longest_short_s = 0;  // time with a rate above what is ready; in one piece
  double short_now_s = 0;
};

class SimGateway {
 public:
  SimGateway(const SimSites& sites, const SimCrews& crews);

  void start(Processes& processes, std::int64_t now_ns);
  void end(SimProcesses& processes);
  // It says nothing new from now on, and answers nobody.
  void hang(std::int64_t now_ns);
  void wake() { hung_.reset(); }
  Pid pid() const { return pid_; }
  bool hangs() const { return hung_.has_value(); }
  bool answers() const { return pid_ != 0 && !hung_; }

  // What is ready for a service, of which a pipeline's is as much as its tightest step's.
  ReadyRates ready(std::int64_t now_ns, std::size_t service,
                   const std::vector<double>& rates) const;
  double share_in_time(std::int64_t now_ns, std::size_t service,
                       const std::vector<double>& rates) const;
  // Rates (by service) and capacities were the same from one time to the other.
  void account(std::int64_t from_ns, std::int64_t until_ns, const std::vector<double>& rates);
  const SimTally& tally(std::size_t service) const { return tallies_[service]; }
  actuate::GatewayState state(std::int64_t now_ns) const;

  // From now on: how long each service's ready workers carried less than that at full batches,
  // which is what a gateway says and apply goes by; in seconds.
  void watch_floors(std::vector<double> floors) {
    below_s_.assign(floors.size(), 0);
    floors_ = std::move(floors);
  }
  const std::vector<double>& below_floor_s() const { return below_s_; }

 private:
  actuate::GatewayRequests requests(std::size_t service) const;
  std::vector<actuate::FanOutCounts> fan_outs(std::size_t service) const;

  const SimSites& sites_;
  const SimCrews& crews_;
  const std::vector<StepRequests> steps_;  // of pipelines
  Pid pid_ = 0;
  std::string identity_;
  std::optional<actuate::GatewayState> hung_;  // what it said last
  std::vector<SimTally> tallies_;              // by service
  std::vector<SimTally> counted_;              // since it began
  std::vector<actuate::RecentRequests> recent_;
  std::vector<double> floors_, below_s_;  // by service
};

}  // namespace partita::control
