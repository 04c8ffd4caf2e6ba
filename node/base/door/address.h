// Where a door listens: "HOST:PORT", "[::1]:8000", "localhost:0", or a Unix socket.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "base/result.h"

namespace partita::serve {

struct ListenAddress {
  sockaddr_storage address = {};
  socklen_t length = 0;
  bool loopback = false;
};

// bad_input for what is none, or names no address of this machine's families.
Result<ListenAddress> parse_listen_address(const std::string& text);

// bad_input with a sentence when a door would stand open to the network: not on loopback, and
// without TLS or without tokens.
Result<void> check_exposure(const std::string& listen, const ListenAddress& address, bool tls,
                            bool tokens);

// A listening socket that does not block; environment error with `name`.
Result<int> listen_on(const std::string& name, const ListenAddress& address);
// The same at a path of the file system, which gets this mode. A socket that nobody listens on is
// replaced; anything else there is left alone and refused.
Result<int> listen_on_path(const std::string& path, unsigned mode);

// "127.0.0.1:4711", "[::1]:4711".
std::string address_text(const sockaddr_storage& address);

// Without its port: "127.0.0.1". What has none stays as it is: "uid 1000".
std::string host_of(const std::string& address);

}  // namespace partita::serve
