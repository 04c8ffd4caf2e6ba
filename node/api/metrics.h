// What a scrape of Prometheus sees of an agent. Names and labels: docs/api.md. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "control/snapshot.h"
#include "fleet/brain/status.h"

namespace partita::api {

// What the server itself has seen since it began.
struct ServerCounts {
  std::size_t connections = 0, streams = 0;
  std::array<std::uint64_t, 6> answers = {};  // by hundreds of their status
  std::uint64_t refused = 0;                  // calls: no token, a lower role, another site
  std::uint64_t limited = 0;                  // calls: too many
};

// What its fleet is like, by a status; null: this node does not follow all of it. `silent_s`: since
// the store answered last. `stale`: for so long that nothing is known of it any more.
std::string fleet_metrics(const fleet::FleetStatus* is, double silent_s, bool stale);
std::string agent_metrics(const control::Snapshot& snapshot, const ServerCounts& counts);

}  // namespace partita::api
