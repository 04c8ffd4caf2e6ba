#include "remote/server_places.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/processes.h"

namespace partita::cli {

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}
std::string default_remote_address() {
  if (const std::string said = environment_variable("PARTITA_REMOTE"); !said.empty()) return said;
  if (::getuid() == 0) return "unix:/run/partita/remote.sock";
  if (const std::string run = environment_variable("XDG_RUNTIME_DIR"); !run.empty())
    return "unix:" + run + "/partita/remote.sock";
  return fmt::format("unix:/tmp/partita-{}/remote.sock", ::getuid());
}

std::string remote_state_directory(const std::string& flag) {
  if (!flag.empty()) return flag;
  if (::getuid() == 0) return "/var/lib/partita/remote";
  if (const std::string home = environment_variable("XDG_STATE_HOME"); !home.empty())
    return home + "/partita/remote";
  return environment_variable("HOME") + "/.local/state/partita/remote";
}

std::vector<remote::server::ServerState> living_servers(Files& files,
                                                        const std::string& directory) {
  std::vector<remote::server::ServerState> servers;
  const auto names = files.list(directory);
  if (!names) return servers;
  RealProcesses processes;
  for (const std::string& name : *names) {
    if (!name.starts_with("server-") || !name.ends_with(".json")) continue;
    const std::string path = directory + "/" + name;
    const auto text = files.read(path);
    if (!text) continue;
    auto state = remote::server::parse_server_state(path, *text);
    if (!state) continue;
    if (processes.identity(state->pid) == state->identity)
      servers.push_back(*std::move(state));
    else
      static_cast<void>(files.remove(path));
  }
  return servers;
}

}  // namespace partita::cli
