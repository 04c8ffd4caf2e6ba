// A set of models (plan/model_set.h) under simulated traffic: one queue over all instances, as the
// gateway has it; each serves one request at a time and loads a model that it does not hold, in
// place of the one that it was asked for longest ago.
#pragma once

#include <vector>

#include "plan/arrivals.h"
#include "sim/serving.h"

namespace partita::sim {

struct SetInstance {
  Millis run;    // of a request whose model is loaded
  int held = 1;  // models at once
};

struct SetRun {
  plan::ArrivalSource arrivals;
  plan::Nanos warmup = 0, end = 0;
  Rng rng{1};
};

struct SetOutcome {
  ServiceReport report;
  long events = 0;               // arrivals and answers
  std::vector<double> activity;  // of each instance: busy share of the time from warm-up to end
};

// `service` has a set. Instances begin with the models that are asked for most. Without one
// nothing completes.
SetOutcome play_set(const plan::Service& service, const std::vector<SetInstance>& instances,
                    SetRun run);

}  // namespace partita::sim
