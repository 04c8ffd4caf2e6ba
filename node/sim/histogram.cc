#include "sim/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace partita::sim {
namespace {

constexpr int kBits = 9;  // 2^9 buckets per octave
constexpr int kOctaves = 63 - kBits;
constexpr std::size_t kBuckets = static_cast<std::size_t>(kOctaves + 1) << kBits;

// Values below 2^(kBits+1) are their own bucket; above, the leading kBits+1 bits name it.
std::size_t bucket_of(Nanos value) {
  const auto v = static_cast<std::uint64_t>(value);
  const int shift = std::max(0, static_cast<int>(std::bit_width(v)) - kBits - 1);
  return (static_cast<std::size_t>(shift) << kBits) + static_cast<std::size_t>(v >> shift);
}

Nanos middle_of(std::size_t bucket) {
  const int shift = std::max(0, static_cast<int>(bucket >> kBits) - 1);
  const auto lead = static_cast<Nanos>(bucket - (static_cast<std::size_t>(shift) << kBits));
  return (lead << shift) + (((Nanos{1} << shift) - 1) >> 1);
}

}  // namespace

LatencyHistogram::LatencyHistogram() : buckets_(kBuckets, 0) {}

void LatencyHistogram::add(Nanos value) {
  CHECK(value >= 0);
  least_ = count_ == 0 ? value : std::min(least_, value);
  most_ = std::max(most_, value);
  ++count_;
  sum_ += static_cast<double>(value);
  ++buckets_[bucket_of(value)];
}

Nanos LatencyHistogram::percentile(double percent) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(percent / 100 * static_cast<double>(count_));
  const auto rank = std::clamp(static_cast<long>(wanted), 1L, count_);
  std::size_t bucket = bucket_of(least_);
  for (auto left = static_cast<std::uint64_t>(rank); buckets_[bucket] < left; ++bucket) {
    left -= buckets_[bucket];
  }
  return std::clamp(middle_of(bucket), least_, most_);
}

void LatencyHistogram::clear() {
  // Only what was touched: a simulation of many small services clears once for each of them.
  const auto begin = buckets_.begin();
  std::fill(begin + static_cast<std::ptrdiff_t>(bucket_of(least_)),
            begin + static_cast<std::ptrdiff_t>(bucket_of(most_)) + 1, 0);
  count_ = 0;
  least_ = most_ = 0;
  sum_ = 0;
}

}  // namespace partita::sim
