// What gateways of other nodes carry, and what the fleet wants: `peers.json` in the state directory
// of a node of a fleet, written whole and atomically by its agent when it is to be another, read by
// its gateway, which hands requests over by it. Pure, but for the path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "base/result.h"

namespace partita::actuate {

inline constexpr std::size_t kMostPeers = 10'000;

// Of a service's requests, what should go there.
struct PeerShare {
  std::string service;
  double share = 0;
  bool operator==(const PeerShare&) const = default;
};

struct GatewayPeer {
  std::string node;
  std::string http, grpc;               // HOST:PORT; empty: it does not listen so
  std::vector<PeerShare> carries = {};  // by service, those that get some
  bool operator==(const GatewayPeer&) const = default;
};

struct GatewayPeers {
  std::string node;                     // whose file it is
  std::vector<GatewayPeer> peers = {};  // by node, not itself; those that carry something
  std::vector<std::string> wanted = {};  // services of the fleet, whoever carries them now; by name
  bool operator==(const GatewayPeers&) const = default;
};

std::string peers_path(const std::string& state_dir);

// The document `kind: GatewayPeers`; parse_peers(peers_json(p)) == p. Refused with FILE:LINE: a
// node or a service twice, the node itself, addresses that are none.
std::string peers_json(const GatewayPeers& peers);
Result<GatewayPeers> parse_peers(const std::string& file, std::string_view text);
DocumentKind peers_kind();

}  // namespace partita::actuate
