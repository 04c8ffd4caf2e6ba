#include "fleet/brain/peers.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace partita::fleet {
namespace {

using Peers = std::map<std::string, actuate::GatewayPeer>;

void carries(Peers& peers, const actuate::GatewayPeer& peer, const actuate::PeerShare& share) {
  actuate::GatewayPeer& is =
      peers.try_emplace(peer.node, actuate::GatewayPeer{peer.node, peer.http, peer.grpc, {}})
          .first->second;
  if (std::ranges::count(is.carries, share.service, &actuate::PeerShare::service) == 0)
    is.carries.push_back(share);
}

}  // namespace

actuate::GatewayPeers peers_of(const FleetStatus& status, const std::string& node,
                               const actuate::GatewayPeers& before) {
  if (status.services.empty() && !before.wanted.empty()) return before;
  std::map<std::string, const NodeStatus*> nodes;
  for (const NodeStatus& one : status.nodes)
    if (one.there && one.node != node && !(one.gateway.empty() && one.grpc.empty()))
      nodes[one.node] = &one;
  Peers peers;
  std::set<std::string> uncarried;
  std::vector<std::string> wanted;
  for (const ServiceStatus& service : status.services) {
    wanted.push_back(service.service);
    if (service.carried_rps <= 0) uncarried.insert(service.service);
    for (const ServicePiece& piece : service.on)
      if (const auto at = nodes.find(piece.node); at != nodes.end() && piece.share > 0)
        carries(peers, {piece.node, at->second->gateway, at->second->grpc, {}},
                {service.service, piece.share});
  }
  for (const actuate::GatewayPeer& was : before.peers)
    for (const actuate::PeerShare& share : was.carries)
      if (uncarried.contains(share.service)) carries(peers, was, share);
  actuate::GatewayPeers all{.node = node, .wanted = std::move(wanted)};
  for (auto& [name, peer] : peers) all.peers.push_back(std::move(peer));
  return all;
}

}  // namespace partita::fleet
