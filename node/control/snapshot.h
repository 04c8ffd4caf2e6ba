// Snapshot: what an agent knows and is doing, as one value: made after every step of the loop,
// never changed, so that any thread may show it. It is the document `kind: AgentState` of the API,
// which the web page and `partita top` draw.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "act/assignment.h"
#include "act/change.h"
#include "act/gateway_state.h"
#include "base/form.h"
#include "control/batch.h"
#include "control/request.h"
#include "control/verdict.h"
#include "device/node_forms.h"
#include "device/node_state.h"
#include "history/event.h"
#include "hw/telemetry/sample.h"
#include "plan/serving.h"

namespace partita::control {

// Batches, where services have their names: as a tenant of energy, as a subject of history.
inline constexpr const char* kBatchTenant = "(batch)";

// A service as it is wanted, by the services file, and as it is.
struct ServiceNow : plan::Terms {
  std::optional<double> rate_rps = {};  // as measured now
  std::optional<double> forecast_rps = {}, forecast_low_rps = {}, forecast_high_rps = {};
  double planned_rps = 0;  // what the plan in force is made for
  int segments = 0, ready_workers = 0;
  // A supervisor has started all those again that are missing, which took them so long the last
  // time; 0: not so, or not known. In no document.
  double restart_s = 0;
  std::optional<double> p99_ms = {}, attainment = {};       // measured, share of requests in SLO
  std::optional<actuate::TokenTraffic> token_traffic = {};  // of a language model, measured
  std::optional<double> watts = {}, energy_j = {};          // its part: energy_meter.h
  std::optional<double> host_w = {}, host_energy_j = {};    // of CPUs and memory: host_meter.h
  std::optional<double> host_idle_j = {};                   // of these joules
  std::optional<double> energy_cost = {}, co2_g = {};       // of these joules: bills.h
  ServiceVerdict is = {};
  bool at_risk() const { return is.verdict != Standing::serves; }
  bool operator==(const ServiceNow&) const = default;
};

struct GpuNow {
  int index = 0;
  std::string uuid, model;
  bool out = false;  // taken out: by a person, or by its health
  std::string why = {};
  std::optional<telemetry::GpuSample> sample = {};
  bool operator==(const GpuNow&) const = default;
};

enum class ChangeState { proposed, approved, applying, succeeded, failed, rejected };
const char* to_string(ChangeState state);

// One change, from the moment it was planned.
struct ChangeNow {
  long number = 0;
  ChangeState state = ChangeState::proposed;
  std::string cause;  // why, a sentence: "rate of resnet50 rose from 120 to 260 req/s"
  std::int64_t planned_ms = 0, ended_ms = 0;  // since 1970; 0: not yet
  plan::ServingPlan plan;                     // the target
  actuate::Change change;                     // how the node gets there
  std::size_t steps_done = 0;
  std::string error = {};
  std::vector<std::string> explanation = {};
  // How many there are, in a brief snapshot; it has neither plan nor change nor explanation.
  std::optional<int> steps = {};
  bool operator==(const ChangeNow&) const = default;
};

// What the judge said of plans since this agent began. planner: of plans that the agent made;
// target: of the plan in force, or one that waits, with the services and GPUs that there are now;
// person: of plans that somebody sent, to make them or to see what they would change.
struct JudgedPlans {
  std::string asked;  // one of those words
  long accepted = 0, refused = 0;
  bool operator==(const JudgedPlans&) const = default;
};

struct BatchNow {
  int waiting = 0, running = 0, done = 0, failed = 0;  // failed: skipped ones, too
  int cancelled = 0;
  std::optional<double> watts = {}, energy_j = {};  // their part: energy_meter.h
  std::optional<std::int64_t> ends_ms = {};         // as scheduled
  std::vector<std::string> gpus = {};               // UUIDs of those that batches have now
  std::vector<BatchTask> tasks = {};  // of batches that are not over, then the newest others
  bool operator==(const BatchNow&) const = default;
};

// What a budget lets the boards draw together, and what they are set to.
struct PowerNow {
  double budget_w = 0, limits_w = 0;
  std::optional<double> draw_w = {};
  int unlimited = 0;  // GPUs that do not say what they are limited to
  double least_w = 0;  // that they can be limited to
  bool holds() const { return unlimited == 0 && limits_w <= budget_w + 1; }
  bool operator==(const PowerNow&) const = default;
};

// What a node takes beside its GPUs; missing where nobody tells it.
struct HostNow {
  std::optional<double> cpu_w = {}, dram_w = {}, psys_w = {};  // between the last two readings
  std::optional<double> cpu_j = {}, dram_j = {}, psys_j = {};  // since the agent began
  std::optional<double> node_w = {};  // GPUs, CPUs and memory, where all three are told
  std::string fault = {};             // why a figure is missing
  bool operator==(const HostNow&) const = default;
};

struct Snapshot {
  long version = 0;          // grows with every change of the rest
  long node_version = 0;     // the version in which state or assignment changed last
  std::int64_t time_ms = 0;  // since 1970, UTC
  std::string node;          // host name
  Mode mode = Mode::automatic;
  bool converged = false;   // the node is as the plan in force wants it, and no change is needed
  std::string doing;        // a sentence: "nothing to do; next look in 4 s"
  device::NodeState state;  // as it was read last
  std::int64_t node_read_ms = 0;  // when that was
  std::string node_fault = {};    // why it cannot be read now; empty: it can
  actuate::Assignment assignment;
  std::vector<GpuNow> gpus;                // by index
  std::vector<ServiceNow> services;        // by name
  std::optional<plan::ServingPlan> plan;   // in force
  std::optional<ChangeNow> current, last;  // proposed or under way; the last that ended
  BatchNow batch;
  std::optional<PowerNow> power = {};  // where the node is one of a fleet that divides its power
  std::optional<HostNow> host = {};  // CPUs and memory
  std::vector<actuate::Uncarried> uncarried = {};  // of its fleet: asked for here, carried nowhere
  std::vector<std::string> notices;  // newest first, few
  std::vector<JudgedPlans> judged;   // by `asked`
  long restarts = 0, given_up_workers = 0, drifts = 0, changes = 0, failed_changes = 0;
  std::vector<std::string> left_out = {};  // of a brief snapshot: keys of the document, by name
  bool operator==(const Snapshot&) const = default;
};

// What an agent that has not looked for so long has said is old.
inline constexpr std::int64_t kOldWordMs = 3500;
// The snapshot as it is to be shown then: nobody knows how services do.
Snapshot aged(Snapshot snapshot, std::int64_t looked_ms, std::int64_t now_ms);

// Of a large node, what the API shows unless it is asked for all: without the parts that are
// documents of their own (state and assignment: NodeState; plan; plan and change of changes: by
// number; tasks of batches above kBriefTasks), measured numbers with four or five digits. It grows
// by some 230 bytes a service and 100 an instance. A node is large above kWholeRows services and
// instances together.
inline constexpr std::size_t kWholeRows = 160;
inline constexpr std::size_t kBriefTasks = 100;
bool is_large(const Snapshot& snapshot);
Snapshot brief_of(Snapshot snapshot);
// A brief snapshot with what runs where, as GET /v1/node says it.
void complete(Snapshot& brief, device::NodeState state, const device::Occupants& occupants);

// The document `kind: AgentState`; parse_snapshot(snapshot_json(s)) == s. Where it is brief, what
// is as it is by default is left out, and a reason that several services have is written once.
std::string snapshot_json(const Snapshot& snapshot);
Result<Snapshot> parse_snapshot(const std::string& file, std::string_view text);
DocumentKind snapshot_kind();

}  // namespace partita::control
