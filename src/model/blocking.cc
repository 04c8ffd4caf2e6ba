#include "model/blocking.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace partita::model {
namespace {

constexpr int kDispatches = 500;  // of each run; the first tenth is not counted

// A Poisson number with this mean: by inversion, or for large means by the second-order
// Cornish-Fisher formula.
int poisson_number(Rng& rng, double mean) {
  if (mean < 12) {
    double u = rng.uniform();
    double p = std::exp(-mean);
    int n = 0;
    for (; u >= p && n < 64; ++n) {
      u -= p;
      p *= mean / (n + 1);
    }
    return n;
  }
  // Four uniform numbers of 16 bits make a normal one.
  const std::uint64_t word = rng.next();
  double sum = -2;
  for (int i = 0; i < 64; i += 16) sum += static_cast<double>((word >> i) & 0xffff) * 0x1p-16;
  const double z = sum * std::sqrt(3.0);
  const double n = mean + std::sqrt(mean) * z + (z * z - 1) / 6;
  return std::max(0, static_cast<int>(n + 0.5));
}

}  // namespace

const std::vector<Blocking>& BlockingSampler::sample(const std::vector<SizeClass>& classes,
                                                     int processes, double load) {
  blocking_.assign(classes.size(), {});
  if (processes == 1 || classes.size() == 1 || load <= 0) return blocking_;
  visits_.assign(classes.size(), 0);
  blocked_.assign(classes.size(), 0);
  sums_.assign(classes.size(), 0);
  squares_.assign(classes.size(), 0);
  busy_until_.resize(static_cast<std::size_t>(processes));
  // From an empty and from a full queue, since a queue with steep steps may stay where it is for
  // long.
  play(classes, load, 1, 1);
  play(classes, load, classes.back().last, 2);
  for (std::size_t j = 0; j < classes.size(); ++j) {
    if (blocked_[j] == 0) continue;
    const double mean = sums_[j] / blocked_[j];
    const double spread = std::sqrt(std::max(0.0, squares_[j] / blocked_[j] - mean * mean));
    blocking_[j] = {.share = static_cast<double>(blocked_[j]) / visits_[j],
                    .length = mean,
                    .spread = std::min(spread, mean - classes[j].pace)};
  }
  return blocking_;
}

void BlockingSampler::play(const std::vector<SizeClass>& classes, double load, int queued,
                           std::uint64_t seed) {
  Rng rng(seed);
  double now = 0;
  std::fill(busy_until_.begin(), busy_until_.end(), now);
  auto idle = busy_until_.begin();
  for (int i = 0; i < kDispatches; ++i) {
    const int batch = std::min(queued, classes.back().last);
    const auto found = std::lower_bound(classes.begin(), classes.end(), batch,
                                        [](const SizeClass& c, int n) { return c.last < n; });
    const auto j = static_cast<std::size_t>(found - classes.begin());
    queued -= batch;
    *idle = now + found->latency;
    idle = std::min_element(busy_until_.begin(), busy_until_.end());

    const double wait = *idle - now;
    const bool blocked = wait > found->pace * (1 + 1e-9);
    if (i >= kDispatches / 10 && queued == 0) {
      ++visits_[j];
      if (blocked) {
        ++blocked_[j];
        sums_[j] += wait;
        squares_[j] += wait * wait;
      }
    }
    const double length = std::max(found->pace, wait);
    now += length;
    queued += poisson_number(rng, load * length);
    if (queued == 0) {
      queued = 1;
      now += rng.exponential() / load;
    }
  }
}

}  // namespace partita::model
