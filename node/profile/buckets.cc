#include "profile/buckets.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "base/parse_number.h"

namespace partita::profile {
namespace {

constexpr char kMark = '~';

Length rounded_up(Length length, int bits) {
  const int width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(length)));
  const Length grain = Length{1} << std::max(0, width - bits);
  return (length + grain - 1) / grain * grain;
}

Length next_power(Length length) {
  return static_cast<Length>(std::bit_ceil(static_cast<std::uint64_t>(length)));
}

// One layer of the programme: cost[j] of the first j lengths in one bucket more than `before` has.
struct Layers {
  std::vector<Length> ends;
  std::vector<double> weights;  // of the first j lengths
  std::vector<double> before, now;
  std::vector<std::vector<std::size_t>> from;  // by layer and j: where its last bucket begins

  double with(std::size_t i, std::size_t j) const {
    return before[i] + static_cast<double>(ends[j - 1]) * (weights[j] - weights[i]);
  }
  // now[low, high), whose last buckets begin in [first, last].
  void fill(std::size_t low, std::size_t high, std::size_t first, std::size_t last) {
    if (low >= high) return;
    const std::size_t middle = low + (high - low) / 2;
    std::size_t best = first;
    for (std::size_t i = first; i <= std::min(last, middle - 1); ++i)
      if (with(i, middle) < with(best, middle)) best = i;
    now[middle] = with(best, middle);
    from.back()[middle] = best;
    fill(low, middle, first, best);
    fill(middle + 1, high, best, last);
  }
};

}  // namespace

std::vector<Length> best_buckets(const LengthWeights& lengths, int most) {
  CHECK(most >= 1);
  Layers layers{.ends = {}, .weights = {0}, .before = {}, .now = {}, .from = {}};
  for (const auto& [length, weight] : lengths) {
    layers.ends.push_back(length);
    layers.weights.push_back(layers.weights.back() + weight);
  }
  const std::size_t n = layers.ends.size();
  const std::size_t count = std::min(n, static_cast<std::size_t>(most));
  layers.before.assign(n + 1, std::numeric_limits<double>::infinity());
  layers.before[0] = 0;
  layers.now = layers.before;
  for (std::size_t k = 0; k < count; ++k) {
    layers.from.emplace_back(n + 1, 0);
    layers.now[0] = std::numeric_limits<double>::infinity();
    layers.fill(k + 1, n + 1, k, n - 1);
    layers.before = layers.now;
  }
  std::vector<Length> buckets;
  for (std::size_t k = count, j = n; k > 0; --k, j = layers.from[k][j])
    buckets.push_back(layers.ends[j - 1]);
  std::ranges::reverse(buckets);
  return buckets;
}

double padding_share(const LengthWeights& lengths, const std::vector<Length>& buckets) {
  double own = 0, padded = 0;
  for (const auto& [length, weight] : lengths) {
    const auto bucket = std::ranges::lower_bound(buckets, length);
    own += static_cast<double>(length) * weight;
    padded += static_cast<double>(bucket == buckets.end() ? length : *bucket) * weight;
  }
  return padded > 0 ? 1 - own / padded : 0;
}

void LearnedBuckets::saw(Length length) {
  if (length < 1 || length > kMostLength) return;
  known_[rounded_up(length, bits_)] += 1;
  ++remembered_;
  if (known_.size() > kMostKnown) coarsen();
  if (remembered_ >= kMemory) {
    for (auto& [known, weight] : known_) weight /= 2;
    std::erase_if(known_, [](const auto& one) { return one.second < 1; });
    remembered_ /= 2;
  }
  if (++seen_ < next_) return;
  next_ += std::min(next_ / 4, kMemory / 8);
  learn();
}

void LearnedBuckets::coarsen() {
  LengthWeights coarser;
  --bits_;
  for (const auto& [length, weight] : known_) coarser[rounded_up(length, bits_)] += weight;
  known_ = std::move(coarser);
}

void LearnedBuckets::learn() {
  std::vector<Length> better = best_buckets(known_, most_);
  double compute = 0, compute_now = 0;
  for (const auto& [length, weight] : known_) {
    compute += static_cast<double>(*std::ranges::lower_bound(better, length)) * weight;
    compute_now += static_cast<double>(padded(length)) * weight;
  }
  if (compute < compute_now * (1 - kWorthwhile)) buckets_ = std::move(better);
}

Length LearnedBuckets::padded(Length length) const {
  const Length power = next_power(std::max<Length>(length, 1));
  const auto bucket = std::ranges::lower_bound(buckets_, length);
  if (length < 1) return length;
  return bucket == buckets_.end() ? power : std::min(*bucket, power);
}

Length length_of(std::string_view shape) {
  Length greatest = 0;
  for (std::size_t at = shape.find('='); at != shape.npos; at = shape.find('=', at + 1)) {
    std::string_view sizes = shape.substr(at + 1);
    sizes = sizes.substr(0, sizes.find(' '));
    for (std::size_t i = 0; i < sizes.size();) {
      const std::size_t end = std::min(sizes.find_first_not_of("0123456789", i), sizes.size());
      const auto size = parse_number<Length>(sizes.substr(i, end - i));
      if (size && *size <= kMostLength) greatest = std::max(greatest, *size);
      i = end + 1;
    }
  }
  return greatest;
}

BucketName bucket_name(const std::string& name) {
  const std::size_t at = name.rfind(kMark);
  if (at == std::string::npos || at == 0) return {name};
  const auto bucket = parse_number<Length>(std::string_view(name).substr(at + 1));
  if (!bucket || *bucket < 1 || *bucket > kMostLength) return {name};
  return {name.substr(0, at), *bucket};
}

std::string with_bucket(const std::string& name, Length bucket) {
  return name + kMark + std::to_string(bucket);
}

}  // namespace partita::profile
