#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/append.h"
#include "base/secret_file.h"
#include "flags.h"
#include "places.h"
#include "server/remote.h"
#include "verbs.h"

namespace partita::cli {
namespace {

struct ServerFlags {
  std::string url, token_file, ca_file, certificate, key;
};

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
    {"status", remote_status}, {"top", remote_top},         {"plan", remote_plan},
    {"verify", remote_verify}, {"apply", remote_apply},     {"drain", remote_drain},
    {"agent", remote_agent},   {"batch run", remote_batch_run}};

// What an agent is told by the command that shows it.
struct AgentTold {
  std::string approve, reject, why, mode, give_back;
  bool replan = false;
};
constexpr const char* kTold[] = {"--approve",    "--reject",   "--why",
                                 "--replan-now", "--set-mode", "--give-back"};

void add_agent_told(CLI::App& agent) {
  auto told = std::make_shared<AgentTold>();
  flag(agent, "--approve", told->approve);
  flag(agent, "--reject", told->reject);
  flag(agent, "--why", told->why);
  flag(agent, "--replan-now", told->replan);
  one_of(flag(agent, "--set-mode", told->mode), {"automatic", "approve", "observe"});
  flag(agent, "--give-back", told->give_back);
  agent.footer(agent.get_footer() +
               "\npartita --server unix:/run/partita/api.sock agent --approve 7");
  agent.callback([told] {});  // keeps them
}

Result<std::string> token_of(Context& context, const ServerFlags& flags) {
  if (flags.token_file.empty()) return environment_variable("PARTITA_TOKEN");
  TRY(check_secret_file(flags.token_file));
  const auto text = TRY(context.files.read(flags.token_file));
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return bad_input(flags.token_file, "there is no token in it");
  return text.substr(0, end + 1);
}

Result<Exit> run_remotely(Context& context, const ServerFlags& flags, const Command& command) {
  const auto& [called_command, name] = called(*command.app);
  const auto* const found = std::ranges::find(kRemote, name, &RemoteCommand::name);
  const api::Operation* alone = operation_of(name);
  if (found == std::end(kRemote) && alone == nullptr && !command.remote) {
    std::vector<std::string> names;
    for (const RemoteCommand& one : kRemote) names.push_back(said_now(one.name));
    for (const char* one : {"history", "explain", "diff", "lease", "return", "leases", "queue"})
      names.push_back(said_now(one));
    for (const api::Operation& one : api::operations())
      if (!one.command.words.empty()) names.push_back(said_now(one.command.words));
    return bad_input("--server", fmt::format("'{}' is done on this machine; with a server go {}",
                                             said_now(name), joined(names, ", ")));
  }
  const auto place = TRY(api::parse_server_place("--server", flags.url));
  const auto token = TRY(token_of(context, flags));
  const auto client = TRY(api::Client::to(place,
                                          {.token = token,
                                           .ca_file = flags.ca_file,
                                           .certificate = flags.certificate,
                                           .key = flags.key},
                                          context.clock));
  if (command.remote) return command.remote(context, client);
  const Remote remote{context, client, Said(*called_command)};
  return alone != nullptr ? remote_operation(remote, *alone) : found->run(remote);
}

}  // namespace

std::vector<Command> with_server(CLI::App& app, std::vector<Command> commands) {
  auto flags = std::make_shared<ServerFlags>();
  const CLI::Option* server = flag(app, "--server", flags->url);
  flag(app, "--token-file", flags->token_file);
  flag(app, "--server-ca", flags->ca_file);
  flag(app, "--client-certificate", flags->certificate);
  flag(app, "--client-key", flags->key);
  for (Command& command : commands) {
    // What a command needs here, the agent knows there.
    if (std::ranges::count(kRemote, command.app->get_name(), &RemoteCommand::name) > 0)
      command.app->preparse_callback([server, own = command.app](std::size_t) {
        if (server->count() == 0) return;
        for (CLI::Option* option : own->get_options()) option->required(false);
      });
    if (command.app->get_name() == "agent") add_agent_told(*command.app);
    command.run = [flags, own = command](Context& context) -> Result<Exit> {
      if (!flags->url.empty()) return run_remotely(context, *flags, own);
      for (const char* flag : kTold)
        if (own.app->get_name() == "agent" && own.app->count(flag) > 0)
          return bad_input(flag, "a running agent is told so with --server URL");
      return own.run(context);
    };
  }
  return commands;
}

}  // namespace partita::cli
