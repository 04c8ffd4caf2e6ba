#include "model/pool.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/nth.h"

namespace partita::model {
namespace {

using Nanos = std::int64_t;

constexpr double kNanosPerMilli = 1e6;
constexpr double kMillisPerSecond = 1e3;
// Between requests, nanoseconds: those of lower rates are taken to come so often, which is no
// easier for a queue, so that the longest run fits into 63 bits.
constexpr double kLongestGap = 1e12;
// P(late) = kTail exp(-theta D) and the part of a batch that a request waits beyond the slack;
// fitted to simulations of eight measured curves.
constexpr double kTail = 2;
constexpr double kBatchShare = 0.4;
constexpr Nanos kMostMargin = 1'000'000;  // as usual_margin() of the dispatcher
constexpr Nanos kMarginShare = 20;
constexpr std::size_t kForget = std::size_t{1} << 15;
constexpr std::size_t kStride = 8;
using Four [[gnu::vector_size(4 * sizeof(double))]] = double;
constexpr Nanos kLastNanos = Nanos{1} << 62;
constexpr std::size_t kMostKept = 20'000;  // latencies
constexpr std::uint64_t kSeed = 0x9001;

Nanos nanos(Millis duration) {
  return std::max<Nanos>(1, std::llround(duration.value * kNanosPerMilli));
}

// The root theta > 0 of rho (e^theta - 1) = theta, the other way round.
double rho_of(double theta) { return theta < 1e-9 ? 1 : theta / std::expm1(theta); }

double full_rate(const PoolClass& pool) {  // per nanosecond
  return static_cast<double>(pool.curve.max_batch()) * pool.processes /
         static_cast<double>(nanos(pool.curve.steps.back().latency));
}

double theta_of(double rho) {
  double low = 0, high = 60;
  for (int turn = 0; turn < 60; ++turn) {
    const double middle = (low + high) / 2;
    (rho < rho_of(middle) ? low : high) = middle;
  }
  return low;
}

// The share of the fluid rate that a pool carries: `fluid` per ms.
double closed_form_share(double fluid, const PoolSlo& wanted, double longest_ms, double batch) {
  const double served = fluid * (wanted.slo.value - longest_ms) - kBatchShare * batch;
  if (!(served > 0)) return 0;
  return rho_of(std::log(kTail / wanted.late) / served);
}

}  // namespace

Rps fluid(const Pool& pool) {
  double sum = 0;
  for (const PoolClass& one : pool) sum += full_rate(one);
  return Rps{sum * kNanosPerMilli * kMillisPerSecond};
}

Rps closed_form_capacity(const Pool& pool, const PoolSlo& wanted) {
  const double rate = fluid(pool).value / kMillisPerSecond;
  double longest = 0, batch = 0;
  for (const PoolClass& one : pool) {
    longest = std::max(longest, one.curve.steps.back().latency.value);
    batch += full_rate(one) * kNanosPerMilli / rate * one.curve.max_batch();
  }
  return Rps{kMillisPerSecond * rate * closed_form_share(rate, wanted, longest, batch)};
}

Rps closed_form_fluid(Rps rate, const PoolSlo& wanted, Millis longest, double batch) {
  const double need = rate.value / kMillisPerSecond;
  const auto carried = [&](double fluid) {
    return fluid * closed_form_share(fluid, wanted, longest.value, batch);
  };
  double low = need, high = need;
  for (int turn = 0; carried(high) < need; ++turn) {
    if (turn == 60) return Rps{std::numeric_limits<double>::infinity()};
    low = high;
    high *= 2;
  }
  while (high - low > 1e-3 * high) {
    const double middle = (low + high) / 2;
    (carried(middle) < need ? low : high) = middle;
  }
  return Rps{kMillisPerSecond * high};
}

double saturated_late(const Pool& pool, Millis slo, Rps rate) {
  const double full = fluid(pool).value / kMillisPerSecond;
  const double theta = theta_of(rate.value / kMillisPerSecond / full);
  double batch = 0;
  for (const PoolClass& one : pool)
    batch += full_rate(one) * kNanosPerMilli / full * one.curve.max_batch();
  double late = 0;
  for (const PoolClass& one : pool) {
    const double share = full_rate(one) * kNanosPerMilli / full;
    const double slack = slo.value - one.curve.steps.back().latency.value;
    const double served = full * slack - kBatchShare * batch;
    late += share * std::min(1.0, kTail * std::exp(-theta * served));
  }
  return late;
}

double most_late(const Pool& pool, Millis slo, Rps rate) {
  const double full = fluid(pool).value / kMillisPerSecond;
  double longest = 0, largest = 0, of_all = 0, most_share = 0;
  for (const PoolClass& one : pool) {
    const Millis full_batch = one.curve.steps.back().latency;
    for (const profile::BatchCurve::Step& step : one.curve.steps)
      if (step.latency > full_batch) return 1;  // smaller ones must not take longer
    longest = std::max(longest, full_batch.value);
    largest = std::max(largest, 1.0 * one.curve.max_batch());
    of_all += 1.0 * one.processes * one.curve.max_batch();
    most_share = std::max(most_share, full_rate(one) / one.processes * kNanosPerMilli / full);
  }
  const double rho = rate.value / kMillisPerSecond / full;
  // Until one is idle, of the pace, of its own batch; a millisecond for rounding.
  const double started = full * (slo.value - (2 + most_share) * longest - 1) - of_all;
  const double above = started - of_all - largest - 1;
  return rho < 1 && above > 0 ? std::exp(-theta_of(rho) * above) : 1;
}

PoolRun::PoolRun(const Pool& pool, Millis slo, Pace pace)
    : slo_(nanos(slo)), margin_(std::min(kMostMargin, slo_ / kMarginShare)) {
  CHECK(!pool.empty());
  double pool_rate = 0;
  for (const PoolClass& one : pool) pool_rate += full_rate(one);
  std::vector<const PoolClass*> order;
  for (const PoolClass& one : pool) order.push_back(&one);
  std::stable_sort(order.begin(), order.end(), [](const PoolClass* a, const PoolClass* b) {
    return a->curve.steps.back().latency < b->curve.steps.back().latency;
  });
  for (const PoolClass* one : order) {
    Group group;
    const double share = full_rate(*one) / one->processes / pool_rate;
    for (const profile::BatchCurve::Step& step : one->curve.steps)
      group.durations.resize(static_cast<std::size_t>(step.batch), nanos(step.latency));
    for (const Nanos duration : group.durations)
      group.paces.push_back(
          pace == Pace::none
              ? 0
              : static_cast<Nanos>(std::ceil(static_cast<double>(duration) * share - 1e-6)));
    group.ascending = std::is_sorted(group.durations.begin(), group.durations.end());
    group.ends.assign(static_cast<std::size_t>(one->processes), 0);
    groups_.push_back(std::move(group));
  }
  seen_.resize(largest_batch() + kStride);
}

void PoolRun::poisson(Rps rate, UnitPoisson& units) {
  gap_ns_ = std::min(kMillisPerSecond * kNanosPerMilli / rate.value, kLongestGap);
  units_ = &units;
}

// The times, over gap_ns_, of as many as the largest batch takes, from the oldest that has not
// started on, and a few more.
[[gnu::always_inline]] inline const double* PoolRun::window() {
  if (!units_) {
    while (times_.size() < head_ + seen_.size())
      times_.push_back(static_cast<double>(std::min(source_(), kLastNanos)));
    return times_.data() + head_;
  }
  constexpr std::size_t kChunk = UnitPoisson::kChunk;
  const std::size_t place = head_ % kChunk;
  if (place + seen_.size() <= kChunk) return units_->chunk(head_ / kChunk) + place;
  for (std::size_t i = 0; i < seen_.size(); ++i) seen_[i] = units_->at(head_ + i);
  return seen_.data();
}

[[gnu::always_inline]] inline Nanos PoolRun::arrival(double time) const {
  return static_cast<Nanos>(time * gap_ns_);
}

// How many of the first `most` have arrived by `now`. In whole nanoseconds trunc(x) <= now is
// x < now + 1, or the next number where they lie further apart, so nothing is converted. Counted,
// as guesses of a branch are dear; products of ascending numbers ascend, rounded or not.
[[gnu::always_inline]] inline std::size_t PoolRun::arrived(const double* times, std::size_t most,
                                                           Nanos now) const {
  const auto at = static_cast<double>(now);
  const double limit = at + std::max(1.0, at * 0x1p-52);
  std::size_t n = 0;
  while (n + kStride < most && times[n + kStride - 1] * gap_ns_ < limit) n += kStride;
  Four low, high;
  std::memcpy(&low, times + n, sizeof low);
  std::memcpy(&high, times + n + kStride / 2, sizeof high);
  const auto below = -((low * gap_ns_ < limit) + (high * gap_ns_ < limit));
  return std::min(n + static_cast<std::size_t>(below[0] + below[1] + below[2] + below[3]), most);
}

// The first group with a process that is idle then; the last one when none is.
[[gnu::always_inline]] inline std::size_t PoolRun::group_at(Nanos now) const {
  std::size_t group = 0;
  while (group + 1 < groups_.size() && groups_[group].idle_from() > now) ++group;
  return group;
}

// When a group before that one has an idle process.
[[gnu::always_inline]] inline Nanos PoolRun::better_from(std::size_t group) const {
  Nanos first = INT64_MAX;
  for (std::size_t g = 0; g < group; ++g) first = std::min(first, groups_[g].idle_from());
  return first;
}

// The process that is idle longest runs until `end`, which is most often the last of all.
[[gnu::always_inline]] inline void PoolRun::occupy(Group& group, Nanos end) {
  std::vector<Nanos>& ends = group.ends;
  const std::size_t size = ends.size();
  std::size_t place = group.first;
  group.first = place + 1 == size ? 0 : place + 1;
  while (place != group.first) {
    const std::size_t before = place == 0 ? size - 1 : place - 1;
    if (ends[before] <= end) break;
    ends[place] = ends[before];
    place = before;
  }
  ends[place] = end;
}

// When the next batch starts, where, and how large it is. A wait that only the pace or a full batch
// ends is one step instead of one per arrival: no better process before it, and at no time before
// it has the oldest request to go. As slack only shrinks with what waits, the last such time tells.
[[gnu::always_inline]] inline PoolRun::Start PoolRun::next_start(const double* times) const {
  const Nanos oldest = arrival(times[0]);
  Nanos idle = INT64_MAX;
  for (const Group& one : groups_) idle = std::min(idle, one.idle_from());
  Nanos now = std::max({now_, oldest, idle});
  std::size_t group = group_at(now);
  while (true) {
    const std::vector<Nanos>& durations = groups_[group].durations;
    const std::size_t full = durations.size();
    const Nanos full_at = arrival(times[full - 1]), end = std::min(ready_, full_at);
    if (full_at <= now) return {now, group, full};
    if (ready_ <= now) return {now, group, arrived(times, full, now)};
    const Nanos better = better_from(group);
    const auto urgent_from = [&](std::size_t waiting) {
      return oldest + std::max<Nanos>(0, slo_ - durations[waiting - 1] - margin_);
    };
    if (better > end && groups_[group].ascending) {
      const std::size_t waiting = arrived(times, full, end);
      if (urgent_from(std::min(waiting, full - 1)) >= end) return {end, group, waiting};
    }
    const std::size_t waiting = arrived(times, full, now);
    const Nanos urgent = urgent_from(waiting);
    if (urgent <= now) return {now, group, waiting};
    now = std::min({ready_, urgent, better, arrival(times[waiting])});
    if (now >= better) group = group_at(now);
  }
}

void PoolRun::stall(Millis until) {
  for (Group& group : groups_) std::fill(group.ends.begin(), group.ends.end(), nanos(until));
}

// Numbers are the same either way: no product is rounded before it is added to.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
[[gnu::target_clones("avx2", "default")]]
#endif
PoolCount
PoolRun::run(long requests, long most_late) {
  PoolCount count;
  while (count.requests < requests && count.late <= most_late) {
    const double* const times = window();
    const Start start = next_start(times);
    Group& group = groups_[start.group];
    const Nanos end = start.time + group.durations[start.batch - 1];
    const auto in_time = static_cast<double>(end - slo_);
    std::size_t late = 0;
    while (late < start.batch && times[late] * gap_ns_ < in_time) ++late;
    count.late += static_cast<long>(late);
    count.requests += static_cast<long>(start.batch);
    head_ += start.batch;
    if (next_kept_ < head_) {
      kept_.push_back({head_, end});
      next_kept_ = head_ | (stride_ - 1);
    }
    occupy(group, end);
    now_ = start.time;
    ready_ = now_ + group.paces[start.batch - 1];
    if (!units_ && !keep_ && head_ > kForget) {
      times_.erase(times_.begin(), times_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
  }
  return count;
}

std::size_t PoolRun::largest_batch() const {
  std::size_t most = 0;
  for (const Group& group : groups_) most = std::max(most, group.durations.size());
  return most;
}

void PoolRun::keep_latencies(long planned) {
  keep_ = true;
  while (static_cast<std::size_t>(planned) / stride_ >= kMostKept) stride_ *= 2;
  next_kept_ = stride_ - 1;
  kept_.reserve(kMostKept);
}

// Those behind every `stride` requests, twice as many when they are too many.
std::vector<Nanos> PoolRun::latencies() {
  const std::size_t requests = kept_.empty() ? 0 : kept_.back().behind;
  std::size_t stride = stride_;
  while (requests / stride >= kMostKept) stride *= 2;
  std::vector<Nanos> found(requests / stride);
  const Kept* batch = kept_.data();
  for (std::size_t n = 0, i = stride - 1; n < found.size();) {
    constexpr std::size_t kChunk = UnitPoisson::kChunk;
    const double* const times =
        units_ ? units_->chunk(i / kChunk) : times_.data() + i / kChunk * kChunk;
    for (const std::size_t last = (i / kChunk + 1) * kChunk; n < found.size() && i < last;
         i += stride) {
      while (batch->behind <= i) ++batch;
      found[n++] = batch->end - arrival(times[i % kChunk]);
    }
  }
  return found;
}

Millis PoolRun::percentile(double percent) {
  std::vector<Nanos> all = latencies();
  CHECK(!all.empty());
  const auto rank = static_cast<std::size_t>(percent / 100 * static_cast<double>(all.size() - 1));
  return Millis{static_cast<double>(nth(all, rank)) / kNanosPerMilli};
}

namespace {

// Looks after each doubling: far below or far above the allowed share is decided, in between the
// run goes on. Late requests come in clusters, so "far" is a factor.
bool decide(PoolRun& run, const PoolSlo& wanted, const PoolTest& test) {
  constexpr double kClearly = 0.4, kClearlyLater = 0.7;
  constexpr long kLater = 100'000;
  constexpr double kHopeless = 2;
  constexpr double kFew = 40;
  PoolCount sum;
  const auto absolute = static_cast<long>(wanted.late * static_cast<double>(test.most));
  for (long next = test.fewest;; next = sum.requests) {
    const long asked = std::min(next, test.most - sum.requests);
    long bearable = absolute;
    if (test.hurried) {
      // More than these are hopeless at the next look, whatever its last batch is.
      const long looked = sum.requests + asked + static_cast<long>(run.largest_batch());
      bearable =
          std::min(bearable,
                   static_cast<long>(kHopeless * wanted.late * static_cast<double>(looked) + kFew));
    }
    const PoolCount more = run.run(asked, bearable - sum.late);
    sum.requests += more.requests;
    sum.late += more.late;
    const double allowed = wanted.late * static_cast<double>(sum.requests);
    const auto late = static_cast<double>(sum.late);
    if (sum.late > absolute || late > kHopeless * allowed + kFew) return false;
    if (sum.requests >= test.most) return late <= allowed;
    if (late <= (sum.requests < kLater ? kClearly : kClearlyLater) * allowed) return true;
  }
}

bool decide_hurried(PoolRun& run, const PoolSlo& wanted, PoolTest test) {
  test.hurried = true;
  return decide(run, wanted, test);
}

// The backlog of the stall is worked off by what the pool carries beyond the rate; four times that
// is not counted.
bool recovers(const Pool& pool, const PoolSlo& wanted, Rps rate, const PoolTest& test,
              UnitPoisson& units) {
  constexpr double kRecovery = 4, kMostRecovery = 100'000, kScatter = 2;
  constexpr double kMemories = 2, kMostCounted = 200'000;
  if (test.after_stall == 0) return true;
  PoolRun run(pool, wanted.slo);
  run.poisson(rate, units);
  run.stall(wanted.slo);
  const double backlog = rate.value * wanted.slo.value / kMillisPerSecond;
  const double idle = 1 - rate / fluid(pool);
  // Near saturation few requests tell nothing, and too many are needed in the end.
  double batch = 0;
  for (const PoolClass& one : pool) batch = std::max(batch, 1.0 * one.curve.max_batch());
  const double skipped_exactly = kRecovery * backlog / idle;
  const double counted_exactly = kMemories * batch / (idle * idle);
  if (skipped_exactly >= kMostRecovery || counted_exactly > kMostCounted) return true;
  const auto skipped = static_cast<long>(skipped_exactly);
  const long counted = std::max(test.after_stall, static_cast<long>(counted_exactly));
  run.run(skipped, skipped);
  const PoolCount count = run.run(counted, counted);
  // So few requests scatter; in the worse way of working several times as many are late.
  return count.share() <= kScatter * wanted.late;
}

}  // namespace

bool holds(const Pool& pool, const PoolSlo& wanted, Rps rate, const PoolTest& test, Pace pace) {
  if (!(rate.value > 0) || rate >= fluid(pool)) return !(rate.value > 0);
  UnitPoisson own(kSeed);
  PoolRun run(pool, wanted.slo, pace);
  run.poisson(rate, test.units ? *test.units : own);
  return decide_hurried(run, wanted, test);
}

bool holds(const Pool& pool, const PoolSlo& wanted, PoolArrivals arrivals, const PoolTest& test) {
  PoolRun run(pool, wanted.slo);
  run.arrivals(std::move(arrivals));
  return decide_hurried(run, wanted, test);
}

PoolVerdict examine(const Pool& pool, const PoolSlo& wanted, Rps rate, const PoolTest& test,
                    double percentile, Pace pace) {
  if (!(rate.value > 0) || rate >= fluid(pool)) return {};
  UnitPoisson own(kSeed);
  PoolRun run(pool, wanted.slo, pace);
  run.poisson(rate, test.units ? *test.units : own);
  run.keep_latencies(test.fewest);
  PoolVerdict verdict{decide(run, wanted, test)};
  verdict.holds =
      verdict.holds && recovers(pool, wanted, rate, test, test.units ? *test.units : own);
  if (verdict.holds || !test.hurried) verdict.percentile = run.percentile(percentile);
  return verdict;
}

PoolVerdict examine(const Pool& pool, const PoolSlo& wanted, PoolArrivals arrivals,
                    const PoolTest& test, double percentile) {
  PoolRun run(pool, wanted.slo);
  run.arrivals(std::move(arrivals));
  run.keep_latencies(test.fewest);
  PoolVerdict verdict{decide(run, wanted, test)};
  verdict.percentile = run.percentile(percentile);
  return verdict;
}

namespace {

// Long enough for a queue near saturation to forget its start, in (1 - share)^-2 batches, and for
// enough requests to be late.
PoolTest long_test(const Pool& pool, const PoolSlo& wanted, double share, UnitPoisson* units) {
  constexpr double kMemories = 8, kLateOnes = 400, kShortest = 5e4, kLongest = 1e6;
  double batch = 0;
  for (const PoolClass& one : pool) batch = std::max(batch, 1.0 * one.curve.max_batch());
  const double memory = batch / ((1 - share) * (1 - share));
  const double length = std::max(kMemories * memory, kLateOnes / wanted.late);
  const auto fewest = static_cast<long>(std::clamp(length, kShortest, kLongest));
  return {.fewest = fewest, .most = 2 * fewest, .units = units};
}

}  // namespace

Rps pool_capacity(const Pool& pool, const PoolSlo& wanted, const PoolTest& given, Pace pace) {
  UnitPoisson own(kSeed);
  PoolTest test = given;
  if (!test.units) test.units = &own;
  constexpr double kAccuracy = 0.005;
  constexpr int kGrid = 12;
  constexpr double kHighest = 0.99;
  const Rps most = fluid(pool);
  // The first failing load of a grid, then bisection below it: where a load fails although a higher
  // one holds, the lower edge counts.
  double low = 0, high = 1;
  for (int i = 1; i <= kGrid; ++i) {
    const double share = i == kGrid ? kHighest : static_cast<double>(i) / kGrid;
    if (!holds(pool, wanted, most * share, test, pace)) {
      high = share;
      break;
    }
    low = share;
  }
  while (high - low > kAccuracy * high && low < kHighest) {
    const double middle = (low + high) / 2;
    (holds(pool, wanted, most * middle, test, pace) ? low : high) = middle;
  }
  // Runs so short may have been lucky.
  constexpr double kNext = 0.985;
  constexpr double kNothing = 0.01;
  while (low > kNothing &&
         !holds(pool, wanted, most * low, long_test(pool, wanted, low, test.units), pace))
    low *= kNext;
  return most * low;
}

}  // namespace partita::model
