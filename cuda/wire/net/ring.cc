#include "wire/net/ring.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace partita::remote {
namespace {

// A writer that sleeps is rung when this part of the ring is free, not for every byte.
constexpr std::size_t kRoomWorthWaking = 8;

// Large copies out of the ring go past the caches: the ring stays in them for the other side, and
// the lines that are overwritten whole are not read from memory first.
constexpr std::size_t kLargeCopy = 64 * 1024;

void copy_out(std::byte* into, const std::byte* from, std::size_t size) {
#if defined(__SSE2__)
  if (size >= kLargeCopy) {
    const std::size_t before = -reinterpret_cast<std::uintptr_t>(into) % 16;
    std::memcpy(into, from, before);
    into += before, from += before, size -= before;
    for (; size >= 64; into += 64, from += 64, size -= 64) {
      const auto* source = reinterpret_cast<const __m128i*>(from);
      auto* target = reinterpret_cast<__m128i*>(into);
      const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
      const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
      _mm_stream_si128(target, a);
      _mm_stream_si128(target + 1, b);
      _mm_stream_si128(target + 2, c);
      _mm_stream_si128(target + 3, d);
    }
    _mm_sfence();
  }
#endif
  if (size > 0) std::memcpy(into, from, size);
}

// A side makes its position visible and then looks at the other's flag; the other raises its flag
// and then looks at the position. Sequentially consistent, so that one of the two sees the other.
bool clear(std::atomic<std::uint32_t>& flag) { return flag.load() != 0 && flag.exchange(0) != 0; }

}  // namespace

// Positions are taken over from the memory, as it may be a channel that another process began. A
// peer that has changed them harms only its own stream.
RingWriter::RingWriter(RingMemory memory)
    : memory_(memory), written_(memory.indices->written.load(std::memory_order_relaxed)) {
  CHECK(!memory.data.empty());
}

std::optional<std::size_t> RingWriter::room() const {
  const std::uint64_t used = written_ - memory_.indices->taken.load();
  if (used > memory_.data.size()) return std::nullopt;
  return memory_.data.size() - used;
}

bool RingWriter::put(std::span<const std::byte> bytes) {
  if (bytes.empty()) return false;
  const std::size_t at = written_ % memory_.data.size();
  const std::size_t first = std::min(bytes.size(), memory_.data.size() - at);
  std::memcpy(memory_.data.data() + at, bytes.data(), first);
  if (first < bytes.size()) {
    std::memcpy(memory_.data.data(), bytes.data() + first, bytes.size() - first);
  }
  written_ += bytes.size();
  memory_.indices->written.store(written_);
  return clear(memory_.indices->reader_sleeps);
}

void RingWriter::sleep() { memory_.indices->writer_sleeps.store(1); }

RingReader::RingReader(RingMemory memory)
    : memory_(memory), taken_(memory.indices->taken.load(std::memory_order_relaxed)) {
  CHECK(!memory.data.empty());
}

std::optional<std::size_t> RingReader::available() const {
  const std::uint64_t there = memory_.indices->written.load() - taken_;
  if (there > memory_.data.size()) return std::nullopt;
  return static_cast<std::size_t>(there);
}

bool RingReader::take(std::span<std::byte> into) {
  const std::size_t at = taken_ % memory_.data.size();
  const std::size_t first = std::min(into.size(), memory_.data.size() - at);
  copy_out(into.data(), memory_.data.data() + at, first);
  copy_out(into.data() + first, memory_.data.data(), into.size() - first);
  taken_ += into.size();
  memory_.indices->taken.store(taken_);
  // A writer sleeps only when it found too little room; what is left may still be much.
  const std::uint64_t left = memory_.indices->written.load(std::memory_order_relaxed) - taken_;
  if (left > memory_.data.size() - memory_.data.size() / kRoomWorthWaking) return false;
  return clear(memory_.indices->writer_sleeps);
}

void RingReader::sleep() { memory_.indices->reader_sleeps.store(1); }

}  // namespace partita::remote
