#include "plan/batching.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <ostream>
#include <vector>

#include "base/rng.h"

namespace partita::plan {
namespace {

constexpr Nanos kMs = 1'000'000;

// 1 -> 1 ms, up to 4 -> 2 ms, up to 8 -> 3 ms.
profile::BatchCurve curve_8() { return {{{1, Millis{1}}, {4, Millis{2}}, {8, Millis{3}}}}; }

struct Start {
  Nanos at = 0;
  int batch = 0;
  Nanos duration = 0;
  std::vector<Nanos> arrivals;
  bool operator==(const Start&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Start& start) {
  return out << start.batch << " at " << start.at << " for " << start.duration;
}

// The rule read out loud, one nanosecond at a time: slow and obviously right.
std::vector<Start> reference(const BatchPolicy& policy, std::vector<Nanos> arrivals, Nanos end) {
  std::vector<Start> starts;
  std::deque<Nanos> queue;
  std::vector<Nanos> ends;  // of running batches
  Nanos ready = 0;
  for (Nanos now = 0; now <= end; ++now) {
    std::erase(ends, now);
    for (const Nanos arrival : arrivals) {
      if (arrival == now) queue.push_back(now);
    }
    while (!queue.empty() && static_cast<int>(ends.size()) < policy.processes) {
      const int most = policy.curve.max_batch();
      const int batch = std::min(static_cast<int>(queue.size()), most);
      const bool waited = now - queue.front() >= policy.max_wait;
      if ((policy.paced && now < ready) || (batch < most && !waited)) break;
      Start start{now, batch, std::llround(policy.curve.latency(batch).value * 1e6), {}};
      start.arrivals.assign(queue.begin(), queue.begin() + batch);
      queue.erase(queue.begin(), queue.begin() + batch);
      while ((ready - now) * policy.processes < start.duration) ++ready;
      ends.push_back(now + start.duration);
      starts.push_back(start);
    }
  }
  return starts;
}

// Drives a Batcher the way a simulator does: it is called at arrivals, completions and wakes only.
std::vector<Start> drive(const BatchPolicy& policy, const std::vector<Nanos>& arrivals, Nanos end) {
  Batcher batcher(policy);
  std::vector<Start> starts;
  std::vector<Nanos> completions;
  std::size_t next = 0;
  Nanos wake = kForever;
  while (true) {
    Nanos now = next < arrivals.size() ? arrivals[next] : kForever;
    for (const Nanos completion : completions) now = std::min(now, completion);
    now = std::min(now, wake);
    if (now > end) return starts;
    for (auto ended = std::erase(completions, now); ended > 0; --ended) batcher.complete(now);
    for (; next < arrivals.size() && arrivals[next] == now; ++next) batcher.arrive(now);
    Batcher::Decision decision = batcher.step(now);
    for (; decision.dispatch > 0; decision = batcher.step(now)) {
      const auto sent = batcher.dispatched();
      starts.push_back({now, decision.dispatch, decision.duration, {sent.begin(), sent.end()}});
      completions.push_back(now + decision.duration);
    }
    EXPECT_GT(decision.wake_at, now);
    EXPECT_EQ(batcher.running(), static_cast<int>(completions.size()));
    wake = decision.wake_at;
  }
}

TEST(Batcher, AloneStartsAtOnceAndTheNextWaitsForThePace) {
  Batcher batcher({curve_8(), 2});
  batcher.arrive(0);
  const auto first = batcher.step(0);
  EXPECT_EQ(first.dispatch, 1);
  EXPECT_EQ(first.duration, kMs);
  EXPECT_EQ(batcher.step(0).wake_at, kForever);
  batcher.arrive(10);
  const auto waiting = batcher.step(10);
  EXPECT_EQ(waiting.dispatch, 0);
  EXPECT_EQ(waiting.wake_at, kMs / 2);  // L(1) / 2 processes
  EXPECT_EQ(batcher.step(kMs / 2).dispatch, 1);
  EXPECT_EQ(batcher.running(), 2);
}

TEST(Batcher, PartialBatchesArePaddedToAMeasuredOne) {
  Batcher batcher({curve_8(), 1});
  for (int i = 0; i < 11; ++i) batcher.arrive(i);
  const auto full = batcher.step(20);
  EXPECT_EQ(full.dispatch, 8);
  EXPECT_EQ(full.duration, 3 * kMs);
  batcher.complete(20 + 3 * kMs);
  const auto rest = batcher.step(20 + 3 * kMs);
  EXPECT_EQ(rest.dispatch, 3);
  EXPECT_EQ(rest.duration, 2 * kMs);
  EXPECT_EQ(batcher.queued(), 0);
}

TEST(Batcher, FullBatchesOnlyUntilDrained) {
  Batcher batcher({curve_8(), 4, kForever, false});
  for (int i = 0; i < 7; ++i) {
    batcher.arrive(i);
    EXPECT_EQ(batcher.step(i).dispatch, 0);
    EXPECT_EQ(batcher.step(i).wake_at, kForever);
  }
  batcher.arrive(7);
  EXPECT_EQ(batcher.step(7).dispatch, 8);
  batcher.arrive(8);
  EXPECT_EQ(batcher.step(8).dispatch, 0);
  batcher.drain();
  EXPECT_EQ(batcher.step(9).dispatch, 1);
}

TEST(Batcher, AtMostProcessesRunAndACompletionStartsTheNext) {
  Batcher batcher({{{{1, Millis{1}}}}, 3, 0, false});
  for (int i = 0; i < 5; ++i) batcher.arrive(0);
  int started = 0;
  while (batcher.step(0).dispatch > 0) ++started;
  EXPECT_EQ(started, 3);
  batcher.complete(kMs);
  EXPECT_EQ(batcher.step(kMs).dispatch, 1);
  EXPECT_EQ(batcher.step(kMs).dispatch, 0);
}

TEST(Batcher, MemoryFollowsTheQueueNotTheHistory) {
  Batcher batcher({{{{1, Millis{1}}}}, 1, 0, true});
  batcher.arrive(0);
  batcher.step(0);
  const Nanos* before = batcher.dispatched().data();
  for (int i = 1; i < 100'000; ++i) {
    batcher.complete(i * kMs);
    batcher.arrive(i * kMs);
    ASSERT_EQ(batcher.step(i * kMs).dispatch, 1);
    ASSERT_EQ(batcher.dispatched().front(), i * kMs);
  }
  EXPECT_LE(batcher.dispatched().data() - before, 4);
}

BatchPolicy any_policy(Rng& rng) {
  BatchPolicy policy;
  const int batches[] = {1, 2, 3, 5, 8};
  int latency = 1 + static_cast<int>(rng.below(20));
  for (const int batch : batches) {
    const bool last = batch == batches[4];
    if (!last && rng.below(3) == 0) continue;
    policy.curve.steps.push_back({batch, Millis{latency * 1e-6}});
    latency += static_cast<int>(rng.below(15));
    if (rng.below(4) == 0) break;
  }
  if (policy.curve.steps.empty()) policy.curve.steps.push_back({1, Millis{7e-6}});
  policy.processes = 1 + static_cast<int>(rng.below(4));
  const Nanos waits[] = {0, 0, 5, 40, kForever};
  policy.max_wait = waits[rng.below(5)];
  policy.paced = rng.below(3) != 0;
  return policy;
}

// Times are a few nanoseconds, so that ties, rounding of the pace and full queues all happen.
RC_GTEST_PROP(Batcher, AgreesWithTheRuleReadOutLoud, (std::uint64_t seed)) {
  Rng rng(seed);
  const BatchPolicy policy = any_policy(rng);
  std::vector<Nanos> arrivals;
  const std::uint64_t gap = 1 + rng.below(12);
  Nanos at = 0;
  for (int i = 0; i < 60; ++i) arrivals.push_back(at += static_cast<Nanos>(rng.below(gap)));
  const Nanos end = at + 2000;
  const std::vector<Start> expected = reference(policy, arrivals, end);
  RC_ASSERT(drive(policy, arrivals, end) == expected);
}

// The promises of the header, checked on what the Batcher did and nothing else.
RC_GTEST_PROP(Batcher, KeepsItsPromises, (std::uint64_t seed)) {
  Rng rng(seed);
  const BatchPolicy policy = any_policy(rng);
  std::vector<Nanos> arrivals;
  Nanos at = 0;
  for (int i = 0; i < 200; ++i) arrivals.push_back(at += static_cast<Nanos>(rng.below(9)));
  const std::vector<Start> starts = drive(policy, arrivals, at + 10'000);
  std::vector<Nanos> sent;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const Start& start = starts[i];
    RC_ASSERT(start.batch >= 1 && start.batch <= policy.curve.max_batch());
    sent.insert(sent.end(), start.arrivals.begin(), start.arrivals.end());
    const auto running =
        std::count_if(starts.begin(), starts.begin() + static_cast<long>(i) + 1,
                      [&](const Start& s) { return s.at + s.duration > start.at; });
    RC_ASSERT(running <= policy.processes);
    if (policy.paced && i > 0) {
      RC_ASSERT((start.at - starts[i - 1].at) * policy.processes >= starts[i - 1].duration);
    }
  }
  arrivals.resize(sent.size());  // FIFO: exactly the oldest requests, in order
  RC_ASSERT(sent == arrivals);
  if (policy.max_wait != kForever) RC_ASSERT(sent.size() == 200u);
}

}  // namespace
}  // namespace partita::plan
