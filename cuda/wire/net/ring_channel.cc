#include "wire/net/ring_channel.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "wire/net/deadline.h"
#include "wire/net/ring.h"

namespace partita::remote {
namespace {

constexpr int kRingSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t kRingHead = 4096;            // indices of both rings
constexpr std::size_t kMostRingBytes = 256 << 20;  // a listener may ask for no more
constexpr std::size_t kPortion = 256 * 1024;       // copied before the other side may see it
constexpr Nanos kMostSpin = std::chrono::microseconds(200);
constexpr unsigned kMostVain = 4;
constexpr int kPauses = 4;                             // looks before the core is offered to others
constexpr unsigned kTryAgain = 32, kTryRarely = 8192;  // waits
constexpr const char* kRings = "remote rings";
static_assert(2 * sizeof(RingIndices) <= kRingHead);

tl::unexpected<Error> ring_error(const char* doing) {
  return environment_error(kRings, std::string(doing) + ": " + std::strerror(errno));
}
tl::unexpected<Error> ring_lost(const char* what) {
  return failed({ErrorCode::lost, what, kRings});
}
tl::unexpected<Error> ring_lies() {
  return failed({ErrorCode::lost, "the other side's ring claims more than it holds", kRings});
}

// The mapping of both rings.
class RingMapping {
 public:
  RingMapping(std::byte* start, std::size_t bytes) : start_(start), bytes_(bytes) {}
  ~RingMapping() {
    if (start_ != nullptr) ::munmap(start_, bytes_);
  }
  RingMapping(RingMapping&& other) noexcept
      : start_(std::exchange(other.start_, nullptr)), bytes_(other.bytes_) {}
  RingMapping& operator=(RingMapping&&) = delete;
  // 0: from listener to connector, 1: back.
  RingMemory ring(int direction) const {
    const std::size_t data = (bytes_ - kRingHead) / 2;
    const auto index = static_cast<std::size_t>(direction);
    return {reinterpret_cast<RingIndices*>(start_) + direction,
            {start_ + kRingHead + index * data, data}};
  }

 private:
  std::byte* start_;
  std::size_t bytes_;
};

Result<RingMapping> map_rings(int memory) {
  struct stat found {};
  if (::fstat(memory, &found) != 0) return ring_error("cannot look at the memory");
  const int seals = ::fcntl(memory, F_GET_SEALS);
  if (seals < 0 || (seals & kRingSeals) != kRingSeals) {
    return bad_input(kRings, "the memory is not sealed against shrinking and growing");
  }
  const auto bytes = static_cast<std::size_t>(std::max<off_t>(found.st_size, 0));
  if (bytes < kRingHead + 2 || bytes > kRingHead + 2 * kMostRingBytes || bytes % 2 != 0) {
    return bad_input(kRings, "the memory has the wrong size");
  }
  void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (start == MAP_FAILED) return ring_error("cannot map the memory");
  return RingMapping(static_cast<std::byte*>(start), bytes);
}

// Whether to look before sleeping, and for how long: four times what a sleeper needs to wake on a
// virtual machine (45 us), since two sides that sleep make one another wait. After a few looks in
// vain it sleeps at once, and looks again now and then; where the core, once offered, went to
// somebody else for long, more rarely. Looking for less after short waits was tried: waits of 40
// and of 150 us in turn then all end asleep.
class Spin {
 public:
  template <class Ready>
  bool until(Ready&& ready) {
    if (vain_ == kMostVain) {
      if (++asleep_ < rest_) return false;
      asleep_ = 0;
      vain_ = 0;
    }
    const Deadline look(kMostSpin);
    for (int i = 0; look.left() > Nanos(0); ++i) {
      if (ready()) {
        vain_ = 0;
        rest_ = kTryAgain;
        return true;
      }
      give_way(i);
    }
    const bool crowded = look.waited() > 2 * kMostSpin;
    if (crowded) rest_ = std::min(4 * rest_, kTryRarely);
    vain_ = crowded ? kMostVain : vain_ + 1;
    return false;
  }

 private:
  // The other side may wait for this core.
  static void give_way(int round) {
    if (round > kPauses) {
      ::sched_yield();
      return;
    }
#if defined(__x86_64__)
    for (int i = 0; i < 8; ++i) __builtin_ia32_pause();
#endif
  }

  unsigned vain_ = 0;                       // looks in a row
  unsigned asleep_ = 0, rest_ = kTryAgain;  // waits
};

void ring_bell(int fd) {
  // A full socket holds enough rings; that of a dead one is noticed by who sleeps on it.
  while (::send(fd, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

// Takes the rings off a socket; false when the other side has ended it.
bool take_bells(int fd) {
  std::array<char, 64> bells;
  for (;;) {
    const ssize_t size = ::recv(fd, bells.data(), bells.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno == EAGAIN;
    if (size == 0) return false;
    if (static_cast<std::size_t>(size) < bells.size()) return true;
  }
}

class RingChannel final : public Channel {
 public:
  RingChannel(RingParts parts, RingMapping mapping, RingSide side)
      : parts_(std::move(parts)),
        mapping_(std::move(mapping)),
        writer_(mapping_.ring(side == RingSide::listener ? 0 : 1)),
        reader_(mapping_.ring(side == RingSide::listener ? 1 : 0)) {}

  Result<void> write(std::span<const std::span<const std::byte>> parts, Nanos patience) override {
    for (const auto& part : parts) {
      auto left = part;
      while (!left.empty()) {
        const auto room = TRY(wait_for_room(patience));
        const auto now = left.first(std::min({left.size(), room, kPortion}));
        if (writer_.put(now)) ring_bell(parts_.socket.get());
        left = left.subspan(now.size());
      }
    }
    return {};
  }

  Result<std::size_t> read(std::span<std::byte> into, Nanos patience) override {
    const auto available = wait_for_bytes(patience);
    if (!available || *available == 0) return available;
    const auto now = into.first(std::min({into.size(), *available, kPortion}));
    if (reader_.take(now)) ring_bell(parts_.room.get());
    return now.size();
  }

  int descriptor() const override { return parts_.socket.get(); }
  std::vector<int> descriptors() const override {
    return {parts_.socket.get(), parts_.room.get(), parts_.memory.get()};
  }
  void shut() noexcept override {
    shut_.store(true, std::memory_order_relaxed);
    ::shutdown(parts_.socket.get(), SHUT_RDWR);
    ::shutdown(parts_.room.get(), SHUT_RDWR);
  }

 private:
  bool is_shut() const { return shut_.load(std::memory_order_relaxed); }

  Result<std::size_t> wait_for_room(Nanos patience) {
    auto room = writer_.room();
    if (room && *room > 0 && !is_shut()) return *room;
    const Deadline deadline(patience);
    for (bool ended = false;;) {
      if (is_shut()) return ring_lost("it was shut");
      write_spin_.until([&] { return writer_.room() != 0u; });
      writer_.sleep();
      room = writer_.room();
      if (!room) return ring_lies();
      if (*room > 0) break;
      if (ended) return ring_lost("the other side is gone");
      if (!deadline.wait_for(parts_.room.get(), POLLIN)) {
        return failed({ErrorCode::timeout, "it takes no more bytes", kRings});
      }
      ended = !take_bells(parts_.room.get());
    }
    writer_.wake();
    return *room;
  }

  // 0: the other side has ended it and all its bytes are read.
  Result<std::size_t> wait_for_bytes(Nanos patience) {
    auto available = reader_.available();
    if (available && *available > 0 && !is_shut()) return *available;
    const Deadline deadline(patience);
    for (bool ended = false;;) {
      if (is_shut()) return ring_lost("it was shut");
      if (patience > Nanos(0)) {
        read_spin_.until([&] { return reader_.available() != 0u; });
      } else {
        ended = ended || !take_bells(parts_.socket.get());
      }
      reader_.sleep();
      available = reader_.available();
      if (!available) return ring_lies();
      if (*available > 0 || ended) break;
      // The flag stays up: whoever waits with epoll is rung.
      if (patience <= Nanos(0) || !deadline.wait_for(parts_.socket.get(), POLLIN)) {
        return failed({ErrorCode::timeout, "no bytes came", kRings});
      }
      ended = !take_bells(parts_.socket.get());
    }
    reader_.wake();
    return *available;
  }

  RingParts parts_;
  RingMapping mapping_;
  RingWriter writer_;
  RingReader reader_;
  Spin write_spin_, read_spin_;
  std::atomic<bool> shut_ = false;
};

}  // namespace

Result<RingOffer> make_rings(Descriptor socket, std::size_t ring_bytes) {
  RingOffer offer;
  offer.mine.socket = std::move(socket);
  offer.mine.memory = Descriptor(::memfd_create("partita-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int memory = offer.mine.memory.get();
  if (memory < 0) return ring_error("cannot make a memfd");
  if (::ftruncate(memory, static_cast<off_t>(kRingHead + 2 * ring_bytes)) != 0 ||
      ::fcntl(memory, F_ADD_SEALS, kRingSeals) != 0) {
    return ring_error("cannot get the memory");
  }
  std::array<int, 2> pair{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return ring_error("cannot make sockets");
  }
  offer.mine.room = Descriptor(pair[0]);
  offer.room = Descriptor(pair[1]);
  return offer;
}

Result<std::unique_ptr<Channel>> ring_channel(RingParts parts, RingSide side) {
  auto mapping = TRY(map_rings(parts.memory.get()));
  return std::make_unique<RingChannel>(std::move(parts), std::move(mapping), side);
}

}  // namespace partita::remote
