// PoolMemo: what the judge itself found of pools under Poisson arrivals and of pipelines, kept by
// who has plans judged again and again. The key is all that a verdict depends on: load, SLO,
// percentile, the members as the dispatcher is told them, in order. Never shared with a planner,
// whose answers the judge is there to doubt. Bounded: some MiB. One thread at a time.
#pragma once

#include <deque>
#include <vector>

#include "base/recalled.h"
#include "verify/driven_queue.h"
#include "verify/pipelines.h"

namespace partita::verify {

struct PoolMemo {
  using Key = std::vector<double>;
  static Key key_of(const DrivenQueue& queue);

  static constexpr std::size_t kMostVerdicts = 8'000;
  explicit PoolMemo(std::size_t most = kMostVerdicts) : driven(most) {}
  Recalled<Key, DrivenVerdict> driven;

  static constexpr std::size_t kMostPipelines = 64;
  struct Pipelines {
    std::vector<plan::Terms> services;  // the pipelines and their steps
    Pools pools;
    PipelineVerdicts verdicts;
  };
  std::deque<Pipelines> pipelines;  // the newest first
};

}  // namespace partita::verify
