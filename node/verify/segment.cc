#include "verify/segment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/rng.h"

namespace partita::verify {
namespace {

constexpr std::uint64_t kSeed = 0x5e91;
constexpr int kFirstRequests = 20'000;
constexpr int kFirstLate = 200;  // expected when the percentile is just met
constexpr int kFirstDispatches = 1'000;
constexpr int kGroups = 20;             // of the requests, for the standard error
constexpr int kShownRequests = 50'000;  // behind a latency in a message

// The policy on a stream of arrivals; `wait` says whether a dispatch also waits for an idle
// process.
class Player {
 public:
  Player(const Segment& segment, bool wait)
      : segment_(segment),
        wait_(wait),
        busy_until_(static_cast<std::size_t>(segment.processes), 0) {}

  // Dispatches every batch that the arrivals known so far decide.
  void advance(const std::vector<double>& times) {
    const auto max_batch = static_cast<std::size_t>(segment_.curve.max_batch());
    for (std::size_t first = sojourns_.size(); first < times.size(); first = sojourns_.size()) {
      const auto process = std::ranges::min_element(busy_until_);
      const double begin = std::max({times[first], ready_, wait_ ? *process : 0});
      std::size_t end = first + 1;
      while (end < times.size() && end < first + max_batch && times[end] <= begin) ++end;
      if (end == times.size() && end < first + max_batch) return;
      const double duration = segment_.curve.latency(static_cast<int>(end - first)).value;
      *process = begin + duration;
      ready_ = begin + duration / segment_.processes;
      for (std::size_t i = first; i < end; ++i) sojourns_.push_back(*process - times[i]);
      ++dispatches_;
    }
  }

  // ms, in order of arrival.
  std::vector<double>& sojourns() { return sojourns_; }
  int dispatches() const { return dispatches_; }

 private:
  const Segment& segment_;
  bool wait_;
  std::vector<double> busy_until_;  // per process
  double ready_ = 0;
  int dispatches_ = 0;
  std::vector<double> sojourns_;
};

class Arrivals {
 public:
  explicit Arrivals(Rps load) : mean_gap_(1000 / load.value), rng_(kSeed) {}
  // The times (ms) of the first `count` requests.
  const std::vector<double>& first(int count) {
    times_.reserve(static_cast<std::size_t>(count));
    while (times_.size() < static_cast<std::size_t>(count))
      times_.push_back(now_ += mean_gap_ * rng_.exponential());
    return times_;
  }

 private:
  double mean_gap_;
  double now_ = 0;
  Rng rng_;
  std::vector<double> times_;
};

struct Estimate {
  double mean = 0, error = 0;
};

// The share of requests that are late in `a` less that in `b`, by the method of batch means.
Estimate more_late(const std::vector<double>& a, const std::vector<double>& b, Millis limit) {
  const std::size_t size = std::min(a.size(), b.size()) / kGroups;
  double sum = 0;
  double squares = 0;
  for (std::size_t group = 0; group < kGroups; ++group) {
    int more = 0;
    for (std::size_t i = group * size; i < (group + 1) * size; ++i)
      more += (a[i] > limit.value) - (b[i] > limit.value);
    const double share = more / static_cast<double>(size);
    sum += share;
    squares += share * share;
  }
  const double mean = sum / kGroups;
  const double variance = std::max(0.0, squares / kGroups - mean * mean) / (kGroups - 1);
  return {mean, std::sqrt(variance)};
}

// Dispatches that differ from the usual one and are rarer than this cannot matter.
constexpr double kRareMixture = 1e-6;

// A process is idle whenever the pace has passed if there is one only, or if all batches take
// equally long.
bool never_blocked(const Segment& segment, const PacedQueue& queue) {
  return segment.processes == 1 || queue.mixture() < kRareMixture;
}

}  // namespace

bool meets(const Segment& segment, const PacedQueue& queue, Millis limit, double percentile) {
  if (!queue.within(limit, percentile)) return false;
  if (never_blocked(segment, queue)) return true;
  const double allowed = 1 - percentile / 100;
  const double spare = allowed - queue.late(limit);
  Arrivals arrivals(segment.load);
  Player waiting(segment, true);
  Player paced(segment, false);
  const double first = std::max<double>(kFirstRequests, kFirstLate / allowed);
  for (int count = static_cast<int>(std::min<double>(first, kMaxPlayedRequests));; count *= 2) {
    waiting.advance(arrivals.first(count));
    paced.advance(arrivals.first(count));
    const Estimate busy = more_late(waiting.sojourns(), paced.sojourns(), limit);
    if (count > kMaxPlayedRequests / 2) return busy.mean - busy.error <= spare;
    if (waiting.dispatches() < kFirstDispatches) continue;
    if (busy.mean + kClearErrors * busy.error <= spare) return true;
    if (busy.mean - kClearErrors * busy.error > spare) return false;
  }
}

Millis latency(const Segment& segment, const PacedQueue& queue, double percentile) {
  const Millis paced = queue.latency(percentile);
  if (!queue.stable() || never_blocked(segment, queue)) return paced;
  Arrivals arrivals(segment.load);
  Player waiting(segment, true);
  waiting.advance(arrivals.first(kShownRequests + segment.curve.max_batch()));
  std::vector<double>& sojourns = waiting.sojourns();
  const auto rank = static_cast<double>(sojourns.size()) * percentile / 100;
  const auto place = sojourns.begin() + static_cast<long>(rank);
  std::ranges::nth_element(sojourns, place);
  return std::max(paced, Millis{*place});
}

}  // namespace partita::verify
