// TCP: no delay, keepalive so that a host that vanished is noticed; buffers are left to the system,
// which grows them as needed.
#pragma once

#include <memory>
#include <string>

#include "wire/net/channel.h"

namespace partita::remote {

// `port` of 0 takes a free one.
struct HostPort {
  std::string host;
  std::string port;
};
// "HOST:PORT", "[::1]:7070".
Result<HostPort> parse_host_port(std::string_view text);

Result<std::unique_ptr<Channel>> connect_tcp(const HostPort& where, Nanos patience);
Result<std::unique_ptr<Listener>> listen_tcp(const HostPort& where);

}  // namespace partita::remote
