#include "base/draws/poisson_times.h"

#include <bit>
#include <numbers>

namespace partita {
namespace {

// Most readers need few times, for which a large page is too much.
constexpr std::size_t kSmallChunks = 16;

// x = m 2^e with m about 1, and log m = 2 artanh s with s = (m - 1) / (m + 1), as its series. The
// integers are moved such that none is negative.
inline double minus_log_of(double x) {
  constexpr std::uint64_t kOne = std::uint64_t{1} << 52;  // of the exponent
  constexpr std::uint64_t kOffset = 1024 * kOne;
  constexpr auto kRootOfHalf = std::bit_cast<std::uint64_t>(1 / std::numbers::sqrt2);
  constexpr double kTwoTo52 = 0x1p52;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t moved = bits - kRootOfHalf + kOffset;
  const std::uint64_t exponent = moved & ~(kOne - 1);
  const auto m = std::bit_cast<double>(bits - exponent + kOffset);
  const double e = std::bit_cast<double>((moved >> 52) | std::bit_cast<std::uint64_t>(kTwoTo52)) -
                   (kTwoTo52 + 1024);
  const double s = (m - 1) / (m + 1), z = s * s;
  double sum = 1.0 / 19;
  sum = sum * z + 1.0 / 17;
  sum = sum * z + 1.0 / 15;
  sum = sum * z + 1.0 / 13;
  sum = sum * z + 1.0 / 11;
  sum = sum * z + 1.0 / 9;
  sum = sum * z + 1.0 / 7;
  sum = sum * z + 1.0 / 5;
  sum = sum * z + 1.0 / 3;
  return -std::numbers::ln2 * e - 2 * (s + s * z * sum);
}

// The same numbers either way, as neither way rounds a product before it is added to.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
[[gnu::target_clones("avx2", "default")]]
#endif
void
to_gaps(double* uniform, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) uniform[i] = minus_log_of(uniform[i]);
}

}  // namespace

double minus_log(double x) { return minus_log_of(x); }

double* PoissonTimes::room() {
  if (chunks_.size() < kSmallChunks)
    return first_.emplace_back(std::make_unique_for_overwrite<double[]>(kChunk)).get();
  constexpr std::size_t kOfPage = kLargePageNumbers / kChunk;
  const std::size_t place = (chunks_.size() - kSmallChunks) % kOfPage;
  if (place == 0) pages_.push_back(large_page());
  return pages_.back().get() + place * kChunk;
}

// Sums of a few at a time, so that one addition does not wait for the one before it.
void PoissonTimes::add_up(double* times) {
  constexpr std::size_t kFew = 8;
  double clock = clock_;
  for (std::size_t first = 0; first < kChunk; first += kFew) {
    double sum = 0;
    for (std::size_t i = first; i < first + kFew; ++i) {
      sum += times[i];
      times[i] = clock + sum;
    }
    clock += sum;
  }
  clock_ = clock;
}

void PoissonTimes::draw() {
  double* const times = room();
  Rng rng = rng_;  // in registers, which a member is not beside these writes
  for (std::size_t i = 0; i < kChunk; ++i) times[i] = 1 - rng.uniform();
  rng_ = rng;
  to_gaps(times, kChunk);
  add_up(times);
  chunks_.push_back(times);
}

}  // namespace partita
