#include "client/stats.h"

namespace partita::remote::client {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(Cause::end)> kNames = {
    "session",    "module", "attributes", "symbol", "copy_out",    "stream_sync", "device_sync",
    "event_sync", "query",  "elapsed",    "graph",  "free_memory", "managed",
    "sharing",    "library", "texture"};

}  // namespace

std::string stats_json(const Stats& stats, std::uint64_t bytes_up, std::uint64_t bytes_down) {
  std::uint64_t all = 0;
  std::string causes;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const std::uint64_t count = stats.blocking[i];
    all += count;
    if (count == 0) continue;
    causes +=
        (causes.empty() ? "\"" : ", \"") + std::string(kNames[i]) + "\": " + std::to_string(count);
  }
  return "{\n  \"kind\": \"RemoteStats\",\n  \"calls\": " + std::to_string(stats.calls) +
         ",\n  \"blocking_round_trips\": " + std::to_string(all) + ",\n  \"blocking_by_cause\": {" +
         causes + "},\n  \"bytes_up\": " + std::to_string(bytes_up) +
         ",\n  \"bytes_down\": " + std::to_string(bytes_down) +
         ",\n  \"kernels\": " + std::to_string(stats.kernels) + "\n}\n";
}

}  // namespace partita::remote::client
