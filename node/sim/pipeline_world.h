// Pools that hand requests on to one another, simulated together: pipelines, their steps, and the
// steps' own clients. A request goes to the next steps when all that it asked for in a step is
// answered, and ends when a step refuses it, as the gateway does; at once it is refused when it is
// foreseen to be late at the end of the whole way. Deterministic. Memory grows with the requests,
// of which each leaves its time.
#pragma once

#include <string>
#include <vector>

#include "plan/admission.h"
#include "plan/pipeline.h"
#include "sim/engine.h"
#include "sim/histogram.h"
#include "sim/service_world.h"

namespace partita::sim {

// A pool under the pooled rule.
struct ChainedPool {
  plan::DispatchPolicy policy;
  bool refuses = true;  // what its admission would
  Nanos slo = 0;        // of what it answers, whoever asked
  double percentile = 99;
};
// Where requests come from outside, and which pools they go through. A step's own clients are a
// pipeline of one step.
struct ChainedSource {
  ArrivalSource arrivals;
  plan::PipelineGraph graph;
  std::vector<std::size_t> pools;  // per step
  std::vector<double> fan_out;     // per step
  Nanos slo = 0;
  double percentile = 99;
};
struct ChainedRun {
  std::vector<ChainedPool> pools;
  std::vector<ChainedSource> sources;
  Nanos warmup = 0, end = 0;  // as in ServiceSpec
  Rng rng{0};                 // of the fan-outs
};

struct ChainedCount : ServiceOutcome {
  Nanos at_percentile = 0;
};
struct ChainedOutcome {
  std::vector<ChainedCount> sources, pools;  // pools: of every request, whoever asked
  long events = 0;
  std::uint64_t log_hash = 0;
};
ChainedOutcome play(ChainedRun run);

}  // namespace partita::sim
