#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>

#include "actuate/change_forms.h"
#include "api/client.h"
#include "api/documents.h"
#include "base/table.h"
#include "control/snapshot.h"
#include "device/node_forms.h"
#include "flags.h"
#include "forms/serving_forms.h"
#include "history/event.h"
#include "history/text.h"
#include "past/past.h"
#include "places.h"

namespace partita::cli {
namespace {

using api::CallId;

struct ServerFlags {
  std::string url, token_file, ca_file, certificate, key;
};

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
  std::vector<std::string> all(const std::string& flag) const {
    const CLI::Option* option = command_.get_option_no_throw(flag);
    return option == nullptr ? std::vector<std::string>() : option->results();
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
    if (auto written = deliver(context, output, output.format == "json" ? document : text);
        !written)
      return failed(written.error());
    return Exit::done;
  }
  // What the server says it will do.
  Result<Exit> ask(CallId id, const std::string& part = {}, const std::string& body = {}) const {
    const auto answer = client.call(id, part, body);
    if (!answer) return failed(answer.error());
    const auto receipt = api::parse_receipt("the server's answer", *answer);
    if (!receipt) return failed(receipt.error());
    const std::string change =
        receipt->change > 0 ? fmt::format(" (change {})", receipt->change) : std::string();
    return show(*answer, receipt->sentence + change + "\n");
  }
};

Result<Exit> remote_status(const Remote& remote) {
  const auto answer = remote.client.call(CallId::node);
  if (!answer) return failed(answer.error());
  const auto state = device::parse_state("the server's answer", *answer);
  if (!state) return failed(state.error());
  return remote.show(
      *answer,
      device::state_text(state->state, state->occupants, hw::builtin_catalogue(),
                         {.colour = remote.context.colour, .width = remote.context.width}));
}

// A document AgentChange in a few lines.
Result<std::string> change_text_of(const Context& context, const std::string& text) {
  const auto document = parse_document("the server's answer", text);
  if (!document) return failed(document.error());
  Fields fields(*document);
  std::string out = fmt::format("change {}: {}\n{}\n", fields.whole("number", {}),
                                fields.text("state"), fields.note("cause"));
  if (const std::string error = fields.note("error"); !error.empty()) out += error + "\n";
  for (const std::string& line : fields.texts("explanation")) out += line + "\n";
  if (fields.error()) return failed(*fields.error());
  if (const Node* plan = document->root.find("plan")) {
    const auto read = forms::read_plan({document->file, *plan});
    if (read)
      out += "\n" + forms::plan_text(*read, hw::builtin_catalogue(),
                                     {.colour = context.colour, .width = context.width});
  }
  return out;
}

Result<Exit> remote_preview(const Remote& remote, const std::string& services) {
  const auto answer = remote.client.call(CallId::preview, "", services);
  if (!answer) return failed(answer.error());
  const auto text = change_text_of(remote.context, *answer);
  if (!text) return failed(text.error());
  return remote.show(*answer, *text);
}

// The plan in force, or what would be planned for other services.
Result<Exit> remote_plan(const Remote& remote) {
  if (const std::string file = remote.said.text("--services"); !file.empty()) {
    const auto services = remote.context.files.read(file);
    if (!services) return failed(services.error());
    return remote_preview(remote, *services);
  }
  const auto answer = remote.client.call(CallId::plan);
  if (!answer) return failed(answer.error());
  const auto plan = forms::parse_plan("the server's answer", *answer);
  if (!plan) return failed(plan.error());
  return remote.show(*answer, forms::plan_text(*plan, hw::builtin_catalogue(),
                                               {.colour = remote.context.colour,
                                                .explain = remote.said.given("--explain"),
                                                .width = remote.context.width}));
}

Result<Exit> remote_apply(const Remote& remote) {
  if (remote.said.given("--rollback")) return remote.ask(CallId::rollback);
  std::vector<std::string> files = remote.said.positionals();
  if (files.empty()) files.push_back(remote.said.text("--services"));
  if (files.front().empty())
    return bad_input("PLAN", "an agent is given a services file: partita --server URL apply FILE");
  const auto text = remote.context.files.read(files.front());
  if (!text) return failed(text.error());
  if (const auto document = parse_document(files.front(), *text)) {
    const Node* kind = document->root.find("kind");
    if (kind != nullptr && kind->text != "Services")
      return bad_input(files.front(),
                       fmt::format("this is a {}; an agent plans itself and is given a services "
                                   "file, since it would change another plan at its next look",
                                   kind->text));
  }
  if (remote.said.given("--dry-run")) return remote_preview(remote, *text);
  return remote.ask(CallId::set_services, "", *text);
}

Result<Exit> remote_rollback(const Remote& remote) {
  if (remote.said.given("--dry-run"))
    return bad_input("--dry-run", "an agent cannot show a rollback before it is done");
  return remote.ask(CallId::rollback);
}

// GPUs by UUID or index; single MIG devices are the agent's own business.
Result<Exit> remote_drain(const Remote& remote) {
  const std::vector<std::string> words = remote.said.positionals();
  const auto answer = remote.client.call(CallId::node);
  if (!answer) return failed(answer.error());
  const auto node = device::parse_state("the server's answer", *answer);
  if (!node) return failed(node.error());
  if (words.empty()) return bad_input("DEVICE", "name the GPUs to take out");
  for (const std::string& word : words) {
    const auto gpu = std::ranges::find_if(node->state.gpus, [&](const device::GpuState& one) {
      return word == one.uuid || word == std::to_string(one.index);
    });
    if (gpu == node->state.gpus.end())
      return bad_input("DEVICE", fmt::format("the server's node has no GPU '{}'; an agent takes "
                                             "out whole GPUs, by UUID or index",
                                             word));
    const auto done = remote.ask(CallId::take_out, gpu->uuid, R"({"why": "partita drain"})");
    if (!done) return done;
  }
  return Exit::done;
}

Result<std::vector<history::Event>> events_of(const Remote& remote, const std::string& query) {
  const auto answer = remote.client.call(CallId::history, "", "", query);
  if (!answer) return failed(answer.error());
  return history::parse_history("the server's answer", *answer);
}

Result<Exit> remote_history(const Remote& remote) {
  for (const char* flag : {"--follow", "--file"})
    if (remote.said.given(flag))
      return bad_input(flag, "not with --server; GET /v1/events follows an agent");
  if (remote.said.all("--kind").size() > 1)
    return bad_input("--kind", "one kind at a time with --server");
  const bool json = remote.said.output().format == "json";
  std::string query = json ? "documents=true" : "documents=false";
  for (const auto& [flag, name] :
       {std::pair("--most", "most"), std::pair("--change", "change"), std::pair("--kind", "kind"),
        std::pair("--service", "subject"), std::pair("--user", "user")})
    if (remote.said.given(flag))
      query += fmt::format("&{}={}", name, api::percent_encoded(remote.said.text(flag)));
  if (remote.said.given("--since")) {
    const auto since = parse_duration("--since", remote.said.text("--since"));
    if (!since) return failed(since.error());
    query += fmt::format("&from_ms={:.0f}",
                         static_cast<double>(std::time(nullptr)) * 1e3 - since->value * 1e3);
  }
  auto events = events_of(remote, query);
  if (!events) return failed(events.error());
  const std::string document = history::history_json(*events);
  // As at the node: steps only of what is asked for.
  if (!remote.said.given("--steps") && !remote.said.given("--kind") &&
      !remote.said.given("--change"))
    std::erase_if(*events, [](const history::Event& event) {
      return event.kind == history::EventKind::step;
    });
  return remote.show(document, history::events_text(*events, local_time));
}

Result<Exit> remote_explain(const Remote& remote) {
  const std::vector<std::string> words = remote.said.positionals();
  std::string number = words.empty() ? std::string() : words.front();
  if (number.empty()) {
    const auto newest = events_of(remote, "documents=false");
    if (!newest) return failed(newest.error());
    const auto of_change =
        std::ranges::find_if(*newest, [](const history::Event& event) { return event.change > 0; });
    if (of_change == newest->end()) return bad_input("CHANGE", "no change has been kept yet");
    number = std::to_string(of_change->change);
  }
  const auto events =
      events_of(remote, fmt::format("change={}&most=1000", api::percent_encoded(number)));
  if (!events) return failed(events.error());
  if (events->empty())
    return bad_input("CHANGE", fmt::format("nothing is kept of a change {}", number));
  return remote.show(history::history_json(*events),
                     history::change_story(*events, {}, local_time));
}

// The tasks of batches that are not over; the rest in numbers.
std::string batch_text(const control::BatchNow& batch) {
  if (batch.waiting + batch.running + batch.done + batch.failed == 0) return {};
  std::string text = fmt::format("batches: {} tasks wait, {} run, {} are done, {} failed\n",
                                 batch.waiting, batch.running, batch.done, batch.failed);
  Table table{{"BATCH", "TASK", "STATE", "GPU", "INSTANCE", "BEGIN", "END", ""}, {}};
  for (const control::BatchTask& one : batch.tasks)
    table.rows.push_back({std::to_string(one.batch), one.name, control::to_string(one.state),
                          one.gpu_uuid,
                          one.profile.empty() ? "" : fmt::format("{}@{}", one.profile, one.start),
                          one.begin_ms > 0 ? local_time(one.begin_ms) : "",
                          one.end_ms > 0 ? local_time(one.end_ms) : "", one.reason});
  return table.rows.empty() ? text : text + to_string(table);
}

Result<Exit> remote_agent(const Remote& remote) {
  const auto answer = remote.client.call(CallId::state);
  if (!answer) return failed(answer.error());
  const auto state = control::parse_snapshot("the server's answer", *answer);
  if (!state) return failed(state.error());
  std::string text = fmt::format("{} ({}), {}: {}\n", state->node, local_time(state->time_ms),
                                 control::to_string(state->mode), state->doing);
  if (state->current)
    text += fmt::format("change {} is {}: {}\n", state->current->number,
                        control::to_string(state->current->state), state->current->cause);
  Table table{{"SERVICE", "RATE", "FORECAST", "PLANNED", "CAPACITY", "SLO", "P99", "IN SLO", ""},
              {}};
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4g}", *value) : std::string("-");
  };
  for (const control::ServiceNow& one : state->services)
    table.rows.push_back({one.name, number(one.rate_rps), number(one.forecast_rps),
                          number(one.planned_rps), number(one.capacity_rps),
                          fmt::format("{:.4g} ms", one.slo_ms), number(one.p99_ms),
                          one.attainment ? fmt::format("{:.2f} %", 100 * *one.attainment) : "-",
                          one.at_risk ? "at risk: " + one.why : ""});
  if (!table.rows.empty()) text += to_string(table);
  text += batch_text(state->batch);
  for (const std::string& notice : state->notices) text += notice + "\n";
  return remote.show(*answer, text);
}

// A batch beside the agent's services. How it is carried out is the agent's policy.
Result<Exit> remote_batch_run(const Remote& remote) {
  if (!remote.said.positionals().empty())
    return bad_input("SCHEDULE", "an agent schedules tasks itself: hand in --tasks FILE alone");
  for (const char* flag :
       {"--scheduler", "--seed", "--budget", "--gpu", "--command", "--retries", "--timeout",
        "--grace", "--patience", "--keep", "--simulate", "--resume", "--state-dir", "--log-dir"})
    if (remote.said.given(flag))
      return bad_input(flag,
                       "not with --server: policy.batch of the agent's settings says how "
                       "batches are carried out, and each task has its own command");
  const std::string file = remote.said.text("--tasks");
  if (file.empty()) return bad_input("--tasks", "is required: a tasks file");
  const auto text = remote.context.files.read(file);
  if (!text) return failed(text.error());
  return remote.ask(CallId::submit_tasks, "", *text);
}

// What was called of a group of commands: "batch run".
struct Called {
  const CLI::App* command = nullptr;
  std::string name;
};
Called called(const CLI::App& command) {
  Called found{&command, command.get_name()};
  for (auto parts = command.get_subcommands(); !parts.empty();
       parts = found.command->get_subcommands()) {
    found.command = parts.front();
    found.name += " " + found.command->get_name();
  }
  return found;
}

struct RemoteCommand {
  std::string_view name;
  Result<Exit> (*run)(const Remote&);
};
constexpr RemoteCommand kRemote[] = {
    {"status", remote_status},     {"plan", remote_plan},   {"apply", remote_apply},
    {"rollback", remote_rollback}, {"drain", remote_drain}, {"history", remote_history},
    {"explain", remote_explain},   {"agent", remote_agent}, {"batch run", remote_batch_run}};

Result<std::string> token_of(Context& context, const ServerFlags& flags) {
  if (flags.token_file.empty()) return environment_variable("PARTITA_TOKEN");
  const auto text = context.files.read(flags.token_file);
  if (!text) return failed(text.error());
  const std::size_t end = text->find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return bad_input(flags.token_file, "there is no token in it");
  return text->substr(0, end + 1);
}

Result<Exit> run_remotely(Context& context, const ServerFlags& flags, const CLI::App& command) {
  const auto& [called_command, name] = called(command);
  const auto* const found = std::ranges::find(kRemote, name, &RemoteCommand::name);
  if (found == std::end(kRemote)) {
    std::vector<std::string_view> names;
    for (const RemoteCommand& one : kRemote) names.push_back(one.name);
    return bad_input("--server", fmt::format("'{}' is done on this machine; with a server go {}",
                                             name, fmt::join(names, ", ")));
  }
  const auto place = api::parse_server_place("--server", flags.url);
  if (!place) return failed(place.error());
  const auto token = token_of(context, flags);
  if (!token) return failed(token.error());
  const auto client = api::Client::to(*place,
                                      {.token = *token,
                                       .ca_file = flags.ca_file,
                                       .certificate = flags.certificate,
                                       .key = flags.key},
                                      context.clock);
  if (!client) return failed(client.error());
  return found->run({context, *client, Said(*called_command)});
}

}  // namespace

std::vector<Command> with_server(CLI::App& app, std::vector<Command> commands) {
  auto flags = std::make_shared<ServerFlags>();
  const CLI::Option* server =
      app.add_option("--server", flags->url,
                     "Let the agent at URL do it, or say it: unix:/run/partita/api.sock, "
                     "http://HOST:PORT, https://HOST:PORT (docs/api.md)")
          ->type_name("URL");
  app.add_option("--token-file", flags->token_file,
                 "The token for --server; without it, the variable PARTITA_TOKEN")
      ->type_name("FILE");
  app.add_option("--server-ca", flags->ca_file,
                 "Certificates to trust for --server instead of the system's")
      ->type_name("FILE");
  app.add_option("--client-certificate", flags->certificate, "A certificate to show to --server")
      ->type_name("FILE");
  app.add_option("--client-key", flags->key, "The key of that certificate")->type_name("FILE");
  for (Command& command : commands) {
    // What a command needs here, the agent knows there.
    if (std::ranges::count(kRemote, command.app->get_name(), &RemoteCommand::name) > 0)
      command.app->preparse_callback([server, own = command.app](std::size_t) {
        if (server->count() == 0) return;
        for (CLI::Option* option : own->get_options()) option->required(false);
      });
    command.run = [flags, local = std::move(command.run), own = command.app](Context& context) {
      return flags->url.empty() ? local(context) : run_remotely(context, *flags, *own);
    };
  }
  return commands;
}

}  // namespace partita::cli
