#include "act/hooks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/form_rules.h"

namespace partita::actuate {
namespace {

constexpr std::int64_t kHookPollNs = 10'000'000;
constexpr Range kHookSeconds{.low = 0.1, .high = kMaxHookSeconds};

struct HookFile {
  std::vector<Hook> hooks = {};
};

void describe_file(Form& f, HookFile& file) {
  f.optional().list("hooks", file.hooks, describe_hook, {.most = kMaxHooks, .indent = "  "},
                    "programs that run around a change");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  refuse_twice(*in, "hooks", file.hooks, &Hook::name, "hook");
}

// The status of that process once it has ended.
std::optional<int> status_of(Processes& processes, Pid pid) {
  for (const ProcessExit& one : processes.exited())
    if (one.pid == pid) return one.status;
  return std::nullopt;
}

}  // namespace

void describe_hook(Form& f, Hook& hook) {
  f.name("name", hook.name, "by which the policy names it");
  f.names("command", hook.command, {.most = 256, .least = 1}, "the program and its arguments");
  f.optional().number("timeout_s", hook.timeout_s, kHookSeconds, "then it is killed");
  f.optional().word("on_failure", hook.on_failure, {"stop", "go_on"},
                    "whether a change is still made when it fails");
}

Result<std::vector<Hook>> parse_hooks(const std::string& file, std::string_view text) {
  auto read = TRY(read_form<HookFile>(file, text, describe_file));
  return std::move(read.hooks);
}

Result<void> run_hook(const HookDoors& doors, const Hook& hook,
                      const std::map<std::string, std::string>& environment) {
  const Pid pid = TRY(doors.processes.start(
      {.argv = hook.command, .environment = environment, .log_file = doors.log_file}));
  const std::int64_t limit = doors.clock.now_ns() + static_cast<std::int64_t>(hook.timeout_s * 1e9);
  bool killed = false;
  while (true) {
    const std::optional<int> status = status_of(doors.processes, pid);
    if (status && killed)
      return failed({ErrorCode::timeout,
                     fmt::format("took longer than {} s and was killed", hook.timeout_s),
                     "hook " + hook.name});
    if (status && *status != 0)
      return environment_error("hook " + hook.name, fmt::format("ended with status {}", *status));
    if (status) return {};
    if (!killed && doors.clock.now_ns() >= limit) {
      TRY(doors.processes.stop(pid, StopSignal::kill));
      killed = true;
    }
    if (doors.meanwhile) doors.meanwhile();
    doors.clock.sleep_ns(kHookPollNs);
  }
}

Result<void> with_hooks(const HookRound& round, const std::function<Result<void>()>& work) {
  Result<void> outcome;
  for (const std::string& name : round.before) {
    if (outcome) outcome = round.run(name, "before");
  }
  if (outcome) outcome = work();
  for (const std::string& name : round.after) {
    if (auto ran = round.run(name, "after"); !ran) round.say(to_string(ran.error()));
  }
  return outcome;
}

}  // namespace partita::actuate
