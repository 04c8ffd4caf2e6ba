#include "serve/link/connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace partita::serve {
namespace {

constexpr int kSocketType = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr mode_t kOwnerOnly = 0600;

tl::unexpected<Error> system_error(const std::string& context, std::string_view doing, int error) {
  return environment_error(context, fmt::format("{}: {}", doing, std::strerror(error)));
}

// The address of a socket file, however long its path is: a long one is reached through a
// descriptor of its directory, which lives as long as this.
class SocketAddress {
 public:
  static Result<SocketAddress> of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    std::string name = path;
    Descriptor folder{-1};
    if (path.size() >= sizeof(sockaddr_un::sun_path) && slash != std::string::npos) {
      folder =
          Descriptor(::open(path.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (folder.get() < 0) return system_error(path, "cannot open its directory", errno);
      name = fmt::format("/proc/self/fd/{}/{}", folder.get(), path.substr(slash + 1));
    }
    if (name.empty() || name.size() >= sizeof(sockaddr_un::sun_path) ||
        name.find('\0') != std::string::npos) {
      return bad_input(path, "this cannot be the name of a socket");
    }
    return SocketAddress(std::move(folder), name);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static socklen_t size() { return sizeof(sockaddr_un); }

 private:
  SocketAddress(Descriptor folder, const std::string& name) : folder_(std::move(folder)) {
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path, name.data(), name.size());
  }

  Descriptor folder_;
  sockaddr_un address_{};
};

// Whether a living process listens at this address.
bool answers(const SocketAddress& address) {
  const Descriptor probe(::socket(AF_UNIX, kSocketType, 0));
  if (probe.get() < 0) return false;
  return ::connect(probe.get(), address.get(), SocketAddress::size()) == 0 || errno == EAGAIN;
}

tl::unexpected<Error> in_use(const std::string& path) {
  return failed({ErrorCode::in_use, "a gateway already listens here; stop it first", path});
}

// The descriptor that came with a message; of several the first, the others are closed.
Descriptor descriptor_of(msghdr& message) {
  Descriptor first{-1};
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + (i * sizeof(int)), sizeof fd);
      Descriptor next(fd);
      if (first.get() < 0) first = std::move(next);
    }
  }
  return first;
}

}  // namespace

Result<Connection> Connection::connect(const std::string& path) {
  const auto address = SocketAddress::of(path);
  if (!address) return failed(address.error());
  Descriptor fd(::socket(AF_UNIX, kSocketType, 0));
  if (fd.get() < 0) return system_error(path, "cannot make a socket", errno);
  if (::connect(fd.get(), address->get(), SocketAddress::size()) == 0) {
    return Connection(std::move(fd));
  }
  if (errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN) {
    return failed({ErrorCode::not_found, "no gateway listens here", path});
  }
  return system_error(path, "cannot connect", errno);
}

Result<Peer> Connection::peer() const {
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) {
    return system_error("link", "cannot read who connects", errno);
  }
  return Peer{.pid = who.pid, .uid = who.uid};
}

Result<bool> Connection::send(std::string_view frame, int descriptor) {
  iovec piece{const_cast<char*>(frame.data()), frame.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  }
  for (;;) {
    if (::sendmsg(fd(), &message, MSG_NOSIGNAL) >= 0) return true;
    if (errno == EAGAIN || errno == ENOBUFS) return false;
    if (errno != EINTR) return system_error("link", "cannot send", errno);
  }
}

Result<Received> Connection::receive(std::span<char> buffer) {
  iovec piece{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  for (;;) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(fd(), &message, MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return Received{};
    if (size < 0 && errno == ECONNRESET) return Received{.kind = Received::Kind::ended};
    if (size < 0) return system_error("link", "cannot receive", errno);
    Descriptor beside = descriptor_of(message);
    if (size == 0) return Received{.kind = Received::Kind::ended};  // nobody sends empty frames
    if ((message.msg_flags & MSG_TRUNC) != 0) {
      return bad_input("link", fmt::format("a frame of more than {} bytes", buffer.size()));
    }
    return Received{.kind = Received::Kind::frame,
                    .bytes = buffer.first(static_cast<std::size_t>(size)),
                    .descriptor = std::move(beside)};
  }
}

Listener::Listener(std::string path, Descriptor lock, Descriptor fd)
    : path_(std::move(path)), lock_(std::move(lock)), fd_(std::move(fd)) {}

Listener::~Listener() {
  if (fd_.get() >= 0) ::unlink(path_.c_str());  // the lock's holder alone may
}

Result<Listener> Listener::open(const std::string& path) {
  const auto address = SocketAddress::of(path);
  if (!address) return failed(address.error());
  Descriptor lock(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kOwnerOnly));
  if (lock.get() < 0) return system_error(path + ".lock", "cannot open it", errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 || answers(*address)) return in_use(path);
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode)) return bad_input(path, "this file is no socket");
    ::unlink(path.c_str());
  }
  Descriptor fd(::socket(AF_UNIX, kSocketType, 0));
  if (fd.get() < 0) return system_error(path, "cannot make a socket", errno);
  // The file gets the socket's own mode, so that nobody else can connect even for a moment.
  if (::fchmod(fd.get(), kOwnerOnly) != 0 ||
      ::bind(fd.get(), address->get(), SocketAddress::size()) != 0) {
    return system_error(path, "cannot make the socket", errno);
  }
  if (::listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    ::unlink(path.c_str());
    return system_error(path, "cannot listen", error);
  }
  return Listener(path, std::move(lock), std::move(fd));
}

Result<std::optional<Connection>> Listener::accept() {
  for (;;) {
    Descriptor fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.get() >= 0) return std::optional(Connection(std::move(fd)));
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return std::optional<Connection>();
    return system_error(path_, "cannot accept a worker", errno);
  }
}

}  // namespace partita::serve
