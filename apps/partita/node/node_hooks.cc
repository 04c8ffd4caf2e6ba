#include "node/node_hooks.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "control/host/agent_file.h"
#include "decide/input.h"
#include "flags.h"

namespace partita::cli {

void add_hooks(CLI::App& command, std::string& file) { flag(command, "--hooks", file); }

Result<HookSettings> read_hooks(Context& context, const std::string& file) {
  if (file.empty()) return HookSettings{};
  const std::string text = TRY(read_input(context.files, "--hooks", file));
  auto settings = TRY(control::parse_agent_file(file, text));
  return HookSettings{std::move(settings.hooks), std::move(settings.policy.hooks_before),
                      std::move(settings.policy.hooks_after)};
}

Result<void> NodeHooks::run(const std::vector<actuate::Hook>& hooks, const std::string& name,
                            const std::string& phase, long change) {
  const auto found = std::ranges::find(hooks, name, &actuate::Hook::name);
  if (found == hooks.end()) return bad_input("hooks", fmt::format("no hook is called '{}'", name));
  TRY(context_.files.make_directories(state_dir_));
  const actuate::HookDoors doors{processes_, context_.clock, state_dir_ + "/hooks.log"};
  complain(context_, fmt::format("running hook '{}' {} {}", name, phase,
                                 change > 0 ? fmt::format("change {}", change) : "the change"));
  const Result<void> ran = actuate::run_hook(
      doors, *found, {{"PARTITA_CHANGE", std::to_string(change)}, {"PARTITA_PHASE", phase}});
  history::Event event;
  event.kind = history::EventKind::hook;
  event.change = change;
  event.cause = phase + " the change";
  event.subject = name;
  event.outcome = ran ? history::Outcome::succeeded : history::Outcome::failed;
  event.detail = ran ? fmt::format("hook '{}' ended well", name) : to_string(ran.error());
  keep_(std::move(event));
  if (ran || found->on_failure == actuate::HookFailure::stop) return ran;
  complain(context_, to_string(ran.error()) + "; going on, as its on_failure says");
  return {};
}

}  // namespace partita::cli
