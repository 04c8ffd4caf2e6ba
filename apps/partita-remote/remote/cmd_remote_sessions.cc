// partita remote sessions, partita remote stop: what servers of this machine are doing.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstring>

#include "base/processes.h"
#include "flags.h"
#include "remote/remote_commands.h"
#include "remote/server_places.h"

namespace partita::cli {
namespace {

using remote::server::ServerState;
using remote::server::SessionEntry;

// "4711.3": the third session of the server with pid 4711.
std::string id_of(const ServerState& server, const SessionEntry& session) {
  return fmt::format("{}.{}", server.pid, session.session);
}

std::string sessions_text(const std::vector<ServerState>& servers) {
  std::string text;
  for (const ServerState& server : servers) {
    text += fmt::format("{} ({}): {} of {} parts in use, {} clients wait\n", server.address,
                        server.backend, server.sessions.size(), server.parts, server.waiting);
    for (const SessionEntry& s : server.sessions)
      text += fmt::format("  {}  {}  {} (pid {}, {})  {} launches, {} MiB, {} refused\n",
                          id_of(server, s), s.part, s.program.empty() ? "-" : s.program,
                          s.client_pid, s.address, s.launches, s.memory >> 20, s.refused);
  }
  return text.empty() ? "no server runs\n" : text;
}

std::string sessions_json(const std::vector<ServerState>& servers) {
  std::string text = "[";
  for (const ServerState& server : servers) {
    if (text.size() > 1) text += ",";
    text += "\n" + remote::server::server_state_json(server);
    if (text.back() == '\n') text.pop_back();
  }
  return text + "]\n";
}

Result<Exit> stop_session(Context& context, const std::string& directory, const std::string& id) {
  struct Found {
    std::string id;
    SessionEntry session;
  };
  std::vector<Found> found;
  for (const ServerState& server : living_servers(context.files, directory)) {
    for (const SessionEntry& session : server.sessions) {
      const std::string full = id_of(server, session);
      if (full == id || std::to_string(session.session) == id) found.push_back({full, session});
    }
  }
  if (found.empty())
    return bad_input(id, "there is no such session; see `partita remote sessions`");
  if (found.size() > 1)
    return bad_input(
        id, fmt::format("several servers have one; say {} or {}", found[0].id, found[1].id));
  const SessionEntry& session = found.front().session;
  RealProcesses processes;
  if (session.worker_pid <= 0)
    return bad_input(id, "the session shares its process with others: end its program");
  if (processes.identity(session.worker_pid) != session.worker_identity)
    return bad_input(id, "the session has ended");
  if (::kill(static_cast<pid_t>(session.worker_pid), SIGTERM) != 0)
    return environment_error(id, fmt::format("cannot be stopped: {}", std::strerror(errno)));
  say(context, fmt::format("session {} of {} is being stopped\n", found.front().id,
                           session.program.empty() ? "a program" : session.program));
  return Exit::done;
}

void add_state_directory(CLI::App& command, std::string& directory) {
  flag(command, "--state-dir", directory);
}

}  // namespace

Command add_remote_sessions(CLI::App& remote) {
  struct Flags {
    Output output;
    std::string directory;
  };
  auto [command, flags] =
      adding<Flags>(remote, "sessions", "List the sessions of this machine's servers");
  add_state_directory(*command, flags->directory);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita remote sessions --format json");
  return {command, [flags](Context& context) -> Result<Exit> {
            const auto servers =
                living_servers(context.files, remote_state_directory(flags->directory));
            const std::string text =
                flags->output.json() ? sessions_json(servers) : sessions_text(servers);
            return finish(context, flags->output, text);
          }};
}

Command add_remote_stop(CLI::App& remote) {
  struct Flags {
    std::string directory, id;
  };
  auto [command, flags] = adding<Flags>(remote, "stop", "End a session");
  command->add_option("ID", flags->id, "As `remote sessions` shows it")->required();
  add_state_directory(*command, flags->directory);
  command->footer("partita remote stop 4711.3");
  return {command, [flags](Context& context) {
            return stop_session(context, remote_state_directory(flags->directory), flags->id);
          }};
}

}  // namespace partita::cli
