#include "fleet/brain/peers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace partita::fleet {
namespace {

// No node's name.
constexpr const char* kNobody = "*";

using Peers = std::map<std::string, actuate::GatewayPeer>;

void carries(Peers& peers, const actuate::GatewayPeer& peer, const actuate::PeerShare& share) {
  actuate::GatewayPeer& is =
      peers.try_emplace(peer.node, actuate::GatewayPeer{peer.node, peer.http, peer.grpc, {}})
          .first->second;
  if (std::ranges::count(is.carries, share.service, &actuate::PeerShare::service) == 0)
    is.carries.push_back(share);
}

// To a digit that says more than any gateway can do, so that roundings are no news.
double of_power_of_two(const ServicePiece& piece, const ServiceStatus& service) {
  if (service.shared_rps <= 0) return 0;
  const double rate = piece.share * service.shared_rps;
  return std::round(1e9 * rate / std::exp2(std::ceil(std::log2(service.shared_rps)))) / 1e9;
}

actuate::GatewayPeers told(const std::string& node, std::vector<std::string> wanted,
                           const Peers& peers) {
  actuate::GatewayPeers all{.node = node, .wanted = std::move(wanted)};
  for (const auto& [name, peer] : peers) all.peers.push_back(peer);
  return all;
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
  return told(node, std::move(wanted), peers);
}

NodePeers node_peers(FleetStatus status, const NodePeers& before) {
  actuate::GatewayPeers were{.node = kNobody};
  for (const auto& [node, its] : before)
    were.peers.insert(were.peers.end(), its.peers.begin(), its.peers.end());
  for (ServiceStatus& service : status.services)
    for (ServicePiece& piece : service.on) piece.share = of_power_of_two(piece, service);
  NodePeers all;
  for (actuate::GatewayPeer& peer : peers_of(status, kNobody, were).peers)
    all[peer.node] = {.node = kNobody, .peers = {peer}};
  return all;
}

actuate::GatewayPeers peers_of(const NodePeers& all, const std::vector<std::string>& wanted,
                               const std::string& node, const actuate::GatewayPeers& before) {
  std::map<std::string, double> sums;
  for (const auto& [name, its] : all)
    for (const actuate::GatewayPeer& peer : its.peers)
      for (const actuate::PeerShare& share : peer.carries) sums[share.service] += share.share;
  Peers peers;
  for (const auto& [name, its] : all)
    for (const actuate::GatewayPeer& peer : its.peers)
      for (const actuate::PeerShare& share : peer.carries)
        if (peer.node != node && std::ranges::count(wanted, share.service) > 0)
          carries(peers, peer, {share.service, share.share / sums[share.service]});
  for (const actuate::GatewayPeer& was : before.peers)
    for (const actuate::PeerShare& share : was.carries)
      if (!sums.contains(share.service) && std::ranges::count(wanted, share.service) > 0)
        carries(peers, was, share);
  return told(node, wanted, peers);
}

}  // namespace partita::fleet
