// Arrivals of a simulation: the source is plan/arrivals.h, one stream of it per service; a trace of
// several services is read by parse_trace (serving.h).
#pragma once

#include "plan/arrivals.h"
#include "sim/engine.h"
#include "sim/serving.h"

namespace partita::sim {

using plan::ArrivalSource;

// The requests of one service under these options: what simulate() plays and what a load generator
// has to send for the simulation to be about the same requests. `trace` of ArrivalKind::trace, kept
// alive by the caller; a declared trace must be loaded, the rate of any other law be above 0.
ArrivalSource arrivals_of(const plan::Service& service, const ServingOptions& options,
                          std::span<const double> trace);

}  // namespace partita::sim
