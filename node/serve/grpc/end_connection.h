// What gRPC 1.51 has no call for: ending a connection that its library holds. The socket is found
// by what its two ends are called, among the descriptors of this process, and shut down; gRPC sees
// that its client has gone. Any thread; costs a look at every descriptor.
#pragma once

#include <string>

namespace partita::serve {

// The connection from `peer`, named as gRPC names it ("ipv4:127.0.0.1:4711",
// "ipv6:%5B::1%5D:4711"), to `port` of this process. Whether there was one.
bool end_connection(const std::string& peer, int port);

}  // namespace partita::serve
