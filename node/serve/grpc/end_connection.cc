#include "serve/grpc/end_connection.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <optional>

#include "base/descriptor.h"
#include "base/parse_number.h"

namespace partita::serve {
namespace {

struct End {
  std::string address;
  int port = 0;
};

std::optional<End> end_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof(text));
    return End{fmt::format("ipv4:{}", text), ntohs(four.sin_port)};
  }
  if (address.ss_family != AF_INET6) return std::nullopt;
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  const bool four = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
  ::inet_ntop(four ? AF_INET : AF_INET6,
              four ? &six.sin6_addr.s6_addr[12] : static_cast<const void*>(&six.sin6_addr), text,
              sizeof(text));
  return End{four ? fmt::format("ipv4:{}", text) : fmt::format("ipv6:%5B{}%5D", text),
             ntohs(six.sin6_port)};
}

using Ask = int (*)(int, sockaddr*, socklen_t*);
std::optional<End> asked(Ask ask, int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (ask(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return std::nullopt;
  return end_of(address);
}

bool is_it(int socket, const std::string& peer, int port) {
  const std::optional<End> here = asked(::getsockname, socket);
  if (!here || here->port != port) return false;
  const std::optional<End> there = asked(::getpeername, socket);
  return there && fmt::format("{}:{}", there->address, there->port) == peer;
}

}  // namespace

bool end_connection(const std::string& peer, int port) {
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc/self/fd"), ::closedir);
  if (!all) return false;
  while (const dirent* entry = ::readdir(all.get())) {
    const auto number = parse_number<int>(entry->d_name);
    // Ours from here on: the number may be somebody else's by the time it is looked at.
    const Descriptor held(number ? ::fcntl(*number, F_DUPFD_CLOEXEC, 0) : -1);
    if (held.get() < 0 || !is_it(held.get(), peer, port)) continue;
    return ::shutdown(held.get(), SHUT_RDWR) == 0;
  }
  return false;
}

}  // namespace partita::serve
