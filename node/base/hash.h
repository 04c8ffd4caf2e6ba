// Hashes of texts and words whose values may be written down: the same on every machine, for ever.
// Not for secrets, nor against those who choose the texts.
#pragma once

#include <cstdint>
#include <string_view>

namespace partita {

// 2^64 over the golden ratio: multiples of it lie far apart.
inline constexpr std::uint64_t kGolden64 = 0x9e3779b97f4a7c15ULL;

// Every bit of the result depends on every bit of x: the finaliser of splitmix64.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// FNV-1a in 64 bits.
constexpr std::uint64_t text_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace partita
