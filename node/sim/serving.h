// Simulated serving: a plan under traffic. Deterministic: same problem, plan and options, same
// report and log hash; the order of the problem's services changes the order of the report alone.
// The queues of a service and how requests join them are those of the dispatch (plan/serving.h); a
// batch takes the curve's latency, padded. A pooled server refuses what the gateway would refuse
// (plan/admission.h). Limits: kMaxDuration, kMaxArrivals; memory grows with the queues of one
// overloaded service, never with the duration.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/serving.h"

namespace partita::sim {

inline constexpr Seconds kMaxDuration{1e8};
inline constexpr double kMaxArrivals = 1e9;  // expected requests of one simulation

// declared: as each service's traffic says; trace: as `traces` say, once.
enum class ArrivalKind { declared, poisson, uniform, gamma, trace };
// full: every process waits for a full batch, as planning by execution latency alone assumes; what
// remains when arrivals stop is dispatched then and counts with its real latency.
enum class BatchingKind { paced, full };  // paced: as the dispatch says

// Arrival times of one service, seconds from 0, ascending.
struct Trace {
  std::string service;
  std::vector<double> times_s;
};

struct ServingOptions {
  Seconds duration{60};  // arrivals stop there; what is in the system is finished
  Seconds warmup{0};     // arrivals before it are not counted
  ArrivalKind arrivals = ArrivalKind::declared;
  double cv = 1;  // of the gaps, with ArrivalKind::gamma
  std::vector<Trace> traces;
  BatchingKind batching = BatchingKind::paced;
  std::optional<plan::Dispatch> dispatch;  // absent: the one that the plan is made for
  Millis mean_lateness{0};                 // of the server's timers
  // What the gateway would refuse is refused: where one queue serves all instances (pooled) and
  // batches are paced, and of language models by TTFT; the other servers have no admission.
  bool shed = true;
  std::uint64_t seed = 1;
};

// Of a language model.
struct TokenTimes {
  Millis ttft_p50, ttft_p99, tpot_p50, tpot_p99;
  double tokens_per_s = 0;  // produced
  bool operator==(const TokenTimes&) const = default;
};

// Of a set of models: requests whose model was loaded first, and their latencies.
struct SetTimes {
  long cold = 0;
  double cold_in_time = 1;  // share, of what is promised of them, or of the SLO
  Millis cold_p50, cold_p99;
  bool operator==(const SetTimes&) const = default;
};

struct ServiceReport {
  std::string name;
  long offered = 0, completed = 0;
  double slo_attainment =
      0;  // share of the offered requests that completed within the SLO; 1 when none was offered
  Millis p50, p95, p99;  // infinite never: 0 when nothing completed
  Rps rate = {};         // that was played; 0: as a trace says
  long refused = 0;      // at once, of the offered ones
  std::optional<TokenTimes> tokens = {};
  std::optional<SetTimes> models = {};
  bool operator==(const ServiceReport&) const = default;
};

struct ServingReport {
  std::vector<ServiceReport> services;
  // ParvaGPU Eq. 3 over the instances of the plan: 1 - sum(SM_i A_i) / sum(SM_i). A_i = (sum of the
  // execution times of the instance's batches within [warmup, duration]) / (its processes x that
  // window): temporal activity; a process counts as active for all of a padded batch, and the
  // paper's spatial half of SM activity is not known to a simulation. SM_i are compute slices when
  // the catalogue lacks the SMs of any instance.
  double internal_slack = 0;
  // 1 - (compute slices of the instances / compute slices of the GPUs in use). ParvaGPU Eq. 4 as
  // printed is the fraction itself, a utilisation; its figures show this complement.
  double external_fragmentation = 0;
  long events = 0;  // arrivals, dispatches and completions
  std::uint64_t log_hash = 0;
  double load = 1;  // share of the declared rates that was played, as the caller says
  bool operator==(const ServingReport&) const = default;
};

// Arrival trace CSV: header `time_s,service`; ascending times.
Result<std::vector<Trace>> parse_trace(const std::string& file, std::string_view text);

// Bad input: a plan that names services, models or points that the problem does not have (verify
// first), a trace of an unknown service, a duration or warm-up out of range. A service without an
// instance is offered its traffic and completes none. ErrorCode::limit beyond kMaxArrivals.
Result<ServingReport> simulate(const plan::ServingProblem& problem, const plan::ServingPlan& plan,
                               const ServingOptions& options);

// Of the pipelines and of the services that they use, by name: the latency at the percentile of
// each, played at their rates with nothing refused.
Result<std::map<std::string, Millis>> pipeline_latencies(const plan::ServingProblem& problem,
                                                         const plan::ServingPlan& plan);

// Every service of a pooled plan played at these multiples of its rate, with admission: the plan
// with what it saw in its rows. A few thousand requests each, more where more are in flight at
// once, and kOverloadRequests in all: rows of the services for which that is not enough, and of
// plans for other servers, stay without. Errors as of simulate().
inline constexpr double kOverloads[] = {1.05, 1.2};
inline constexpr long kOverloadRequests = 60'000;
Result<plan::ServingPlan> with_overload(const plan::ServingProblem& problem,
                                        plan::ServingPlan plan);

// ServingReport JSON (kind ServingReport); `events_per_second` is measured by the caller.
std::string report_json(const ServingReport& report, std::uint64_t seed, double events_per_second);

}  // namespace partita::sim
