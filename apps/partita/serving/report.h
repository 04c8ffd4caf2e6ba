// Report: a simulation with its wall of numbers for people, and how fast it ran.
#pragma once

#include <string>

#include "context.h"
#include "sim/serving.h"

namespace partita::cli {

struct TimedReport {
  sim::ServingReport report;
  double events_per_second = 0;  // of CPU time
};

Result<TimedReport> timed_simulation(Context& context, const plan::ServingProblem& problem,
                                     const plan::ServingPlan& plan,
                                     const sim::ServingOptions& options);

// A table of the services, then the slack of the GPUs, the seed and the log's hash.
std::string report_text(const plan::ServingProblem& problem, const sim::ServingReport& report,
                        const sim::ServingOptions& options);

// A share as a percentage that is rounded down, so that only a full share reads 100 %: "99.99 %".
std::string percent(double share);

// The service with the least attainment, or null when there is none.
const sim::ServiceReport* worst_service(const sim::ServingReport& report);

}  // namespace partita::cli
