#include "remote/server/broker_brain.h"

#include <gmock/gmock.h>

#include <set>

#include "base/rng.h"

namespace partita::remote::server {
namespace {

using broker::Action;
using broker::Arrived;
using broker::Deny;
using broker::Give;
using broker::Left;
using broker::Place;
using broker::ShutDown;
using broker::Start;
using broker::Stop;
using broker::WorkerEnded;
using broker::WorkerReady;
using ::testing::IsEmpty;

using Actions = std::vector<Action>;

TEST(BrokerBrain, GivesWarmWorkersAtOnceAndKeepsTheNextWarm) {
  BrokerBrain brain({{"a", "CPU-2", 2}, {"b", "CPU-2", 2}}, {.warm = 1});
  EXPECT_EQ(brain.begin(), (Actions{Start{1, 0}}));
  EXPECT_THAT(brain.step(WorkerReady{1}), IsEmpty());
  EXPECT_EQ(brain.step(Arrived{7, ""}), (Actions{Give{7, 1}, Start{2, 1}}));
  EXPECT_EQ(brain.serving(), 1u);
  EXPECT_THAT(brain.step(WorkerReady{2}), IsEmpty());
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{}));  // part a is free, b is warm
  EXPECT_EQ(brain.serving(), 0u);
}

TEST(BrokerBrain, QueuesInOrderWithPlaces) {
  BrokerBrain brain({{"a", "gpu"}, {"b", "1g.10gb"}}, {.queue = 2, .warm = 0});
  EXPECT_EQ(brain.step(Arrived{1, "gpu"}), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.step(WorkerReady{1}), (Actions{Give{1, 1}}));
  EXPECT_EQ(brain.step(Arrived{2, "gpu"}), (Actions{Place{2, 1}}));
  EXPECT_EQ(brain.step(Arrived{3, "gpu"}), (Actions{Place{3, 2}}));
  EXPECT_EQ(brain.step(Arrived{4, "gpu"}), (Actions{Deny{4, "2 clients wait already"}}));
  EXPECT_EQ(brain.step(Arrived{5, "7g.80gb"}),
            (Actions{Deny{5, "this server has no part of shape 7g.80gb"}}));
  EXPECT_EQ(brain.step(Left{2}), (Actions{Place{3, 1}}));
  // Who wants what is free does not wait for those who want what is not.
  EXPECT_EQ(brain.step(Arrived{6, "1g.10gb"}), (Actions{Start{2, 1}}));
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{Start{3, 0}}));
  EXPECT_EQ(brain.step(WorkerReady{3}), (Actions{Give{3, 3}}));
  EXPECT_EQ(brain.step(ShutDown{}),
            (Actions{Deny{6, "the server is going down"}, Stop{3}, Stop{2}}));
}

TEST(BrokerBrain, ShapesOfTheCpuAreServedByLargerParts) {
  EXPECT_TRUE(fits({"", "CPU-4", 4}, "CPU-2"));
  EXPECT_FALSE(fits({"", "CPU-4", 4}, "CPU-5"));
  EXPECT_FALSE(fits({"", "CPU-4", 4}, "2g.20gb"));
  EXPECT_FALSE(fits({"", "gpu"}, "CPU-1"));
  EXPECT_EQ(cpu_units("CPU-12"), 12);
  EXPECT_EQ(cpu_units("CPU-0"), 0);
  EXPECT_EQ(cpu_units("CPU-4x"), 0);
}

TEST(BrokerBrain, GivesUpPartsWhoseWorkersDoNotStart) {
  BrokerBrain brain({{"a", "gpu"}}, {.warm = 0, .failures = 2});
  EXPECT_EQ(brain.step(Arrived{1, ""}), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{Start{2, 0}}));
  EXPECT_EQ(brain.step(WorkerEnded{2}), (Actions{Deny{1, "workers on such parts do not start"}}));
}

// Random histories of clients and workers: nobody is served twice, no part has two workers, equals
// are served in order, and when all parts become free everybody has had an answer.
TEST(BrokerBrain, RandomHistories) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    BrokerBrain brain({{"a", "CPU-1", 1}, {"b", "CPU-2", 2}, {"c", "CPU-4", 4}, {"d", "gpu"}},
                      {.queue = 8, .warm = rng.below(3), .failures = 1 << 30});
    std::map<WorkerId, std::size_t> workers;  // living, with their part
    std::set<WorkerId> starting, ready, serving;
    std::map<ClientId, std::string> open;  // without answer
    std::map<std::string, ClientId> last;  // served, per shape
    ClientId next = 1;
    const auto take = [&](const Actions& actions) {
      for (const Action& action : actions) {
        if (const auto* start = std::get_if<Start>(&action)) {
          for (const auto& [worker, part] : workers) ASSERT_NE(part, start->part);
          workers[start->worker] = start->part;
          starting.insert(start->worker);
        } else if (const auto* give = std::get_if<Give>(&action)) {
          ASSERT_EQ(ready.erase(give->worker), 1u);
          serving.insert(give->worker);
          const std::string shape = open.at(give->client);
          ASSERT_TRUE(fits(brain.parts()[workers.at(give->worker)], shape));
          ASSERT_LT(last[shape], give->client);
          last[shape] = give->client;
          open.erase(give->client);
        } else if (const auto* deny = std::get_if<Deny>(&action)) {
          ASSERT_EQ(open.erase(deny->client), 1u);
        }
      }
    };
    take(brain.begin());
    const auto end = [&](std::set<WorkerId>& of) {
      auto which = std::next(of.begin(), static_cast<long>(rng.below(of.size())));
      const WorkerId worker = *which;
      of.erase(which);
      workers.erase(worker);
      take(brain.step(WorkerEnded{worker}));
    };
    const auto become_ready = [&](WorkerId worker) {
      starting.erase(worker);
      ready.insert(worker);
      take(brain.step(WorkerReady{worker}));
    };
    for (int round = 0; round < 200; ++round) {
      const char* const shapes[] = {"", "CPU-1", "CPU-2", "CPU-3", "gpu"};
      switch (rng.below(5)) {
        case 0: {
          open[next] = shapes[rng.below(5)];
          const ClientId client = next++;
          take(brain.step(Arrived{client, open[client]}));
          break;
        }
        case 1:
          if (!starting.empty()) become_ready(*starting.begin());
          break;
        case 2:
          if (!serving.empty()) end(serving);
          break;
        case 3:
          if (!starting.empty() && rng.below(4) == 0) end(starting);
          break;
        default:
          if (open.empty() || rng.below(3) != 0) break;
          const ClientId client = open.begin()->first;
          open.erase(client);
          take(brain.step(Left{client}));
      }
    }
    for (int round = 0; round < 100 && !open.empty(); ++round) {
      while (!starting.empty()) become_ready(*starting.begin());
      if (!serving.empty()) end(serving);
    }
    EXPECT_THAT(open, IsEmpty()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace partita::remote::server
