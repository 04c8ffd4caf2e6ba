#include "serve/link/connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace partita::serve {
namespace {

constexpr int kSocketType = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr mode_t kOwnerOnly = 0600;

tl::unexpected<Error> system_error(const std::string& context, std::string_view doing, int error) {
  return environment_error(context, fmt::format("{}: {}", doing, std::strerror(error)));
}

// Whether a living process listens at this address.
bool answers(const UnixAddress& address) {
  const Descriptor probe(::socket(AF_UNIX, kSocketType, 0));
  if (probe.get() < 0) return false;
  return ::connect(probe.get(), address.get(), UnixAddress::size()) == 0 || errno == EAGAIN;
}

tl::unexpected<Error> in_use(const std::string& path) {
  return failed({ErrorCode::in_use, "a gateway already listens here; stop it first", path});
}

}  // namespace

Result<Connection> Connection::connect(const std::string& path) {
  const auto address = TRY(UnixAddress::of(path));
  Descriptor fd(::socket(AF_UNIX, kSocketType, 0));
  if (fd.get() < 0) return system_error(path, "cannot make a socket", errno);
  if (::connect(fd.get(), address.get(), UnixAddress::size()) == 0)
    return Connection(std::move(fd));
  if (errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN)
    return failed({ErrorCode::not_found, "no gateway listens here", path});
  return system_error(path, "cannot connect", errno);
}

Result<UnixPeer> Connection::peer() const { return unix_peer(fd()); }

Result<bool> Connection::send(std::string_view frame, int descriptor) {
  iovec piece{const_cast<char*>(frame.data()), frame.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  PassedRoom room;
  pass_beside(message, std::span(&descriptor, descriptor >= 0 ? 1 : 0), room);
  for (;;) {
    if (::sendmsg(fd(), &message, MSG_NOSIGNAL) >= 0) return true;
    if (errno == EAGAIN || errno == ENOBUFS) return false;
    if (errno != EINTR) return system_error("link", "cannot send", errno);
  }
}

Result<Received> Connection::receive(std::span<char> buffer) {
  iovec piece{buffer.data(), buffer.size()};
  PassedRoom room;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  for (;;) {
    take_beside(message, room);
    const ssize_t size = ::recvmsg(fd(), &message, MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return Received{};
    if (size < 0 && errno == ECONNRESET) return Received{.kind = Received::Kind::ended};
    if (size < 0) return system_error("link", "cannot receive", errno);
    std::vector<Descriptor> beside = passed_beside(message);
    if (size == 0) return Received{.kind = Received::Kind::ended};  // nobody sends empty frames
    if ((message.msg_flags & MSG_TRUNC) != 0)
      return bad_input("link", fmt::format("a frame of more than {} bytes", buffer.size()));
    return Received{.kind = Received::Kind::frame,
                    .bytes = buffer.first(static_cast<std::size_t>(size)),
                    .descriptor = beside.empty() ? Descriptor(-1) : std::move(beside.front())};
  }
}

Listener::Listener(std::string path, Descriptor lock, Descriptor fd)
    : path_(std::move(path)), lock_(std::move(lock)), fd_(std::move(fd)) {}

Listener::~Listener() {
  if (fd_.get() >= 0) ::unlink(path_.c_str());  // the lock's holder alone may
}

Result<Listener> Listener::open(const std::string& path) {
  const auto address = TRY(UnixAddress::of(path));
  Descriptor lock(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kOwnerOnly));
  if (lock.get() < 0) return system_error(path + ".lock", "cannot open it", errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 || answers(address)) return in_use(path);
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode)) return bad_input(path, "this file is no socket");
    ::unlink(path.c_str());
  }
  Descriptor fd(::socket(AF_UNIX, kSocketType, 0));
  if (fd.get() < 0) return system_error(path, "cannot make a socket", errno);
  // The file gets the socket's own mode, so that nobody else can connect even for a moment.
  if (::fchmod(fd.get(), kOwnerOnly) != 0 ||
      ::bind(fd.get(), address.get(), UnixAddress::size()) != 0) {
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
