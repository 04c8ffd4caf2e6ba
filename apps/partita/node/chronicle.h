// Chronicle: keeps in the node's history what a command does to it: who, why, which steps, how it
// ended. A history that cannot be written is complained about once and stops nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "act/apply.h"
#include "context.h"
#include "history/store/store.h"

namespace partita::cli {

// Adds --why.
void add_why(CLI::App& command, std::string& why);

// "root", "root (sudo anna)".
std::string calling_user();
std::int64_t now_ms();

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

}  // namespace partita::cli
