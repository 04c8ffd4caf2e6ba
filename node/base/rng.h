// Rng: xoshiro256** seeded through splitmix64. One stream per component: `split(id)` gives an
// independent stream, so adding a draw in one component never shifts another. Same seed, same
// numbers, on every machine.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/hash.h"

namespace partita {

inline std::uint64_t splitmix64(std::uint64_t& state) { return mix64(state += kGolden64); }

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : seed_(seed) {
    std::uint64_t state = seed;
    for (std::uint64_t& word : words_) word = splitmix64(state);
  }

  // An independent stream for component `id`.
  Rng split(std::uint64_t id) const {
    std::uint64_t state = seed_ ^ (id * 0xd1342543de82ef95ULL + 0x632be59bd9b4e019ULL);
    return Rng(splitmix64(state));
  }

  std::uint64_t next() {
    const std::uint64_t result = rotate(words_[1] * 5, 7) * 9;
    const std::uint64_t t = words_[1] << 17;
    words_[2] ^= words_[0];
    words_[3] ^= words_[1];
    words_[1] ^= words_[2];
    words_[0] ^= words_[3];
    words_[2] ^= t;
    words_[3] = rotate(words_[3], 45);
    return result;
  }

  // Uniform in [0, 1).
  double uniform() {
    return static_cast<double>(static_cast<std::int64_t>(next() >> 11)) * 0x1.0p-53;
  }
  // Uniform integer in [0, bound), bound > 0. The bias is below 2^-32 for bounds below 2^32.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  // Exponential with mean 1.
  double exponential() { return -std::log1p(-uniform()); }

 private:
  static std::uint64_t rotate(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

  std::uint64_t seed_;
  std::uint64_t words_[4];
};

}  // namespace partita
