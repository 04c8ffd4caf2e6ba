#include "client/settings.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "wire/operations.h"

namespace partita::remote::client {
namespace {

std::string_view environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Settings read_settings() {
  Settings settings{.address = std::string(environment_value("PARTITA_REMOTE")),
                    .token = std::string(environment_value("PARTITA_REMOTE_TOKEN")),
                    .shape = std::string(environment_value("PARTITA_REMOTE_SHAPE")),
                    .stats_file = std::string(environment_value("PARTITA_REMOTE_STATS")),
                    .fault_file = std::string(environment_value("PARTITA_REMOTE_FAULTS"))};
  const std::string_view check = environment_value("PARTITA_REMOTE_CHECK");
  const auto asked = [check](std::string_view word) {
    return check == "1" || check == "all" || check.find(word) != check.npos;
  };
  if (asked("memory")) settings.flags |= kCheckMemory;
  if (asked("races")) settings.flags |= kCheckRaces;
  if (asked("barriers")) settings.flags |= kCheckBarriers;
  const std::string_view timeout = environment_value("PARTITA_REMOTE_TIMEOUT_MS");
  int ms = 0;
  std::from_chars(timeout.data(), timeout.data() + timeout.size(), ms);
  if (ms > 0) settings.timeout = std::chrono::milliseconds(ms);
  return settings;
}

}  // namespace partita::remote::client
