// Counts of one process, for `partita remote run --stats`.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace partita::remote::client {

// Why somebody waited for the server.
enum class Cause : std::uint8_t {
  session,
  module,
  attributes,
  symbol,
  copy_out,
  stream_sync,
  device_sync,
  event_sync,
  query,
  elapsed,
  graph,
  free_memory,
  managed,
  sharing,
  library,
  texture,
  end
};

struct Stats {
  std::atomic<std::uint64_t> calls = 0, kernels = 0;
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Cause::end)> blocking = {};
};

// The document `kind: RemoteStats`.
std::string stats_json(const Stats& stats, std::uint64_t bytes_up, std::uint64_t bytes_down);

}  // namespace partita::remote::client
