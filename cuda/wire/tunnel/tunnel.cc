#include "wire/tunnel/tunnel.h"

#include "wire/net/tcp_net.h"

namespace partita::remote {
namespace {

constexpr Nanos kTunnelPatience = std::chrono::seconds(10);  // to connect, for the handshake

}  // namespace

Result<std::unique_ptr<Forwarder>> client_tunnel(Net& net, const std::string& local,
                                                 const std::string& server, const ClientTls& tls) {
  const auto where = TRY(parse_host_port(server.starts_with("tcp:") ? server.substr(4) : server));
  auto context = TRY(TlsContext::client(tls.ca_file, tls.name.empty() ? where.host : tls.name));
  auto listener = TRY(net.listen(local));
  auto join = [&net, server,
               shared = context](Listener::Accepted& accepted) -> Result<ForwardedPair> {
    auto far = TRY(net.connect(server, kTunnelPatience));
    auto secured = TRY(tls_channel(std::move(far), shared, kTunnelPatience));
    return ForwardedPair{std::move(accepted.channel), std::move(secured)};
  };
  return std::make_unique<Forwarder>(std::move(listener), join);
}

Result<std::unique_ptr<Forwarder>> server_tunnel(Net& net, const std::string& address,
                                                 const std::string& sessions,
                                                 const ServerTls& tls) {
  auto context = TRY(TlsContext::server(tls.certificate_file, tls.key_file));
  auto listener = TRY(net.listen(address));
  auto join = [&net, sessions,
               shared = context](Listener::Accepted& accepted) -> Result<ForwardedPair> {
    auto secured = TRY(tls_channel(std::move(accepted.channel), shared, kTunnelPatience));
    auto near = TRY(net.connect(sessions, kTunnelPatience));
    return ForwardedPair{std::move(secured), std::move(near)};
  };
  return std::make_unique<Forwarder>(std::move(listener), join);
}

}  // namespace partita::remote
