// What a server says of itself in its state file, for `partita remote sessions`, and as metrics.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::remote::server {

// A session as the state file has it.
struct SessionEntry {
  std::uint64_t session = 0;
  std::string part = {}, shape = {}, program = {}, address = {};
  std::uint64_t client_pid = 0;
  long worker_pid = 0;
  std::string worker_identity = {};  // of Processes
  long begun_s = 0;                  // of the wall clock
  std::uint64_t operations = 0, launches = 0, refused = 0, bytes_in = 0, bytes_out = 0, memory = 0;
  bool operator==(const SessionEntry&) const = default;
};
struct ServerState {
  long pid = 0;
  std::string identity = {}, address = {}, backend = {};
  int parts = 0, ready = 0, waiting = 0;
  std::vector<SessionEntry> sessions = {};
  bool operator==(const ServerState&) const = default;
};

// Sums over sessions that ended.
struct ServerTotals {
  std::uint64_t sessions = 0, denied = 0, bad_hellos = 0;
  std::uint64_t operations = 0, launches = 0, refused = 0, bytes_in = 0, bytes_out = 0;
};

std::string server_state_json(const ServerState& state);
Result<ServerState> parse_server_state(const std::string& file, std::string_view text);
// Prometheus' text.
std::string server_metrics(const ServerState& state, const ServerTotals& ended);

}  // namespace partita::remote::server
