// A batch schedule carried out with task times that differ from the planned ones. What an executor
// would keep of the schedule: which instances live one after the other, which tasks each runs in
// which order, and the order of a GPU's reconfigurations. A reconfiguration overtakes one planned
// before it only when its own planned time has passed and the other one cannot begin; so without
// differences nothing ever happens later than planned. Deterministic in the seed: every task has
// its own random stream by its name, so that schedules of one problem meet the same times.
// Limits: kMaxRuns, kMaxSpread, kMaxBatchEvents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/batch.h"

namespace partita::sim {

inline constexpr int kMaxRuns = 1'000'000;
inline constexpr double kMaxSpread = 10;
inline constexpr double kMaxBatchEvents = 2e10;  // of all runs together

struct BatchOptions {
  std::uint64_t seed = 1;
  double spread = 0.1;  // standard deviation of a task's time / its planned time: lognormal, mean 1
  double reconfiguration_spread = 0;  // the same of creates and destroys
  int runs = 1000;
};

struct TaskReport {
  std::string task;
  plan::Nanos planned_end = 0;
  plan::Nanos mean_end = 0;
  std::optional<plan::Nanos> deadline;
  double missed = 0;  // share of the runs that end it after its deadline
  bool operator==(const TaskReport&) const = default;
};

struct BatchReport {
  std::string scheduler;
  plan::Nanos planned = 0;             // the schedule's makespan
  std::vector<plan::Nanos> makespans;  // per run
  plan::Nanos mean = 0, p50 = 0, p95 = 0, worst = 0;
  std::vector<TaskReport> tasks;  // in the problem's order
  long events = 0;                // tasks, creates and destroys that ended, over all runs
  std::uint64_t log_hash = 0;
  bool operator==(const BatchReport&) const = default;
};

// Bad input: options out of range, and schedules that the judge refuses as far as it shows here: a
// task that is missing, twice, unknown, without an instance or before its predecessor.
// ErrorCode::limit beyond kMaxBatchEvents.
Result<BatchReport> simulate(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule,
                             const BatchOptions& options);

// Schedules of one problem under the same random times.
struct Robustness {
  std::vector<BatchReport> reports;  // per candidate
  std::size_t best = 0;              // least mean makespan; among equals the first
};

// At least one candidate; errors as simulate's.
Result<Robustness> robustness(const plan::BatchProblem& problem,
                              const std::vector<plan::BatchSchedule>& candidates,
                              const BatchOptions& options);

// BatchReport JSON (kind BatchReport), times in seconds; `events_per_second` is measured by the
// caller. The makespans of single runs are left out.
std::string report_json(const BatchReport& report, const BatchOptions& options,
                        double events_per_second);
// For people: planned against simulated makespan, then one line per task with a deadline.
std::string report_text(const BatchReport& report, const BatchOptions& options);
// One line per candidate, the chosen one marked.
std::string robustness_text(const Robustness& robustness);

}  // namespace partita::sim
