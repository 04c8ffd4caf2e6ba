// Loop: the brain of the agent. Single-threaded and deterministic: step(now, seen) -> deeds. It has
// no clock, file, socket or thread, and never believes to know the node: what is there is read
// before every step and given to it. Whoever runs it (the agent, a simulation) performs the deeds
// and reports what came of them in a later step.
//
// After a kill a new Loop goes on with the memory that was kept last (memory.h), whatever was being
// done: the plan in force is compared with the node, and what is missing is made.
//
// The order of a step's deeds: `remember` is made durable first, `record` next, then the rest. A
// node without GPUs, a driver that answers with errors and a plan that cannot be are behaviours
// with a sentence, never errors of step().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/batch_list.h"
#include "control/deeds.h"
#include "control/memory.h"
#include "control/seen.h"
#include "control/snapshot.h"
#include "control/world.h"

namespace partita::control {

// With what a gateway may be late (gateway_state.h): within 5 s a verdict is what it should be.
inline constexpr std::int64_t kGlanceMs = 1000;

class Loop {
 public:
  // `memory` as it was kept last; a new one without. `changes`: the highest number of a change that
  // the history knows.
  Loop(World world, AgentMemory memory, long changes);
  ~Loop();
  Loop(Loop&&) noexcept;
  Loop& operator=(Loop&&) noexcept;

  // `now_ms` since 1970, UTC; a clock that goes back counts as standing still.
  Deeds step(std::int64_t now_ms, const Seen& seen);
  // Whether a service does otherwise than the snapshot says: then a step is due at once. Changes
  // nothing, and costs little: to be asked every kGlanceMs.
  bool glance(std::int64_t now_ms, const ServersSeen& servers) const;
  // What boards had before limits and clocks were set was put back, outside a step.
  void power_is_back();
  // As it is after the last step.
  const Snapshot& snapshot() const;
  const AgentMemory& memory() const;
  // Batches, newest first; never null, never changed.
  std::shared_ptr<const std::vector<BatchInfo>> batches() const;

  // What would be planned for these services with what was seen last, or what this plan would
  // change if it was sent; changes nothing. bad_input with FILE:LINE, infeasible.
  Result<ChangeNow> preview(const std::string& text) const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace partita::control
