// Settings: the policy of the agent: how it forecasts, what is worth a change, when changes may be
// made, which GPUs are whose. Read from the key `policy` of /etc/partita/agent.yaml; every key of
// it may be missing. The other keys of that file belong to whoever runs the loop. Values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "base/result.h"
#include "control/request.h"
#include "hw/xids.h"
#include "plan/serving.h"

namespace partita::control {

struct ForecastSettings {
  double horizon_s = 1800;    // so far ahead a plan must hold
  double half_life_s = 300;   // of the level of what is measured
  double day_weight = 0.3;    // of the newest day in the shape of a day
  double coverage = 0.98;     // share of the times at which the rate is below the upper end
  double floor_share = 0.25;  // of the rate in the services file: never planned for less
  double cap_share = 4;       // of it: never planned for more
  bool operator==(const ForecastSettings&) const = default;
};

// What keeps changes few.
struct DampingSettings {
  double min_gain_gpu_hours = 0.1;  // that a move must save, while the plan is expected to last
  double lasts_s = 3600;            // so long a plan is expected to last
  double cooldown_s = 1800;         // of a service and a GPU after a change that touched it
  int moves_per_hour = 40;  // instances made; half of them for gain, the rest is for shortages
  double slack = 0.1;       // shares of rates that are not worth looking at
  bool operator==(const DampingSettings&) const = default;
};

// From `from` to `to`, minutes of the day; over midnight where to <= from.
struct Window {
  std::vector<int> days;  // 0 Monday .. 6 Sunday, on which it begins; empty: every day
  int from = 0, to = 0;
  bool operator==(const Window&) const = default;
};

struct HealthSettings {
  // XIDs that take a GPU out: what a program does wrong (13, 31, 43 ...) is not among them.
  std::vector<int> xids = hw::xids_that_take_out();
  bool uncorrected_ecc = true;  // takes it out
  bool recovery = true;         // so does a driver that wants the GPU reset, or rows that failed
  double back_after_s = 600;    // a GPU that was lost is used again when it has been there so long
  bool operator==(const HealthSettings&) const = default;
};

struct BatchSettings {
  std::vector<int> gpus;    // indices of the node's GPUs that are for batches, never for services
  bool idle = false;        // batches get GPUs that no service needs, too, until one needs them
  double give_back_s = 60;  // running tasks may go on for so long on a GPU that is wanted back
  double grace_s = 10;      // from asking a task to end to killing it
  int retries = 0;          // of a task whose command fails
  bool operator==(const BatchSettings&) const = default;
};

// Who sets SM clocks. driver: nobody. fixed: all boards run at clock_mhz. slo: each board at the
// lowest clock at which its services keep their SLOs, as `partita power run` does it.
enum class Clocks : std::uint8_t { driver, fixed, slo };

struct PowerPolicy {
  double cap_w = 0;  // that the boards of the node may draw together; 0: no cap
  Clocks clocks = Clocks::driver;
  double clock_mhz = 0;   // of Clocks::fixed
  double headroom = 0.3;  // of Clocks::slo: share of a rate that is added to it, for bursts
  double memory_s = 300;  // of Clocks::slo: the highest rate of so long counts
  bool sets() const { return cap_w > 0 || clocks != Clocks::driver; }
  bool operator==(const PowerPolicy&) const = default;
};

struct Settings {
  Mode mode = Mode::approve;  // when nothing else is remembered
  double look_s = 10;         // between looks when nothing happens
  int utc_offset_min = 0;     // of the local time in which windows and days are meant
  ForecastSettings forecast;
  DampingSettings damping;
  std::vector<Window> windows;          // for changes that save something; empty: always
  std::vector<Window> freezes;          // nothing but repairs and what people ask for
  int survive = -1;                     // GPUs that may be lost; -1: as the services file says
  std::map<std::string, int> priority;  // of services; higher is served first; missing: its own
  HealthSettings health;
  BatchSettings batch;
  PowerPolicy power;
  // How a change is made, see actuate::ApplyOptions.
  double min_available = 1;
  bool keep_foreign = true;
  double drain_timeout_s = 60, ready_timeout_s = 0;
  bool allow_reset = true;                             // of an idle GPU to turn MIG on
  double first_pause_s = 10, longest_pause_s = 900;    // before a failed change is tried again
  std::vector<std::string> hooks_before, hooks_after;  // names of hooks, run around each change
  long node_budget = 200'000;                          // of a planner's search
  bool operator==(const Settings&) const = default;
};

// The policy in a settings file; defaults where it has none. Refused with FILE:LINE: unknown keys
// below `policy`, numbers that cannot be meant.
Result<Settings> parse_settings(const std::string& file, std::string_view text);
// The key `policy` as it would be written, in a document `kind: AgentSettings`.
std::string settings_json(const Settings& settings);
DocumentKind settings_kind();

// Whether a moment is in one of the windows.
bool in_window(const std::vector<Window>& windows, std::int64_t now_ms, int utc_offset_min);

}  // namespace partita::control
