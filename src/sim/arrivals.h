// Arrivals of a simulation: the source is plan/arrivals.h, one stream of it per service; a trace of
// several services is read by parse_trace (serving.h).
#pragma once

#include "plan/arrivals.h"
#include "sim/engine.h"
#include "sim/serving.h"

namespace partita::sim {

using plan::ArrivalSource;

}  // namespace partita::sim
