// Tunnel: carries connections between a local session socket and TLS. Two ends, one on each host:
//
//   program - libraries - unix:PATH [client end] === TLS === [server end] - unix:PATH - server
//
// Thread rule: made and destroyed by one thread; has one thread of its own and two per connection.
#pragma once

#include <memory>
#include <string>

#include "wire/net/forwarder.h"
#include "wire/tunnel/tls_channel.h"

namespace partita::remote {

struct ClientTls {
  std::string ca_file;  // PEM
  std::string name;     // that the certificate must be for; empty: the host of the address
};
struct ServerTls {
  std::string certificate_file, key_file;  // PEM
};

// Listens at `local` ("unix:PATH") and carries every connection to `server` ("HOST:PORT").
Result<std::unique_ptr<Forwarder>> client_tunnel(Net& net, const std::string& local,
                                                 const std::string& server, const ClientTls& tls);
// Listens for TLS at `address` ("HOST:PORT") and carries every connection to `sessions`
// ("unix:PATH"). The session's hello brings the token; without one everybody who reaches the
// address may have sessions.
Result<std::unique_ptr<Forwarder>> server_tunnel(Net& net, const std::string& address,
                                                 const std::string& sessions, const ServerTls& tls);

}  // namespace partita::remote
