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
#include <optional>
#include <string>
#include <vector>

#include "act/apply.h"
#include "act/journal.h"
#include "act/wanted.h"
#include "act/workers_state.h"
#include "base/result.h"
#include "control/batch.h"
#include "control/batch_list.h"
#include "control/memory.h"
#include "control/power_split.h"
#include "control/request.h"
#include "control/settings.h"
#include "control/snapshot.h"
#include "control/verdict.h"
#include "device/health.h"
#include "device/node_state.h"
#include "history/event.h"
#include "hw/catalogue.h"
#include "plan/power.h"
#include "plan/serving.h"
#include "hw/telemetry/sample.h"

namespace partita::control {

// With what a gateway may be late (gateway_state.h): within 5 s a verdict is what it should be.
inline constexpr std::int64_t kGlanceMs = 1000;

// What does not change while an agent runs.
struct World {
  std::string node;  // host name
  Settings settings;
  hw::Catalogue catalogue;
  // What was measured, by GPU model; count and price are not looked at. A GPU whose model is not
  // among them is not used.
  std::vector<plan::FleetEntry> profiles;
  plan::SloRule rule;
  int max_processes = plan::kDefaultMaxProcesses;
  // For policy.power.clocks: slo, by GPU model; units are compute slices.
  std::vector<plan::ResponseTable> power_tables = {};
};

// ---- what is seen ----

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
  std::vector<actuate::WorkerRecord> workers = {};  // as the supervisor wrote them
  std::vector<HealthEvent> health = {};             // what GPUs said since the step before
  std::string boot = {};  // which boot of the node this is; another one ends errors; empty: unknown
  std::vector<Asked> asked = {};
  // The text of the services file whenever it is read; the loop sees whether it has changed.
  std::optional<std::string> services_file = {};
  std::size_t apply_steps = 0;  // of the apply under way: steps that are done
  std::vector<ApplyEnd> ended = {};
  std::vector<PowerBoard> power = {};  // with policy.power: of the boards that say it
  std::vector<PowerEnd> power_ends = {};
  std::optional<Result<void>> power_back = {};  // what came of Deeds::power_back
  // Runs of batches as whoever carries them out sees them; nothing: nobody does.
  std::optional<std::vector<BatchRunNow>> batches = {};
};

// ---- what is done ----

// The only way in which GPUs are changed: actuate::apply(doors, wanted, options), off the loop's
// thread. GPUs that are not named by UUID in it are not touched. One at a time. Hooks before it
// run first, in order; one that fails ends it before anything is touched (ApplyEnd with its error).
// Hooks after it run whatever came of it.
struct ApplyDeed {
  long change = 0;
  actuate::Wanted wanted;
  actuate::ApplyOptions options;
  std::vector<std::string> hooks_before, hooks_after;
  bool repair = false;  // the plan in force is made again
};

enum class NoticeKind : std::uint8_t {
  failed_change,
  given_up_worker,
  slo_risk,
  approval,  // a change waits for a person
  health,
  drift,
  damaged_file,  // of the state directory; subject: its path
  other,
};
const char* to_string(NoticeKind kind);

// Somebody wants to know: webhook, command. Said once, not at every step.
struct LoopNotice {
  NoticeKind kind = NoticeKind::other;
  std::string subject;   // service, GPU; may be empty
  std::string sentence;  // for people
  long change = 0;
  bool operator==(const LoopNotice&) const = default;
};

// Limit and clocks of a board. One that lowers a limit and fails ends those after it in the same
// step.
struct PowerDeed {
  int gpu = 0;
  std::string uuid;
  device::PowerSettings settings;
  Watts before;  // its limit
  bool lowers() const { return settings.limit && *settings.limit < before; }
};

struct Deeds {
  std::optional<AgentMemory> remember;  // make it durable before anything else
  std::vector<history::Event> record;   // append; ids are 0
  std::vector<history::Measured> measure;
  std::vector<Reply> replies;  // one per Seen::asked, in its order
  bool stop_apply = false;     // interrupt the apply under way; its ApplyEnd follows
  std::optional<ApplyDeed> apply;
  // The runs that shall be under way, all of them at every step: one that is not known is begun or
  // gone on with, one that is over and named no more is forgotten.
  std::vector<BatchDeed> batches;
  std::vector<PowerDeed> power;  // in this order
  bool power_back = false;       // puts back what boards had before the first of them
  std::vector<LoopNotice> notify;
  std::int64_t next_look_ms = 0;  // look again then at the latest, and when something happens
};

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
