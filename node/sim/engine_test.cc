#include "sim/engine.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <deque>
#include <functional>
#include <set>
#include <tuple>
#include <vector>

namespace partita::sim {
namespace {

// Random pushes and pops against an ordered set of (time, order of pushing).
RC_GTEST_PROP(EventQueue, AgreesWithAnOrderedSet, (std::uint64_t seed)) {
  Rng rng(seed);
  EventQueue queue;
  std::set<std::tuple<Nanos, std::uint64_t, std::uint32_t>> reference;
  std::uint64_t pushed = 0;
  for (int i = 0; i < 500; ++i) {
    if (rng.below(5) < 3 || reference.empty()) {
      const auto time = static_cast<Nanos>(rng.below(40));
      const auto subject = static_cast<std::uint32_t>(rng.below(1000));
      queue.push({.time = time, .subject = subject});
      reference.emplace(time, pushed++, subject);
    } else {
      const Event event = queue.pop();
      RC_ASSERT(std::tuple(event.time, event.sequence, event.subject) == *reference.begin());
      reference.erase(reference.begin());
    }
    RC_ASSERT(queue.empty() == reference.empty());
  }
}

TEST(EventQueue, ClearStartsTheOrderAnew) {
  EventQueue queue;
  queue.push({.time = 5});
  queue.push({.time = 5});
  queue.clear();
  EXPECT_TRUE(queue.empty());
  queue.push({.time = 9, .kind = 1, .subject = 2, .count = 3});
  EXPECT_EQ(queue.pop(), (Event{9, 0, 1, 2, 3}));
}

TEST(EventLog, EveryFieldAndTheOrderCount) {
  const auto hash = [](std::vector<Event> events) {
    EventLog log;
    for (const Event& e : events) log.record(e.time, e.kind, e.subject, e.count);
    return log.hash();
  };
  const Event a{.time = 1, .kind = 2, .subject = 3, .count = 4};
  std::set<std::uint64_t> hashes = {hash({}), hash({a}), hash({a, a})};
  for (int field = 0; field < 4; ++field) {
    Event b = a;
    b.time += field == 0;
    b.kind += field == 1;
    b.subject += field == 2;
    b.count += field == 3;
    hashes.insert(hash({b}));
    hashes.insert(hash({a, b}));
    hashes.insert(hash({b, a}));
  }
  EXPECT_EQ(hashes.size(), 3u + 4 * 3);
  EXPECT_EQ(hash({a}), hash({a}));
}

TEST(ComponentRng, DependsOnSeedAndNameAlone) {
  EXPECT_EQ(component_rng(7, "bert").next(), component_rng(7, "bert").next());
  EXPECT_NE(component_rng(7, "bert").next(), component_rng(8, "bert").next());
  EXPECT_NE(component_rng(7, "bert").next(), component_rng(7, "berT").next());
}

// A FIFO queue with Poisson arrivals on the engine; service times are pluggable.
struct PlannedQueueSpec {
  double arrivals_per_s = 1;
  int servers = 1;
  std::function<double(Rng&)> service_s;
  int requests = 1'000'000;
};

struct QueueResult {
  double mean_wait_s = 0, mean_sojourn_s = 0;
  double mean_in_system = 0;  // time average, measured apart from the sojourn times
};

QueueResult run_queue(const PlannedQueueSpec& spec) {
  enum Kind : std::uint32_t { kArrive, kLeave };
  EventQueue events;
  Rng gaps = component_rng(1, "gaps"), services = component_rng(1, "services");
  std::deque<Nanos> waiting;
  int busy = 0, arrived = 0, in_system = 0;
  double wait = 0, sojourn = 0, area = 0;
  Nanos now = 0;
  const auto gap = [&] {
    return static_cast<Nanos>(gaps.exponential() * kNanosPerSecond / spec.arrivals_per_s);
  };
  events.push({.time = gap(), .kind = kArrive});
  while (!events.empty()) {
    const Event event = events.pop();
    area += static_cast<double>(in_system) * static_cast<double>(event.time - now);
    now = event.time;
    if (event.kind == kArrive) {
      ++in_system;
      waiting.push_back(now);
      if (++arrived < spec.requests) events.push({.time = now + gap(), .kind = kArrive});
    } else {
      --in_system;
      --busy;
    }
    for (; busy < spec.servers && !waiting.empty(); ++busy, waiting.pop_front()) {
      const auto service = static_cast<Nanos>(spec.service_s(services) * kNanosPerSecond);
      wait += static_cast<double>(now - waiting.front());
      sojourn += static_cast<double>(now + service - waiting.front());
      events.push({.time = now + service, .kind = kLeave});
    }
  }
  const double scale = spec.requests * kNanosPerSecond;
  return {wait / scale, sojourn / scale, area / static_cast<double>(now)};
}

// Erlang's C formula: the probability that an arrival waits in M/M/c.
double erlang_c(int servers, double load) {
  double blocking = 1;  // Erlang B, by its recursion
  for (int c = 1; c <= servers; ++c) blocking = load * blocking / (c + load * blocking);
  return servers * blocking / (servers - load * (1 - blocking));
}

TEST(QueueOnTheEngine, MatchesMM1) {
  const auto result =
      run_queue({.arrivals_per_s = 70, .service_s = [](Rng& r) { return r.exponential() / 100; }});
  EXPECT_NEAR(result.mean_sojourn_s, 1.0 / (100 - 70), 0.02 / (100 - 70));
}

TEST(QueueOnTheEngine, MatchesMMcByErlangC) {
  const int servers = 4;
  const auto result =
      run_queue({.arrivals_per_s = 300, .servers = servers, .service_s = [](Rng& r) {
                   return r.exponential() / 100;
                 }});
  const double expected = erlang_c(servers, 3.0) / (servers * 100 - 300);
  EXPECT_NEAR(result.mean_wait_s, expected, 0.02 * expected);
}

TEST(QueueOnTheEngine, MatchesMG1ByPollaczekKhinchine) {
  // Uniform service on [0, 20 ms]: E[S] = 10 ms, E[S^2] = 400/3 ms^2.
  const auto result =
      run_queue({.arrivals_per_s = 75, .service_s = [](Rng& r) { return r.uniform() * 0.02; }});
  const double expected = 75 * (4e-4 / 3) / (2 * (1 - 0.75));
  EXPECT_NEAR(result.mean_wait_s, expected, 0.02 * expected);
}

TEST(QueueOnTheEngine, ObeysLittlesLaw) {
  const double rate = 80;
  const auto result = run_queue(
      {.arrivals_per_s = rate, .service_s = [](Rng& r) { return r.exponential() / 100; }});
  EXPECT_NEAR(result.mean_in_system, rate * result.mean_sojourn_s, 0.005 * result.mean_in_system);
}

}  // namespace
}  // namespace partita::sim
