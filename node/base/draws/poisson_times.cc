#include "base/draws/poisson_times.h"

#include <bit>
#include <numbers>

namespace partita {
namespace {

// Most readers need few times, for which a large page is too much.
constexpr std::size_t kSmallChunks = 16;
constexpr std::size_t kFew = 512;  // stay in the nearest cache
static_assert(PoissonTimes::kChunk % kFew == 0);

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

// Of whole numbers below 2^53 the logs of what they leave of 1, as shares of 2^53: from bits, since
// four at a time are converted in no other way. The same numbers with either clone, as neither
// rounds a product before it is added to.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
[[gnu::target_clones("avx2", "default")]]
#endif
void
to_gaps(const std::uint64_t* drawn, double* gaps) {
  constexpr std::uint64_t kOne = std::uint64_t{1} << 53;
  constexpr auto kLow = std::bit_cast<std::uint64_t>(0x1p52);
  constexpr auto kHigh = std::bit_cast<std::uint64_t>(0x1p84);
  for (std::size_t i = 0; i < kFew; ++i) {
    const std::uint64_t left = kOne - drawn[i];
    const auto high = std::bit_cast<double>((left >> 32) | kHigh);
    const auto low = std::bit_cast<double>((left & 0xffffffff) | kLow);
    gaps[i] = minus_log_of(((high - (0x1p84 + 0x1p52)) + low) * 0x1p-53);
  }
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

// Sums of some at a time, so that one addition does not wait for the one before it.
void PoissonTimes::add_up(const double* gaps, double* times) {
  constexpr std::size_t kSome = 8;
  double clock = clock_;
  for (std::size_t first = 0; first < kFew; first += kSome) {
    double sum = 0;
    for (std::size_t i = first; i < first + kSome; ++i) {
      sum += gaps[i];
      times[i] = clock + sum;
    }
    clock += sum;
  }
  clock_ = clock;
}

void PoissonTimes::draw() {
  double* const times = room();
  std::uint64_t drawn[kFew];
  double gaps[kFew];
  for (std::size_t first = 0; first < kChunk; first += kFew) {
    Rng rng = rng_;  // in registers, which a member is not beside these writes
    for (std::uint64_t& one : drawn) one = rng.next() >> 11;  // as uniform()
    rng_ = rng;
    to_gaps(drawn, gaps);
    add_up(gaps, times + first);
  }
  chunks_.push_back(times);
}

}  // namespace partita
