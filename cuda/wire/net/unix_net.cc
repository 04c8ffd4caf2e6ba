#include "wire/net/unix_net.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/unix_socket.h"
#include "wire/net/deadline.h"
#include "wire/net/ring_channel.h"
#include "wire/net/socket_channel.h"

namespace partita::remote {
namespace {

constexpr int kUnixSocket = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr int kUnixBacklog = 512;  // sessions that wait to be accepted
constexpr std::array<char, 12> kOfferMark{'p', 'a', 'r', 't', 'i', 't', 'a', ' ', 'n', 'e', 't', 1};
constexpr std::size_t kBeside = 2;  // descriptors beside an offer of rings: memory, room

struct Offer {
  std::array<char, 12> mark = kOfferMark;
  std::uint32_t rings = 0;
};
static_assert(sizeof(Offer) == 16);

tl::unexpected<Error> unix_error(const std::string& path, const char* doing) {
  return environment_error(path, std::string(doing) + ": " + std::strerror(errno));
}

// A large buffer carries a large frame with few system calls; what the system grants is enough.
void widen(int fd) {
  const int bytes = 1 << 20;
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

bool send_offer(int fd, const RingOffer* rings) {
  Offer offer{.rings = rings != nullptr};
  iovec piece{&offer, sizeof offer};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  PassedRoom room;
  if (rings != nullptr) {
    const std::array<int, kBeside> beside{rings->mine.memory.get(), rings->room.get()};
    pass_beside(message, beside, room);
  }
  return ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof offer;
}

struct ReceivedOffer {
  bool rings = false;
  std::vector<Descriptor> beside;
};

Result<ReceivedOffer> receive_offer(const std::string& path, int fd, const Deadline& deadline) {
  Offer offer;
  iovec piece{&offer, sizeof offer};
  PassedRoom room;
  for (;;) {
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    take_beside(message, room);
    const ssize_t size = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) {
      if (deadline.wait_for(fd, POLLIN)) continue;
      return failed({ErrorCode::timeout, "nobody accepted the connection in time", path});
    }
    if (size <= 0) return failed({ErrorCode::lost, "the server closed the connection", path});
    ReceivedOffer received{.rings = offer.rings != 0, .beside = passed_beside(message)};
    if (size != sizeof offer || offer.mark != kOfferMark ||
        received.beside.size() != (received.rings ? kBeside : 0)) {
      return bad_input(path, "what listens here is no server of this version");
    }
    return received;
  }
}

class UnixListener final : public Listener {
 public:
  UnixListener(std::string path, UnixForm form, Descriptor socket)
      : path_(std::move(path)), form_(form), socket_(std::move(socket)), owner_(::getpid()) {}
  ~UnixListener() override {
    if (::getpid() == owner_) ::unlink(path_.c_str());  // not in a forked child
  }

  Result<Accepted> accept(Nanos patience) override {
    const Deadline deadline(patience);
    for (;;) {
      Descriptor fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.get() >= 0) {
        auto accepted = greet(std::move(fd));
        if (accepted || accepted.error().code != ErrorCode::lost) return accepted;
        continue;  // it left at once
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) return unix_error(path_, "cannot accept a connection");
      if (!deadline.wait_for(socket_.get(), POLLIN)) {
        return failed({ErrorCode::timeout, "nobody connected", path_});
      }
    }
  }
  int descriptor() const override { return socket_.get(); }
  std::string address() const override {
    return (form_ == UnixForm::rings ? "unix:" : "socket:") + path_;
  }

 private:
  Result<Accepted> greet(Descriptor fd) {
    widen(fd.get());
    const auto who = TRY(unix_peer(fd.get()));
    Accepted accepted{.channel = nullptr, .pid = who.pid, .uid = who.uid, .address = "unix"};
    if (form_ == UnixForm::rings) {
      auto offer = TRY(make_rings(std::move(fd)));
      if (!send_offer(offer.mine.socket.get(), &offer)) return gone();
      accepted.channel = TRY(ring_channel(std::move(offer.mine), RingSide::listener));
    } else {
      if (!send_offer(fd.get(), nullptr)) return gone();
      accepted.channel = socket_channel(std::move(fd));
    }
    return accepted;
  }
  tl::unexpected<Error> gone() const {
    return failed({ErrorCode::lost, "the other side is gone", path_});
  }

  std::string path_;
  UnixForm form_;
  Descriptor socket_;
  pid_t owner_;
};

Result<void> connect_in_time(const std::string& path, int fd, const Deadline& deadline) {
  const auto address = TRY(UnixAddress::of(path));
  while (::connect(fd, address.get(), UnixAddress::size()) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED) {
      return failed({ErrorCode::not_found, "no server listens here", path});
    }
    if (errno == EACCES || errno == EPERM) {
      return failed({ErrorCode::denied, "no right to connect to this server", path});
    }
    if (errno != EAGAIN && errno != EINTR) return unix_error(path, "cannot connect");
    if (deadline.left() <= Nanos(0)) {
      return failed({ErrorCode::timeout, "the server is too busy to accept connections", path});
    }
    const timespec moment{0, 2'000'000};  // a full backlog has no event to wait for
    ::nanosleep(&moment, nullptr);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Channel>> connect_unix(const std::string& path, UnixForm form,
                                              Nanos patience) {
  const Deadline deadline(patience);
  Descriptor fd(::socket(AF_UNIX, kUnixSocket, 0));
  if (fd.get() < 0) return unix_error(path, "cannot make a socket");
  TRY(connect_in_time(path, fd.get(), deadline));
  auto offer = TRY(receive_offer(path, fd.get(), deadline));
  widen(fd.get());
  if (!offer.rings) return socket_channel(std::move(fd));
  if (form == UnixForm::plain) {
    return bad_input(path, "the server offers rings here: write unix:PATH instead of socket:PATH");
  }
  return ring_channel({std::move(fd), std::move(offer.beside[1]), std::move(offer.beside[0])},
                      RingSide::connector);
}

Result<std::unique_ptr<Listener>> listen_unix(const std::string& path, UnixForm form) {
  const auto address = TRY(UnixAddress::of(path));
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode)) return bad_input(path, "this file is no socket");
    const Descriptor probe(::socket(AF_UNIX, kUnixSocket, 0));
    if (::connect(probe.get(), address.get(), UnixAddress::size()) == 0 || errno == EAGAIN) {
      return failed({ErrorCode::in_use, "a server already listens here", path});
    }
    ::unlink(path.c_str());
  }
  Descriptor fd(::socket(AF_UNIX, kUnixSocket, 0));
  if (fd.get() < 0) return unix_error(path, "cannot make a socket");
  // The file gets the socket's own mode, so that nobody else can connect even for a moment.
  if (::fchmod(fd.get(), 0600) != 0 || ::bind(fd.get(), address.get(), UnixAddress::size()) != 0) {
    return unix_error(path, "cannot make the socket");
  }
  auto listener = std::make_unique<UnixListener>(path, form, std::move(fd));
  if (::listen(listener->descriptor(), kUnixBacklog) != 0) {
    return unix_error(path, "cannot listen");
  }
  return listener;
}

}  // namespace partita::remote
