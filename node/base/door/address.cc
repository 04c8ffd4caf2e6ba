#include "base/door/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/unix_socket.h"

namespace partita::serve {

namespace {

constexpr int kBacklog = 4096;

// Whether somebody listens at a path.
bool answers(const UnixAddress& where) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const bool connected =
      fd >= 0 && (::connect(fd, where.get(), UnixAddress::size()) == 0 || errno == EAGAIN);
  if (fd >= 0) ::close(fd);
  return connected;
}

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof v4);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  sockaddr_in6 v6;
  std::memcpy(&v6, &address, sizeof v6);
  return address.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

}  // namespace

Result<ListenAddress> parse_listen_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return bad_input(text, "HOST:PORT is wanted, as 127.0.0.1:8000");
  std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  const bool digits = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoi(port) > 65'535) return bad_input(text, "a port is from 0 to 65535");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
    return bad_input(text, ::gai_strerror(error));
  ListenAddress address;
  std::memcpy(&address.address, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  address.loopback = is_loopback(address.address);
  return address;
}

Result<void> check_exposure(const std::string& listen, const ListenAddress& address, bool tls,
                            bool tokens) {
  if (address.loopback || (tls && tokens)) return {};
  const std::string missing = !tls && !tokens ? "a certificate with its key and a tokens file"
                              : !tls          ? "a certificate with its key"
                                              : "a tokens file";
  return bad_input(listen, "others can reach this address: it needs " + missing +
                               "; without them, listen on 127.0.0.1");
}

Result<int> listen_on(const std::string& name, const ListenAddress& address) {
  const int fd = ::socket(address.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return environment_error(name, std::strerror(errno));
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* where = reinterpret_cast<const sockaddr*>(&address.address);
  if (::bind(fd, where, address.length) != 0 || ::listen(fd, kBacklog) != 0) {
    const int error = errno;
    ::close(fd);
    if (error == EADDRINUSE)
      return failed({ErrorCode::in_use, "cannot listen: somebody else does", name});
    return environment_error(name, std::string("cannot listen: ") + std::strerror(error));
  }
  return fd;
}

Result<int> listen_on_path(const std::string& path, unsigned mode) {
  const auto where = TRY(UnixAddress::of(path));
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) return bad_input(path, "there is something that is no socket");
    if (answers(where)) return environment_error(path, "somebody listens there already");
    ::unlink(path.c_str());
  }
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return environment_error(path, std::strerror(errno));
  ::fchmod(fd, 0600);  // bind() makes the file with it: nobody comes in before its time
  if (::bind(fd, where.get(), UnixAddress::size()) != 0 || ::chmod(path.c_str(), mode) != 0 ||
      ::listen(fd, kBacklog) != 0) {
    const int error = errno;
    ::close(fd);
    return environment_error(path, std::string("cannot listen: ") + std::strerror(error));
  }
  return fd;
}

std::string address_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof v4);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  sockaddr_in6 v6;
  std::memcpy(&v6, &address, sizeof v6);
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(v6.sin6_port));
}

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace partita::serve
