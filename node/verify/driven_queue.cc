#include "verify/driven_queue.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/nth.h"
#include "base/rng.h"
#include "verify/pool_memo.h"

namespace partita::verify {
namespace {

using plan::Nanos;

constexpr std::uint64_t kJudgeSeed = 0x1ead;
constexpr double kNanosPerSecond = 1e9;
constexpr double kNanosPerMilli = 1e6;
// Between requests, nanoseconds: those of lower rates are taken to come so often, which is no
// easier for a queue, so that the longest run fits into 63 bits.
constexpr double kLongestGap = 1e12;
// Of the allowance: clearly kept, clearly exceeded, and what random counts may add to it.
constexpr double kClearlyKept = 0.7;
constexpr double kClearlyMissed = 2.5;
constexpr double kFewLate = 60;
constexpr std::size_t kMostKept = 50'000;
constexpr double kComfortable = 0.5;
constexpr long kDecentDriven = 12'000;
constexpr long kAfterRush = 12'000, kSecondRecovery = 80'000;
constexpr double kAfterRushTolerance = 1.3;  // so few requests scatter
constexpr double kRecovery = 4, kMostRecovery = 100'000;
constexpr long kLongestMemory = 400'000;

class Drive {
 public:
  // `stretches`: that are played for its arrivals, none: these.
  Drive(const DrivenQueue& queue, UnitArrivals& units, std::span<const plan::Stretch> stretches)
      : dispatcher_(queue.policy),
        gap_(plan::is_poisson(queue.arrivals)
                 ? std::min(kNanosPerSecond / queue.load.value, kLongestGap)
                 : 0),
        units_(units),
        stretches_(stretches),
        arrivals_(
            stretches.empty()
                ? plan::ArrivalSource::of(queue.arrivals, queue.load, Rng(kJudgeSeed))
                : plan::ArrivalSource::of(stretches, queue.arrivals, queue.load, Rng(kJudgeSeed))),
        slo_(std::llround(queue.slo.value * kNanosPerMilli)) {
    for (const plan::PoolMember& member : queue.policy.members) processes_ += member.processes;
    arrival_ = drawn();
  }

  void run(long requests) {
    while (served_ < requests) step();
  }
  // All stretches, to their ends.
  void run_stretches() {
    plan::ArrivalSource all = arrivals_;
    long requests = arrival_ < plan::kForever;
    while (all.next() < plan::kForever) ++requests;
    weigh_every_ = requests / static_cast<long>(kMostKept) + 1;
    run(requests);
  }
  // Of the traffic that the stretches stand for.
  double late_share() const { return weight_ > 0 ? late_weight_ / weight_ : 0; }
  Millis weighted_percentile(double percent) {
    std::ranges::sort(weighed_);
    double left = 0;
    for (const auto& [latency, weight] : weighed_) left += weight * percent / 100;
    for (const auto& [latency, weight] : weighed_)
      if ((left -= weight) < 0) return Millis{static_cast<double>(latency) / kNanosPerMilli};
    return Millis{weighed_.empty() ? 0
                                   : static_cast<double>(weighed_.back().first) / kNanosPerMilli};
  }
  // One SLO's worth of requests at once; then, when that must have been worked off, counting begins
  // anew.
  void rush(long backlog, long recovery) {
    for (long i = 0; i < backlog; ++i) dispatcher_.arrive(now_);
    forget(recovery);
  }
  // Counting begins anew after so many requests.
  void forget(long requests) {
    run(served_ + requests);
    served_ = late_ = 0;
  }
  long late() const { return late_; }
  long served() const { return served_; }
  Millis percentile(double percent) {
    const auto last = static_cast<double>(latencies_.size() - 1);
    const auto place = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(last * percent / 100));
    return Millis{static_cast<double>(nth(latencies_, place)) / kNanosPerMilli};
  }

 private:
  void take_before(Nanos end) {
    std::array<Nanos, 64> some;
    while (arrival_ < end) {
      std::size_t count = 0;
      Nanos arrival = arrival_;
      for (; arrival < end && count < some.size(); arrival = drawn()) some[count++] = arrival;
      arrival_ = arrival;
      dispatcher_.arrive({some.data(), count});
    }
  }

  Nanos drawn() {
    if (gap_ <= 0) return arrivals_.next();
    if (next_ == last_) {
      next_ = units_.chunk(chunk_++);
      last_ = next_ + UnitArrivals::kChunk;
    }
    return static_cast<Nanos>(gap_ * *next_++);
  }

  void step() {
    const Nanos end = running_.empty() ? plan::kForever : running_.top().first;
    // With all processes busy nothing starts before one ends.
    if (dispatcher_.running() == processes_) {
      take_before(end);
      wake_ = plan::kForever;
    }
    const Nanos now = now_ = std::min({arrival_, end, wake_});
    if (now == end) {
      dispatcher_.complete(running_.top().second);
      running_.pop();
    } else if (now == arrival_) {
      dispatcher_.arrive(now);
      arrival_ = drawn();
    }
    plan::Dispatcher::Decision decision = dispatcher_.step(now);
    for (; decision.dispatch > 0; decision = dispatcher_.step(now)) {
      running_.emplace(now + decision.duration, decision.member);
      const Nanos done = now + decision.duration;
      served_ += decision.dispatch;
      const std::span<const Nanos> batch = dispatcher_.dispatched();
      if (!stretches_.empty()) weigh(batch, done);
      keep_some(batch, done);
      for (std::size_t i = 0; i < batch.size() && done - batch[i] > slo_; ++i) ++late_;
    }
    wake_ = decision.wake_at;
  }

  // Those of a batch come no earlier than those of the batch before.
  void weigh(std::span<const Nanos> batch, Nanos done) {
    for (const Nanos came : batch) {
      while (static_cast<double>(came) >= stretch_end_ && next_stretch_ < stretches_.size())
        stretch_end_ += stretches_[next_stretch_++].length.value * kNanosPerSecond;
      const double weight = stretches_[next_stretch_ - 1].weight;
      weight_ += weight;
      if (done - came > slo_) late_weight_ += weight;
      if (weight > 0 && weighed_count_++ % weigh_every_ == 0)
        weighed_.emplace_back(done - came, weight);
    }
  }

  // Every stride_-th request.
  void keep_some(std::span<const Nanos> batch, Nanos done) {
    while (next_kept_ < batch.size()) {
      latencies_.push_back(done - batch[next_kept_]);
      next_kept_ += stride_;
    }
    next_kept_ -= batch.size();
    if (latencies_.size() >= kMostKept) thin_out();
  }

  // Every second of those kept stays.
  void thin_out() {
    std::size_t kept = 0;
    for (std::size_t i = 1; i < latencies_.size(); i += 2) latencies_[kept++] = latencies_[i];
    // The first of the two that follow is left out as well when the last one stayed.
    if (latencies_.size() % 2 == 0) next_kept_ += stride_;
    latencies_.resize(kept);
    stride_ *= 2;
  }

  using End = std::pair<Nanos, int>;
  plan::Dispatcher dispatcher_;
  const double gap_;  // of Poisson arrivals; 0: others
  UnitArrivals& units_;
  std::size_t chunk_ = 0;  // of the units, behind the one in which the next lies
  const double *next_ = nullptr, *last_ = nullptr;
  std::span<const plan::Stretch> stretches_;
  std::size_t next_stretch_ = 0;
  double stretch_end_ = 0, weight_ = 0, late_weight_ = 0;
  long weigh_every_ = 1, weighed_count_ = 0;
  std::vector<std::pair<Nanos, double>> weighed_;  // latencies, and what each stands for
  plan::ArrivalSource arrivals_;
  Nanos slo_ = 0, now_ = 0, arrival_ = 0, wake_ = plan::kForever;
  std::priority_queue<End, std::vector<End>, std::greater<>> running_;
  std::vector<Nanos> latencies_;            // of every stride_-th request
  std::size_t stride_ = 1, next_kept_ = 0;  // how many requests until one is kept
  long served_ = 0, late_ = 0;
  int processes_ = 0;
};

// The theta of Lundberg's inequality: load (e^theta - 1) = theta x full rate.
double decay(double rho) {
  double low = 0, high = 60;
  for (int turn = 0; turn < 60; ++turn) {
    const double theta = (low + high) / 2;
    (rho * std::expm1(theta) < theta ? low : high) = theta;
  }
  return low;
}

// Share of requests behind so long a backlog that full batches do not clear it in time, by
// Lundberg's inequality. Two of the largest batches are left out of what is cleared: the one that a
// request joins and the one on its way.
double lundberg(const DrivenQueue& queue, Rps full) {
  double longest = 0, batch = 0, squares = 0;
  for (const plan::PoolMember& member : queue.policy.members) {
    const double each = 1e3 * member.curve.max_batch() / member.curve.steps.back().latency.value;
    longest = std::max(longest, member.curve.steps.back().latency.value);
    batch = std::max(batch, 1.0 * member.curve.max_batch());
    squares += member.processes * each * each;
  }
  // As many equal ones: a process that does nearly all counts as one.
  const double processes = full.value * full.value / squares * (1 + 1e-9);
  const double cleared = full.value / 1e3 * (queue.slo.value - longest) - 2 * batch;
  const double rho = queue.load / full;
  const double room = queue.slo.value / longest;
  const bool many = processes >= 4 && room >= 1.6, idle = rho <= 0.7 && room >= 2.5;
  if (!(many || idle) || cleared <= 0) return 1;
  return std::exp(-decay(rho) * cleared);
}

// The same for any pool under the pooled rule, with all that a request may wait for left out. While
// as many wait as the largest batch takes, all processes run full batches; so of what more waits
// than that and a batch of each process, Lundberg's inequality holds. What waits before a request
// is started by full batches, but for one of each process; then it waits for an idle process, for
// the pace, and for its own batch.
double surely_late(const DrivenQueue& queue, Rps full) {
  double longest = 0, largest = 0, of_each = 0, pace = 0;
  for (const plan::PoolMember& member : queue.policy.members) {
    const double batch = member.curve.max_batch();
    const double time = member.curve.steps.back().latency.value;
    for (const profile::BatchCurve::Step& step : member.curve.steps)
      if (step.latency.value > time) return 1;  // a smaller batch must not take longer
    longest = std::max(longest, time);
    largest = std::max(largest, batch);
    of_each += member.processes * batch;
    pace = std::max(pace, 1e3 * batch / time / full.value);
  }
  constexpr double kRoundedMs = 1;
  const double slack = queue.slo.value - (1 + 1 + pace) * longest - kRoundedMs;
  const double room = full.value / 1e3 * slack - of_each - (of_each + largest + 1);
  return room > 0 ? std::exp(-decay(queue.load / full) * room) : 1;
}

// Where nearly all batches are full, late requests are rare and come by the hundred thousand: no
// run that can be afforded tells how many they are, but the same exponential does. Those that find
// more in the queue than their instance has time for are late; without any batch left out that is
// fewer than there are.
constexpr double kNearlySaturated = 0.9;
constexpr double kAboveAllowed = 1.25;
std::optional<double> late_near_saturation(const DrivenQueue& queue, Rps full) {
  const double rho = queue.load / full;
  if (!queue.policy.slo || !plan::is_poisson(queue.arrivals) || rho <= kNearlySaturated)
    return std::nullopt;
  const double theta = decay(rho);
  double late = 0;
  for (const plan::PoolMember& member : queue.policy.members) {
    const double longest = member.curve.steps.back().latency.value;
    const double carried = 1e3 * member.processes * member.curve.max_batch() / longest;
    const double cleared = full.value / 1e3 * std::max(0.0, queue.slo.value - longest);
    late += carried / full.value * std::exp(-theta * cleared);
  }
  return late;
}

// A queue near saturation forgets slowly: in (1 - load / full rate)^-2 batches.
long decent(const DrivenQueue& queue, Rps full) {
  int batch = 0;
  for (const plan::PoolMember& member : queue.policy.members)
    batch = std::max(batch, member.curve.max_batch());
  const double idle = 1 - queue.load / full;
  return static_cast<long>(
      std::clamp(2 * batch / (idle * idle), 1.0 * kDecentDriven, 1.0 * kLongestMemory));
}

// So many that the late ones which the percentile allows would show, in several of the clusters in
// which they come.
long telling(const DrivenQueue& queue, Rps full) {
  constexpr double kShown = 20, kClusters = 4;
  const double allowed = 1 - queue.percentile / 100;
  const double idle = std::max(1 - queue.load / full, 1 - kNearlySaturated);
  const double most = std::max(kShown, kClusters / (2 * idle * idle));
  return static_cast<long>(std::min(1.0 * kLongestDriven, most / allowed));
}

DrivenVerdict drive_stretches(const DrivenQueue& queue, UnitArrivals& units,
                              std::span<const plan::Stretch> stretches) {
  Drive run(queue, units, stretches);
  run.run_stretches();
  DrivenVerdict verdict;
  verdict.late = run.late_share();
  verdict.holds = verdict.late <= 1 - queue.percentile / 100;
  verdict.latency = run.weighted_percentile(queue.percentile);
  return verdict;
}

}  // namespace

Rps full_rate(const plan::DispatchPolicy& policy) {
  double sum = 0;
  for (const plan::PoolMember& member : policy.members)
    sum +=
        1e3 * member.curve.max_batch() * member.processes / member.curve.steps.back().latency.value;
  return Rps{sum};
}

PoolMemo::Key PoolMemo::key_of(const DrivenQueue& queue) {
  const plan::DispatchPolicy& policy = queue.policy;
  Key key{queue.load.value,
          queue.slo.value,
          queue.percentile,
          policy.paced ? 1.0 : 0.0,
          static_cast<double>(policy.max_wait),
          static_cast<double>(policy.slo.value_or(-1)),
          static_cast<double>(policy.margin)};
  for (const plan::PoolMember& member : policy.members) {
    key.push_back(member.processes);
    key.push_back(static_cast<double>(member.curve.steps.size()));
    for (const profile::BatchCurve::Step& step : member.curve.steps) {
      key.push_back(step.batch);
      key.push_back(step.latency.value);
    }
  }
  return key;
}

DrivenVerdict drive(const DrivenQueue& queue, UnitArrivals& units, long most_told) {
  DrivenVerdict verdict;
  const Rps full = full_rate(queue.policy);
  verdict.stable = queue.load < full;
  if (!verdict.stable || !(queue.load.value > 0)) {
    verdict.holds = verdict.stable;
    return verdict;
  }
  const double allowed = 1 - queue.percentile / 100;
  if (const auto stretches =
          plan::telling_stretches(queue.arrivals, queue.load, queue.slo, most_told);
      !stretches.empty())
    return drive_stretches(queue, units, stretches);
  const bool poisson = plan::is_poisson(queue.arrivals);
  const bool comfortable =
      poisson && queue.policy.slo &&
      std::min(lundberg(queue, full), surely_late(queue, full)) < kComfortable * allowed;
  Drive run(queue, units, {});
  long next = comfortable
                  ? kFewestDriven
                  : std::max({decent(queue, full), telling(queue, full),
                              plan::telling_requests(queue.arrivals, queue.load, most_told)});
  const long most = std::max(kMostDriven, next);
  while (true) {
    run.run(next);
    const double limit = allowed * static_cast<double>(run.served());
    const auto late = static_cast<double>(run.late());
    verdict.late = late / static_cast<double>(run.served());
    verdict.holds = late <= limit;
    const bool clear = late <= kClearlyKept * limit || late > kClearlyMissed * limit + kFewLate;
    if (clear || next >= most) break;
    next = std::min(2 * next, most);
  }
  verdict.latency = run.percentile(queue.percentile);
  if (const auto late = late_near_saturation(queue, full);
      verdict.holds && late && *late > kAboveAllowed * allowed) {
    verdict.late = *late;
    verdict.holds = false;
    verdict.by_formula = true;
  }
  // A pool may hold for long and then, after a rush, never again. Near saturation so few requests
  // tell nothing; the run above was long then.
  const double backlog = queue.load.value * queue.slo.value / 1e3;
  const double recovery = kRecovery * backlog / (1 - queue.load / full);
  const bool forgets = decent(queue, full) <= kDecentDriven && recovery < kMostRecovery;
  if (verdict.holds && !comfortable && poisson && queue.policy.slo && forgets) {
    run.rush(static_cast<long>(backlog), static_cast<long>(recovery));
    const auto late_after = [&](long requests) {
      run.run(run.served() + requests);
      return static_cast<double>(run.late()) / static_cast<double>(run.served());
    };
    double share = late_after(kAfterRush);
    if (share > allowed * kAfterRushTolerance) {
      // Some take longer to fall into step again; the worse way of working lasts, or comes back.
      run.forget(kSecondRecovery);
      share = late_after(kMostDriven);
    }
    if (share > allowed * kAfterRushTolerance) {
      verdict.late = share;
      verdict.holds = false;
    }
  }
  return verdict;
}

}  // namespace partita::verify
