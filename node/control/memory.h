// What an agent must not forget when it ends: what is wanted, and what it is about. Never what the
// node is like: that is read. Kept by whoever runs the loop, as the document `kind: AgentMemory`,
// atomically, before anything else of the same step is done. Without it an agent begins anew from
// the node, its assignment and the services file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "control/batch.h"
#include "control/forecast.h"
#include "control/request.h"
#include "control/standing.h"
#include "hw/layout.h"
#include "plan/serving.h"

namespace partita::control {

struct PlannedFor {
  std::string service;
  double rate_rps = 0;
  double needed_rps = 0;  // more than that: there was not enough for it; 0: there was
  bool operator==(const PlannedFor&) const = default;
};
struct GpuNamed {
  int index = 0;  // in the plan
  std::string uuid;
  bool operator==(const GpuNamed&) const = default;
};

// A plan on its way to the node, or there already.
struct Target {
  long change = 0;    // its number
  std::string cause;  // why, a sentence
  std::int64_t planned_ms = 0;
  plan::ServingPlan plan;
  std::string services;           // digest of the services file that it is for
  std::vector<PlannedFor> rates;  // by service: what it was judged against
  int survive = 0;
  std::vector<GpuNamed> gpus;  // which GPU of the plan is which
  bool done = false;           // the node has been as this wants it
  bool gain = false;           // it only saves something: nothing is at risk without it
  bool unasked = false;        // decided by the agent itself, and never there yet
  std::string reduced;         // what was left out because there is not enough; empty: nothing
  std::vector<std::string> beside = {};  // places that were lent then, where something was left out

  // Null: no GPU of the node has this index in the plan.
  const GpuNamed* named(int index) const;
  // What is planned on a GPU of the node; null: the plan does not know it.
  const plan::PlannedGpu* on(const std::string& uuid) const;
  // Whether an instance is.
  bool uses(const std::string& uuid) const;
  // Null: the service is not among those that it was made for.
  const PlannedFor* rate_of(const std::string& service) const;
  bool operator==(const Target&) const = default;
};

// A GPU that is not used: by_person until it is given back, else until it is well again.
struct OutGpu {
  std::string uuid, why;
  bool by_person = false;
  bool errors = false;  // until it is reset or given back
  bool read = false;    // of the errors: the driver tells of them at any time
  bool lost = false;    // it was off the bus since: when it is there again it was reset
  std::int64_t since_ms = 0;
  std::int64_t well_ms = 0;  // since when it seems to be well again; 0: it does not
  bool operator==(const OutGpu&) const = default;
};

// When a service or a GPU was changed last.
struct Touched {
  std::string subject;
  std::int64_t at_ms = 0;
  bool operator==(const Touched&) const = default;
};
struct MovesAt {
  std::int64_t at_ms = 0;
  int moves = 0;
  bool operator==(const MovesAt&) const = default;
};

// An instance that a change made, until its cooldown is over.
struct MadeAt : hw::Placement {
  std::string gpu_uuid, service;
  std::int64_t at_ms = 0;
  bool operator==(const MadeAt&) const = default;
};

// The word on a service, and since when it has been that.
struct VerdictKept {
  std::string service;
  Standing verdict = Standing::unknown;
  std::int64_t since_ms = 0;
  bool operator==(const VerdictKept&) const = default;
};

// How long the requests of a language model are, over how long the services file says.
struct LengthKept {
  std::string service;
  double told_in = 1, told_out = 1;  // means by the services file, in tokens
  double in = 1, out = 1;            // times that
  bool operator==(const LengthKept&) const = default;
};

// How many requests a step of a pipeline is asked for, over how many the services file says.
struct FanOutKept {
  std::string pipeline;
  int step = 0;
  double told = 1;   // by the services file
  double times = 1;  // that: as measured
  bool operator==(const FanOutKept&) const = default;
};

// How long a token of a language model takes, over how long its measured points say.
struct SpeedKept {
  std::string model;
  double slower = 1;
  bool operator==(const SpeedKept&) const = default;
};

// Parts of the memory; each brain of the loop (loop.cc) writes its own.

struct DesiredKept {
  std::string services;       // text of the services file that is wanted
  std::string services_file;  // text of the file when it was read last
  std::string services_by;    // who wanted it: "file", or a user
  Mode mode = Mode::automatic;
  bool mode_set = false;  // by somebody; else the settings' holds
  bool operator==(const DesiredKept&) const = default;
};

struct PlansKept {
  long changes = 0;                      // numbers used so far
  std::optional<Target> target, before;  // in force; what `rollback` goes back to
  std::optional<Target> proposal;        // waits for a person
  std::int64_t quiet_until_ms = 0;       // a person said no: nothing is proposed before
  std::string no_to;                     // the services and GPUs of that; empty: it was a rollback
  bool operator==(const PlansKept&) const = default;
};

struct DampingKept {
  std::vector<Touched> services_touched, gpus_touched;
  std::vector<MovesAt> moves;  // of the last hour
  std::vector<MadeAt> made;    // within the cooldown
  bool operator==(const DampingKept&) const = default;
};

struct ChangesKept {
  long drifts = 0, failed_changes = 0;
  bool operator==(const ChangesKept&) const = default;
};

struct HealthKept {
  std::vector<OutGpu> out;  // by UUID
  std::string boot;         // the boot of the node that they were seen in
  bool operator==(const HealthKept&) const = default;
};

struct BatchesKept {
  long batches = 0;                                            // numbers used so far
  long tasks_done = 0, tasks_failed = 0, tasks_cancelled = 0;  // of batches that are over
  std::vector<BatchKept> batch;                                // that are not over, by number
  std::vector<BatchTask> past_tasks;    // of batches that are over, newest last
  std::vector<BatchPast> past_batches;  // newest last
  bool operator==(const BatchesKept&) const = default;
};

struct AgentMemory : DesiredKept, PlansKept, DampingKept, ChangesKept, HealthKept, BatchesKept {
  std::vector<ServiceForecast> forecasts;  // by service
  std::vector<VerdictKept> verdicts;       // by service
  std::vector<LengthKept> lengths;         // by service
  std::vector<FanOutKept> fan_outs;        // by pipeline, step
  std::vector<SpeedKept> speeds;           // by model
  bool power_held = false;  // boards may be set otherwise than before the agent set them
  bool operator==(const AgentMemory&) const = default;
};

// parse_memory(memory_json(m)) == m, where the rows of its plans say their terms; those that an
// older version wrote get them from the services. Refused with FILE:LINE.
std::string memory_json(const AgentMemory& memory);
Result<AgentMemory> parse_memory(const std::string& file, std::string_view text);
DocumentKind memory_kind();

}  // namespace partita::control
