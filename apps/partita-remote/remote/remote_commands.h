// The commands of partita-remote, and where servers listen and say what they do.
#pragma once

#include "command.h"
#include "server/server_state.h"

namespace partita::cli {

inline constexpr int kMostDevices = 16;  // that a program sees

Command add_remote(CLI::App& app);
Command add_ptx(CLI::App& app);
Command add_remote_serve(CLI::App& remote);

// Where servers of remote execution listen by default, and where they say what they do.

// $PARTITA_REMOTE, else a socket in the runtime directory.
std::string default_remote_address();
// `flag`, else "remote" in the state home.
std::string remote_state_directory(const std::string& flag);

// What a server says of a file of kernels' times.
inline constexpr const char* kTimesNotWritten = "the times of kernels cannot be written";

// Refuses a file that what runs from now on could not write; makes none.
Result<void> check_writable(const std::string& path);

// The state files of servers that live, sorted by pid; those of dead ones are removed.
std::vector<remote::server::ServerState> living_servers(Files& files, const std::string& directory);

}  // namespace partita::cli
