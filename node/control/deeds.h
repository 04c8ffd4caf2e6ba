// Deeds: what a step of the loop wants done. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "act/apply.h"
#include "act/wanted.h"
#include "control/batch.h"
#include "control/memory.h"
#include "control/request.h"
#include "device/power_settings.h"
#include "history/event.h"

namespace partita::control {

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
inline const char* to_string(NoticeKind kind) {
  constexpr const char* kWords[] = {"failed_change", "given_up_worker", "slo_risk",     "approval",
                                    "health",        "drift",           "damaged_file", "other"};
  return kWords[static_cast<int>(kind)];
}

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
  bool unplanned = false;                  // services want another plan, and there is none
  std::optional<Error> refused_file = {};  // why the services file is not taken
  std::int64_t next_look_ms = 0;  // look again then at the latest, and when something happens
};

}  // namespace partita::control
