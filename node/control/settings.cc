#include "control/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/form_rules.h"
#include "control/forecast.h"
#include "forms/clock_time.h"
#include "forms/priorities_form.h"

namespace partita::control {
namespace {

constexpr Range kPolicyShare{.high = 1};
constexpr Range kOpenShare{.high = 1, .above = true, .below = true};
constexpr Range kPause{.low = 1, .high = 86'400};
constexpr Range kLong{.high = 604'800};
constexpr Range kIndices{.high = 1e6};

const std::vector<std::string>& day_names() {
  static const std::vector<std::string> names{"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
  return names;
}

void describe_time(Form& f, std::string_view key, int& minute) {
  std::string text = fmt::format("{:02}:{:02}", minute / 60, minute % 60);
  f.text(key, text, "a time of day");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  const auto read = forms::minute_of(text);
  if (!read) in->refuse(key, fmt::format("'{}' is no time from 00:00 to 23:59", text));
  minute = read.value_or(0);
}

void describe_window(Form& f, Window& window) {
  std::vector<std::string> days;
  for (const int day : window.days) days.push_back(day_names()[static_cast<std::size_t>(day)]);
  f.optional(!days.empty())
      .names("days", days, {.most = 7}, "on which it begins: mon .. sun; missing: every day");
  describe_time(f, "from", window.from);
  describe_time(f, "to", window.to);
  f.closed();
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  window.days.clear();
  for (const std::string& day : days) {
    const auto found = std::ranges::find(day_names(), day);
    if (found == day_names().end())
      in->refuse("days",
                 fmt::format("'{}' is no day (there are mon, tue, wed, thu, fri, sat, sun)", day));
    window.days.push_back(static_cast<int>(found - day_names().begin()));
  }
  if (window.from == window.to)
    in->refuse("to", "a window must end at another time than it begins");
}

void describe_forecast_settings(Form& f, ForecastSettings& s) {
  f.optional().number("horizon_s", s.horizon_s, {.low = 60, .high = 86'400},
                      "so far ahead a plan must hold");
  f.optional().number("half_life_s", s.half_life_s, {.low = 30, .high = 86'400},
                      "of the level of what is measured");
  f.optional().number("day_weight", s.day_weight, {.high = 1, .above = true},
                      "of the newest day in the shape of a day");
  f.optional().number("coverage", s.coverage, kOpenShare,
                      "share of the times at which the rate is below the upper end");
  f.optional().number("floor_share", s.floor_share, kPolicyShare,
                      "of the rate in the services file: never planned for less");
  f.optional().number("cap_share", s.cap_share, {.low = 1, .high = 1e6},
                      "of that rate: never planned for more");
  f.closed();
}

void describe_damping(Form& f, DampingSettings& s) {
  f.optional().number("min_gain_gpu_hours", s.min_gain_gpu_hours, {.high = 1e4},
                      "that a move must save");
  f.optional().number("lasts_s", s.lasts_s, {.low = 60, .high = 604'800},
                      "so long a plan is expected to last");
  f.optional().number("cooldown_s", s.cooldown_s, kLong,
                      "of a service and a GPU after a change that touched it");
  f.optional().integer("moves_per_hour", s.moves_per_hour, {.low = 1, .high = 1e6},
                       "instances made; half of them for gain, the rest for shortages");
  f.optional().number("slack", s.slack, kPolicyShare,
                      "shares of rates that are not worth looking at");
  f.closed();
}

void describe_health(Form& f, HealthSettings& s) {
  f.optional().integers("xids", s.xids, {.low = 1, .high = 1e4}, {},
                        "the driver's errors that take a GPU out");
  f.optional().boolean("uncorrected_ecc", s.uncorrected_ecc, "takes a GPU out");
  f.optional().boolean("recovery", s.recovery,
                       "a driver that wants a GPU reset, or rows that failed, take it out");
  f.optional().number("back_after_s", s.back_after_s, kLong,
                      "a GPU that was lost is used again when it has been there so long");
  f.closed();
}

void describe_batch_settings(Form& f, BatchSettings& s) {
  f.optional().integers("gpus", s.gpus, kIndices, {}, "indices of GPUs that are for batches alone");
  f.optional().boolean("idle", s.idle, "batches also get GPUs that no service needs");
  f.optional().number("give_back_s", s.give_back_s, kLong,
                      "running tasks may go on for so long on a GPU that is wanted back");
  f.optional().number("grace_s", s.grace_s, {.high = 3600},
                      "from asking a task to end to killing it");
  f.optional().integer("retries", s.retries, {.high = 1000}, "of a task whose command fails");
  f.closed();
}

void describe_power_policy(Form& f, PowerPolicy& s) {
  f.optional().number("cap_w", s.cap_w, {.high = 1e6},
                      "that the boards of the node may draw together; 0: no cap");
  f.optional().word("clocks", s.clocks, {"driver", "fixed", "slo"},
                    "who sets them: nobody; all to clock_mhz; as low as the SLOs allow");
  f.optional().number("clock_mhz", s.clock_mhz, {.high = 1e5}, "of clocks: fixed");
  f.optional().number("headroom", s.headroom, {.high = 10},
                      "of clocks: slo: share of a rate that is added to it, for bursts");
  f.optional().number("memory_s", s.memory_s, {.high = 86'400},
                      "of clocks: slo: the highest rate of so long counts");
  f.closed();
  Fields* const in = f.reading();
  if (in && !in->error() && (s.clocks == Clocks::fixed) != (s.clock_mhz > 0))
    in->refuse("clock_mhz", "goes with clocks: fixed, which needs it");
}

void describe_policy(Form& f, Settings& s) {
  f.optional().word("mode", s.mode, kModes, "how changes come about");
  f.optional().number("look_s", s.look_s, {.low = 0.1, .high = 3600}, "between looks");
  f.optional().integer("utc_offset_min", s.utc_offset_min, {.low = -840, .high = 840},
                       "of the local time in which windows are meant");
  f.optional().object("forecast", s.forecast, describe_forecast_settings, "of rates");
  f.optional().object("damping", s.damping, describe_damping, "what keeps changes few");
  f.optional().list("windows", s.windows, describe_window, {.most = 1000},
                    "for changes that save something; missing: always");
  f.optional().list("freezes", s.freezes, describe_window, {.most = 1000},
                    "nothing but repairs and what people ask for");
  f.optional(s.survive >= 0)
      .integer("survive", s.survive, {.high = plan::kMostLost},
               "GPUs that may be lost; missing: as the services file says");
  forms::describe_priorities(f, s.priority);
  f.optional().object("health", s.health, describe_health, "of GPUs");
  f.optional().object("batch", s.batch, describe_batch_settings, "GPUs for batches");
  f.optional().object("power", s.power, describe_power_policy, "what the boards may draw");
  f.optional().number("min_available", s.min_available, kPolicyShare,
                      "of a service's capacity that stays up during a change");
  f.optional().boolean("keep_foreign", s.keep_foreign,
                       "instances that others made stay unless they are in the way");
  f.optional().number("drain_timeout_s", s.drain_timeout_s, {.low = 1, .high = 86'400},
                      "per instance");
  f.optional().number("ready_timeout_s", s.ready_timeout_s, {.high = 86'400},
                      "of a started segment; 0: as apply decides");
  f.optional().number("first_pause_s", s.first_pause_s, kPause,
                      "before a failed change is tried again; doubles");
  f.optional().number("longest_pause_s", s.longest_pause_s, kPause, "the longest such pause");
  f.optional().boolean("allow_reset", s.allow_reset, "of an idle GPU, to turn MIG on");
  f.optional().names("hooks_before", s.hooks_before, {.most = 100}, "names of hooks, in order");
  f.optional().names("hooks_after", s.hooks_after, {.most = 100}, "names of hooks, in order");
  f.optional().whole("node_budget", s.node_budget, {.low = 1000, .high = 1e9},
                     "of a planner's search");
  f.closed();
}

void describe_file(Form& f, Settings& s) {
  f.lines("  ");
  f.optional().object("policy", s, describe_policy, "how the agent decides");
}

void describe_settings(Form& f, Settings& s) {
  f.document("AgentSettings");
  describe_file(f, s);
}

}  // namespace

Result<Settings> parse_settings(const std::string& file, std::string_view text) {
  return read_form<Settings>(file, text, describe_file);
}

std::string settings_json(const Settings& settings) {
  return write_form(settings, describe_settings, Form::Style::indented);
}

DocumentKind settings_kind() {
  return document_kind<Settings, describe_settings, "AgentSettings",
                       "the policy of an agent, in its settings file">();
}

bool in_window(const std::vector<Window>& windows, std::int64_t now_ms, int utc_offset_min) {
  const std::int64_t local = now_ms + utc_offset_min * kMinuteMs;
  const int minute = minute_of_day(local), today = weekday(local);
  return std::ranges::any_of(windows, [&](const Window& one) {
    const auto on = [&](int day) {
      return one.days.empty() || std::ranges::count(one.days, day) > 0;
    };
    if (one.from < one.to) return on(today) && minute >= one.from && minute < one.to;
    return (on(today) && minute >= one.from) || (on((today + 6) % 7) && minute < one.to);
  });
}

}  // namespace partita::control
