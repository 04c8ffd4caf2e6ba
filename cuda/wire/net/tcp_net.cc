#include "wire/net/tcp_net.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "wire/net/deadline.h"
#include "wire/net/socket_channel.h"

namespace partita::remote {
namespace {

constexpr int kTcpBacklog = 512;

tl::unexpected<Error> tcp_error(const std::string& where, const char* doing, int error) {
  return environment_error(where, std::string(doing) + ": " + std::strerror(error));
}

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

// A host that does not answer for about 25 s is gone.
void tune(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

struct Addresses {
  explicit Addresses(addrinfo* first_one) : first(first_one) {}
  ~Addresses() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
  Addresses(Addresses&& other) noexcept : first(std::exchange(other.first, nullptr)) {}
  Addresses& operator=(Addresses&&) = delete;
  addrinfo* first;
};

std::string text_of(const HostPort& where) {
  const bool six = where.host.find(':') != std::string::npos;
  return (six ? "[" + where.host + "]" : where.host) + ":" + where.port;
}

Result<Addresses> resolve(const HostPort& where, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(where.host.empty() ? nullptr : where.host.c_str(),
                                    where.port.c_str(), &hints, &found);
  if (failure != 0) {
    return environment_error(text_of(where),
                             std::string("no such host: ") + ::gai_strerror(failure));
  }
  return Addresses(found);
}

HostPort name_of(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  ::getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                NI_NUMERICHOST | NI_NUMERICSERV);
  return {host.data(), port.data()};
}

// 0, or what went wrong.
int connect_one(int fd, const addrinfo& to, const Deadline& deadline) {
  if (::connect(fd, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!deadline.wait_for(fd, POLLOUT)) return ETIMEDOUT;
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size);
  return failure;
}

class TcpListener final : public Listener {
 public:
  TcpListener(Descriptor socket, std::string address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  Result<Accepted> accept(Nanos patience) override {
    const Deadline deadline(patience);
    for (;;) {
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      Descriptor fd(::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.get() >= 0) {
        tune(fd.get());
        const HostPort peer = name_of(reinterpret_cast<const sockaddr*>(&from), size);
        return Accepted{.channel = socket_channel(std::move(fd)), .address = text_of(peer)};
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) return tcp_error(address_, "cannot accept a connection", errno);
      if (!deadline.wait_for(socket_.get(), POLLIN)) {
        return failed({ErrorCode::timeout, "nobody connected", address_});
      }
    }
  }
  int descriptor() const override { return socket_.get(); }
  std::string address() const override { return address_; }

 private:
  Descriptor socket_;
  std::string address_;
};

}  // namespace

Result<HostPort> parse_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon != std::string_view::npos) {
    parsed = {std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
  }
  const bool six =
      parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']';
  if (six) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  const bool digits = !parsed.port.empty() && parsed.port.size() <= 5 &&
                      std::ranges::all_of(parsed.port, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || std::stoi(parsed.port) > 65535 || parsed.host.empty() ||
      (!six && parsed.host.find(':') != std::string::npos)) {
    return bad_input(std::string(text), "this is no address; write HOST:PORT");
  }
  return parsed;
}

Result<std::unique_ptr<Channel>> connect_tcp(const HostPort& where, Nanos patience) {
  const Deadline deadline(patience);
  const auto addresses = TRY(resolve(where, 0));
  int failure = ENOENT;
  for (const addrinfo* one = addresses.first; one != nullptr; one = one->ai_next) {
    Descriptor fd(::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd.get() < 0) {
      failure = errno;
      continue;
    }
    failure = connect_one(fd.get(), *one, deadline);
    if (failure != 0) continue;
    tune(fd.get());
    return socket_channel(std::move(fd));
  }
  const std::string text = text_of(where);
  if (failure == ECONNREFUSED) {
    return failed({ErrorCode::not_found, "no server listens here", text});
  }
  if (failure == ETIMEDOUT) return failed({ErrorCode::timeout, "no answer in time", text});
  return tcp_error(text, "cannot connect", failure);
}

Result<std::unique_ptr<Listener>> listen_tcp(const HostPort& where) {
  const auto addresses = TRY(resolve(where, AI_PASSIVE));
  const addrinfo& first = *addresses.first;
  const std::string text = text_of(where);
  Descriptor fd(::socket(first.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return tcp_error(text, "cannot make a socket", errno);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd.get(), first.ai_addr, first.ai_addrlen) != 0) {
    if (errno == EADDRINUSE) {
      return failed({ErrorCode::in_use, "something else listens here", text});
    }
    return tcp_error(text, "cannot listen", errno);
  }
  if (::listen(fd.get(), kTcpBacklog) != 0) return tcp_error(text, "cannot listen", errno);
  sockaddr_storage mine{};
  socklen_t size = sizeof mine;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&mine), &size);
  const std::string address = text_of(name_of(reinterpret_cast<const sockaddr*>(&mine), size));
  return std::make_unique<TcpListener>(std::move(fd), "tcp:" + address);
}

}  // namespace partita::remote
