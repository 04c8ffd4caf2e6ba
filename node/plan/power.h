// The vocabulary of power: what a model does at a clock on so many units (ResponseTable), which
// services have to be served within their SLOs (PowerProblem), and at which clock, cap and share
// of units they are (PowerPlan; PowerSchedule over time). Values. A GPU has one clock domain: all
// its services share the clock. Units are CUs or SMs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "plan/terms.h"

namespace partita::plan {

inline constexpr int kMaxClocks = 64;
inline constexpr int kMaxPowerGpus = 10'000;
inline constexpr int kMaxPowerServices = 10'000;

// One measured (or modelled) point: the model alone on the GPU, always busy.
struct PowerPoint {
  Mhz clock;
  int units = 0;
  int batch = 0;
  Millis p95;    // execution of one batch
  Rps max_rate;  // full batches back to back
  Watts power;   // of the board then, with no unit gated
  bool operator==(const PowerPoint&) const = default;
};

struct ModelResponse {
  std::string model;
  std::vector<PowerPoint> points;  // by clock, units, batch; a full grid over the three
  bool operator==(const ModelResponse&) const = default;
};

// The board at a clock with all units clocked and nothing running.
struct ClockIdle {
  Mhz clock;
  Watts active_idle;
  bool operator==(const ClockIdle&) const = default;
};

struct ResponseTable {
  std::string gpu;                    // a topology's name
  std::vector<int> units_in;          // per cluster (shader engine, GPC)
  Watts idle;                         // of the board at rest
  std::vector<ClockIdle> clocks;      // ascending
  std::vector<ModelResponse> models;  // by name
  bool modelled = false;              // not measured: `source` says how it came about
  std::string source;
  bool operator==(const ResponseTable&) const = default;

  int units() const;
  // The model's entry, or null.
  const ModelResponse* find(const std::string& model) const;
  // Power of one unit that is clocked and does nothing: (active idle - idle) / units.
  Watts unit_idle(std::size_t clock) const;
};

// What happens to units that nobody uses. none: they stay clocked (all GPUs that are sold); group:
// whole clusters are gated; unit: each one.
enum class Gating { none, group, unit };
const char* to_string(Gating gating);

// What "within the SLO" means. execution: the p95 of the table is, and the rate is below the
// table's maximum (the dissertation's rule; no request waits). queueing: the percentile of arrival
// to answer is, with Poisson arrivals, a queue per share and batches of what waits.
enum class PowerPromise { queueing, execution };
const char* to_string(PowerPromise promise);

struct PowerProblem {
  ResponseTable table;
  std::vector<Terms> services;
  int gpus = 1;
  Gating gating = Gating::none;
  PowerPromise promise = PowerPromise::queueing;
  std::optional<Watts> cap = {};     // no GPU may be able to take more
  std::optional<Watts> unused = {};  // of a GPU with no work; absent: the table's idle power
  bool operator==(const PowerProblem&) const = default;
};

// A service's share of a GPU.
struct PowerShare {
  std::string service;
  int units = 0;
  int batch = 0;  // at most so many of those that wait are run at once
  Rps rate;       // of the service's rate
  bool operator==(const PowerShare&) const = default;
};

// A GPU with work.
struct PowerGpu {
  Mhz clock;
  Watts cap;    // what it takes with all shares always busy, rounded up
  Watts power;  // predicted at the planned rates
  std::vector<PowerShare> shares;
  bool operator==(const PowerGpu&) const = default;
};

struct PowerPlan {
  std::string policy;
  Gating gating = Gating::none;
  PowerPromise promise = PowerPromise::queueing;
  std::vector<PowerGpu> gpus;
  int unused_gpus = 0;
  Watts power;  // of all GPUs
  Watts bound;  // no plan takes less
  bool optimal = false;
  std::string problem_digest = {};
  bool operator==(const PowerPlan&) const = default;
};

// ------------------------------------------------------------------------------- over time

// One service of a GPU, since the observation before.
struct ServiceSeen {
  Rps rate;
  std::optional<Millis> p95 = {};
  std::optional<double> waiting = {};  // requests in its queue now
  bool operator==(const ServiceSeen&) const = default;
};

struct Observation {
  Seconds at;
  std::vector<ServiceSeen> services;  // in the order of the problem's services
  std::optional<Watts> power = {};
  bool operator==(const Observation&) const = default;
};

// The setting of one GPU: one clock domain, a share of units per service.
struct Setting {
  Mhz clock;
  std::optional<Watts> cap = {};
  std::vector<int> units = {};    // CUs or SMs per service
  std::vector<int> batches = {};  // per service
  bool operator==(const Setting&) const = default;
};

// What changes cost; while a clock changes the old one's power is taken, nothing stops.
struct TransitionCost {
  Joules clock;
  Joules units;
  bool operator==(const TransitionCost&) const = default;
};

// Demand over time: rates[t][s] of service s from t * step on.
struct PowerTrace {
  Seconds step;
  std::vector<std::vector<Rps>> rates;
  bool operator==(const PowerTrace&) const = default;
};

// Settings of one GPU over a trace that is known.
struct PowerSchedule {
  std::string policy;
  Gating gating = Gating::none;
  PowerPromise promise = PowerPromise::queueing;
  std::vector<Setting> settings;  // per step
  Joules energy;
  Joules bound;
  int clock_changes = 0, unit_changes = 0;
  bool operator==(const PowerSchedule&) const = default;
};

}  // namespace partita::plan
