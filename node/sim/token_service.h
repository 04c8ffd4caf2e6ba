// A language model under simulated traffic: requests are split at random among its replicas, each
// of which is simulated step by step (llm/engine).
#pragma once

#include <vector>

#include "plan/arrivals.h"
#include "profile/token_engine.h"
#include "sim/serving.h"

namespace partita::sim {

struct TokenReplica {
  profile::TokenEngine engine;  // with the limit of requests at once that the plan sets
  double share = 1;             // of the requests, in proportion
};

struct TokenRun {
  plan::ArrivalSource arrivals;
  plan::Nanos warmup = 0, end = 0;
  bool shed = true;  // what the gateway would refuse, by TTFT, is refused, and who waits long goes
  Rng rng{1};
};

struct TokenOutcome {
  ServiceReport report;
  long events = 0;  // arrivals and steps
  std::uint64_t log_hash = 0;
};

// `service` has tokens. Without a replica nothing completes.
TokenOutcome play_tokens(const plan::Service& service, const std::vector<TokenReplica>& replicas,
                         TokenRun run);

}  // namespace partita::sim
