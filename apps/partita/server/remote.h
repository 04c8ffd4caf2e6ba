// Commands as clients of an agent's API: what they share, and what each does there.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/client.h"
#include "base/document.h"
#include "context.h"
#include "control/snapshot.h"
#include "server/server.h"

namespace partita::cli {

// What a command was told, by the names of its flags: its own variables are its own business.
class Said {
 public:
  explicit Said(const CLI::App& command) : command_(command) {}
  std::string text(const std::string& flag) const {
    const CLI::Option* option = command_.get_option_no_throw(flag);
    return option == nullptr || option->count() == 0 ? std::string() : option->results().front();
  }
  bool given(const std::string& flag) const {
    const CLI::Option* option = command_.get_option_no_throw(flag);
    return option != nullptr && option->count() > 0;
  }
  std::vector<std::string> positionals() const {
    std::vector<std::string> all;
    for (const CLI::Option* option : command_.get_options())
      if (option->get_positional())
        for (const std::string& one : option->results()) all.push_back(one);
    return all;
  }
  Output output() const {
    Output output;
    output.file = text("--output") == "-" ? "" : text("--output");
    if (given("--format")) output.format = text("--format");
    return output;
  }

 private:
  const CLI::App& command_;
};

// One command on its way to a server.
struct Remote {
  Context& context;
  const api::Client& client;
  Said said;

  Result<Exit> show(const std::string& document, const std::string& text) const {
    const Output output = said.output();
    if (auto written = deliver(context, output, output.json() ? document : text); !written)
      return failed(written.error());
    return Exit::done;
  }
  // The picture of every state, until a signal, or so many (0: no end): on a terminal in place,
  // else one after another. Without a picture for a state nothing is drawn.
  using Picture = std::function<Result<std::string>(const control::Snapshot& state, int height)>;
  Result<Exit> watch(const Picture& picture, long most) const;
  // The answer to an operation of something that was named: not_found is bad_input here.
  Result<std::string> call(std::string_view operation, const std::string& part,
                           const std::string& body) const;
  // What the server says it will do.
  Result<Exit> ask(std::string_view operation, const std::string& part = {},
                   const std::string& body = {}) const;
};

// What is there: server_shows.cc.
Result<Exit> remote_status(const Remote& remote);
Result<Exit> remote_plan(const Remote& remote);
Result<Exit> remote_agent(const Remote& remote);
Result<Exit> remote_top(const Remote& remote);
// What is asked of it: server_asks.cc.
Result<Exit> remote_told(const Remote& remote);
bool is_document(const std::string& file, std::string_view text, std::string_view kind);
Result<Exit> remote_preview(const Remote& remote, const std::string& text);
Result<Exit> remote_apply(const Remote& remote);
Result<Exit> remote_verify(const Remote& remote);
Result<Exit> remote_drain(const Remote& remote);
std::string why_json(const std::string& why);  // a body Why; empty: none
// Batches: server_batch.cc.
std::string batch_text(const control::BatchNow& batch);
Result<Exit> remote_batch_run(const Remote& remote);
Result<std::string> batches_answer_text(const std::string& answer);
Result<std::string> batch_answer_text(const std::string& answer);
// One operation of the table as it is: server_operations.cc.
Result<Exit> remote_operation(const Remote& remote, const api::Operation& operation);

}  // namespace partita::cli
