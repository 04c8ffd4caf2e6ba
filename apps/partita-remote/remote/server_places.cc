#include "remote/server_places.h"

#include "base/processes.h"
#include "places.h"

namespace partita::cli {

std::string default_remote_address() {
  const std::string said = environment_variable("PARTITA_REMOTE");
  return said.empty() ? "unix:" + default_runtime_directory() + "/remote.sock" : said;
}

std::string remote_state_directory(const std::string& flag) {
  return flag.empty() ? state_home() + "/remote" : flag;
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
