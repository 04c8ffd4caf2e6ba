// What one instance with a queue of its own carries under the queueing rule, by the server that the
// plan is made for (plan::Dispatch): paced and per-process from the tables of model/capacity_table,
// shared queues from simulations. Answers are remembered.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "model/capacity_table.h"
#include "model/pool.h"
#include "plan/serving.h"

namespace partita::planners::serving {

class InstanceRates {
 public:
  explicit InstanceRates(plan::Dispatch server) : server_(server) {}

  // The point of a profile; `gpu` tells profiles of one model on several GPUs apart.
  struct Asked {
    const std::string& gpu;
    const profile::WorkloadProfile& profile;
    const profile::ProfilePoint& point;
    const plan::Service& service;
  };

  // The rate to plan with, at most what was measured; 0 when even an idle instance misses the SLO.
  Rps rate(const Asked& asked);
  // False when rate() cannot be above that; cheaper.
  bool may_exceed(const Asked& asked, Rps rate);
  // Percentile latency at a load.
  Millis latency(const Asked& asked, Rps load) const;

 private:
  using Key = std::tuple<std::string, std::string, int, int, int, double>;

  model::CapacityTable& table(const Asked& asked);
  Rps shared_queue(const Asked& asked);
  model::PoolTest shared_queue_test() const;

  plan::Dispatch server_;
  mutable model::UnitPoisson units_{0x9002};
  std::map<Key, model::CapacityTable> tables_;
  std::map<std::tuple<Key, double>, Rps> shared_;
};

}  // namespace partita::planners::serving
