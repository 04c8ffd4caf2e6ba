// What the environment says: PARTITA_REMOTE (address of the server), PARTITA_REMOTE_TOKEN,
// PARTITA_REMOTE_SHAPE, PARTITA_REMOTE_CHECK ("memory", "races", "barriers", several with commas,
// or "1" for all), PARTITA_REMOTE_FAULTS (a file that is made when a kernel did something wrong;
// with .unnoticed behind its name, when a launch failed and the program did not ask for its error),
// PARTITA_REMOTE_STATS (file), PARTITA_REMOTE_TIMEOUT_MS.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace partita::remote::client {

struct Settings {
  std::string address, token, shape, stats_file, fault_file;
  std::uint32_t flags = 0;  // HelloFlags
  std::chrono::milliseconds timeout{30000};
};

Settings read_settings();

}  // namespace partita::remote::client
