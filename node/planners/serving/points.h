// From profiles to what planners choose from: the best point of every service on every MIG profile.
#pragma once

#include <optional>
#include <vector>

#include "hw/gpu_model.h"
#include "plan/serving.h"

namespace partita::planners::serving {

// The segment that carries the highest rate of a service on a MIG profile under the SLO rule.
struct BestPoint {
  int batch = 0;
  int processes = 0;
  Rps throughput;  // rate it carries under the rule
  Millis latency;  // execution latency of a full batch, as measured
  Millis time;     // profile::batch_time
  bool operator==(const BestPoint&) const = default;
};

// What each service can get from each MIG profile of one fleet entry.
struct PointTable {
  std::vector<int> profiles;  // the MIG profiles used, indices into gpu.profiles, ascending gpcs
  // best[service][k]: absent when no measured point of profiles[k] meets the rule and the memory.
  std::vector<std::vector<std::optional<BestPoint>>> best;
  // demand[service]: how much its instances must carry together, in the terms of `best`; empty: the
  // services' rates.
  std::vector<double> demand = {};
  // longest[service]: what points_within() allowed a full batch; empty: not by that.
  std::vector<Millis> longest = {};
  // With language models (token_points.h): how many whole GPUs an instance of profiles[k] is of,
  // and by service and k the engine behind its point; empty: one, none.
  std::vector<int> gpus = {};
  std::vector<std::vector<const profile::TokenEngine*>> engines = {};
};

// What full batches of a point carry back to back: as many as profile::batch_time leaves time for.
Rps full_rate(const profile::ProfilePoint& point);

// One table per fleet entry.
using PointTables = std::vector<PointTable>;

double demand_of(const plan::ServingProblem& problem, const PointTables& tables,
                 std::size_t service);

// Under the pooled rule (pooled.h) these are the points of highest throughput in full batches
// (profile::batch_time) that end within `longest[service]`; there is none where that is 0.
PointTable points_within(const plan::ServingProblem& problem, const plan::FleetEntry& entry,
                         const std::vector<Millis>& longest);

// By the execution or the queueing rule. Plain profiles, and the double-memory 1g when a service's
// memory fits it but not the plain 1g.
// Equal throughput: lower latency, then fewer processes, then smaller batch.
PointTable best_points(const plan::ServingProblem& problem, const plan::FleetEntry& entry);

// Why a service cannot be served at all on this fleet: unknown model, no profile points, or the SLO
// that the fastest point would need.
std::vector<plan::Reason> unservable(const plan::ServingProblem& problem,
                                     const std::vector<PointTables>& modes);

}  // namespace partita::planners::serving
