// Desired: which services are wanted, by a file or a person, and how changes come about. The brain
// of that; it knows no node and no plan. Internal to control.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/report.h"
#include "control/world.h"
#include "forms/serving_forms.h"

namespace partita::control {

// A services file that an agent can follow: of the traces that it names it has those of lengths
// that were read when it began, and none of arrivals. `file` is what errors call it.
Result<forms::ServicesFile> wanted_services(const std::string& text,
                                            const decide::TokenTraces& known = {},
                                            const std::string& file = "services");
// Services with the lengths of the traces that they name; bad_input where one is not known.
Result<void> take_lengths(std::vector<plan::Service>& services, const decide::TokenTraces& known,
                          const std::string& file = "services");

// Of the services file that is wanted now.
struct DesiredNow {
  std::vector<plan::Service> services;  // by name
  int survive = 0;
  std::string key;  // of its text
  std::string who;  // "their file", or a user
};

class Desired {
 public:
  // `kept` is written here only, and outlives this.
  Desired(const World& world, DesiredKept& kept, Report& report);

  // Whether other services are wanted now than before. `fault`: why there is no text; empty: there
  // is no file.
  bool hear_file(const std::optional<std::string>& text, const std::string& fault = {});
  // bad_input with FILE:LINE; then nothing has changed.
  Reply set(const SetServices& request, const std::string& user);
  void set_mode(Mode mode, const std::string& user);
  // Changes wait for a person from now on.
  void ask_first() { kept_.mode = Mode::approve, kept_.mode_set = true; }

  // Why the file that was heard last is not taken; nothing: it is.
  const std::optional<Error>& refused_file() const { return refused_file_; }
  const DesiredNow& now() const { return now_; }
  // Somebody said so; else nobody has said anything yet.
  bool wants_none() const { return now_.services.empty() && kept_.services_by == kNobodys; }
  Mode mode() const { return kept_.mode; }

 private:
  static constexpr const char* kNobodys = "none any more";  // instead of who wanted them
  Reply set_none(const std::string& user);
  Result<void> check_file(const std::string& text) const;
  void load();
  void record(const std::string& user, const std::string& cause);

  const World& world_;
  DesiredKept& kept_;
  Report& report_;
  DesiredNow now_;
  std::optional<Error> refused_file_;
};

}  // namespace partita::control
