// Agents of a fleet over one store: what one says, another hears. How they lead and what they do
// when things fail is for node/fleet/testing/fleet_sim.h.
#include "fleet/etcd/fleet_agent.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/peers.h"
#include "fleet/brain/status.h"
#include "fleet/brain/testing/invented_fleet.h"
#include "fleet/etcd/testing/memory_store.h"
#include "hw/catalogue.h"

namespace partita::fleet {
namespace {

TEST(FleetAgent, HearsTheVerdictsOfOthersThoughRatesStay) {
  MemoryStore store;
  FleetAgent a({.fleet = "f", .node = "a"}, store, ground_of_tests());
  FleetAgent b({.fleet = "f", .node = "b"}, store, ground_of_tests());
  NodeNow of_a{node_of_tests("a"), false, {{"s", 10}}, {}, {{"s", "serves"}}};
  const NodeNow of_b{node_of_tests("b")};
  std::int64_t now = 0;
  const auto turns = [&](std::int64_t ms) {
    for (const std::int64_t end = now + ms; now < end; now += 500) {
      store.tell_time(now);
      EXPECT_FALSE(a.turn(now, now, of_a).trouble);
      EXPECT_FALSE(b.turn(now, now, of_b).trouble);
    }
  };
  turns(1000);
  EXPECT_EQ(b.view().verdicts.at("a"), of_a.verdicts);
  of_a.verdicts[0].verdict = "down";
  turns(2 * kRatesMs);
  EXPECT_EQ(b.view().verdicts.at("a"), of_a.verdicts);
  a.leave();
  turns(0);
  b.turn(now, now, of_b);
  EXPECT_FALSE(b.view().verdicts.contains("a"));  // gone with its lease
}

// Two machines with one host name: the second does not write over the first, which is the fleet's
// until its lease ends; whoever begins anew with its own state directory has its name at once.
TEST(FleetAgent, ASecondAgentOfOneNameIsNoneOfTheFleet) {
  MemoryStore store;
  const auto made = [&] {
    return std::make_unique<FleetAgent>(FleetAgentSettings{.fleet = "f", .node = "a"}, store,
                                        ground_of_tests());
  };
  NodeNow first{node_of_tests("a")}, second = first;
  first.record.agent = "one";
  second.record.agent = "two";
  second.record.gpus.pop_back();
  auto one = made(), two = made();
  std::int64_t now = 0;
  const auto turn = [&](FleetAgent& agent, const NodeNow& node) {
    store.tell_time(now);
    Turn is = agent.turn(now, now, node);
    now += 500;
    EXPECT_FALSE(is.trouble);
    EXPECT_EQ(is.nameless, is.waits.starts_with("another agent is registered"));
    return is.waits;
  };
  EXPECT_EQ(turn(*one, first), "");
  for (int i = 0; i < 100; ++i) {
    EXPECT_NE(turn(*two, second).find("another agent is registered as 'a'"), std::string::npos);
    EXPECT_EQ(turn(*one, first), "");
  }
  EXPECT_EQ(one->view().nodes.at("a").gpus, first.record.gpus);
  EXPECT_TRUE(one->leads());
  EXPECT_FALSE(two->leads());
  one = made();  // killed, and there again within its lease
  EXPECT_EQ(turn(*one, first), "");
  EXPECT_NE(turn(*two, second), "");
  one.reset();
  for (now += 1000 * (kLeaseSeconds + 1); turn(*two, second) != "";) ASSERT_LT(now, 100'000);
  EXPECT_EQ(two->view().nodes.at("a").gpus, second.record.gpus);
  EXPECT_TRUE(two->leads());
  EXPECT_NE(turn(*made(), first), "");
}

// Two nodes over one store, in time that passes for all of them.
struct TwoNodes {
  MemoryStore store;
  FleetAgent a{{.fleet = "f", .node = "a"}, store, ground_of_tests()};
  FleetAgent b{{.fleet = "f", .node = "b"}, store, ground_of_tests()};
  NodeNow of_a{node_of_tests("a")}, of_b{node_of_tests("b")};
  std::int64_t now = 0;
  bool a_runs = true;

  // `take` hears of each part that a node may take.
  template <class Take>
  void pass(std::int64_t ms, const Take& take) {
    for (const std::int64_t end = now + ms; now < end; now += 500) {
      store.tell_time(now);
      if (a_runs)
        if (const Turn turn = a.turn(now, now, of_a); turn.take) take(of_a.record, *turn.take);
      if (const Turn turn = b.turn(now, now, of_b); turn.take) take(of_b.record, *turn.take);
    }
  }
  void pass(std::int64_t ms) {
    pass(ms, [](NodeRecord&, const Part&) {});
  }
  bool sees_a() { return !store.range({Keys("f").node("a")})->all.empty(); }
};
constexpr std::int64_t kLeaseMs = 1000 * kLeaseSeconds;

// An agent that is started again would find its services on their way elsewhere.
TEST(FleetAgent, WhoCarriesServicesLetsItsLeaseRunOut) {
  TwoNodes two;
  two.of_a.record.carries = {{"s", 10}};
  two.pass(2000);
  ASSERT_TRUE(two.a.leads());
  two.a.leave();
  two.a_runs = false;
  two.pass(2000);
  EXPECT_TRUE(two.sees_a());
  EXPECT_TRUE(two.b.leads());  // for that nobody waits
  FleetAgent again({.fleet = "f", .node = "a"}, two.store, ground_of_tests());
  two.now += 1;
  EXPECT_FALSE(again.turn(two.now, two.now, two.of_a).trouble);
  two.pass(kLeaseMs / 2);
  EXPECT_TRUE(two.sees_a());
  two.pass(kLeaseMs);  // not kept alive by anybody
  EXPECT_FALSE(two.sees_a());
}

TEST(FleetAgent, LeaseOfANodeThatNobodyLooksAtEnds) {
  TwoNodes two;
  two.pass(1000);
  two.of_a.seen_ms = two.now;
  two.of_a.record.carries = {{"s", 10}};
  two.pass(kUnseenMs - 500);
  EXPECT_TRUE(two.sees_a());
  two.pass(kLeaseMs + 2000);
  EXPECT_FALSE(two.sees_a());
  EXPECT_TRUE(two.b.leads());
  const Turn turn = two.a.turn(two.now, two.now, two.of_a);
  EXPECT_TRUE(turn.unseen && turn.trouble);
  two.of_a.seen_ms.reset();  // it answers again
  two.pass(1000);
  EXPECT_TRUE(two.sees_a());
  // A change may keep it for longer.
  two.of_a.seen_ms = two.now, two.of_a.busy = true;
  two.pass(kUnseenMs + kLeaseMs + 2000);
  EXPECT_TRUE(two.sees_a());
}

// It was there that clients asked; those that carry its services now have not measured yet.
TEST(FleetAgent, WhatArrivedAtALostNodeCountsForAWhile) {
  TwoNodes two;
  two.of_a.rates = {{"s", 900}};
  two.of_b.rates = {{"s", 50}};
  two.pass(1000);
  two.a_runs = false;
  two.pass(kLeaseMs + 1000);
  ASSERT_FALSE(two.sees_a());
  EXPECT_EQ(two.b.view().asked(), (Rates{{"s", 900}}));  // its clients come to b: no sum
  two.of_b.rates = {{"s", 940}};
  two.pass(2 * kRatesMs);
  EXPECT_EQ(two.b.view().asked(), (Rates{{"s", 940}}));
  two.of_b.rates = {{"s", 60}};
  two.pass(2 * kRatesMs);
  EXPECT_EQ(two.b.view().asked(), (Rates{{"s", 900}}));
  two.pass(kLostRatesMs);
  EXPECT_EQ(two.b.view().asked(), (Rates{{"s", 60}}));
}

// The sum of what nodes tell is a tenth off either way. Needs that followed it would move services,
// and moves make other sums: for ever, as it was found in a simulation (seed 730).
TEST(FleetAgent, NeedsFallOnceClientsAskForClearlyLess) {
  TwoNodes two;
  two.of_a.rates = {{"s", 240}};
  two.of_b.rates = {{"s", 216}};
  two.pass(2000);
  Wanted wanted;
  wanted.services = services_of_tests({{"s", 320}});
  ASSERT_TRUE(two.store.commit({{}, {{Keys("f").wanted(), write(wanted), 0}}})->done);
  const auto need_with = [&](double of_b) {
    two.of_b.rates = {{"s", of_b}};
    two.pass(3 * kRatesMs);
    const double need = two.a.decision()->services.at(0).need_rps;
    for (FleetAgent* reader : {&two.a, &two.b}) {  // who reads the store knows it, too
      reader->follow_all();
      two.pass(1000);
      EXPECT_DOUBLE_EQ(status_of(reader->view(), "f")->services.at(0).wanted_rps, need);
    }
    const long quiet = two.store.revision();
    two.pass(3 * kRatesMs);
    EXPECT_EQ(two.store.revision(), quiet) << "what is said is said once";
    return need;
  };
  const double need = need_with(216);
  EXPECT_GT(need, 456 * 1.15);
  EXPECT_EQ(need_with(184), need);  // 424 in all
  EXPECT_GT(need_with(280), need);  // more counts at once
  EXPECT_LT(need_with(80), need);
}

// One that took its part, says nothing, and does not carry it out.
TEST(FleetAgent, WhatANodeDoesNotCarryOutIsElsewhereInTime) {
  TwoNodes two;
  ASSERT_TRUE(
      two.store
          .commit({{}, {{Keys("f").wanted(), write(Wanted{services_of_tests({{"s", 300}})}), 0}}})
          ->done);
  std::string stuck;
  const auto take = [&](NodeRecord& record, const Part& part) {
    if (stuck.empty()) stuck = record.node;
    record.taken = part.revision;
    if (record.node == stuck) return;
    record.ready = part.revision;
    record.carries = carried_of(rates_of(part));
  };
  two.pass(kOverdueMs - 2000, take);
  ASSERT_NE(stuck, "");
  NodeRecord& other = stuck == "a" ? two.of_b.record : two.of_a.record;
  EXPECT_TRUE(other.carries.empty());
  two.pass(12'000, take);
  EXPECT_EQ(rates_of(other.carries), (Rates{{"s", 300}}));
}

// Counts what a node hears.
class CountedStore final : public Store {
 public:
  explicit CountedStore(Store& store) : store_(store) {}
  std::size_t heard() { return std::exchange(heard_, 0); }  // bytes of values, since the last call

  Result<Range> range(const Places& places) override {
    auto range = store_.range(places);
    for (const KeyValue& one : range->all) heard_ += one.value.size();
    return range;
  }
  Result<Committed> commit(const Transaction& transaction) override {
    return store_.commit(transaction);
  }
  Result<long> grant(int seconds) override { return store_.grant(seconds); }
  Result<void> keep_alive(long lease) override { return store_.keep_alive(lease); }
  Result<void> revoke(long lease) override { return store_.revoke(lease); }
  Result<void> compact(long revision) override { return store_.compact(revision); }
  Result<std::unique_ptr<Watch>> watch(const Places& places, long after) override {
    return std::make_unique<Counted>(heard_, *store_.watch(places, after));
  }

 private:
  struct Counted final : Watch {
    Counted(std::size_t& heard, std::unique_ptr<Watch> watch)
        : heard_(heard), inner_(std::move(watch)) {}
    Result<std::vector<SeenChange>> take() override {
      auto seen = inner_->take();
      for (const SeenChange& one : seen.value_or(std::vector<SeenChange>{}))
        heard_ += one.value.value_or("").size();
      return seen;
    }
    std::size_t& heard_;
    std::unique_ptr<Watch> inner_;
  };
  Store& store_;
  std::size_t heard_ = 0;
};

struct Of300Nodes {
  Of300Nodes() {
    for (int n = 0; n < 300; ++n) write_record(n, 0);
    CHECK(
        memory.commit({{}, {{keys.wanted(), write(Wanted{services_of_tests({{"s1", 100}})}), 0}}})
            ->done);
    for (NodeNow* one : {&of_leader, &of_other}) one->record.gateway = one->record.node + ":80";
  }
  void write_record(int n, long ready) {
    NodeRecord record = node_of_tests(std::to_string(n), 8);
    record.ready = ready;
    for (NodeGpu& gpu : record.gpus) gpu.unusable = "it is for batches";
    CHECK(memory.commit({{}, {{keys.node(record.node), write(record), 0}}})->done);
  }
  void write_rates(double rate) {
    CHECK(memory.commit({{}, {{keys.rates("7"), write(RateRecord{{{"s1", rate}}}), 0}}})->done);
  }
  // Both carry out at once what they take.
  void pass(std::int64_t ms) {
    for (const std::int64_t end = now + ms; now < end; now += 500) {
      memory.tell_time(now);
      for (auto [agent, is] : {std::pair(&leader, &of_leader), std::pair(&other, &of_other)}) {
        const Turn turn = agent->turn(now, now, *is);
        ASSERT_FALSE(turn.trouble) << to_string(*turn.trouble);
        if (!turn.take) continue;
        is->record.taken = is->record.ready = turn.take->revision;
        is->record.carries = carried_of(rates_of(*turn.take));
      }
    }
  }

  MemoryStore memory;
  CountedStore counted{memory};
  const Keys keys{"f"};
  FleetAgent leader{{.fleet = "f", .node = "leader"}, memory, ground_of_tests()};
  FleetAgent other{{.fleet = "f", .node = "other", .leads = false}, counted, ground_of_tests()};
  NodeNow of_leader{node_of_tests("leader", 2)}, of_other{node_of_tests("other", 2)};
  std::int64_t now = 0;
};

TEST(FleetAgent, WhoDoesNotLeadHearsWhatConcernsItAlone) {
  Of300Nodes fleet;
  fleet.pass(10'000);
  ASSERT_TRUE(fleet.leader.leads());
  EXPECT_LT(fleet.counted.heard(), 20'000u);  // the records are some 300,000
  fleet.write_record(3, 1);
  fleet.write_rates(5);
  fleet.pass(10'000);
  EXPECT_LT(fleet.counted.heard(), 1'000u);
  fleet.pass(2 * kReadAnewMs);
  EXPECT_LT(fleet.counted.heard(), 40'000u);
  // Where s1 is it knows all the same, and that it moves.
  const auto peers = [&](const std::string& node) {
    return peers_of(fleet.other.own_view().peers, {"s1"}, node, {}).peers;
  };
  ASSERT_EQ(peers("somebody").size(), 1u);
  const std::string first = peers("somebody")[0].node;
  Wanted wanted = *fleet.leader.view().wanted;
  wanted.drained = {first};
  ASSERT_TRUE(fleet.memory.commit({{}, {{fleet.keys.wanted(), write(wanted), 0}}})->done);
  fleet.pass(10'000);
  ASSERT_EQ(peers("somebody").size(), 1u);
  EXPECT_NE(peers("somebody")[0].node, first);
  // All of it, where somebody asks.
  fleet.other.follow_all();
  fleet.pass(1000);
  EXPECT_EQ(fleet.other.view().nodes.size(), 302u);
  EXPECT_EQ(fleet.other.view().rates.at("7"), (Rates{{"s1", 5}}));
  fleet.pass(2 * kFollowMs);
  EXPECT_FALSE(fleet.other.view().nodes.contains("7"));
}

TEST(FleetAgent, ARecordIsWrittenWhenItIsAnother) {
  Of300Nodes fleet;
  fleet.pass(20'000);
  const auto version = [&] {
    return fleet.memory.range({fleet.keys.node("other")})->all.at(0).version;
  };
  const long before = version();
  for (double rate = 10; rate < 100; rate *= 2) {
    fleet.of_other.rates = {{"s1", rate}};
    fleet.pass(10'000);
    EXPECT_EQ(
        parse_rate_record("r", fleet.memory.range({fleet.keys.rates("other")})->all.at(0).value)
            ->rates,
        carried_of(fleet.of_other.rates));
  }
  EXPECT_EQ(version(), before);
  fleet.of_other.record.trouble = "a fan";
  fleet.pass(1000);
  EXPECT_GT(version(), before);
}

// Behind what others may read still.
TEST(FleetAgent, ALeaderCompactsTheStore) {
  Of300Nodes fleet;
  fleet.pass(10'000);
  const auto knows_since = [&](long revision) {
    return (*fleet.memory.watch({fleet.keys.root}, revision))->take().has_value();
  };
  const long first = fleet.memory.revision();
  for (int n = 0; n < 50; ++n) {
    fleet.write_rates(n);
    fleet.pass(kCompactMs / 10);
  }
  EXPECT_FALSE(knows_since(first));
  EXPECT_TRUE(knows_since(fleet.memory.revision() - 10));
}

FleetGround of_h100() {
  FleetGround ground = ground_of_tests();
  ground.profiles[0].gpu = **hw::builtin_catalogue().get("H100-80GB-SXM5");
  return ground;
}

// a has profiles of A100s alone, b of H100s, too, which its node has. Who leads first, and after
// whatever happens, is b; without b it is a.
TEST(FleetAgent, WhoHasProfilesOfAllGpusLeadsFirst) {
  MemoryStore store;
  FleetGround all = ground_of_tests();
  all.profiles.push_back(of_h100().profiles.front());
  const auto agent = [&](const char* name, const FleetGround& ground) {
    return std::make_unique<FleetAgent>(FleetAgentSettings{.fleet = "f", .node = name}, store,
                                        ground);
  };
  auto a = agent("a", ground_of_tests()), b = agent("b", all);
  NodeNow of_a{node_of_tests("a")}, of_b{node_of_tests("b")};
  for (NodeGpu& gpu : of_b.record.gpus) gpu.model = "H100-80GB-SXM5";
  std::int64_t now = 0;
  const auto pass = [&](std::int64_t ms) {
    for (const std::int64_t end = now + ms; now < end; now += 500) {
      store.tell_time(now);
      if (a) a->turn(now, now, of_a);
      if (b) b->turn(now, now, of_b);
    }
  };
  pass(1500);  // a is the first that stands, and hears that b is better
  EXPECT_FALSE(a->leads());
  EXPECT_TRUE(b->leads());
  b = nullptr;  // killed
  pass(kLeaseSeconds * 1000 + 2 * kStandBackMs);
  EXPECT_TRUE(a->leads()) << "nobody is better";
  b = agent("b", all);
  pass(2 * kLeadsOnMs);
  EXPECT_TRUE(b->leads());
  // Nobody has all of them: somebody leads all the same, and stays.
  b = agent("b", of_h100());
  now += 1000 * kLeaseSeconds + 1;
  pass(2 * kLeadsOnMs);
  ASSERT_NE(a->leads(), b->leads());
  const bool was = a->leads();
  pass(2 * kLeadsOnMs);
  EXPECT_EQ(a->leads(), was);
  std::size_t gave_way = 0;
  a->follow_all();
  pass(500);
  for (const auto& [key, event] : a->view().history)
    gave_way += event.what.starts_with("gives way");
  EXPECT_EQ(gave_way, 2u);
}

// What is wanted and cannot be is in the history once, and in what every command reads.
TEST(FleetAgent, WhatIsWantedAndCannotBeIsSaid) {
  TwoNodes two;
  const Keys keys("f");
  const auto want = [&](const std::string& text) {
    const Wanted wanted{.services = text};
    ASSERT_TRUE(two.store.commit({{}, {{keys.wanted(), write(wanted), 0}}}));
    two.pass(3 * kRatesMs);
  };
  std::string typo = services_of_tests({{"s", 10}});
  typo.replace(typo.find("model: m"), 8, "model: mm");
  want(typo);
  want(typo + "  - {name: t, model: m, rate_rps: 1, slo_ms: 150}\n");
  two.b.follow_all();
  two.pass(500);
  const FleetView& view = two.b.view();
  const std::string why = "there is no profile of model 'mm'";
  EXPECT_EQ(view.whys.at("s").substr(0, why.size()), why);
  EXPECT_FALSE(view.whys.contains("t"));
  EXPECT_EQ(std::ranges::count_if(
                view.history,
                [&](const auto& one) { return one.second.what.find(why) != std::string::npos; }),
            1);
  want(services_of_tests({{"s", 10}}));
  two.b.follow_all();
  two.pass(500);
  EXPECT_TRUE(view.whys.empty());
}

}  // namespace
}  // namespace partita::fleet
