// PoolMemo: what the judge itself found of pools under Poisson arrivals, kept by whoever has plans
// judged again and again. The key is all that a verdict depends on: load, SLO, percentile and the
// members as the dispatcher is told them, in their order. Never shared with a planner, whose
// answers the judge is there to doubt. Bounded: some MiB. One thread at a time.
#pragma once

#include <vector>

#include "base/recalled.h"
#include "verify/driven_queue.h"

namespace partita::verify {

struct PoolMemo {
  using Key = std::vector<double>;
  static Key key_of(const DrivenQueue& queue);

  static constexpr std::size_t kMostVerdicts = 8'000;
  explicit PoolMemo(std::size_t most = kMostVerdicts) : driven(most) {}
  Recalled<Key, DrivenVerdict> driven;
};

}  // namespace partita::verify
