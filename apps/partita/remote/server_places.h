// Where servers of remote execution listen by default, and where they say what they do.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "remote/server/server_state.h"

namespace partita::cli {

// Its value, empty where it is not set.
std::string environment_variable(const char* name);

// $PARTITA_REMOTE, else a socket in /run/partita (root) or $XDG_RUNTIME_DIR/partita, else in
// /tmp/partita-UID.
std::string default_remote_address();
// `flag`, else /var/lib/partita/remote (root), $XDG_STATE_HOME/partita/remote or
// ~/.local/state/partita/remote.
std::string remote_state_directory(const std::string& flag);

// The state files of servers that live, sorted by pid; those of dead ones are removed.
std::vector<remote::server::ServerState> living_servers(Files& files, const std::string& directory);

}  // namespace partita::cli
