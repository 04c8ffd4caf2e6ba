#include "act/gateway_peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/form_rules.h"
#include "base/url.h"

namespace partita::actuate {
namespace {

void describe(Form& f, PeerShare& share) {
  f.name("service", share.service, "its name");
  f.number("share", share.share, {.high = 1}, "of its requests that should go there");
}

void check_address(Fields& in, const char* key, const std::string& address) {
  if (address.empty()) return;
  const auto url = parse_url(key, "http://" + address);
  if (!url || !url->path.empty()) in.refuse(key, fmt::format("'{}' is no HOST:PORT", address));
}

void describe(Form& f, GatewayPeer& peer) {
  f.name("node", peer.node, "its name");
  f.optional(!peer.http.empty()).text("http", peer.http, "HOST:PORT of its gateway");
  f.optional(!peer.grpc.empty()).text("grpc", peer.grpc, "the same for gRPC");
  f.list(
      "carries", peer.carries, [](Form& g, PeerShare& one) { describe(g, one); }, {},
      "services that get some of their requests there");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  check_address(*in, "http", peer.http);
  check_address(*in, "grpc", peer.grpc);
  refuse_twice(*in, "carries", peer.carries, &PeerShare::service, "service");
}

void describe(Form& f, GatewayPeers& peers) {
  f.lines("  ");
  f.document("GatewayPeers");
  f.name("node", peers.node, "whose file it is");
  f.list(
      "peers", peers.peers, [](Form& g, GatewayPeer& one) { describe(g, one); }, {.indent = "    "},
      "gateways of other nodes that carry something");
  f.optional(!peers.wanted.empty())
      .names("wanted", peers.wanted, {}, "services of the fleet, whoever carries them now");
  Fields* const in = f.reading();
  if (!in || in->error()) return;
  if (peers.peers.size() > kMostPeers)
    in->refuse("peers", fmt::format("more than {} nodes", kMostPeers));
  std::set<std::string> nodes{peers.node};
  for (const GatewayPeer& one : peers.peers)
    if (!nodes.insert(one.node).second)
      in->refuse("peers",
                 fmt::format("node '{}' is listed twice, or is the node itself", one.node));
  std::ranges::sort(peers.peers, {}, &GatewayPeer::node);
  std::ranges::sort(peers.wanted);
}

}  // namespace

std::string peers_path(const std::string& state_dir) { return state_dir + "/peers.json"; }

std::string peers_json(const GatewayPeers& peers) {
  return write_form(peers, static_cast<void (*)(Form&, GatewayPeers&)>(describe));
}

Result<GatewayPeers> parse_peers(const std::string& file, std::string_view text) {
  return read_form<GatewayPeers>(file, text, static_cast<void (*)(Form&, GatewayPeers&)>(describe));
}

DocumentKind peers_kind() {
  return document_kind<GatewayPeers, describe, "GatewayPeers",
                       "gateways of other nodes, to which requests may be handed over">();
}

}  // namespace partita::actuate
