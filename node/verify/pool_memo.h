// PoolMemo: what the judge itself found of pools under Poisson arrivals, of replicas of language
// models under such, and of pipelines, kept by who has plans judged again and again. The key is all
// that a verdict depends on: load, SLO, percentile, the members as the dispatcher is told them, in
// order. Never shared with a planner, whose answers the judge is there to doubt. Bounded: some MiB.
// One thread at a time.
#pragma once

#include <deque>
#include <vector>

#include "base/recalled.h"
#include "verify/driven_queue.h"
#include "verify/pipelines.h"
#include "verify/token_replica.h"

namespace partita::verify {

struct PoolMemo {
  using Key = std::vector<double>;
  static Key key_of(const DrivenQueue& queue);

  static constexpr std::size_t kMostVerdicts = 8'000;
  static constexpr std::size_t kReplicasPerPool = 4;  // these are larger
  explicit PoolMemo(std::size_t most = kMostVerdicts)
      : driven(most), replicas(most / kReplicasPerPool) {}
  Recalled<Key, DrivenVerdict> driven;

  // Of lengths that are no recording. The key is most of what a verdict depends on, this the rest.
  struct Replica {
    plan::TokenTerms tokens;
    profile::TokenEngine engine;
    ReplicaVerdict verdict;
  };
  static Key key_of(const plan::Terms& service, const profile::TokenEngine& engine,
                    const ReplicaLoad& load);
  ReplicaVerdict judged(const plan::Terms& service, const profile::TokenEngine& engine,
                        const ReplicaLoad& load);
  Recalled<Key, Replica> replicas;

  static constexpr std::size_t kMostPipelines = 64;
  struct Pipelines {
    std::vector<plan::Terms> services;  // the pipelines and their steps
    Pools pools;
    PipelineVerdicts verdicts;
  };
  std::deque<Pipelines> pipelines;  // the newest first
};

}  // namespace partita::verify
