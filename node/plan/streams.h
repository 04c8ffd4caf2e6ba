// How long the answers of a language model take that are promised, and so how long its engine is
// left to them before it is told to end: what one of a hundred exceeds in tokens, at the TPOT
// promised, after the TTFT.
#pragma once

#include <optional>

#include "base/units.h"
#include "plan/terms.h"

namespace partita::plan {

inline constexpr Seconds kLeastDrain{10}, kUsualDrain{45}, kMostDrain{600};

// Between kLeastDrain and kMostDrain; kUsualDrain where nothing is promised of a whole answer, or
// its lengths are those of a trace that is not loaded.
Seconds drain_of(const Terms& terms);

}  // namespace partita::plan
