#include "planners/serving/instance_rates.h"

#include <algorithm>
#include <utility>

#include "planners/serving/pool_oracle.h"

namespace partita::planners::serving {
namespace {

using Asked = InstanceRates::Asked;

profile::BatchCurve curve_of(const Asked& asked) {
  return profile::batch_curve(asked.profile, asked.point.gpcs, asked.point.processes,
                              asked.point.batch);
}

model::Pool greedy_pool(const Asked& asked) { return {{curve_of(asked), asked.point.processes}}; }

}  // namespace

model::PoolTest InstanceRates::shared_queue_test() const {
  return {.fewest = 10'000, .most = 200'000, .units = &units_};
}

// A process with a port of its own is a paced queue of one process: the pace is then the batch.
model::CapacityTable& InstanceRates::table(const Asked& asked) {
  const profile::ProfilePoint& point = asked.point;
  const Key key{asked.gpu,   asked.profile.model, point.gpcs,
                point.batch, point.processes,     asked.service.percentile};
  const auto known = tables_.find(key);
  if (known != tables_.end()) return known->second;
  const int processes = server_ == plan::Dispatch::per_process ? 1 : point.processes;
  return tables_
      .emplace(key, model::CapacityTable({curve_of(asked), processes}, asked.service.percentile))
      .first->second;
}

Rps InstanceRates::shared_queue(const Asked& asked) {
  const profile::ProfilePoint& point = asked.point;
  const std::tuple key{Key{asked.gpu, asked.profile.model, point.gpcs, point.batch, point.processes,
                           asked.service.percentile},
                       asked.service.slo.value};
  const auto known = shared_.find(key);
  if (known != shared_.end()) return known->second;
  const Rps rate = model::pool_capacity(greedy_pool(asked), planned_slo(asked.service),
                                        shared_queue_test(), model::Pace::none);
  return shared_.emplace(key, rate).first->second;
}

Rps InstanceRates::rate(const Asked& asked) {
  if (server_ == plan::Dispatch::shared_queue)
    return std::min(asked.point.throughput, shared_queue(asked));
  const double queues = server_ == plan::Dispatch::per_process ? asked.point.processes : 1;
  return std::min(asked.point.throughput, table(asked).at(asked.service.slo) * queues);
}

bool InstanceRates::may_exceed(const Asked& asked, Rps rate) {
  if (server_ == plan::Dispatch::shared_queue)
    return model::holds(greedy_pool(asked), planned_slo(asked.service), rate, shared_queue_test(),
                        model::Pace::none);
  const double queues = server_ == plan::Dispatch::per_process ? asked.point.processes : 1;
  return table(asked).may_exceed(rate / queues, asked.service.slo);
}

Millis InstanceRates::latency(const Asked& asked, Rps load) const {
  const int processes = asked.point.processes;
  switch (server_) {
    case plan::Dispatch::shared_queue:
      return model::examine(greedy_pool(asked), planned_slo(asked.service), load,
                            shared_queue_test(), asked.service.percentile, model::Pace::none)
          .percentile;
    case plan::Dispatch::per_process:
      return model::latency_percentile({curve_of(asked), 1}, load / processes,
                                       asked.service.percentile);
    case plan::Dispatch::pooled:
    case plan::Dispatch::paced:
      break;
  }
  return model::latency_percentile({curve_of(asked), processes}, load, asked.service.percentile);
}

}  // namespace partita::planners::serving
