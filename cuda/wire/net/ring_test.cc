#include "wire/net/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "wire/net/ring_channel.h"

namespace partita::remote {
namespace {

struct OwnRing {
  explicit OwnRing(std::size_t bytes) : data(bytes) {}
  RingMemory memory() { return {&indices, data}; }
  RingIndices indices{};
  std::vector<std::byte> data;
};

TEST(Ring, IsAQueueOfBytes) {
  rc::check([](std::uint64_t seed) {
    Rng rng(seed);
    OwnRing ring(1 + rng.below(50));
    RingWriter writer(ring.memory());
    RingReader reader(ring.memory());
    std::deque<std::byte> queue;
    for (int i = 0; i < 200; ++i) {
      const std::size_t room = writer.room().value();
      RC_ASSERT(room == ring.data.size() - queue.size());
      std::vector<std::byte> bytes(rng.below(room + 1));
      for (auto& byte : bytes) queue.push_back(byte = static_cast<std::byte>(rng.next()));
      writer.put(bytes);
      RC_ASSERT(reader.available().value() == queue.size());
      std::vector<std::byte> got(rng.below(queue.size() + 1));
      reader.take(got);
      for (const auto byte : got) {
        RC_ASSERT(byte == queue.front());
        queue.pop_front();
      }
    }
  });
}

TEST(Ring, PositionsThatLieAreNoticedAndNothingOutsideIsTouched) {
  Rng rng(1);
  for (int i = 0; i < 10'000; ++i) {
    OwnRing ring(64);
    RingWriter writer(ring.memory());
    RingReader reader(ring.memory());
    const std::vector<std::byte> some(rng.below(65));
    writer.put(some);
    const std::uint64_t lie = rng.below(2) == 0 ? rng.next() : rng.below(200) - 100;
    ring.indices.taken.store(lie);
    const std::uint64_t used = some.size() - lie;
    EXPECT_EQ(writer.room().has_value(), used <= 64);
    if (const auto room = writer.room()) {
      EXPECT_LE(*room, 64u);
      writer.put(std::vector<std::byte>(*room));
    }
    ring.indices.written.store(lie);
    EXPECT_EQ(reader.available().has_value(), lie <= 64);
    if (const auto there = reader.available()) {
      std::vector<std::byte> into(*there);
      reader.take(into);
    }
  }
}

// The listener's channel, and the memory as a hostile connector sees it.
struct Scribbled {
  std::unique_ptr<Channel> channel;
  Descriptor socket{-1}, room{-1};
  std::span<std::byte> memory;
  Scribbled() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()), 0);
    socket = Descriptor(pair[1]);
    auto offer = make_rings(Descriptor(pair[0]), 4096);
    room = std::move(offer->room);
    constexpr std::size_t kAll = 4096 + 2 * 4096;
    void* start =
        ::mmap(nullptr, kAll, PROT_READ | PROT_WRITE, MAP_SHARED, offer->mine.memory.get(), 0);
    memory = {static_cast<std::byte*>(start), kAll};
    channel = std::move(*ring_channel(std::move(offer->mine), RingSide::listener));
  }
  ~Scribbled() { ::munmap(memory.data(), memory.size()); }
};

TEST(RingChannel, ScribbledIndicesEndTheConnectionAndHangNothing) {
  Rng rng(7);
  int lost = 0;
  for (int i = 0; i < test_rounds(300); ++i) {
    Scribbled it;
    std::thread scribbler([&, one = rng.split(static_cast<std::uint64_t>(i))]() mutable {
      for (int k = 0; k < 40; ++k) {
        // A whole word of the head, so that indices and flags change as a program would.
        const std::size_t at = 8 * one.below(2 * sizeof(RingIndices) / 8);
        const std::uint64_t value = one.below(3) == 0 ? one.next() : one.below(8192);
        std::atomic_ref(*reinterpret_cast<std::uint64_t*>(it.memory.data() + at)).store(value);
        ::send(it.socket.get(), "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        ::send(it.room.get(), "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
      }
      it.socket.close_now();
      it.room.close_now();
    });
    std::vector<std::byte> bytes(3000);
    const std::array<std::span<const std::byte>, 1> parts{bytes};
    bool alive = true;
    for (int k = 0; k < 20 && alive; ++k) {
      const auto size = it.channel->read(bytes, std::chrono::milliseconds(1));
      alive = (size && *size > 0) || (!size && size.error().code == ErrorCode::timeout);
      const auto done = it.channel->write(parts, std::chrono::milliseconds(1));
      alive = alive && (done || done.error().code == ErrorCode::timeout);
    }
    scribbler.join();
    lost += !alive;
  }
  EXPECT_GT(lost, 0);
}

TEST(RingChannel, MemoryThatIsNotSealedOrHasAWrongSizeIsRefused) {
  auto with = [](std::size_t bytes, int seals) {
    RingParts parts;
    parts.memory = Descriptor(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(parts.memory.get(), static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(::fcntl(parts.memory.get(), F_ADD_SEALS, seals), 0);
    return ring_channel(std::move(parts), RingSide::connector);
  };
  constexpr int kGood = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  EXPECT_TRUE(with(4096 + 8192, kGood));
  EXPECT_FALSE(with(4096 + 8192, F_SEAL_GROW | F_SEAL_SEAL));
  EXPECT_FALSE(with(4096 + 8192, F_SEAL_SHRINK | F_SEAL_GROW));
  EXPECT_FALSE(with(0, kGood));
  EXPECT_FALSE(with(4096, kGood));
  EXPECT_FALSE(with(4096 + 8191, kGood));
  EXPECT_FALSE(with(std::size_t{1} << 40, kGood));
  EXPECT_FALSE(ring_channel({}, RingSide::connector));
}

}  // namespace
}  // namespace partita::remote
