// Simulated serving: a plan under traffic. Deterministic: same problem, plan and options, same report and log hash.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/serving.h"

namespace partita::sim {

enum class ArrivalKind { poisson, uniform, trace };
enum class BatchingKind { paced, full };  // full: waits for full batches, as execution-only planning assumes

// Arrival times of one service, seconds from 0, ascending.
struct Trace {
  std::string service;
  std::vector<double> times_s;
};

struct ServingOptions {
  Seconds duration{60};   // arrivals stop there; what is in the system is finished
  Seconds warmup{0};      // arrivals before it are not counted
  ArrivalKind arrivals = ArrivalKind::poisson;
  std::vector<Trace> traces;
  BatchingKind batching = BatchingKind::paced;
  std::uint64_t seed = 1;
};

struct ServiceReport {
  std::string name;
  long offered = 0, completed = 0;
  double slo_attainment = 0;  // share of the offered requests that completed within the SLO; 1 when none was offered
  Millis p50, p95, p99;       // infinite never: 0 when nothing completed
  bool operator==(const ServiceReport&) const = default;
};

struct ServingReport {
  std::vector<ServiceReport> services;
  double internal_slack = 0;          // ParvaGPU Eq. 3: 1 - SM-weighted activity of the instances in use
  double external_fragmentation = 0;  // 1 - (compute slices of instances in use / compute slices of the GPUs in use)
  long events = 0;
  std::uint64_t log_hash = 0;
  bool operator==(const ServingReport&) const = default;
};

// Arrival trace CSV: header `time_s,service`; ascending times.
Result<std::vector<Trace>> parse_trace(const std::string& file, std::string_view text);

// Bad input: a plan that names services, models or points that the problem does not have (verify first).
Result<ServingReport> simulate(const plan::ServingProblem& problem, const plan::ServingPlan& plan,
                               const ServingOptions& options);

// ServingReport JSON (kind ServingReport); `events_per_second` is measured by the caller.
std::string report_json(const ServingReport& report, std::uint64_t seed, double events_per_second);

}  // namespace partita::sim
