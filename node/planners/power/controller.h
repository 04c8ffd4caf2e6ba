// Controllers of power: what sees a GPU every poll() and says at which setting it shall run until
// the next. The contract between the planner's tables, the simulator (`partita simulate --table`)
// and the loop that sets clocks (`partita power run`). The values are plan/power.h. A controller
// keeps state from one decision to the next; it has no clock and no randomness: the same
// observations give the same settings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/power.h"

namespace partita::power {

using plan::Observation;
using plan::ServiceSeen;
using plan::Setting;

class Controller {
 public:
  Controller() = default;
  Controller(const Controller&) = delete;
  virtual ~Controller() = default;
  // Between two decisions.
  virtual Seconds poll() const = 0;
  // Before anything was seen: what carries the most.
  virtual Setting start() const = 0;
  // The setting from now on; to be called once per poll, `seen.at` ascending, as many services as
  // the problem has.
  virtual Setting decide(const Observation& seen) = 0;
};

// Of a service whose share is not the controller's to choose: a MIG instance with its worker.
struct GivenShare {
  int units = 0, batch = 0;
  bool operator==(const GivenShare&) const = default;
};

struct ControlOptions {
  std::string policy = "exact";  // one of policy_names()
  Seconds poll{0.5};             // as in the dissertation
  // Counts of so short a time scatter: the rate that is looked up is (n + guard sqrt(n)) / poll.
  // 0: the dissertation's.
  double guard = 2;
  // Looks up the highest rate of so long, and of a forecast one poll ahead; 0: what was seen last
  // alone (the dissertation's).
  Seconds memory{0};
  // A setting that takes less is chosen only when it would have done for so many polls.
  int hysteresis = 1;
  // All units at the highest clock for a poll when what waits cannot be served within the SLO, or
  // the p95 seen is above it.
  bool rescue = true;
  // Per service, in their order; empty: the policy chooses units and batches.
  std::vector<GivenShare> given = {};
};

// "baseline", "fs", "rs-se", "rs-cu", "cofris-se", "cofris-cu", "exact" (policies.h).
std::vector<std::string> policy_names();

// A controller for one GPU with these services; `problem.gpus` is 1. Their rates are those that
// must be possible: infeasible if no setting carries them within the SLOs, with the reason;
// bad_input for an unknown policy,
// and for shares that are given to other services than there are.
Result<std::unique_ptr<Controller>> make_controller(const plan::PowerProblem& problem,
                                                    const ControlOptions& options);

}  // namespace partita::power
