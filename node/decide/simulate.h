// Simulations of judged plans, and how fast they ran. Pure but for the CPU clock, in milliseconds,
// which may be empty.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/judged.h"
#include "plan/serving.h"
#include "sim/batch.h"
#include "sim/serving.h"

namespace partita::decide {

template <class Report>
struct Timed {
  Report report;
  double events_per_second = 0;  // of CPU time; 0 without a clock
};

Result<Timed<sim::ServingReport>> simulate(const plan::ServingProblem& problem,
                                           const plan::Judged<plan::ServingPlan>& plan,
                                           const sim::ServingOptions& options,
                                           const std::function<double()>& cpu_ms = {});

// The plan with what becomes of its services above their rates (sim::with_overload).
plan::ServingPlan with_overload(const plan::ServingProblem& problem,
                                const plan::Judged<plan::ServingPlan>& plan);

Result<Timed<sim::BatchReport>> simulate(const plan::BatchProblem& problem,
                                         const plan::Judged<plan::BatchSchedule>& schedule,
                                         const sim::BatchOptions& options,
                                         const std::function<double()>& cpu_ms = {});

// The service with the least attainment, or null when there is none.
const sim::ServiceReport* worst_service(const sim::ServingReport& report);

// A trace of a service that the problem does not have would be dropped silently: it is bad input.
Result<void> check_traces(const std::string& flag, const std::vector<sim::Trace>& traces,
                          const plan::ServingProblem& problem);

}  // namespace partita::decide
