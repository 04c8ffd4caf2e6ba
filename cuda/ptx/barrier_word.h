// The 64 bits of an mbarrier object, whose layout PTX leaves open. Pure.
#pragma once

#include <cstdint>

namespace partita::ptx::barrier_word {

// Arrivals that the phase waits for, how many each phase expects, bytes that it waits for (above
// kNoBytes), and the parity of the phase.
inline constexpr unsigned kExpectedAt = 20, kBytesAt = 40, kPhaseAt = 63;
inline constexpr std::uint64_t kCount = (1u << 20) - 1, kByteBits = (1u << 22) - 1;
inline constexpr std::uint64_t kNoBytes = 1u << 21;
inline constexpr std::uint64_t kPhase = std::uint64_t{1} << kPhaseAt;

constexpr std::uint64_t pending(std::uint64_t word) { return word & kCount; }
constexpr std::uint64_t expected(std::uint64_t word) { return word >> kExpectedAt & kCount; }
constexpr std::uint64_t bytes(std::uint64_t word) { return word >> kBytesAt & kByteBits; }

constexpr std::uint64_t made(std::uint64_t phase, std::uint64_t expected, std::uint64_t pending,
                             std::uint64_t bytes) {
  return (phase & kPhase) | (bytes & kByteBits) << kBytesAt | (expected & kCount) << kExpectedAt |
         (pending & kCount);
}

// What mbarrier.init with `count` leaves is count times this and kNoBytes.
inline constexpr std::uint64_t kPerCount = 1 | std::uint64_t{1} << kExpectedAt;

// The next phase begins once nothing is waited for.
constexpr std::uint64_t settled(std::uint64_t word) {
  if (pending(word) != 0 || bytes(word) != kNoBytes) return word;
  return made(~word, expected(word), expected(word), kNoBytes);
}
constexpr std::uint64_t arrived(std::uint64_t word, std::uint64_t count) {
  return settled(made(word, expected(word), pending(word) - count, bytes(word)));
}
constexpr std::uint64_t dropped(std::uint64_t word, std::uint64_t count) {
  return settled(made(word, expected(word) - count, pending(word) - count, bytes(word)));
}
constexpr std::uint64_t expecting(std::uint64_t word, std::uint64_t more) {
  return made(word, expected(word), pending(word), bytes(word) + more);
}
constexpr std::uint64_t completed(std::uint64_t word, std::uint64_t done) {
  return settled(made(word, expected(word), pending(word), bytes(word) - done));
}

}  // namespace partita::ptx::barrier_word
