// Advice: what an easier promise would save. Values; found by decide, shown by forms.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace partita::plan {

// What of a promise could be easier: the SLO (of a language model that of a whole answer), its
// TTFT, or the percentile of requests that keep all of it.
enum class Eased { slo, ttft, percentile };

// A plan that was made with another promise of one service, all else equal.
struct SloOption {
  Millis slo;
  int gpus = 0;
  double percentile = 0;  // where that is what is eased
  bool operator==(const SloOption&) const = default;
};

// A service whose SLO is near the fastest batch that it can have at all, or a language model.
struct SloAdvice {
  std::string service;
  Millis slo;      // as asked for; TTFT where that is what could be longer
  Millis fastest;  // execution of the fastest batch on any instance; TTFT of a request alone
  Millis least;    // the least SLO that such a batch meets under the rule; fastest for most
  int gpus = 0;    // of the plan as it is
  std::vector<SloOption> options;  // from the hardest on, descending GPUs; not empty
  Eased eased = Eased::slo;
  double percentile = 0;  // asked for, where that is what could be lower
  bool language = false;  // `fastest` and `least` are of a request alone
  bool operator==(const SloAdvice&) const = default;
};

}  // namespace partita::plan
