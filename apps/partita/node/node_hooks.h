// NodeHooks: the operator's programs around a change of this node, as the settings of the agent
// (`hooks`, `policy.hooks_before`, `policy.hooks_after`) name them; the agent and the commands that
// change a node by hand run them in the same way. Each run is told as an event of the history.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "act/hooks.h"
#include "context.h"
#include "history/event.h"

namespace partita::cli {

struct HookSettings {
  std::vector<actuate::Hook> hooks = {};
  std::vector<std::string> before = {}, after = {};
  bool none() const { return before.empty() && after.empty(); }
};

// Adds --hooks.
void add_hooks(CLI::App& command, std::string& file);
// Those of a settings file of the agent; none where `file` is empty.
Result<HookSettings> read_hooks(Context& context, const std::string& file);

class NodeHooks {
 public:
  using Keep = std::function<void(history::Event)>;  // gets events without time, user or cause

  NodeHooks(Context& context, std::string state_dir, Keep keep)
      : context_(context), state_dir_(std::move(state_dir)), keep_(std::move(keep)) {}

  // Runs the hook of that name; one whose on_failure is go_on fails with a sentence alone.
  Result<void> run(const std::vector<actuate::Hook>& hooks, const std::string& name,
                   const std::string& phase, long change);

 private:
  Context& context_;
  std::string state_dir_;
  Keep keep_;
  RealProcesses processes_;
};

}  // namespace partita::cli
