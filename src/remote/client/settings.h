// What the environment says: PARTITA_REMOTE (address of the server), PARTITA_REMOTE_TOKEN,
// PARTITA_REMOTE_SHAPE, PARTITA_REMOTE_CHECK ("memory", "races", both with a comma, or "1" for
// memory and races), PARTITA_REMOTE_STATS (file), PARTITA_REMOTE_TIMEOUT_MS.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace partita::remote::client {

struct Settings {
  std::string address, token, shape, stats_file;
  std::uint32_t flags = 0;  // HelloFlags
  std::chrono::milliseconds timeout{30000};
};

Settings read_settings();

}  // namespace partita::remote::client
