#include "plan/dispatcher.h"

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

double rate_of(const PoolMember& member) {
  return member.processes * member.curve.max_batch() /
         (member.curve.steps.back().latency.value * 1e6);
}

// The rule read out loud, one nanosecond at a time: slow and obviously right.
std::vector<Start> reference(const DispatchPolicy& policy, std::vector<Nanos> arrivals, Nanos end) {
  std::vector<Start> starts;
  std::deque<Nanos> queue;
  std::vector<std::vector<Nanos>> ends(policy.members.size());  // of running batches
  double pool_rate = 0;
  for (const PoolMember& member : policy.members) pool_rate += rate_of(member);
  const auto best_idle = [&]() -> int {
    int best = -1;
    for (std::size_t m = 0; m < policy.members.size(); ++m) {
      if (static_cast<int>(ends[m].size()) >= policy.members[m].processes) continue;
      const auto full = [&](std::size_t i) { return policy.members[i].curve.steps.back().latency; };
      if (best < 0 || full(m) < full(static_cast<std::size_t>(best))) best = static_cast<int>(m);
    }
    return best;
  };
  Nanos ready = 0;
  for (Nanos now = 0; now <= end; ++now) {
    for (auto& running : ends) std::erase(running, now);
    for (const Nanos arrival : arrivals) {
      if (arrival == now) queue.push_back(now);
    }
    while (!queue.empty() && best_idle() >= 0) {
      const auto m = static_cast<std::size_t>(best_idle());
      const PoolMember& member = policy.members[m];
      const int most = member.curve.max_batch();
      const int batch = std::min(static_cast<int>(queue.size()), most);
      const Nanos duration = std::llround(member.curve.latency(batch).value * 1e6);
      bool go = !policy.paced || now >= ready;
      if (policy.slo) {
        go = go || batch == most || queue.front() + *policy.slo - duration - policy.margin <= now;
      } else {
        go = go && (batch == most || now - queue.front() >= policy.max_wait);
      }
      if (!go) break;
      Start start{now, batch, duration, {}};
      start.arrivals.assign(queue.begin(), queue.begin() + batch);
      queue.erase(queue.begin(), queue.begin() + batch);
      const double share = rate_of(member) / member.processes / pool_rate;
      ready = now;
      while (static_cast<double>(ready - now) < static_cast<double>(duration) * share - 1e-6)
        ++ready;
      ends[m].push_back(now + start.duration);
      starts.push_back(start);
    }
  }
  return starts;
}

// Drives a Dispatcher the way a simulator does: called at arrivals, completions and wakes only.
std::vector<Start> drive(const DispatchPolicy& policy, const std::vector<Nanos>& arrivals,
                         Nanos end) {
  Dispatcher batcher(policy);
  std::vector<Start> starts;
  struct Completion {
    Nanos at;
    int member;
  };
  std::vector<Completion> completions;
  std::size_t next = 0;
  Nanos wake = kForever;
  while (true) {
    Nanos now = next < arrivals.size() ? arrivals[next] : kForever;
    for (const Completion& completion : completions) now = std::min(now, completion.at);
    now = std::min(now, wake);
    if (now > end) return starts;
    for (const Completion& completion : completions)
      if (completion.at == now) batcher.complete(completion.member);
    std::erase_if(completions, [&](const Completion& completion) { return completion.at == now; });
    for (; next < arrivals.size() && arrivals[next] == now; ++next) batcher.arrive(now);
    Dispatcher::Decision decision = batcher.step(now);
    for (; decision.dispatch > 0; decision = batcher.step(now)) {
      const auto sent = batcher.dispatched();
      starts.push_back({now, decision.dispatch, decision.duration, {sent.begin(), sent.end()}});
      completions.push_back({now + decision.duration, decision.member});
    }
    EXPECT_GT(decision.wake_at, now);
    EXPECT_EQ(batcher.running(), static_cast<int>(completions.size()));
    wake = decision.wake_at;
  }
}

TEST(Dispatcher, AloneStartsAtOnceAndTheNextWaitsForThePace) {
  Dispatcher batcher(paced_policy(curve_8(), 2));
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

TEST(Dispatcher, PartialBatchesArePaddedToAMeasuredOne) {
  Dispatcher batcher(paced_policy(curve_8(), 1));
  for (int i = 0; i < 11; ++i) batcher.arrive(i);
  const auto full = batcher.step(20);
  EXPECT_EQ(full.dispatch, 8);
  EXPECT_EQ(full.duration, 3 * kMs);
  batcher.complete(0);
  const auto rest = batcher.step(20 + 3 * kMs);
  EXPECT_EQ(rest.dispatch, 3);
  EXPECT_EQ(rest.duration, 2 * kMs);
  EXPECT_EQ(batcher.queued(), 0);
}

TEST(Dispatcher, FullBatchesOnlyUntilDrained) {
  Dispatcher batcher(
      {.members = {{curve_8(), 4}}, .max_wait = kForever, .paced = false, .slo = {}});
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

TEST(Dispatcher, AtMostProcessesRunAndACompletionStartsTheNext) {
  Dispatcher batcher({.members = {{{{{1, Millis{1}}}}, 3}}, .paced = false, .slo = {}});
  for (int i = 0; i < 5; ++i) batcher.arrive(0);
  int started = 0;
  while (batcher.step(0).dispatch > 0) ++started;
  EXPECT_EQ(started, 3);
  batcher.complete(0);
  EXPECT_EQ(batcher.step(kMs).dispatch, 1);
  EXPECT_EQ(batcher.step(kMs).dispatch, 0);
}

TEST(Dispatcher, MemoryFollowsTheQueueNotTheHistory) {
  Dispatcher batcher(paced_policy({{{1, Millis{1}}}}, 1));
  batcher.arrive(0);
  batcher.step(0);
  const Nanos* before = batcher.dispatched().data();
  for (int i = 1; i < 100'000; ++i) {
    batcher.complete(0);
    batcher.arrive(i * kMs);
    ASSERT_EQ(batcher.step(i * kMs).dispatch, 1);
    ASSERT_EQ(batcher.dispatched().front(), i * kMs);
  }
  EXPECT_LE(batcher.dispatched().data() - before, 4);
}

PoolMember any_member(Rng& rng) {
  PoolMember member;
  const int batches[] = {1, 2, 3, 5, 8};
  int latency = 1 + static_cast<int>(rng.below(20));
  for (const int batch : batches) {
    const bool last = batch == batches[4];
    if (!last && rng.below(3) == 0) continue;
    member.curve.steps.push_back({batch, Millis{latency * 1e-6}});
    latency += static_cast<int>(rng.below(15));
    if (rng.below(4) == 0) break;
  }
  if (member.curve.steps.empty()) member.curve.steps.push_back({1, Millis{7e-6}});
  member.processes = 1 + static_cast<int>(rng.below(4));
  return member;
}

DispatchPolicy any_policy(Rng& rng) {
  DispatchPolicy policy;
  const auto members = 1 + rng.below(3);
  while (policy.members.size() < members) policy.members.push_back(any_member(rng));
  const Nanos waits[] = {0, 0, 5, 40, kForever};
  policy.max_wait = waits[rng.below(5)];
  policy.paced = rng.below(3) != 0;
  if (rng.below(2) == 0) {
    policy.slo = static_cast<Nanos>(rng.below(60));
    policy.margin = static_cast<Nanos>(rng.below(4));
    policy.max_wait = 0;
  }
  return policy;
}

int processes_of(const DispatchPolicy& policy) {
  int sum = 0;
  for (const PoolMember& member : policy.members) sum += member.processes;
  return sum;
}

TEST(Dispatcher, ALateCallLosesNothingOfThePace) {
  Dispatcher dispatcher(paced_policy({{{1, Millis{4}}}}, 4));
  for (int i = 0; i < 4; ++i) dispatcher.arrive(0);
  ASSERT_EQ(dispatcher.step(0).dispatch, 1);
  ASSERT_EQ(dispatcher.step(0).wake_at, kMs);
  ASSERT_EQ(dispatcher.step(kMs + kMs / 4).dispatch, 1);
  EXPECT_EQ(dispatcher.step(kMs + kMs / 4).wake_at, 2 * kMs);  // due at 1 ms, so again at 2
  // Three paces late: one of them is made good.
  ASSERT_EQ(dispatcher.step(5 * kMs).dispatch, 1);
  EXPECT_EQ(dispatcher.step(5 * kMs).dispatch, 1);
}

TEST(Dispatcher, TheFastestIdleMemberComesFirstAndTakesNoMoreThanItsLimit) {
  const PoolMember slow{{{{16, Millis{9}}}}, 1}, fast{curve_8(), 1};
  Dispatcher dispatcher(pooled_policy({slow, fast}, 100 * kMs));
  for (int i = 0; i < 12; ++i) dispatcher.arrive(0);
  const auto first = dispatcher.step(0);
  EXPECT_EQ(first.member, 1);
  EXPECT_EQ(first.dispatch, 8);
  const auto later = dispatcher.step(0);  // four left: the slow one waits for its pace
  EXPECT_EQ(later.dispatch, 0);
  const auto second = dispatcher.step(later.wake_at);
  EXPECT_EQ(second.member, 0);
  EXPECT_EQ(second.dispatch, 4);
}

TEST(Dispatcher, AFullBatchAndAnUrgentRequestDoNotWaitForThePace) {
  Dispatcher dispatcher(pooled_policy({{{{{1, Millis{4}}, {2, Millis{6}}}}, 2}}, 10 * kMs));
  dispatcher.arrive(0);
  ASSERT_EQ(dispatcher.step(0).dispatch, 1);
  dispatcher.arrive(1);
  EXPECT_EQ(dispatcher.step(1).wake_at, 2 * kMs);  // the pace; slack would be until 5.5 ms
  dispatcher.arrive(2);
  EXPECT_EQ(dispatcher.step(2).dispatch, 2);  // full
  Dispatcher urgent(pooled_policy({{{{{1, Millis{4}}, {2, Millis{4}}}}, 2}}, 5 * kMs));
  urgent.arrive(0);
  ASSERT_EQ(urgent.step(0).dispatch, 1);
  urgent.arrive(0);
  EXPECT_EQ(urgent.step(0).wake_at, 3 * kMs / 4);  // 5 - 4 - 0.25 ms of margin; the pace: 2 ms
}

// Times are a few nanoseconds, so that ties, rounding of the pace and full queues all happen.
RC_GTEST_PROP(Dispatcher, AgreesWithTheRuleReadOutLoud, (std::uint64_t seed)) {
  Rng rng(seed);
  const DispatchPolicy policy = any_policy(rng);
  std::vector<Nanos> arrivals;
  const std::uint64_t gap = 1 + rng.below(12);
  Nanos at = 0;
  for (int i = 0; i < 60; ++i) arrivals.push_back(at += static_cast<Nanos>(rng.below(gap)));
  const Nanos end = at + 2000;
  const std::vector<Start> expected = reference(policy, arrivals, end);
  RC_ASSERT(drive(policy, arrivals, end) == expected);
}

// The promises of the header, checked on what the Dispatcher did and nothing else.
RC_GTEST_PROP(Dispatcher, KeepsItsPromises, (std::uint64_t seed)) {
  Rng rng(seed);
  const DispatchPolicy policy = any_policy(rng);
  std::vector<Nanos> arrivals;
  Nanos at = 0;
  for (int i = 0; i < 200; ++i) arrivals.push_back(at += static_cast<Nanos>(rng.below(9)));
  const std::vector<Start> starts = drive(policy, arrivals, at + 10'000);
  std::vector<Nanos> sent;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const Start& start = starts[i];
    RC_ASSERT(start.batch >= 1 && start.batch <= 8);
    sent.insert(sent.end(), start.arrivals.begin(), start.arrivals.end());
    const auto running =
        std::count_if(starts.begin(), starts.begin() + static_cast<long>(i) + 1,
                      [&](const Start& s) { return s.at + s.duration > start.at; });
    RC_ASSERT(running <= processes_of(policy));
    if (policy.paced && !policy.slo && policy.members.size() == 1 && i > 0) {
      RC_ASSERT((start.at - starts[i - 1].at) * policy.members[0].processes >=
                starts[i - 1].duration);
    }
  }
  arrivals.resize(sent.size());  // FIFO: exactly the oldest requests, in order
  RC_ASSERT(sent == arrivals);
  if (policy.max_wait != kForever) RC_ASSERT(sent.size() == 200u);
}

}  // namespace
}  // namespace partita::plan
