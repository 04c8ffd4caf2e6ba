#include "server/broker_brain.h"

#include <gmock/gmock.h>

#include <set>

#include "base/rng.h"

namespace partita::remote::server {
namespace {

using broker::Action;
using broker::Arrived;
using broker::AskAgain;
using broker::Deny;
using broker::Give;
using broker::Left;
using broker::Made;
using broker::Make;
using broker::NotMade;
using broker::Place;
using broker::ShutDown;
using broker::Start;
using broker::Stop;
using broker::Unmade;
using broker::Unmake;
using broker::WorkerEnded;
using broker::WorkerReady;
using ::testing::IsEmpty;

using Actions = std::vector<Action>;

TEST(BrokerBrain, GivesWarmWorkersAtOnceAndKeepsTheNextWarm) {
  BrokerBrain brain({{"a", "CPU-2", 2}, {"b", "CPU-2", 2}}, {.warm = 1});
  EXPECT_EQ(brain.begin(), (Actions{Start{1, 0}}));
  EXPECT_THAT(brain.step(WorkerReady{1}), IsEmpty());
  EXPECT_EQ(brain.step(Arrived{7, ""}), (Actions{Give{7, 1}, Start{2, 1}}));
  EXPECT_EQ(brain.ready(), 0u);  // one serves, one starts
  EXPECT_THAT(brain.step(WorkerReady{2}), IsEmpty());
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{}));  // part a is free, b is warm
  EXPECT_EQ(brain.ready(), 1u);
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
  EXPECT_EQ(brain.waiting(), 0u);
  EXPECT_EQ(brain.step(Arrived{7, "gpu"}), (Actions{Deny{7, "the server is going down"}}));
  EXPECT_THAT(brain.step(WorkerEnded{3}), IsEmpty());
  EXPECT_THAT(brain.step(WorkerReady{2}), IsEmpty()) << "it was told to stop";
  EXPECT_EQ(brain.ready(), 0u);
}

// Nobody waits where nobody may, but who can be served is.
TEST(BrokerBrain, WithoutAQueueFreePartsAreGiven) {
  for (const std::size_t warm : {0, 1}) {
    BrokerBrain brain({{"a", "CPU-1", 1}, {"b", "CPU-1", 1}}, {.queue = 0, .warm = warm});
    brain.begin();
    for (const ClientId client : {1, 2}) {
      Actions all = brain.step(Arrived{client, "CPU-1"});
      for (Action& more : brain.step(WorkerReady{client})) all.push_back(more);
      EXPECT_THAT(all, testing::Contains(Action(Give{client, client})));
    }
    EXPECT_EQ(brain.step(Arrived{3, ""}),
              (Actions{Deny{3, "all parts are taken, and nobody may wait"}}));
    EXPECT_EQ(brain.step(Arrived{4, "CPU-1"}).size(), 1u);
    EXPECT_EQ(brain.waiting(), 0u);
    brain.step(WorkerEnded{2});
    brain.step(Arrived{5, ""});
    EXPECT_THAT(brain.step(WorkerReady{3}), testing::Contains(Action(Give{5, 3})));
  }
}

// Who asks for no part by its name gets none that has one.
TEST(BrokerBrain, NamedPartsAreForWhoNamesThem) {
  BrokerBrain brain({{"plan/a", "a", 0, true}, {"x", "gpu"}}, {.warm = 0});
  EXPECT_EQ(brain.step(Arrived{1, ""}), (Actions{Start{1, 1}}));
  EXPECT_EQ(brain.step(Arrived{2, ""}), (Actions{Place{2, 1}}));
  EXPECT_EQ(brain.step(Arrived{3, "a"}), (Actions{Start{2, 0}}));
  BrokerBrain planned({{"plan/a", "a", 0, true}}, {.warm = 0});
  EXPECT_EQ(planned.step(Arrived{1, ""}),
            (Actions{Deny{1,
                          "this server's parts are given by name alone: ask for one with "
                          "--profile"}}));
}

TEST(BrokerBrain, ShapesOfTheCpuAreServedByLargerParts) {
  EXPECT_TRUE(fits({"", "CPU-4", 4}, "CPU-2"));
  EXPECT_TRUE(fits({"", "large", 4}, "CPU-4"));
  EXPECT_FALSE(fits({"", "CPU-4", 4}, "CPU-5"));
  EXPECT_FALSE(fits({"", "CPU-4", 4}, "2g.20gb"));
  EXPECT_FALSE(fits({"", "gpu"}, "CPU-1"));
}

TEST(BrokerBrain, GivesUpPartsWhoseWorkersDoNotStart) {
  BrokerBrain brain({{"a", "gpu"}}, {.warm = 0, .failures = 2});
  EXPECT_EQ(brain.step(Arrived{1, ""}), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{Start{2, 0}}));
  EXPECT_EQ(brain.step(WorkerEnded{2}),
            (Actions{Deny{1, "workers on such parts do not start", true}}));
}

// A worker that was ready has made good what failed before; one that is kept warm may fail as well.
TEST(BrokerBrain, CountsFailuresWithoutASuccess) {
  BrokerBrain brain({{"a", "gpu"}}, {.warm = 1, .failures = 2});
  EXPECT_EQ(brain.begin(), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{Start{2, 0}}));
  EXPECT_THAT(brain.step(WorkerReady{2}), IsEmpty());
  EXPECT_EQ(brain.ready(), 1u);
  EXPECT_EQ(brain.step(WorkerEnded{2}), (Actions{Start{3, 0}})) << "it was ready: no failure";
  EXPECT_EQ(brain.step(WorkerEnded{3}), (Actions{Start{4, 0}}));
  EXPECT_THAT(brain.step(WorkerEnded{4}), IsEmpty()) << "nothing is kept warm there any more";
  EXPECT_EQ(brain.step(Arrived{1, "gpu"}),
            (Actions{Deny{1, "workers on such parts do not start", true}}));
  EXPECT_THAT(brain.step(WorkerReady{4}), IsEmpty()) << "it has ended";
  EXPECT_THAT(brain.step(WorkerEnded{9}), IsEmpty()) << "there was none";
}

// The smallest part that will do, one with a ready worker before all, then one that is starting.
TEST(BrokerBrain, GivesTheLeastThatWillDo) {
  const std::vector<Part> parts{{"a", "CPU-4", 4}, {"b", "CPU-2", 2}, {"c", "CPU-2", 2}};
  BrokerBrain cold(parts, {.warm = 0});
  EXPECT_EQ(cold.step(Arrived{1, "CPU-1"}), (Actions{Start{1, 1}}));
  EXPECT_EQ(cold.step(Arrived{2, "CPU-1"}), (Actions{Start{2, 2}}));
  EXPECT_EQ(cold.step(Arrived{3, "CPU-1"}), (Actions{Start{3, 0}}));
  EXPECT_EQ(cold.step(Arrived{4, "CPU-1"}), (Actions{Place{4, 1}}));
  EXPECT_EQ(cold.step(WorkerReady{3}), (Actions{Give{1, 3}})) << "first come, first served";
  EXPECT_EQ(cold.waiting(), 3u);
  EXPECT_EQ(cold.present(), 3u);
  BrokerBrain warm(parts, {.warm = 2});
  EXPECT_EQ(warm.begin(), (Actions{Start{1, 0}, Start{2, 1}}));
  EXPECT_EQ(warm.step(Arrived{1, "CPU-1"}), (Actions{Start{3, 2}})) << "promised b's; c is warmed";
  EXPECT_EQ(warm.step(WorkerReady{1}), (Actions{Give{1, 1}})) << "a's is ready";
  EXPECT_EQ(warm.step(Arrived{2, ""}), (Actions{})) << "b's is starting, and c's";
  EXPECT_EQ(warm.step(WorkerReady{3}), (Actions{Give{2, 3}}));
}

TEST(BrokerBrain, MakesOnlySoManyParts) {
  BrokerBrain brain({}, {.made = 1}, {"1g"});
  EXPECT_EQ(brain.step(Arrived{1, "1g"}), (Actions{Make{0, "1g"}}));
  EXPECT_EQ(brain.step(Arrived{2, "1g"}), (Actions{Place{2, 1}}));
  EXPECT_EQ(brain.step(Made{0, "a"}), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.step(WorkerReady{1}), (Actions{Give{1, 1}}));
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{Start{2, 0}}));
  EXPECT_EQ(brain.step(WorkerReady{2}), (Actions{Give{2, 2}}));
}

// Who could use another part that is there goes on waiting for it.
TEST(BrokerBrain, WhatCannotBeMadeIsDeniedToWhoNeedsIt) {
  BrokerBrain brain({{"x", "1g"}}, {.warm = 0}, {"1g", "2g"});
  EXPECT_EQ(brain.step(Arrived{1, "1g"}), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.step(WorkerReady{1}), (Actions{Give{1, 1}}));
  EXPECT_EQ(brain.step(Arrived{2, "1g"}), (Actions{Make{1, "1g"}}));
  EXPECT_EQ(brain.step(Arrived{3, "2g"}), (Actions{Make{2, "2g"}}));
  EXPECT_EQ(brain.step(NotMade{2, false, "no rights"}), (Actions{Deny{3, "no rights"}}));
  EXPECT_EQ(brain.parts()[2].shape, "");
  EXPECT_EQ(brain.step(Left{2}), (Actions{}));
  EXPECT_EQ(brain.step(Made{1, "a"}), (Actions{Unmake{1}}));
  EXPECT_EQ(brain.borrowed(), 1u);
  EXPECT_THAT(brain.step(Unmade{1}), IsEmpty());
  EXPECT_EQ(brain.parts()[1].name, "");
}

TEST(BrokerBrain, MakesPartsForWhoAsksAndTakesThemApartAfterwards) {
  BrokerBrain brain({}, {.warm = 3}, {"1g", "2g"});
  EXPECT_THAT(brain.begin(), IsEmpty());  // none is made to be kept warm
  EXPECT_EQ(brain.step(Arrived{1, "3g"}),
            (Actions{Deny{1, "this server has no part of shape 3g"}}));
  EXPECT_EQ(brain.step(Arrived{2, "2g"}), (Actions{Make{0, "2g"}}));
  EXPECT_EQ(brain.step(Arrived{3, ""}), (Actions{Make{1, "1g"}}));  // the first shape
  EXPECT_EQ(brain.borrowed(), 2u);
  EXPECT_EQ(brain.present(), 0u);
  EXPECT_EQ(brain.step(Made{0, "MIG-a"}), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.parts()[0].name, "MIG-a");
  EXPECT_EQ(brain.step(WorkerReady{1}), (Actions{Give{2, 1}}));
  // The next who wants the same gets one of its own, not that one later.
  EXPECT_EQ(brain.step(Arrived{4, "2g"}), (Actions{Make{2, "2g"}}));
  // Who leaves meanwhile leaves nothing behind.
  EXPECT_THAT(brain.step(Left{3}), IsEmpty());
  EXPECT_EQ(brain.step(Made{1, "MIG-b"}), (Actions{Unmake{1}}));
  EXPECT_THAT(brain.step(Unmade{1}), IsEmpty());
  EXPECT_EQ(brain.step(Made{2, "MIG-c"}), (Actions{Start{2, 2}}));
  EXPECT_THAT(brain.step(Left{4}), IsEmpty());
  EXPECT_EQ(brain.step(WorkerReady{2}), (Actions{Stop{2}}));
  EXPECT_EQ(brain.step(WorkerEnded{2}), (Actions{Unmake{2}}));
  // Who waits gets the part of a session that has ended as it is.
  EXPECT_THAT(brain.step(Unmade{2}), IsEmpty());
  EXPECT_EQ(brain.step(Arrived{5, "2g"}), (Actions{Make{1, "2g"}}));
  EXPECT_EQ(brain.step(NotMade{1, true, "no room"}), (Actions{Place{5, 1}}));
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{Start{3, 0}}));
  EXPECT_EQ(brain.step(ShutDown{}), (Actions{Deny{5, "the server is going down"}, Stop{3}}));
  EXPECT_EQ(brain.step(WorkerEnded{3}), (Actions{Unmake{0}}));
  EXPECT_EQ(brain.borrowed(), 1u);
  EXPECT_THAT(brain.step(Unmade{0}), IsEmpty());
  EXPECT_EQ(brain.borrowed(), 0u);
}

TEST(BrokerBrain, RoomGoesToWhoAskedForItFirst) {
  BrokerBrain brain({}, {}, {"1g", "4g"});
  EXPECT_EQ(brain.step(Arrived{1, "1g"}), (Actions{Make{0, "1g"}}));
  EXPECT_EQ(brain.step(Made{0, "a"}), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.step(WorkerReady{1}), (Actions{Give{1, 1}}));
  EXPECT_EQ(brain.step(Arrived{2, "4g"}), (Actions{Make{1, "4g"}}));
  EXPECT_EQ(brain.step(NotMade{1, true, "no room"}), (Actions{Place{2, 1}}));
  EXPECT_EQ(brain.step(Arrived{3, "1g"}), (Actions{Place{3, 2}}));  // there might be room for it
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{Start{2, 0}}));    // the one that is there is free
  EXPECT_EQ(brain.step(WorkerReady{2}), (Actions{Give{3, 2}}));
  EXPECT_EQ(brain.step(WorkerEnded{2}), (Actions{Unmake{0}}));
  EXPECT_EQ(brain.step(Unmade{0}), (Actions{Make{0, "4g"}}));
  // With nothing of the server's in the way it would wait for ever.
  EXPECT_EQ(brain.step(NotMade{0, true, "others are there"}),
            (Actions{Deny{2, "others are there"}}));
  EXPECT_EQ(brain.step(Arrived{4, "1g"}), (Actions{Make{0, "1g"}}));
  EXPECT_EQ(brain.step(NotMade{0, false, "denied"}), (Actions{Deny{4, "denied"}}));
}

// Who comes when nobody waits may have room that others have given since.
TEST(BrokerBrain, WhoComesFirstAsksAnew) {
  BrokerBrain brain({}, {}, {"1g", "4g"});
  EXPECT_EQ(brain.step(Arrived{1, "1g"}), (Actions{Make{0, "1g"}}));
  EXPECT_EQ(brain.step(Made{0, "a"}), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.step(WorkerReady{1}), (Actions{Give{1, 1}}));
  EXPECT_EQ(brain.step(Arrived{2, "4g"}), (Actions{Make{1, "4g"}}));
  EXPECT_EQ(brain.step(NotMade{1, true, "no room"}), (Actions{Place{2, 1}}));
  EXPECT_THAT(brain.step(Left{2}), IsEmpty());
  EXPECT_EQ(brain.step(Arrived{3, "4g"}), (Actions{Make{1, "4g"}}));
}

// One that is starting is taken before a smaller one that would have to.
TEST(BrokerBrain, WhatIsStartingIsTakenFirst) {
  BrokerBrain brain({{"a", "CPU-4", 4}, {"b", "CPU-1", 1}}, {.warm = 0});
  EXPECT_EQ(brain.step(Arrived{1, "CPU-4"}), (Actions{Start{1, 0}}));
  EXPECT_THAT(brain.step(Left{1}), IsEmpty());
  EXPECT_THAT(brain.step(Arrived{2, "CPU-1"}), IsEmpty());
  EXPECT_EQ(brain.step(WorkerReady{1}), (Actions{Give{2, 1}}));
}

// One that is there is taken before one that is being made.
TEST(BrokerBrain, WhatIsThereIsTakenBeforeWhatIsMade) {
  BrokerBrain brain({{"c", "CPU-2", 2}}, {.warm = 0}, {"CPU-2"});
  EXPECT_EQ(brain.step(Arrived{1, "CPU-2"}), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.step(WorkerReady{1}), (Actions{Give{1, 1}}));
  EXPECT_EQ(brain.step(Arrived{2, "CPU-2"}), (Actions{Make{1, "CPU-2"}}));
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{Start{2, 0}}));
  EXPECT_EQ(brain.step(WorkerReady{2}), (Actions{Give{2, 2}}));
  EXPECT_EQ(brain.step(Made{1, "a"}), (Actions{Unmake{1}}));
}

// Once there is room again all who wait may have some, in their order.
TEST(BrokerBrain, RoomThatComesIsForAllWhoWait) {
  BrokerBrain brain({}, {}, {"1g", "2g", "3g"});
  EXPECT_EQ(brain.step(Arrived{1, "1g"}), (Actions{Make{0, "1g"}}));
  EXPECT_EQ(brain.step(Made{0, "a"}), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.step(WorkerReady{1}), (Actions{Give{1, 1}}));
  EXPECT_EQ(brain.step(Arrived{2, "2g"}), (Actions{Make{1, "2g"}}));
  EXPECT_EQ(brain.step(NotMade{1, true, "no room"}), (Actions{Place{2, 1}}));
  EXPECT_EQ(brain.step(Arrived{3, "3g"}), (Actions{Place{3, 2}}));
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{Unmake{0}}));
  EXPECT_EQ(brain.step(Unmade{0}), (Actions{Make{0, "2g"}, Make{1, "3g"}}));
}

TEST(BrokerBrain, DoesNotMakePartsAgainAndAgainWhereWorkersDoNotStart) {
  BrokerBrain brain({}, {.failures = 2}, {"1g"});
  EXPECT_EQ(brain.step(Arrived{1, "1g"}), (Actions{Make{0, "1g"}}));
  EXPECT_EQ(brain.step(Made{0, "a"}), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{Start{2, 0}}));
  EXPECT_EQ(brain.step(WorkerEnded{2}),
            (Actions{Deny{1, "workers on such parts do not start", true}, Unmake{0}}));
}

// Who may wait for a part that is there has another one asked for once, and again after a while or
// when room was given back.
TEST(BrokerBrain, WhatWasAskedForInVainIsNotAskedForAtOnceAgain) {
  BrokerBrain brain({{"x", "1g"}}, {.warm = 0}, {"1g", "2g"});
  EXPECT_EQ(brain.step(Arrived{1, "1g"}), (Actions{Start{1, 0}}));
  EXPECT_EQ(brain.step(WorkerReady{1}), (Actions{Give{1, 1}}));
  EXPECT_EQ(brain.step(Arrived{2, "1g"}), (Actions{Make{1, "1g"}}));
  for (const bool no_room : {false, true}) {
    EXPECT_EQ(brain.step(NotMade{1, no_room, "no"}), no_room ? Actions{} : (Actions{Place{2, 1}}));
    EXPECT_EQ(brain.step(AskAgain{}), (Actions{Make{1, "1g"}}));
  }
  EXPECT_THAT(brain.step(NotMade{1, false, "no"}), IsEmpty());
  EXPECT_EQ(brain.step(Arrived{3, "2g"}), (Actions{Make{1, "2g"}})) << "others are not kept";
  EXPECT_EQ(brain.step(Made{1, "a"}), (Actions{Start{2, 1}}));
  EXPECT_EQ(brain.step(Left{3}), (Actions{}));
  EXPECT_EQ(brain.step(WorkerEnded{2}), (Actions{Unmake{1}}));
  EXPECT_EQ(brain.step(Unmade{1}), (Actions{Make{1, "1g"}}));
  EXPECT_THAT(brain.step(NotMade{1, false, "no"}), IsEmpty());
  EXPECT_EQ(brain.step(WorkerEnded{1}), (Actions{Start{3, 0}}));
  EXPECT_EQ(brain.step(WorkerReady{3}), (Actions{Give{2, 3}}));
}

// A history: clients come and leave, workers start, end and fail, parts are made or not. What the
// brain does is checked against what it may.
class History {
 public:
  explicit History(std::uint64_t seed)
      : rng_(seed),
        brain_({{"a", "CPU-1", 1}, {"b", "CPU-2", 2}, {"c", "CPU-4", 4}, {"d", "gpu"}},
               {.queue = 8, .warm = rng_.below(3), .made = 3, .failures = 1 << 30}, {"1g", "2g"}) {
    take(brain_.begin());
  }
  void any() {
    const char* const shapes[] = {"", "CPU-1", "CPU-2", "CPU-3", "gpu", "1g", "2g"};
    const std::uint64_t what = rng_.below(7);
    if (what == 0) {
      open_[next_] = shapes[rng_.below(7)];
      const ClientId client = next_++;
      take(brain_.step(Arrived{client, open_[client]}));
    } else if (what == 1 && !starting_.empty()) {
      become_ready();
    } else if (what == 2 && !serving_.empty()) {
      end(serving_);
    } else if (what == 3 && !starting_.empty() && rng_.below(4) == 0) {
      end(starting_);
    } else if (what == 4 && !open_.empty() && rng_.below(3) == 0) {
      const ClientId client = open_.begin()->first;
      open_.erase(client);
      take(brain_.step(Left{client}));
    } else if (what == 5 && !asked_.empty()) {
      answer_maker();
    } else if (what == 6) {
      take(brain_.step(AskAgain{}));
    }
  }
  // Until everybody has had an answer; with nobody there, nothing is borrowed.
  bool settle() {
    for (int round = 0; round < 200; ++round) {
      while (!starting_.empty()) become_ready();
      while (!asked_.empty()) answer_maker();
      while (!stopping_.empty()) end(stopping_);
      if (!serving_.empty()) end(serving_);
      take(brain_.step(AskAgain{}));
    }
    return open_.empty() && brain_.borrowed() == 0 && made_.empty();
  }

 private:
  // There is room for two parts.
  void answer_maker() {
    const auto which = asked_.begin();
    const auto [part, shape] = *which;
    asked_.erase(which);
    if (shape.empty()) {
      made_.erase(part);
      take(brain_.step(Unmade{part}));
    } else if (made_.size() < 2 && rng_.below(8) != 0) {
      made_.insert(part);
      take(brain_.step(Made{part, "made"}));
    } else {
      take(brain_.step(NotMade{part, made_.size() == 2, "not made"}));
    }
  }
  void become_ready() {
    const WorkerId worker = *starting_.begin();
    starting_.erase(worker);
    ready_.insert(worker);
    take(brain_.step(WorkerReady{worker}));
  }
  void end(std::set<WorkerId>& of) {
    const auto which = std::next(of.begin(), static_cast<long>(rng_.below(of.size())));
    const WorkerId worker = *which;
    of.erase(which);
    workers_.erase(worker);
    take(brain_.step(WorkerEnded{worker}));
  }
  void take(const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* start = std::get_if<Start>(&action)) {
        for (const auto& [worker, part] : workers_) ASSERT_NE(part, start->part);
        ASSERT_TRUE(start->part < 4 || made_.contains(start->part));
        workers_[start->worker] = start->part;
        starting_.insert(start->worker);
      } else if (const auto* give = std::get_if<Give>(&action)) {
        ASSERT_EQ(ready_.erase(give->worker), 1u);
        serving_.insert(give->worker);
        const std::string shape = open_.at(give->client);
        ASSERT_TRUE(fits(brain_.parts()[workers_.at(give->worker)], shape));
        ASSERT_LT(last_[shape], give->client);
        last_[shape] = give->client;
        open_.erase(give->client);
      } else if (const auto* deny = std::get_if<Deny>(&action)) {
        ASSERT_EQ(open_.erase(deny->client), 1u);
      } else if (const auto* stop = std::get_if<Stop>(&action)) {
        ASSERT_EQ(ready_.erase(stop->worker), 1u);
        stopping_.insert(stop->worker);
      } else if (const auto* make = std::get_if<Make>(&action)) {
        ASSERT_TRUE(!made_.contains(make->part) && !asked_.contains(make->part));
        asked_[make->part] = make->shape;
      } else if (const auto* unmake = std::get_if<Unmake>(&action)) {
        ASSERT_TRUE(made_.contains(unmake->part) && !asked_.contains(unmake->part));
        for (const auto& [worker, part] : workers_) ASSERT_NE(part, unmake->part);
        asked_[unmake->part] = "";
      }
    }
  }

  Rng rng_;
  BrokerBrain brain_;
  std::map<WorkerId, std::size_t> workers_;  // living, with their part
  std::set<WorkerId> starting_, ready_, serving_, stopping_;
  std::map<std::size_t, std::string> asked_;  // of the maker; empty: to unmake
  std::set<std::size_t> made_;
  std::map<ClientId, std::string> open_;  // without answer
  std::map<std::string, ClientId> last_;  // served, per shape
  ClientId next_ = 1;
};

// Nobody is served twice, no part has two workers, equals are served in order, and when all parts
// become free everybody has had an answer.
TEST(BrokerBrain, RandomHistories) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    History history(seed);
    for (int round = 0; round < 200; ++round) history.any();
    EXPECT_TRUE(history.settle()) << "seed " << seed;
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace partita::remote::server
