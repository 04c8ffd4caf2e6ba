// Seen: what a step of the loop is given to see. Values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "act/assignment.h"
#include "act/journal.h"
#include "act/workers_state.h"
#include "base/result.h"
#include "control/batch.h"
#include "control/power_split.h"
#include "control/request.h"
#include "control/verdict.h"
#include "device/health.h"
#include "device/node_state.h"
#include "hw/telemetry/host.h"
#include "hw/telemetry/sample.h"

namespace partita::control {

using device::HealthEvent;

// The apply of the last ApplyDeed is over, as actuate::apply said. `interrupted`: because of
// stop_apply. Steps that it ended before are in Seen::apply_steps.
struct ApplyEnd {
  long change = 0;
  Result<void> outcome;
  double took_s = 0;
};

// What came of a PowerDeed.
struct PowerEnd {
  std::string uuid;
  Result<void> outcome;
};

struct Seen : ServersSeen {
  // Read now, after whatever is in `ended` had ended. An error of the driver leaves what depends on
  // the node alone.
  Result<device::NodeState> state = device::NodeState{};
  Result<actuate::Assignment> assignment = actuate::Assignment{};
  Result<actuate::JournalState> journal = actuate::JournalState{};
  std::optional<telemetry::Sample> sample = {};
  std::optional<telemetry::HostSample> host = {};
  std::vector<actuate::WorkerRecord> workers = {};  // as the supervisor wrote them
  std::vector<HealthEvent> health = {};             // what GPUs said since the step before
  std::string boot = {};  // which boot of the node this is; another one ends errors; empty: unknown
  std::vector<Asked> asked = {};
  // The text of the services file whenever it is read; the loop sees whether it has changed.
  std::optional<std::string> services_file = {};
  std::string services_fault = {};  // why it cannot be read though an agent has one
  std::size_t apply_steps = 0;  // of the apply under way: steps that are done
  std::vector<ApplyEnd> ended = {};
  std::vector<PowerBoard> power = {};  // with a budget or policy.power: of boards that say it
  std::optional<double> budget_w = {};  // of all boards, by who divides the fleet's power
  std::string fleet_fault = {};  // of its fleet it hears nothing, or is none of it; a sentence
  std::vector<PowerEnd> power_ends = {};
  std::optional<Result<void>> power_back = {};  // what came of Deeds::power_back
  // Runs of batches as whoever carries them out sees them; nothing: nobody does.
  std::optional<std::vector<BatchRunNow>> batches = {};
};

}  // namespace partita::control
