// What the requests of a service see at one replica, in a simulation of its engine.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/engine/engine.h"
#include "plan/terms.h"

namespace partita::llm {

inline constexpr int kMostTellingRequests = 60'000;
struct ReplicaLoad {
  Rps rate = {};  // that comes to the replica, of the service's
  // Requests; the first tenth is not counted. Where arrivals are not Poisson's there are as many
  // more as tell what their bursts do; where these are more than kMostTellingRequests, stretches of
  // them that stand for the rest (plan/telling.h), all of which count by their weight.
  int count = 1000;
  std::uint64_t seed = 1;
};

struct ReplicaTimes {
  double late = 0;         // share of the requests that miss any of what is promised
  double late_at_end = 0;  // of the last third: more where a queue grows
  double late_ttft = 0, late_tpot = 0, late_e2e = 0;  // by what they miss
  Millis ttft, tpot, e2e;                             // at the service's percentile
  double running = 0;                                 // requests that decode at a time, on average
  double cached_tokens = 0;                           // KV cache that they hold, on average
  Rps tokens;                                         // produced, per second
  long refused = 0;                                   // do not fit in the cache
  int most_sequences = 0;                             // at a time, with the one that is begun
  double most_cached = 0;                             // share of the cache in use, at most
  long preemptions = 0;
};

// `service` has tokens; count >= 10. Arrivals are the service's, of which this replica gets a share
// at random.
ReplicaTimes replica_times(const plan::Terms& service, const profile::TokenEngine& engine,
                           const ReplicaLoad& load);

// Requests/s that the engine serves while it is never without work: of so many that are there from
// the start those that end neither among the first nor the last. Load's rate is ignored.
Rps served_at_most(const plan::Terms& service, const profile::TokenEngine& engine,
                   const ReplicaLoad& load);

// The same requests at one rate after the other, for whoever looks for the highest one. What does
// not depend on the rate is drawn once where arrivals are Poisson's.
class ReplicaRequests {
 public:
  // Load's rate is ignored.
  ReplicaRequests(plan::Terms service, const ReplicaLoad& load);
  // Valid until the next call; rate > 0.
  const std::vector<Request>& at(Rps rate);

 private:
  plan::Terms service_;
  ReplicaLoad load_;
  std::vector<Request> drawn_, shown_;  // drawn_: at 1/s; Poisson only
};

struct Lateness {
  double share = 0, at_end = 0;  // `late` and `late_at_end` of ReplicaTimes
};
Lateness lateness(const plan::Terms& service, const profile::TokenEngine& engine,
                  const std::vector<Request>& requests);

}  // namespace partita::llm
