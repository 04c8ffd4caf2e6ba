// partita remote tunnel: sessions carried to another host under TLS.
#include <CLI/CLI.hpp>
#include <memory>

#include "flags.h"
#include "remote/remote_commands.h"
#include "stop_request.h"
#include "wire/tunnel/tunnel.h"

namespace partita::cli {
namespace {

constexpr std::int64_t kLookNs = 200'000'000;  // at trouble to tell

struct TunnelFlags {
  std::string listen, server, sessions;
  remote::ClientTls client;
  remote::ServerTls host;
};

Result<std::unique_ptr<remote::Forwarder>> open_tunnel(const TunnelFlags& flags) {
  if (flags.server.empty() == flags.sessions.empty()) {
    return bad_input("--server", "the client's end needs --server, the server's end --sessions");
  }
  remote::Net& net = remote::system_net();
  if (!flags.server.empty()) {
    if (flags.client.ca_file.empty()) return bad_input("--ca", "is needed with --server");
    return remote::client_tunnel(net, flags.listen, flags.server, flags.client);
  }
  if (flags.host.certificate_file.empty() || flags.host.key_file.empty()) {
    return bad_input("--tls-cert", "is needed with --sessions, and so is --tls-key");
  }
  return remote::server_tunnel(net, flags.listen, flags.sessions, flags.host);
}

Result<Exit> run_tunnel(Context& context, const TunnelFlags& flags) {
  StopRequest stop;
  const auto tunnel = TRY(open_tunnel(flags));
  say(context, "carrying sessions from " + tunnel->address() + " to " +
                   (flags.server.empty() ? flags.sessions : flags.server) + "\n");
  for (std::string told; !stop.within(kLookNs);) {
    std::string trouble = tunnel->trouble();
    if (trouble != told) complain(context, trouble);
    told = std::move(trouble);
  }
  return Exit::done;
}

}  // namespace

Command add_remote_tunnel(CLI::App& remote) {
  auto [command, flags] = adding<TunnelFlags>(
      remote, "tunnel", "Carry sessions to another host under TLS; one end runs on each host");
  flag(*command, "--listen", flags->listen)->required();
  flag(*command, "--server-address", flags->server);
  flag(*command, "--ca", flags->client.ca_file);
  flag(*command, "--name", flags->client.name);
  flag(*command, "--sessions-at", flags->sessions);
  flag(*command, "--tls-cert", flags->host.certificate_file);
  flag(*command, "--tls-key", flags->host.key_file);
  command->footer(
      "partita remote tunnel --listen 0.0.0.0:7443 --sessions unix:/run/partita.sock "
      "--tls-cert gpu.pem --tls-key gpu.key\n"
      "partita remote tunnel --listen unix:/tmp/gpu.sock --server gpu.example:7443 --ca ca.pem\n"
      "partita remote run --server unix:/tmp/gpu.sock -- ./program");
  return {command, [flags](Context& context) { return run_tunnel(context, *flags); }};
}

}  // namespace partita::cli
