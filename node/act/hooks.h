// Hooks: programs of the operator that run around a change of the node: stop what keeps GPUs busy
// (dcgm-exporter, the device plugin, the persistence daemon) and start it again. Each has a time
// limit; one that is required and fails before a change means that nothing is touched.
// Blocks while a hook runs. Limits: kMaxHooks, kMaxHookSeconds.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/form.h"
#include "base/processes.h"
#include "base/result.h"

namespace partita::actuate {

inline constexpr std::size_t kMaxHooks = 64;
inline constexpr double kMaxHookSeconds = 3600;

// What a hook that fails before a change means. After a change nothing is stopped by it.
enum class HookFailure : std::uint8_t { stop, go_on };

struct Hook {
  std::string name;
  std::vector<std::string> command;  // the program and its arguments; no shell
  double timeout_s = 30;             // then it is killed with all that it has started
  HookFailure on_failure = HookFailure::stop;
  bool operator==(const Hook&) const = default;
};

// Reads the key `hooks` of a settings file; empty where it has none. Refused with FILE:LINE: a name
// twice, an empty command, a time limit that cannot be meant.
Result<std::vector<Hook>> parse_hooks(const std::string& file, std::string_view text);
// Its fields, for documents that have such a list.
void describe_hook(Form& f, Hook& hook);

struct HookDoors {
  Processes& processes;  // for hooks alone: their ends are asked of it
  Clock& clock;
  std::string log_file = {};             // gets their output; empty: it is thrown away
  std::function<void()> meanwhile = {};  // called often while one runs
};

// Runs one hook to its end: timeout, or environment with its status.
Result<void> run_hook(const HookDoors& doors, const Hook& hook,
                      const std::map<std::string, std::string>& environment);

// Runs the hooks `before` in order and, when none of them failed, `work`; then all hooks `after`,
// whatever came of it. What a hook afterwards fails with goes to `say`.
struct HookRound {
  const std::vector<std::string>&before, &after;  // names
  std::function<Result<void>(const std::string& name, const char* phase)> run;
  std::function<void(const std::string& sentence)> say;
};
Result<void> with_hooks(const HookRound& round, const std::function<Result<void>()>& work);

}  // namespace partita::actuate
