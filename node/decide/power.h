// Power: response tables and traces on the Files door, plans that the judge let pass, and policies
// compared in virtual time. For `partita power`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "decide/made.h"
#include "plan/power.h"
#include "planners/power/controller.h"
#include "sim/power.h"

namespace partita::decide {

struct PowerFiles {
  std::string services, table, gpu = "MI50";
  std::optional<plan::PowerPromise> promise = {};  // of a plan: what it cannot keep is refused
};

// The table of --table for the topology of --gpu.
Result<plan::ResponseTable> load_power_table(Files& files, const PowerFiles& names);
// A table whose units are the compute slices of a GPU with MIG.
Result<plan::ResponseTable> load_slice_table(Files& files, const std::string& file,
                                             const hw::GpuModel& gpu);
// Table and services; nothing else of the problem is set. Refused: services that the planner of
// power does not know how to place (replicas, anti-affinity, spares, traces as rates, kinds llm,
// `models` and pipelines).
Result<plan::PowerProblem> load_power_problem(Files& files, const PowerFiles& names);

// A trace of arrivals as demand: as many requests as there are per bin, the whole recording
// squeezed into `duration`, the fullest bin being load 1, which is the rate of each service.
struct PowerTraceFile {
  std::string file;
  Seconds duration{900}, bin{10};
};
Result<plan::PowerTrace> load_power_trace(Files& files, const PowerTraceFile& named,
                                          const std::vector<plan::Terms>& services);
// The rates of the services for so long.
plan::PowerTrace steady_trace(Seconds duration, const std::vector<plan::Terms>& services);

// A plan of the fleet (policy exact) or of one GPU (any), judged.
Result<Made<plan::PowerPlan>> make_power_plan(const plan::PowerProblem& problem,
                                              const std::string& policy);

// Sets the rate of every service to the most that a GPU at its highest clock carries of it alone.
Result<void> to_most(plan::PowerProblem& problem);

struct PowerComparison {
  std::vector<std::string> policies;
  power::ControlOptions control;  // its policy is not looked at
  sim::PowerRunOptions run;
  bool known = true;  // also the schedule of one who knows the trace (judged)
};

// What a policy came to on the trace.
struct PowerOutcome {
  std::string policy;
  plan::Gating gating = plan::Gating::none;
  sim::PowerRun run;
  std::optional<plan::PowerSchedule> known = {};  // none: it cannot carry the trace, or not asked
  std::string known_refusal = {};
};

// Policies in their order, on the same arrivals. Refused: a policy that cannot carry the services.
Result<std::vector<PowerOutcome>> compare_power(const plan::PowerProblem& problem,
                                                const PowerComparison& how);

}  // namespace partita::decide
