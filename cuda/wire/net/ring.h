// A byte ring in shared memory, one writer and one reader, each in its own process. The two trust
// nothing that the other can write: a position is read once and compared with one's own, a ring
// that claims more than it holds is a lie and ends the connection. Bytes are copied out before
// anybody looks at them. Memory and waiting are the caller's (ring_channel.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace partita::remote {

// Positions are bytes since the beginning. The flags say that a side sleeps until the other one
// rings; whoever clears it rings.
struct RingIndices {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> taken;
  alignas(64) std::atomic<std::uint32_t> reader_sleeps;
  alignas(64) std::atomic<std::uint32_t> writer_sleeps;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct RingMemory {
  RingIndices* indices = nullptr;
  std::span<std::byte> data = {};
};

class RingWriter {
 public:
  explicit RingWriter(RingMemory memory);
  // Bytes that fit now; nothing when the other side lies.
  std::optional<std::size_t> room() const;
  // Copies bytes that fit (at most room()) and makes them visible. True: the reader is to be rung.
  bool put(std::span<const std::byte> bytes);
  // From here on the reader rings when there is room again.
  void sleep();
  void wake() { memory_.indices->writer_sleeps.store(0, std::memory_order_relaxed); }

 private:
  RingMemory memory_;
  std::uint64_t written_ = 0;
};

class RingReader {
 public:
  explicit RingReader(RingMemory memory);
  // Bytes that are there; nothing when the other side lies.
  std::optional<std::size_t> available() const;
  // Copies the first into.size() bytes out (at most available()). True: the writer is to be rung.
  bool take(std::span<std::byte> into);
  // From here on the writer rings when there are bytes.
  void sleep();
  void wake() { memory_.indices->reader_sleeps.store(0, std::memory_order_relaxed); }

 private:
  RingMemory memory_;
  std::uint64_t taken_ = 0;
};

}  // namespace partita::remote
