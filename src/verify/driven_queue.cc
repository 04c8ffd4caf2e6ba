#include "verify/driven_queue.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace partita::verify {
namespace {

using plan::Nanos;

constexpr std::uint64_t kJudgeSeed = 0x1ead;
constexpr double kNanosPerSecond = 1e9;
constexpr double kNanosPerMilli = 1e6;
// Of the allowance: clearly kept, clearly exceeded, and what random counts may add to it.
constexpr double kClearlyKept = 0.7;
constexpr double kClearlyMissed = 2.5;
constexpr double kFewLate = 60;
constexpr double kComfortable = 0.5;
constexpr long kDecentDriven = 60'000;
constexpr long kLongestMemory = 1'000'000;

class Drive {
 public:
  explicit Drive(const DrivenQueue& queue)
      : dispatcher_(queue.policy),
        gap_(kNanosPerSecond / queue.load.value),
        slo_(std::llround(queue.slo.value * kNanosPerMilli)) {
    draw();
  }

  void run(std::size_t requests) {
    while (latencies_.size() < requests) step();
  }
  long late() const { return late_; }
  long served() const { return static_cast<long>(latencies_.size()); }
  Millis percentile(double percent) {
    const auto place = latencies_.begin() + static_cast<std::ptrdiff_t>(
                                                static_cast<double>(served() - 1) * percent / 100);
    std::nth_element(latencies_.begin(), place, latencies_.end());
    return Millis{static_cast<double>(*place) / kNanosPerMilli};
  }

 private:
  void draw() { arrival_ = static_cast<Nanos>(clock_ -= gap_ * std::log(1 - rng_.uniform())); }

  void step() {
    const Nanos end = running_.empty() ? plan::kForever : running_.top().first;
    const Nanos now = std::min({arrival_, end, wake_});
    if (now == end) {
      dispatcher_.complete(running_.top().second);
      running_.pop();
    } else if (now == arrival_) {
      dispatcher_.arrive(now);
      draw();
    }
    plan::Dispatcher::Decision decision = dispatcher_.step(now);
    for (; decision.dispatch > 0; decision = dispatcher_.step(now)) {
      running_.emplace(now + decision.duration, decision.member);
      for (const Nanos arrival : dispatcher_.dispatched()) {
        latencies_.push_back(now + decision.duration - arrival);
        late_ += latencies_.back() > slo_;
      }
    }
    wake_ = decision.wake_at;
  }

  using End = std::pair<Nanos, int>;
  plan::Dispatcher dispatcher_;
  Rng rng_{kJudgeSeed};
  double gap_ = 0, clock_ = 0;
  Nanos slo_ = 0, arrival_ = 0, wake_ = plan::kForever;
  std::priority_queue<End, std::vector<End>, std::greater<>> running_;
  std::vector<Nanos> latencies_;
  long late_ = 0;
};

// Share of requests behind so long a backlog that full batches do not clear it in time, by
// Lundberg's inequality: theta solves load (e^theta - 1) = theta x full rate. Two of the largest
// batches are left out of what is cleared: the one that a request joins and the one on its way.
double lundberg(const DrivenQueue& queue, Rps full) {
  double longest = 0, batch = 0;
  int processes = 0;
  for (const plan::PoolMember& member : queue.policy.members) {
    longest = std::max(longest, member.curve.steps.back().latency.value);
    batch = std::max(batch, 1.0 * member.curve.max_batch());
    processes += member.processes;
  }
  const double cleared = full.value / 1e3 * (queue.slo.value - longest) - 2 * batch;
  const double rho = queue.load / full;
  const double room = queue.slo.value / longest;
  const bool many = processes >= 4 && room >= 1.6, idle = rho <= 0.7 && room >= 2.5;
  if (!(many || idle) || cleared <= 0) return 1;
  double low = 0, high = 60;
  for (int turn = 0; turn < 60; ++turn) {
    const double theta = (low + high) / 2;
    (rho * std::expm1(theta) < theta ? low : high) = theta;
  }
  return std::exp(-low * cleared);
}

// A queue near saturation forgets slowly: in (1 - load / full rate)^-2 batches.
long decent(const DrivenQueue& queue, Rps full) {
  int batch = 0;
  for (const plan::PoolMember& member : queue.policy.members)
    batch = std::max(batch, member.curve.max_batch());
  const double idle = 1 - queue.load / full;
  return static_cast<long>(
      std::clamp(4 * batch / (idle * idle), 1.0 * kDecentDriven, 1.0 * kLongestMemory));
}

}  // namespace

Rps full_rate(const plan::DispatchPolicy& policy) {
  double sum = 0;
  for (const plan::PoolMember& member : policy.members)
    sum +=
        1e3 * member.curve.max_batch() * member.processes / member.curve.steps.back().latency.value;
  return Rps{sum};
}

DrivenVerdict drive(const DrivenQueue& queue) {
  DrivenVerdict verdict;
  const Rps full = full_rate(queue.policy);
  verdict.stable = queue.load < full;
  if (!verdict.stable || !(queue.load.value > 0)) {
    verdict.holds = verdict.stable;
    return verdict;
  }
  const double allowed = 1 - queue.percentile / 100;
  const bool comfortable = queue.policy.slo && lundberg(queue, full) < kComfortable * allowed;
  Drive run(queue);
  long next = comfortable ? kFewestDriven : decent(queue, full);
  const long most = std::max(kMostDriven, next);
  while (true) {
    run.run(static_cast<std::size_t>(next));
    const double limit = allowed * static_cast<double>(run.served());
    const auto late = static_cast<double>(run.late());
    verdict.late = late / static_cast<double>(run.served());
    verdict.holds = late <= limit;
    const bool clear = late <= kClearlyKept * limit || late > kClearlyMissed * limit + kFewLate;
    if (clear || next >= most) break;
    next = std::min(2 * next, most);
  }
  verdict.latency = run.percentile(queue.percentile);
  return verdict;
}

}  // namespace partita::verify
