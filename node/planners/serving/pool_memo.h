// PoolMemo: what pools under Poisson arrivals were found to carry, kept from plan to plan by
// whoever plans again and again (Options::pools). The key is all that an answer depends on: rate,
// SLO, percentile and the curves and processes of the pool. An answer from here is the answer that
// the simulation would give; it never changes a plan. Bounded: some MiB. One thread at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/recalled.h"
#include "base/units.h"
#include "model/pool.h"
#include "plan/serving.h"
#include "planners/serving/planner.h"

namespace partita::planners::serving {

struct PoolAnswer {
  bool holds = false;
  Millis percentile;  // latency at the planned rate
  Rps capacity;       // at least the rate when it holds
};

struct PoolMemo {
  using Key = std::vector<double>;
  static Key key_of(const plan::Service& service, const model::Pool& pool);

  static constexpr std::size_t kMostAnswers = 8'000;  // of each kind
  static constexpr std::size_t kAnswersPerPlan = 4;   // plans are larger
  explicit PoolMemo(std::size_t most = kMostAnswers)
      : carried(most),
        checked(most),
        outcomes(most / kAnswersPerPlan),
        pipelines(most / kAnswersPerPlan) {}
  Recalled<Key, bool> carried;
  Recalled<Key, PoolAnswer> checked;
  // What planners made of the steps of pipelines, and how late the whole ways were with that: the
  // keys are all that it depends on, of whoever keeps this.
  Recalled<std::string, Outcome> outcomes;
  Recalled<std::string, std::map<std::string, Millis>> pipelines;
  KnownRules rules;
};

}  // namespace partita::planners::serving
