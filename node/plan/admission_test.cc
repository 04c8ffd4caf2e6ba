// Admission against the plain rule: one batch after the other, on the process that is free first.
#include "plan/admission.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "base/index.h"
#include "base/rng.h"

namespace partita::plan {
namespace {

PredictedBatch one_by_one(std::vector<PoolProcess> processes, long ahead) {
  while (true) {
    PoolProcess& first = *std::ranges::min_element(processes, {}, [](const PoolProcess& p) {
      return std::tuple(p.free, p.full, p.batch, p.kind);
    });
    if (ahead <= first.batch) return {first.free, first.kind, static_cast<int>(ahead)};
    ahead -= first.batch;
    first.free += first.full;
  }
}

int draw(Rng& rng, int low, int high) {
  return low + static_cast<int>(rng.uniform() * (high - low + 1));
}

RC_GTEST_PROP(Admission, LongQueuesArePredictedAsOneBatchAfterTheOther, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const bool alike = rng.uniform() < 0.5;
  std::vector<PoolProcess> processes;
  for (int i = draw(rng, 1, 12); i > 0; --i)
    processes.push_back({draw(rng, 0, 300), alike ? 70 : draw(rng, 1, 90), draw(rng, 1, 20), i});
  for (const long ahead : {1, 2, draw(rng, 1, 50), draw(rng, 1, 3000)})
    RC_ASSERT(predicted_batch(processes, ahead) == one_by_one(processes, ahead));
}

// A pool at work: what it lets in is what the plain rule lets in, of the processes as they stand.
RC_GTEST_PROP(Admission, APoolLetsInWhatThePlainRuleLetsIn, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  DispatchPolicy policy{.members = {}, .slo = draw(rng, 1, 100) * 100'000};
  const bool alike = rng.uniform() < 0.5;
  for (int m = draw(rng, 1, 4); m > 0; --m)
    policy.members.push_back(
        {{{{1, Millis{1}}, {draw(rng, 2, 8), Millis{alike ? 3.0 : draw(rng, 10, 60) / 10.0}}}},
         draw(rng, 1, 3)});
  const int limit = draw(rng, 1, 60);
  const bool busy = rng.uniform() < 0.5;
  Admission admission(policy, limit);
  std::vector<PoolProcess> processes;
  std::vector<int> member_of;
  double carried = 0;
  Nanos longest = 0;
  for (const PoolMember& member : policy.members) {
    const auto& full = member.curve.steps.back();
    longest = std::max(longest, execution_time(full.latency));
    carried += static_cast<double>(full.batch) * member.processes /
               static_cast<double>(execution_time(full.latency));
  }
  for (std::size_t m = 0; m < policy.members.size(); ++m)
    for (int process = 0; process < policy.members[m].processes; ++process) {
      const auto& full = policy.members[m].curve.steps.back();
      processes.push_back({0, execution_time(full.latency), full.batch, static_cast<int>(m)});
      member_of.push_back(static_cast<int>(m));
    }
  Nanos now = 0;
  RecentRate rate;
  Arrears arrears;
  for (int turn = 0; turn < 300; ++turn) {
    now += draw(rng, 0, busy ? 50'000 : 500'000);
    const std::size_t process = at(draw(rng, 0, static_cast<int>(processes.size()) - 1));
    if (processes[process].free <= now && rng.uniform() < 0.7) {
      const Nanos takes = rng.uniform() < 0.5 ? processes[process].full : 1'000'000;
      admission.start(member_of[process], now, takes);
      processes[process].free = now + takes;
    }
    const int queued = draw(rng, 0, 70);
    std::vector<PoolProcess> as_they_stand = processes;
    for (PoolProcess& each : as_they_stand) each.free = std::max(each.free, now);
    rate.arrived(now);
    arrears.arrived(now, carried, *policy.slo - longest);
    const PredictedBatch batch = one_by_one(as_they_stand, queued + 1L);
    const profile::BatchCurve& curve = policy.members[at(batch.kind)].curve;
    const Pressure pressure{rate.per_nano(now), arrears.lasts()};
    const int size = predicted_size(batch, curve.max_batch(), now, pressure);
    const Nanos finish = batch.start + execution_time(curve.latency(size));
    const bool expected =
        queued < limit && in_time(finish, now + *policy.slo, *policy.slo, pressure);
    RC_ASSERT(admission.admits(now, queued) == expected);
  }
}

TEST(RecentRate, IsThatOfTheLastRequests) {
  RecentRate rate;
  EXPECT_EQ(rate.per_nano(0), 0);
  for (Nanos now = 0; now < 1'000; now += 100) rate.arrived(now);
  EXPECT_DOUBLE_EQ(rate.per_nano(900), 0.01);
  for (Nanos now = 1'000; now < 2'000; now += 10) rate.arrived(now);
  EXPECT_DOUBLE_EQ(rate.per_nano(1'990), 0.1);
  EXPECT_LT(rate.per_nano(9'990), 0.005);  // a pause counts
}

// 100 requests of slack, one a millisecond: how many of 100,000 come under overload at that load.
int under_overload(Arrears& arrears, double load, Nanos& now, Rng& rng) {
  int count = 0;
  for (int i = 0; i < 100'000; ++i) {
    now += static_cast<Nanos>(-std::log(1 - rng.uniform()) / load * 1e6);
    arrears.arrived(now, 1e-6, 100'000'000);
    count += arrears.lasts() ? 1 : 0;
  }
  return count;
}

TEST(Arrears, AreOfWhatFullBatchesCouldNotHaveDone) {
  Arrears arrears;
  Rng rng(7);
  Nanos now = 0;
  EXPECT_EQ(under_overload(arrears, 0.9, now, rng), 0);  // exp(-0.2 x 100)
  EXPECT_GT(under_overload(arrears, 1.05, now, rng), 95'000);
  EXPECT_LT(under_overload(arrears, 0.9, now, rng), 3'000);  // as long as it takes to end
  // 32 that come at once are chance, whatever the slack.
  Arrears tight;
  for (int i = 0; i < 32; ++i) tight.arrived(i, 1e-6, 0);
  EXPECT_FALSE(tight.lasts());
  tight.arrived(40, 1e-6, 0);
  EXPECT_TRUE(tight.lasts());
}

// A process that is busy with one request and soon free: the next will be in a small batch when
// little comes, and in a full one when more comes than it can do.
TEST(Admission, WhatComesDecidesHowLargeABatchIsForeseen) {
  const DispatchPolicy policy =
      pooled_policy({{{{{1, Millis{5}}, {8, Millis{12}}, {32, Millis{38}}}}, 1}}, 40'000'000);
  Admission calm(policy, 100), crowded(policy, 100);
  EXPECT_TRUE(calm.admits(1'000'000'000, 0));
  calm.start(0, 1'000'000'000, 5'000'000);
  EXPECT_TRUE(calm.admits(1'001'000'000, 0));
  for (int i = 0; i < 40; ++i) crowded.admits(1'000'000'000 + 10'000 * i, 0);
  crowded.start(0, 1'000'400'000, 5'000'000);
  EXPECT_FALSE(crowded.admits(1'000'410'000, 0));
}

// A, then B and C beside each other, then D.
TEST(WayAhead, GoesTheLongestWay) {
  const PipelineGraph graph{{{}, {0}, {0}, {1, 2}}, {0, 1, 2, 3}, {4, 4, 4, 4}, {1, 1, 2.5, 1}};
  const std::vector<std::optional<Foreseen>> steps{Foreseen{100, 10}, Foreseen{30, 20},
                                                   Foreseen{150, 40}, Foreseen{25, 25}};
  const WayAhead ahead = way_ahead(graph, steps, 1000);
  // B: who is ahead there has gone by 1,100, so only its batch; C: nobody is overtaken.
  EXPECT_EQ(ahead.ends, (std::vector<Nanos>{1100, 1120, 1150, 1175}));
  EXPECT_EQ(ahead.end, 1175);
  EXPECT_EQ(ahead.done_by(0, 1200), 1125);
  EXPECT_EQ(ahead.done_by(3, 1200), 1200);
  EXPECT_FALSE(ahead.overload);
  std::vector<std::optional<Foreseen>> pressed = steps;
  pressed[1] = Foreseen{190, 20, true};
  EXPECT_EQ(way_ahead(graph, pressed, 1000).ends, (std::vector<Nanos>{1100, 1190, 1150, 1215}));
  EXPECT_TRUE(way_ahead(graph, pressed, 1000).overload);
  // Steps that were asked for are taken to be done.
  const std::vector<std::optional<Foreseen>> rest{{}, Foreseen{30, 20}, {}, Foreseen{25, 25}};
  EXPECT_EQ(way_ahead(graph, rest, 2000).ends, (std::vector<Nanos>{2000, 2030, 2000, 2055}));
  EXPECT_EQ(reckoned_requests(graph, 2), 3);
}

}  // namespace
}  // namespace partita::plan
