// The gateway's brain against the simulator's world, and under random deaths of workers.
#include "serve/brain/service_brain.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/index.h"
#include "base/rng.h"
#include "sim/service_world.h"

namespace partita::serve::service_brain_test {
namespace {

constexpr Nanos kMs = 1'000'000;
constexpr Nanos kSecond = 1'000 * kMs;

profile::BatchCurve fast() { return {{{1, Millis{2}}, {4, Millis{4}}, {8, Millis{6}}}}; }
profile::BatchCurve slow() { return {{{1, Millis{5}}, {4, Millis{11}}}}; }

// A world of workers that need as long as they offered, in virtual time.
class World {
 public:
  explicit World(ServiceSettings settings) : brain(settings) {}

  void join(WorkerId id, const std::string& device, profile::BatchCurve curve, int at_once = 1) {
    curves_[id] = curve;
    at_once_[id] = at_once;
    brain.join(id, {device, std::move(curve), at_once});
    step();
  }
  void advance(Nanos until) {
    while (true) {
      Nanos next = std::min(until, wake_);
      for (const auto& [id, running] : running_) next = std::min(next, running.end);
      now = std::max(now, next);
      std::vector<BatchId> ended;
      for (const auto& [id, running] : running_)
        if (running.end <= now) ended.push_back(id);
      for (const BatchId id : ended) end(id);
      if (ended.empty() && next == until && wake_ > now) break;
      step();
      if (ended.empty() && now >= until && wake_ > now) break;
    }
  }
  bool ask(RequestId id, Wish wish) {
    wish.arrived = now;
    if (brain.admit(now, wish).refusal != Refusal::none) return false;
    enter(id, wish);
    return true;
  }
  void enter(RequestId id, Wish wish) {
    wish.arrived = now;
    wishes[id] = wish;
    brain.enqueue(now, id, wish);
    step();
  }
  void end(BatchId id) {
    const std::vector<Item>& items = running_.at(id).items;
    const std::size_t size = items.size();
    const auto failed = std::make_unique<bool[]>(size);
    const bool spoiled = std::any_of(items.begin(), items.end(),
                                     [&](const Item& item) { return bad.contains(item.request); });
    std::fill_n(failed.get(), size, spoiled);  // as engines do: the whole batch
    brain.done(now, id, {failed.get(), size});
    running_.erase(id);
  }
  // It hangs; what it ran is not heard of again.
  void take_back(WorkerId id) {
    std::erase_if(running_, [&](const auto& entry) { return entry.second.worker == id; });
    suspended.insert(id);
    brain.take_back(now, id);
    step();
  }
  // Which workers run this request now.
  std::set<WorkerId> workers_with(RequestId id) const {
    std::set<WorkerId> workers;
    for (const auto& [batch, under] : running_)
      for (const Item& item : under.items)
        if (item.request == id) workers.insert(under.worker);
    return workers;
  }
  // Its process dies: whatever it ran is gone.
  void lose(WorkerId id) {
    std::erase_if(running_, [&](const auto& entry) { return entry.second.worker == id; });
    leaving.erase(id);
    suspended.erase(id);
    curves_.erase(id);
    brain.lose(now, id);
    step();
  }
  void suspend(WorkerId id, bool yes) {
    brain.suspend(id, yes);
    if (yes) {
      suspended.insert(id);
    } else {
      suspended.erase(id);
    }
    step();
  }
  void leave(WorkerId id) {
    leaving.insert(id);
    brain.leave(id);
    step();
  }
  void step() {
    const Outputs outputs = brain.step(now);
    wake_ = outputs.wake_at;
    for (const Batch& batch : outputs.run) begin(batch);
    for (const Finished& finished : outputs.finished) {
      EXPECT_TRUE(finishes.emplace(finished.request, std::pair{now, finished.outcome}).second);
    }
    for (const WorkerId id : outputs.drain) {
      EXPECT_TRUE(leaving.contains(id));
      for (const auto& [batch, running] : running_) EXPECT_NE(running.worker, id);
      drained.push_back(id);
    }
  }
  std::vector<WorkerId> living() const {
    std::vector<WorkerId> ids;
    for (const auto& [id, curve] : curves_) ids.push_back(id);
    return ids;
  }

  ServiceBrain brain;
  Nanos now = 0;
  std::map<RequestId, Wish> wishes;
  std::map<RequestId, std::pair<Nanos, Outcome>> finishes;
  std::map<std::pair<RequestId, std::uint32_t>, int> starts;  // of an item
  std::vector<RequestId> order;                               // of starts
  std::set<WorkerId> leaving, suspended;
  std::set<RequestId> bad;  // a batch with one of them fails
  std::vector<WorkerId> drained;

 private:
  struct Under {
    WorkerId worker;
    Nanos end;
    std::vector<Item> items;
  };
  void begin(const Batch& batch) {
    ASSERT_TRUE(curves_.contains(batch.worker));
    EXPECT_FALSE(leaving.contains(batch.worker) || suspended.contains(batch.worker));
    const auto beside = std::count_if(running_.begin(), running_.end(), [&](const auto& entry) {
      return entry.second.worker == batch.worker;
    });
    EXPECT_LT(beside, at_once_.at(batch.worker));
    const auto size = static_cast<int>(batch.items.size());
    const profile::BatchCurve& curve = curves_.at(batch.worker);
    ASSERT_LE(size, curve.max_batch());
    for (const Item& item : batch.items) {
      ++starts[{item.request, item.index}];
      order.push_back(item.request);
    }
    const auto took = std::llround(curve.latency(size).value * 1e6);
    EXPECT_TRUE(running_.emplace(batch.id, Under{batch.worker, now + took, batch.items}).second);
  }

  std::map<WorkerId, profile::BatchCurve> curves_;
  std::map<WorkerId, int> at_once_;
  std::map<BatchId, Under> running_;
  Nanos wake_ = plan::kForever;
};

std::vector<Nanos> poisson(double rate_rps, Nanos end, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Nanos> times;
  double now = 0;
  while ((now += rng.exponential() / rate_rps * 1e9) < static_cast<double>(end))
    times.push_back(static_cast<Nanos>(now));
  return times;
}

// Same arrivals, same pool: as many in time as in the simulator, and the same mean latency.
TEST(ServiceBrain, ServesAsTheSimulatorDoes) {
  for (const double rate : {500.0, 1500.0, 2700.0}) {
    const Nanos slo = 30 * kMs;
    const std::vector<Nanos> times = poisson(rate, 4 * kSecond, 7);
    World world({.slo = slo, .queue_limit = 1'000'000, .shed = false});
    world.join(1, "a", fast());
    world.join(2, "a", fast());
    world.join(3, "b", slow());
    long id = 0;
    for (const Nanos time : times) {
      world.advance(time);
      world.enter(static_cast<RequestId>(++id), {});
    }
    world.advance(100 * kSecond);

    sim::ServiceSpec spec;
    std::vector<double> seconds;
    for (const Nanos time : times) seconds.push_back(static_cast<double>(time) / 1e9);
    spec.arrivals = sim::ArrivalSource::recorded(seconds);
    spec.queues.push_back({plan::pooled_policy({{fast(), 2}, {slow(), 1}}, slo), Rps{rate}});
    spec.slo = slo;
    spec.end = 4 * kSecond;
    const sim::ServiceOutcome expected = sim::ServiceWorld().run(spec);

    EXPECT_EQ(world.brain.counters().completed, expected.completed);
    EXPECT_EQ(world.brain.counters().in_slo, expected.within_slo);
    double latency = 0;
    for (const auto& [request, finish] : world.finishes)
      latency += static_cast<double>(finish.first - world.wishes.at(request).arrived);
    EXPECT_NEAR(latency / static_cast<double>(times.size()), expected.mean_latency, 1);
  }
}

// One trace through simulator and brain: every request is let in or refused by both,
// and takes as long.
class SameAnswers : public testing::TestWithParam<double> {};

void answers_alike(double load, Nanos slo, int queue_limit) {
  const double capacity = 2 * 8 / 6e-3 + 4 / 11e-3;
  const std::vector<Nanos> times = poisson(load * capacity, 5 * kSecond, 11);
  World world({.slo = slo, .queue_limit = queue_limit});
  world.join(1, "a", fast());
  world.join(2, "a", fast());
  world.join(3, "b", slow());
  RequestId id = 0;
  for (const Nanos time : times) {
    world.advance(time);
    world.ask(++id, {});
  }
  world.advance(100 * kSecond);

  sim::ServiceSpec spec;
  std::vector<double> seconds;
  for (const Nanos time : times) seconds.push_back(static_cast<double>(time) / 1e9);
  spec.arrivals = sim::ArrivalSource::recorded(seconds);
  spec.queues.push_back({plan::pooled_policy({{fast(), 2}, {slow(), 1}}, slo), Rps{capacity}});
  spec.slo = slo;
  spec.end = 6 * kSecond;
  spec.queue_limit = queue_limit;
  spec.keep_answers = true;
  const sim::ServiceOutcome seen = sim::ServiceWorld().run(spec);

  ASSERT_EQ(seen.answers.size(), times.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto finish = world.finishes.find(i + 1);
    const Nanos latency =
        finish == world.finishes.end() ? plan::kForever : finish->second.first - times[i];
    ASSERT_EQ(seen.answers[i], (sim::Answer{times[i], latency})) << "request " << i;
  }
  const ServiceCounters& counters = world.brain.counters();
  EXPECT_EQ(seen.refused, counters.refused_miss + counters.refused_full);
  EXPECT_EQ(seen.completed, counters.completed);
  EXPECT_EQ(seen.within_slo, counters.in_slo);
  EXPECT_EQ(seen.offered, counters.offered);
  EXPECT_EQ(seen.offered, seen.completed + seen.refused);
  EXPECT_TRUE(load < 1.1 || seen.refused > 0);
}

TEST_P(SameAnswers, FromSimulatorAndBrain) {
  for (const Nanos slo : {13 * kMs, 30 * kMs, 400 * kMs})
    answers_alike(GetParam(), slo, kDefaultQueueLimit);
  answers_alike(GetParam(), 400 * kMs, 50);
}

INSTANTIATE_TEST_SUITE_P(Loads, SameAnswers, testing::Values(0.9, 1.0, 1.05, 1.2, 3.0));

// Twice as much as the pool can do: what is let in is in time, and the pool stays busy.
TEST(ServiceBrain, ShedsWhatWouldBeLate) {
  const Nanos slo = 40 * kMs;
  World world({.slo = slo});
  world.join(1, "a", fast());
  world.join(2, "a", fast());
  const double capacity = 2 * 8 / 6e-3;
  EXPECT_NEAR(world.brain.pool().capacity_rps(), capacity, 1e-6);
  long id = 0, refused = 0;
  for (const Nanos time : poisson(2 * capacity, 5 * kSecond, 3)) {
    world.advance(time);
    if (!world.ask(static_cast<RequestId>(++id), {})) ++refused;
  }
  world.advance(10 * kSecond);
  const ServiceCounters& counters = world.brain.counters();
  EXPECT_EQ(counters.offered, id);
  EXPECT_EQ(counters.refused_miss, refused);
  EXPECT_EQ(counters.completed, id - refused);
  EXPECT_EQ(counters.in_slo, counters.completed);
  EXPECT_GE(static_cast<double>(counters.in_slo), 0.95 * capacity * 5);
}

// Streams last as long as they do: nothing is refused for it, nothing is overdue, and each goes to
// a worker that has a lane free, up to its number of them.
TEST(ServiceBrain, StreamsGoAtOnceAndAreNeverOverdue) {
  World world({.slo = 10 * kMs, .predictable = false});
  world.join(1, "a", {{{1, Millis{1000}}}}, 3);
  for (RequestId id = 1; id <= 5; ++id) EXPECT_TRUE(world.ask(id, {}));
  EXPECT_EQ(world.order, (std::vector<RequestId>{1, 2, 3}));
  EXPECT_TRUE(world.brain.pool().overdue(1000 * kSecond, 0).empty());
  world.leave(1);
  world.join(2, "b", {{{1, Millis{1000}}}}, 1);
  EXPECT_EQ(world.order.back(), 4U);
  EXPECT_TRUE(world.drained.empty());
  world.advance(kSecond);
  EXPECT_EQ(world.drained, std::vector<WorkerId>{1});
  world.advance(10 * kSecond);
  EXPECT_EQ(world.finishes.size(), 5U);
}

TEST(ServiceBrain, RefusesWithoutWorkersOrRoom) {
  World world({.slo = 10 * kMs, .queue_limit = 3, .shed = false});
  EXPECT_EQ(world.brain.admit(0, {}).refusal, Refusal::no_worker);
  EXPECT_EQ(world.brain.admit(0, {.items = 4}).refusal, Refusal::too_many_items);
  world.join(1, "a", {{{1, Millis{5}}}});
  int let_in = 0;
  for (RequestId id = 1; id <= 10; ++id) let_in += world.ask(id, {}) ? 1 : 0;
  EXPECT_EQ(let_in, 4);  // one runs, three wait
  const Admission full = world.brain.admit(0, {});
  EXPECT_EQ(full.refusal, Refusal::queue_full);
  EXPECT_EQ(full.retry_after, 25 * kMs);
}

// By reason: whether it counts as offered, afresh and again, and which counter else.
TEST(ServiceBrain, CountsWhatItsOwnerRefused) {
  ServiceBrain brain({.slo = 100 * kMs});
  for (const auto why : {OwnerRefusal::no_slot, OwnerRefusal::slowed, OwnerRefusal::share,
                         OwnerRefusal::share, OwnerRefusal::at_door})
    brain.refused(why);
  brain.refused(OwnerRefusal::share, true);
  const ServiceCounters& counters = brain.counters();
  EXPECT_EQ(counters.offered, 4);
  EXPECT_EQ(counters.refused_full, 1);
  EXPECT_EQ(counters.refused_slowed, 1);
  EXPECT_EQ(counters.refused_share, 3);
  EXPECT_EQ(counters.refused_worker, 1);
  EXPECT_EQ(counters.refused_miss, 0);
}

TEST(ServiceBrain, UrgentAndImportantGoFirst) {
  World world({.slo = 100 * kMs, .shed = false});
  world.join(1, "a", {{{1, Millis{10}}}});
  world.enter(1, {});  // runs
  world.enter(2, {});
  world.enter(3, {.deadline = 60 * kMs});
  world.enter(4, {.priority = 1});
  world.enter(5, {.priority = -1});
  world.enter(6, {});
  world.advance(kSecond);
  EXPECT_EQ(world.order, (std::vector<RequestId>{1, 4, 3, 2, 6, 5}));
}

TEST(ServiceBrain, ADeadlinePassesWhileWaiting) {
  World world({.slo = 100 * kMs, .shed = false});
  world.join(1, "a", {{{1, Millis{10}}}});
  world.enter(1, {});
  world.enter(2, {.items = 2, .deadline = 6 * kMs});
  world.enter(3, {.deadline = 10 * kMs});  // its turn comes just then: too late all the same
  world.advance(kSecond);
  EXPECT_EQ(world.finishes.at(1), (std::pair{10 * kMs, Outcome::done}));
  EXPECT_EQ(world.finishes.at(2), (std::pair{6 * kMs, Outcome::expired}));
  EXPECT_EQ(world.finishes.at(3), (std::pair{10 * kMs, Outcome::expired}));
  EXPECT_EQ(world.brain.queued(), 0);
}

TEST(ServiceBrain, WhatADyingWorkerHeldGoesToTheFront) {
  World world({.slo = 100 * kMs, .shed = false});
  world.join(1, "a", {{{1, Millis{10}}}});
  for (RequestId id = 1; id <= 3; ++id) world.enter(id, {.idempotent = id != 2});
  world.lose(1);
  world.join(2, "a", {{{1, Millis{10}}}});
  world.advance(11 * kMs);  // 1 again, then 2
  world.lose(2);
  world.join(3, "b", {{{1, Millis{10}}}});
  world.advance(kSecond);
  EXPECT_EQ(world.order, (std::vector<RequestId>{1, 1, 2, 3}));
  EXPECT_EQ(world.finishes.at(2).second, Outcome::failed);  // must not run twice
  EXPECT_EQ(world.finishes.at(3).second, Outcome::done);
  EXPECT_EQ(world.brain.counters().requeued, 1);
}

// A batch fails as a whole; then everybody is judged alone, and only who is bad fails.
TEST(ServiceBrain, OneBadRowFailsAlone) {
  World world({.slo = 1'000 * kMs, .shed = false});
  world.join(1, "a", fast());
  world.join(2, "a", fast());
  world.bad = {3, 13};
  for (RequestId id = 1; id <= 20; ++id) world.enter(id, {.items = id == 13 ? 2 : 1});
  world.enter(21, {.idempotent = false});
  world.advance(10 * kSecond);
  for (RequestId id = 1; id <= 21; ++id)
    EXPECT_EQ(world.finishes.at(id).second == Outcome::failed, world.bad.contains(id)) << id;
  EXPECT_EQ(world.brain.counters().failed, 2);
  EXPECT_GT(world.brain.counters().rerun, 2);
  EXPECT_EQ(world.brain.queued(), 0);
}

// A request that kills whoever runs it ends two workers at most; strangers' rows that may be why
// never run on the last worker, and those of senders that are well do not wait.
TEST(ServiceBrain, WhatKillsTwiceIsRefusedAndTheServiceStaysOpen) {
  World world({.slo = 1'000 * kMs});
  world.join(1, "a", fast());
  world.join(2, "a", fast());
  world.enter(20, {});  // goes at once
  for (RequestId id = 1; id <= 8; ++id) world.enter(id, {.trusted = id % 2 == 0});
  ASSERT_EQ(world.workers_with(5).size(), 1U);  // a full batch
  world.lose(*world.workers_with(5).begin());
  world.advance(100 * kMs);
  for (RequestId id = 1; id <= 8; ++id)
    EXPECT_EQ(world.finishes.contains(id), id % 2 == 0) << id;  // one worker is left
  world.enter(9, {});
  world.advance(200 * kMs);
  EXPECT_EQ(world.finishes.at(9).second, Outcome::done);
  world.join(3, "a", fast());
  int died = 0;
  for (int i = 0; i < 100 && !world.finishes.contains(5); ++i) {
    if (!world.workers_with(5).empty()) {
      world.lose(*world.workers_with(5).begin());
      ++died;
      world.join(static_cast<WorkerId>(10 + i), "a", fast());
    }
    world.advance(world.now + kMs);
  }
  EXPECT_EQ(died, 1);
  EXPECT_EQ(world.finishes.at(5).second, Outcome::harmful);
  world.advance(world.now + kSecond);
  for (RequestId id = 1; id <= 9; ++id)
    EXPECT_EQ(world.finishes.at(id).second, id == 5 ? Outcome::harmful : Outcome::done) << id;
  EXPECT_EQ(world.brain.counters().harmful, 1);
}

// Not only the request under which a worker died: what its sender has sent or sends besides stays
// off the last worker, too. Where one is planned it is all there is.
TEST(ServiceBrain, WhatADoubtedSenderSendsSparesTheLastWorker) {
  for (const int planned : {2, 1}) {
    World world({.slo = 1'000 * kMs, .planned_workers = planned});
    world.join(1, "a", fast());
    world.join(2, "a", fast());
    world.enter(1, {.trusted = false});
    world.enter(20, {});  // from here on they wait
    world.enter(2, {.trusted = false});
    world.enter(3, {.trusted = false});
    ASSERT_EQ(world.brain.queued(), 3);
    world.brain.doubt(2);
    world.lose(*world.workers_with(1).begin());
    world.enter(4, {.trusted = false, .doubted = true});
    world.enter(5, {.trusted = true, .doubted = true});
    world.advance(100 * kMs);
    EXPECT_EQ(world.finishes.contains(1), planned == 1);
    EXPECT_EQ(world.finishes.contains(2), planned == 1);
    EXPECT_TRUE(world.finishes.contains(3));
    EXPECT_EQ(world.finishes.contains(4), planned == 1);
    EXPECT_TRUE(world.finishes.contains(5));
    world.join(3, "a", fast());
    world.advance(200 * kMs);
    for (const RequestId id : {1, 2, 3, 4, 5, 20})
      EXPECT_EQ(world.finishes.at(id).second, Outcome::done) << id;
  }
}

// Who is kept from the last worker is told in time, also where nothing is shed and everybody else
// waits for his turn for as long as it takes.
TEST(ServiceBrain, WhoIsKeptFromTheLastWorkerIsToldInTime) {
  for (const auto& [shed, predictable] :
       {std::pair{true, true}, {false, true}, {true, false}, {false, false}}) {
    World world({.slo = 100 * kMs, .shed = shed, .predictable = predictable});
    world.join(1, "a", {{{1, Millis{150}}}});
    world.join(2, "a", {{{1, Millis{150}}}});
    world.enter(1, {.trusted = false});
    world.lose(*world.workers_with(1).begin());
    world.enter(2, {.trusted = false, .doubted = true});
    for (RequestId id = 3; id <= 6; ++id) world.enter(id, {});
    world.advance(kSecond);
    for (const RequestId id : {1, 2})
      EXPECT_EQ(world.finishes.at(id), (std::pair{kPatience * 100 * kMs, Outcome::expired}));
    const bool waits = !shed || !predictable;
    EXPECT_EQ(world.finishes.at(4).second, Outcome::done);
    EXPECT_EQ(world.finishes.at(6).second, waits ? Outcome::done : Outcome::expired);
    EXPECT_EQ(world.brain.queued(), 0);
  }
}

// Nobody is held for long by a worker that hangs: what it had runs elsewhere, or is told in time.
TEST(ServiceBrain, WhatAHangingWorkerHeldIsTakenBack) {
  World world({.slo = 100 * kMs});
  world.join(1, "a", {{{1, Millis{10}}}});
  world.enter(1, {});
  world.enter(2, {});
  EXPECT_EQ(world.brain.pool().first_overdue(50 * kMs), 60 * kMs + 1);
  world.take_back(1);
  world.join(2, "b", {{{1, Millis{10}}}});
  world.advance(30 * kMs);
  EXPECT_EQ(world.finishes.at(1), (std::pair{10 * kMs, Outcome::done}));
  EXPECT_EQ(world.finishes.at(2), (std::pair{20 * kMs, Outcome::done}));
  world.enter(3, {});
  world.enter(4, {});
  world.take_back(2);  // and nobody is left
  world.advance(kSecond);
  EXPECT_EQ(world.finishes.at(3), (std::pair{30 * kMs + kPatience * 100 * kMs, Outcome::expired}));
  EXPECT_EQ(world.finishes.at(4).second, Outcome::expired);
  EXPECT_EQ(world.brain.queued(), 0);
}

// A sender that is being watched shares no batch with others, and never runs on all workers.
// Steps run on the worker that has the state: each sequence's in order, those of others beside
// them. While their worker leaves they wait; they go on where they are moved to, or fail.
TEST(ServiceBrain, StepsWaitForTheStateOfTheirSequence) {
  World world({.slo = 1000 * kMs});
  world.join(1, "d", slow());
  world.join(2, "e", slow());
  const auto step = [&](RequestId id, std::uint64_t sequence, WorkerId worker) {
    world.ask(id, {.idempotent = false, .worker = worker, .sequence = sequence});
  };
  for (RequestId id = 1; id <= 8; ++id) step(id, id % 2 + 1, 1);
  EXPECT_EQ(world.order, (std::vector<RequestId>{1})) << "the first goes at once";
  world.advance(7 * kMs);
  EXPECT_EQ(world.order, (std::vector<RequestId>{1, 2, 3})) << "one of each sequence";
  world.leave(1);
  world.advance(100 * kMs);
  EXPECT_EQ(world.order.size(), 3U);
  EXPECT_EQ(world.drained, (std::vector<WorkerId>{1}));
  world.brain.move_steps(1, 1, 2);
  world.step();
  world.brain.fail_steps(world.now, 2, 1);
  world.step();
  world.advance(200 * kMs);
  EXPECT_EQ(world.order, (std::vector<RequestId>{1, 2, 3, 4, 6, 8})) << "in order";
  for (RequestId id = 1; id <= 8; ++id)
    EXPECT_EQ(world.finishes.at(id).second,
              id > 4 && id % 2 == 1 ? Outcome::failed : Outcome::done);
}

TEST(ServiceBrain, WhoIsWatchedRunsAlone) {
  World world({.slo = 1'000 * kMs});
  world.join(1, "a", fast());
  world.join(2, "a", fast());
  for (RequestId id = 1; id <= 6; ++id)
    world.enter(id, {.trusted = id % 2 == 0, .alone = id % 2 == 1});
  for (int i = 0; i < 100; ++i) {
    std::set<WorkerId> with;
    for (const RequestId id : {1, 3, 5}) with.merge(world.workers_with(id));
    EXPECT_LE(with.size(), 1U);
    world.advance(world.now + kMs);
  }
  EXPECT_EQ(world.finishes.size(), 6U);
}

// One random life: everything that was let in ends once, whatever happens to workers and clients.
class RandomLife {
 public:
  explicit RandomLife(std::uint64_t seed) : rng_(seed), world_({.slo = 30 * kMs, .shed = false}) {}

  void live() {
    for (int i = 0; i < 300; ++i) {
      world_.advance(world_.now + static_cast<Nanos>(rng_.uniform() * 3e6));
      act();
    }
    for (const WorkerId id : world_.living()) world_.leave(id);
    world_.join(1'000'000, "last", slow());
    world_.advance(world_.now + 1'000 * kSecond);
    check();
  }

 private:
  void act() {
    const double draw = rng_.uniform();
    const std::vector<WorkerId> living = world_.living();
    if (draw < 0.6) {
      Wish wish{.items = 1 + static_cast<int>(rng_.uniform() * 6)};
      if (rng_.uniform() < 0.2)
        wish.deadline = world_.now + static_cast<Nanos>(rng_.uniform() * 5e7);
      wish.priority = static_cast<int>(rng_.uniform() * 3) - 1;
      wish.idempotent = rng_.uniform() < 0.7;
      world_.enter(++requests_, wish);
    } else if (draw < 0.7 && requests_ > 0) {
      const auto id = 1 + static_cast<RequestId>(rng_.uniform() * static_cast<double>(requests_));
      if (world_.finishes.contains(id)) return;
      world_.brain.cancel(id);
      cancelled_.insert(id);
      world_.step();
    } else if (draw < 0.8) {
      const std::string device(1, static_cast<char>('a' + static_cast<int>(rng_.uniform() * 3)));
      world_.join(++workers_, device, device == "a" ? fast() : slow(),
                  device == "c" ? 1 + static_cast<int>(rng_.uniform() * 3) : 1);
    } else if (draw < 0.85 && !living.empty()) {
      const WorkerId id = living[at(rng_.uniform() * static_cast<double>(living.size()))];
      world_.suspend(id, rng_.uniform() < 0.5);
    } else if (draw < 0.9 && !living.empty()) {
      world_.lose(living[at(rng_.uniform() * static_cast<double>(living.size()))]);
    } else if (!living.empty()) {
      world_.leave(living[at(rng_.uniform() * static_cast<double>(living.size()))]);
    }
  }
  static std::size_t at(double index) { return static_cast<std::size_t>(index); }

  void check() {
    for (const auto& [id, wish] : world_.wishes) {
      const bool finished = world_.finishes.contains(id);
      EXPECT_NE(finished, cancelled_.contains(id)) << id;
      EXPECT_FALSE(world_.brain.running(id));
      for (int i = 0; i < wish.items; ++i) {
        const int starts = world_.starts[{id, static_cast<std::uint32_t>(i)}];
        EXPECT_LE(starts, wish.idempotent ? kMostDeaths : 1);
        if (!finished) continue;
        const Outcome outcome = world_.finishes.at(id).second;
        EXPECT_TRUE(outcome != Outcome::done || starts >= 1);
        EXPECT_TRUE(outcome != Outcome::expired || wish.deadline);
      }
    }
    EXPECT_EQ(world_.brain.queued(), 0);
    EXPECT_EQ(world_.brain.pool().running(), 0);
    const std::set<WorkerId> once(world_.drained.begin(), world_.drained.end());
    EXPECT_EQ(once.size(), world_.drained.size());
    for (const WorkerId id : world_.leaving) EXPECT_TRUE(once.contains(id));
  }

  Rng rng_;
  World world_;
  RequestId requests_ = 0;
  WorkerId workers_ = 0;
  std::set<RequestId> cancelled_;
};

TEST(ServiceBrain, EveryRequestEndsOnceWhateverHappens) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomLife(seed).live();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace partita::serve::service_brain_test
