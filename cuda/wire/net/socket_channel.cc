#include "wire/net/socket_channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "wire/net/deadline.h"

namespace partita::remote {
namespace {

constexpr std::size_t kPieces = 16;  // parts per system call

tl::unexpected<Error> lost(const char* what) {
  return failed({ErrorCode::lost, what, "remote connection"});
}
tl::unexpected<Error> too_late(const char* what) {
  return failed({ErrorCode::timeout, what, "remote connection"});
}

// The rest of a list of parts, as sendmsg takes it.
class PartsLeft {
 public:
  explicit PartsLeft(std::span<const std::span<const std::byte>> parts) : parts_(parts) { skip(0); }
  bool empty() const { return parts_.empty(); }
  void skip(std::size_t bytes) {
    offset_ += bytes;
    while (!parts_.empty() && offset_ >= parts_.front().size()) {
      offset_ -= parts_.front().size();
      parts_ = parts_.subspan(1);
    }
  }
  // How many of `pieces` are used.
  std::size_t fill(std::span<iovec> pieces) const {
    std::size_t count = 0;
    std::size_t offset = offset_;
    for (const auto& part : parts_.first(std::min(parts_.size(), pieces.size()))) {
      auto* start = const_cast<std::byte*>(part.data()) + offset;
      pieces[count++] = {start, part.size() - offset};
      offset = 0;
    }
    return count;
  }

 private:
  std::span<const std::span<const std::byte>> parts_;
  std::size_t offset_ = 0;  // in the first one
};

class SocketChannel final : public Channel {
 public:
  explicit SocketChannel(Descriptor socket) : socket_(std::move(socket)) {}

  Result<void> write(std::span<const std::span<const std::byte>> parts, Nanos patience) override {
    PartsLeft left(parts);
    Deadline deadline(patience);
    while (!left.empty()) {
      std::array<iovec, kPieces> pieces;
      msghdr message{};
      message.msg_iov = pieces.data();
      message.msg_iovlen = left.fill(pieces);
      const ssize_t size = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (size >= 0) {
        left.skip(static_cast<std::size_t>(size));
        deadline.renew();
      } else if (errno == EAGAIN) {
        if (!deadline.wait_for(socket_.get(), POLLOUT)) return too_late("it takes no more bytes");
      } else if (errno != EINTR) {
        return lost("the other side is gone");
      }
    }
    return {};
  }

  Result<std::size_t> read(std::span<std::byte> into, Nanos patience) override {
    const Deadline deadline(patience);
    for (;;) {
      const ssize_t size = ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
      if (size >= 0) return static_cast<std::size_t>(size);
      if (errno == EINTR) continue;
      if (errno != EAGAIN) {
        return shut_.load() ? lost("it was shut") : lost("the other side is gone");
      }
      if (patience <= Nanos(0) || !deadline.wait_for(socket_.get(), POLLIN)) {
        return too_late("no bytes came");
      }
    }
  }

  int descriptor() const override { return socket_.get(); }
  std::vector<int> descriptors() const override { return {socket_.get()}; }
  void shut() noexcept override {
    shut_.store(true);
    ::shutdown(socket_.get(), SHUT_RDWR);
  }

 private:
  Descriptor socket_;
  std::atomic<bool> shut_ = false;
};

}  // namespace

std::unique_ptr<Channel> socket_channel(Descriptor socket) {
  return std::make_unique<SocketChannel>(std::move(socket));
}

}  // namespace partita::remote
