#include "serve/grpc/end_connection.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/descriptor.h"

namespace partita::serve {
namespace {

// Two ends of a connection on loopback, and what both are called.
struct Pair {
  explicit Pair(int family) : listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const bool six = family == AF_INET6;
    sockaddr_in6 at6 = {};
    sockaddr_in at4 = {};
    at6.sin6_family = AF_INET6;
    at6.sin6_addr = in6addr_loopback;
    at4.sin_family = AF_INET;
    at4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* at = six ? reinterpret_cast<sockaddr*>(&at6) : reinterpret_cast<sockaddr*>(&at4);
    socklen_t size = six ? sizeof(at6) : sizeof(at4);
    there = ::bind(listener.get(), at, size) == 0 && ::listen(listener.get(), 8) == 0;
    ::getsockname(listener.get(), at, &size);
    port = ntohs(six ? at6.sin6_port : at4.sin_port);
    client = Descriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    there = there && ::connect(client.get(), at, size) == 0;
    server = Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ::getsockname(client.get(), at, &size);
    peer = six ? fmt::format("ipv6:%5B::1%5D:{}", ntohs(at6.sin6_port))
               : fmt::format("ipv4:127.0.0.1:{}", ntohs(at4.sin_port));
  }
  bool ended() const {
    char byte = 0;
    return ::recv(client.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  Descriptor listener, client = Descriptor(-1), server = Descriptor(-1);
  bool there = false;
  int port = 0;
  std::string peer;
};

TEST(EndConnection, EndsTheOneThatIsNamed) {
  for (const int family : {AF_INET, AF_INET6}) {
    const Pair one(family), other(family);
    if (!one.there && family == AF_INET6) continue;  // a machine without it
    ASSERT_TRUE(one.there && other.there);
    EXPECT_FALSE(end_connection(one.peer, other.port));
    EXPECT_FALSE(end_connection(other.peer, one.port));
    EXPECT_FALSE(end_connection("ipv4:127.0.0.1:1", one.port));
    EXPECT_FALSE(one.ended());
    EXPECT_TRUE(end_connection(one.peer, one.port));
    EXPECT_TRUE(one.ended());
    EXPECT_FALSE(other.ended());
  }
}

}  // namespace
}  // namespace partita::serve
