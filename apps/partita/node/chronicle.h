// Chronicle: keeps in the node's history what a command does to it: who, why, which steps, how it
// ended. A history that cannot be written is complained about once and stops nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "act/apply.h"
#include "act/hooks.h"
#include "context.h"
#include "history/event.h"
#include "history/store/store.h"

namespace partita::cli {

// "root", "root (sudo anna)".
std::string calling_user();

class Chronicle {
 public:
  // `command`: "partita apply plan.json"; `why`: what the person said, else the command is the
  // cause.
  Chronicle(Context& context, std::string state_dir, const std::string& command,
            const std::string& why);

  // The number of the change, given when it is first asked for; 0 where none can be kept.
  long number();
  long known_number() const { return change_; }  // 0: none was asked for
  // A document that belongs to the change, kept with its beginning.
  void attach(const std::string& name, const std::string& text);
  // Hears what apply does; the change begins with its first step.
  void hear(const actuate::ApplyEvent& event);
  // The beginning of what tells of itself at its end alone.
  void begin(const std::string& detail);
  // How it ended. Without a beginning only a failure is kept.
  void end(const Result<void>& outcome, const std::string& detail,
           std::vector<history::Event::Attachment> documents = {});
  // A drain of these devices.
  void keep_drain(const std::vector<std::string>& devices, const Result<void>& drained);
  // Something by itself; without a user or a cause, the command's.
  void keep(history::Event event);

 private:
  history::Store* store();
  void append(const std::vector<history::Event>& events);
  void complain_once(const Error& error);
  history::Event event(history::EventKind kind) const;

  Context& context_;
  std::string state_dir_, cause_, user_;
  std::optional<history::Store> store_;
  bool broken_ = false;
  long change_ = 0;  // its number; 0: none yet
  bool begun_ = false;
  std::vector<history::Event::Attachment> attached_;
  std::vector<history::Event> steps_;  // kept with the end: the node does not wait for each
};

// NodeHooks: the operator's programs around a change of this node, as the settings of the agent
// (`hooks`, `policy.hooks_before`, `policy.hooks_after`) name them; the agent and the commands that
// change a node by hand run them in the same way. Each run is told as an event of the history.

struct HookSettings {
  std::vector<actuate::Hook> hooks = {};
  std::vector<std::string> before = {}, after = {};
  bool none() const { return before.empty() && after.empty(); }
};

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
