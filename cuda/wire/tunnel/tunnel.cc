#include "wire/tunnel/tunnel.h"

#include "wire/net/tcp_net.h"

namespace partita::remote {
namespace {

constexpr Nanos kTunnelPatience = std::chrono::seconds(10);  // to connect, for the handshake

}  // namespace

Result<std::unique_ptr<Forwarder>> client_tunnel(Net& net, const std::string& local,
                                                 const std::string& server, const ClientTls& tls) {
  const auto where = parse_host_port(server.starts_with("tcp:") ? server.substr(4) : server);
  if (!where) return failed(where.error());
  auto context = TlsContext::client(tls.ca_file, tls.name.empty() ? where->host : tls.name);
  if (!context) return failed(context.error());
  auto listener = net.listen(local);
  if (!listener) return failed(listener.error());
  auto join = [&net, server,
               shared = *context](Listener::Accepted& accepted) -> Result<ForwardedPair> {
    auto far = net.connect(server, kTunnelPatience);
    if (!far) return failed(far.error());
    auto secured = tls_channel(std::move(*far), shared, kTunnelPatience);
    if (!secured) return failed(secured.error());
    return ForwardedPair{std::move(accepted.channel), std::move(*secured)};
  };
  return std::make_unique<Forwarder>(std::move(*listener), join);
}

Result<std::unique_ptr<Forwarder>> server_tunnel(Net& net, const std::string& address,
                                                 const std::string& sessions,
                                                 const ServerTls& tls) {
  auto context = TlsContext::server(tls.certificate_file, tls.key_file);
  if (!context) return failed(context.error());
  auto listener = net.listen(address);
  if (!listener) return failed(listener.error());
  auto join = [&net, sessions,
               shared = *context](Listener::Accepted& accepted) -> Result<ForwardedPair> {
    auto secured = tls_channel(std::move(accepted.channel), shared, kTunnelPatience);
    if (!secured) return failed(secured.error());
    auto near = net.connect(sessions, kTunnelPatience);
    if (!near) return failed(near.error());
    return ForwardedPair{std::move(*secured), std::move(*near)};
  };
  return std::make_unique<Forwarder>(std::move(*listener), join);
}

}  // namespace partita::remote
