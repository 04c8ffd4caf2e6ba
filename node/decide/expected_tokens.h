// What language models that run as planned should do: to be compared with what they do.
#pragma once

#include "plan/serving.h"

namespace partita::decide {

// The median time per token of a service's requests at `rate`, simulated on its replicas in `plan`,
// which get shares of it as they are planned to carry; 0: it has none. The service has tokens.
struct ReplicasAsked {
  const plan::ServingProblem& problem;
  const plan::ServingPlan& plan;
  const plan::Service& service;
  Rps rate;
};
Millis expected_tpot(const ReplicasAsked& asked);

}  // namespace partita::decide
