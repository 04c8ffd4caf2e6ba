// Advice: what a longer latency objective would save. Values; found by decide, shown by forms.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace partita::plan {

// A plan that was made with another SLO of one service, all else equal.
struct SloOption {
  Millis slo;
  int gpus = 0;
  bool operator==(const SloOption&) const = default;
};

// A service whose SLO is near the fastest batch that it can have at all, or a language model.
struct SloAdvice {
  std::string service;
  Millis slo;      // as asked for; TTFT where that is what could be longer
  Millis fastest;  // execution of the fastest batch on any instance; TTFT of a request alone
  Millis least;    // the least SLO that such a batch meets under the rule; fastest for most
  int gpus = 0;    // of the plan as it is
  std::vector<SloOption> options;  // ascending SLO, descending GPUs; not empty
  bool ttft = false;
  bool operator==(const SloAdvice&) const = default;
};

}  // namespace partita::plan
