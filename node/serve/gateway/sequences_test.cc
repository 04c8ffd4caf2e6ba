// Sequences through the core: they stay with their worker, in order, and end with it.
#include <gtest/gtest.h>

#include <random>

#include "serve/gateway/testing/core_fixture.h"

namespace partita::serve {
namespace {

using test::Asked;
using test::CoreTest;
using test::kMs;
using test::TestWorker;

constexpr std::size_t kStateBytes = 70'000;  // more than two frames

class SequenceSteps : public CoreTest {
 protected:
  SequenceSteps() { service_.slo = Millis{20'000}; }  // late steps are refused, and none is here
  std::unique_ptr<TestWorker> stateful(const std::string& device) {
    return std::make_unique<TestWorker>(*loop_, link_path(directory_),
                                        "/state/workers.json:" + device + ":0", kMs,
                                        std::optional<std::vector<CurvePoint>>(), true);
  }
  std::shared_ptr<Asked> step(std::uint64_t sequence, bool begins = false, bool ends = false,
                              const KeyLimits* key = nullptr, std::string_view client = {}) {
    RequestHead head;
    head.sequence = sequence;
    head.sequence_begins = begins;
    head.sequence_ends = ends;
    head.limits = key;
    head.client = client;
    return ask(static_cast<float>(sequence), 1, head);
  }
  bool done(const std::vector<std::shared_ptr<Asked>>& all) {
    return until([&] { return std::ranges::all_of(all, &Asked::ended); });
  }
};

TEST_F(SequenceSteps, StayWithTheirWorkerInOrder) {
  const auto one = stateful("d"), two = stateful("e");
  ASSERT_TRUE(until_ready(2));
  std::vector<std::shared_ptr<Asked>> all;
  for (int i = 0; i < 10; ++i)
    for (std::uint64_t sequence = 1; sequence <= 6; ++sequence)
      all.push_back(step(sequence, i == 0, i == 9));
  ASSERT_TRUE(done(all));
  for (std::size_t i = 0; i < all.size(); ++i) expect_twice(*all[i], static_cast<float>(i % 6 + 1));
  std::set<std::uint64_t> mine, others;
  for (const SlotStep& seen : one->steps) mine.insert(seen.sequence);
  for (const SlotStep& seen : two->steps) others.insert(seen.sequence);
  EXPECT_EQ(mine.size(), 3U);  // the one that has the fewest
  EXPECT_EQ(others.size(), 3U);
  for (const std::uint64_t sequence : mine) {
    EXPECT_FALSE(others.contains(sequence));
    std::vector<SlotStep> own;
    std::ranges::copy_if(one->steps, std::back_inserter(own),
                         [&](const SlotStep& seen) { return seen.sequence == sequence; });
    ASSERT_EQ(own.size(), 10U);
    for (std::size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(own[i].begins, i == 0);
      EXPECT_EQ(own[i].ends, i == 9);
    }
  }
  EXPECT_EQ(std::ranges::max(one->together), 3U) << "steps of different sequences run together";
  EXPECT_EQ(metric("partita_sequences{service=\"s\"}"), 0);
}

TEST_F(SequenceSteps, ThatWereNotBegunAreRefused) {
  const auto one = stateful("d");
  ASSERT_TRUE(until_ready(1));
  EXPECT_EQ(step(7)->denial->kind, Denial::Kind::bad_request);
  EXPECT_EQ(step(0, true)->denial->kind, Denial::Kind::bad_request);
  const auto begun = step(7, true);
  ASSERT_TRUE(done({begun}));
  EXPECT_FALSE(begun->denial);
  const auto again = step(7, true), next = step(7, false, true);
  ASSERT_TRUE(done({again, next}));
  EXPECT_FALSE(next->denial);
  EXPECT_NE(one->steps[0].sequence, one->steps[1].sequence) << "begun again, it is another one";
  EXPECT_EQ(one->steps[1].sequence, one->steps[2].sequence);
  EXPECT_EQ(step(7)->denial->kind, Denial::Kind::bad_request) << "it has ended";
}

TEST_F(SequenceSteps, OfTwoKeysAreTwo) {
  const auto one = stateful("d");
  ASSERT_TRUE(until_ready(1));
  const KeyLimits key;
  const auto a = step(7, true, false, &key, "token 1"), b = step(7, true, false, &key, "token 2");
  const auto c = step(7, false, false, &key, "token 1");
  ASSERT_TRUE(done({a, b, c}));
  ASSERT_EQ(one->steps.size(), 3U);
  std::map<std::uint64_t, int> steps;
  for (const SlotStep& seen : one->steps) ++steps[seen.sequence];
  EXPECT_EQ(steps.size(), 2U);
}

TEST_F(SequenceSteps, EndWithTheirWorkerAndSaySo) {
  auto one = stateful("d");
  const auto two = stateful("e");
  ASSERT_TRUE(until_ready(2));
  const auto first = step(1, true), second = step(2, true);
  ASSERT_TRUE(done({first, second}));
  const bool first_on_one = one->items == 1 && !one->steps.empty();
  ASSERT_TRUE(first_on_one && two->items == 1);
  one->hold = true;
  std::vector<std::shared_ptr<Asked>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(step(1));
    all.push_back(step(2));
  }
  ASSERT_TRUE(until([&] { return one->batches == 2; }));
  one->vanish();
  ASSERT_TRUE(done(all));
  int lost = 0, well = 0;
  for (const auto& asked : all) {
    if (!asked->denial) ++well;
    if (asked->denial && asked->denial->kind == Denial::Kind::lost) ++lost;
  }
  EXPECT_EQ(lost, 3);
  EXPECT_EQ(well, 3);
  EXPECT_EQ(metric("partita_sequences_lost_total{service=\"s\"}"), 1);
  const bool either = step(1)->denial.has_value() != step(2)->denial.has_value();
  EXPECT_TRUE(either) << "one goes on to be lost";
  const auto anew = step(1, true);
  ASSERT_TRUE(done({anew}));
  EXPECT_FALSE(anew->denial);
}

// A worker that leaves has its sequences moved: every step runs once, in order, on the state that
// the steps before it have left, and nowhere after its state has gone from there.
TEST_F(SequenceSteps, MoveWithTheirStateWhenTheirWorkerLeaves) {
  const auto one = stateful("d");
  one->state_bytes = kStateBytes;
  ASSERT_TRUE(until_ready(1));
  constexpr std::uint64_t kMany = 2 * kMovesAtOnce + 3;
  std::vector<std::shared_ptr<Asked>> all;
  for (std::uint64_t id = 1; id <= kMany; ++id) all.push_back(step(id, true));
  const auto two = stateful("e");
  two->state_bytes = kStateBytes;  // some begin there: their first steps have not run yet
  ASSERT_TRUE(until_ready(2));
  for (std::uint64_t id = 1; id <= kMany; ++id) all.push_back(step(id));
  one->leave();
  ASSERT_TRUE(until([&] { return core_->service_views().at(0).ready_workers == 1; }));
  for (std::uint64_t id = 1; id <= kMany; ++id) all.push_back(step(id));
  ASSERT_TRUE(done(all));
  for (const auto& asked : all) ASSERT_FALSE(asked->denial) << asked->denial->message;
  ASSERT_TRUE(until([&] { return one->drained; }));
  EXPECT_EQ(metric("partita_sequences_moved_total{service=\"s\"}"), kMany);
  EXPECT_EQ(metric("partita_sequences_lost_total{service=\"s\"}"), 0);
  EXPECT_EQ(one->steps.size() + two->steps.size(), all.size());
  for (const auto& [number, state] : two->states)
    EXPECT_TRUE(state == "..." + std::string(kStateBytes, 's')) << number;
  EXPECT_EQ(two->states.size(), kMany);
}

// Its new worker dies with half of it: the old one still has it, and a third one gets it.
TEST_F(SequenceSteps, MoveAgainWhenTheirNewWorkerDies) {
  const auto one = stateful("d");
  one->state_bytes = kStateBytes;
  ASSERT_TRUE(until_ready(1));
  const auto begun = step(1, true);
  ASSERT_TRUE(done({begun}));
  auto two = stateful("e");
  ASSERT_TRUE(until_ready(2));
  one->keeps_back = true;
  one->leave();
  ASSERT_TRUE(until_ready(1));
  const auto next = step(1);
  const auto three = stateful("f");
  ASSERT_TRUE(until_ready(2));
  one->keeps_back = false;
  two->vanish();
  ASSERT_TRUE(done({next}));
  EXPECT_FALSE(next->denial);
  EXPECT_TRUE(two->steps.empty());
  EXPECT_TRUE(three->states.begin()->second == ".." + std::string(kStateBytes, 's'));
  ASSERT_TRUE(until([&] { return one->drained; }));
}

// The old one dies before it has given its state away: nobody goes on with it.
TEST_F(SequenceSteps, AreLostWhereTheirStateIs) {
  auto one = stateful("d");
  one->state_bytes = kStateBytes;
  ASSERT_TRUE(until_ready(1));
  const auto begun = step(1, true);
  ASSERT_TRUE(done({begun}));
  const auto two = stateful("e");
  ASSERT_TRUE(until_ready(2));
  one->keeps_back = true;
  one->leave();
  ASSERT_TRUE(until_ready(1));
  const auto waits = step(1);
  one->vanish();
  ASSERT_TRUE(done({waits}));
  EXPECT_EQ(waits->denial->kind, Denial::Kind::lost);
  EXPECT_EQ(step(1)->denial->kind, Denial::Kind::lost);
  EXPECT_TRUE(two->steps.empty());
  ASSERT_TRUE(until([&] { return !two->forgotten.empty(); }));
  // With nobody to move to it is lost at once.
  const auto anew = step(1, true);
  ASSERT_TRUE(done({anew}));
  two->leave();
  ASSERT_TRUE(until([&] { return two->drained; }));
  EXPECT_EQ(step(1)->denial->kind, Denial::Kind::lost);
}

// One client has what it may have, and others begin all the same: at the edge, through the door.
TEST_F(SequenceSteps, OneClientCannotKeepOthersFromBeginning) {
  const auto one = stateful("d"), two = stateful("e");
  ASSERT_TRUE(until_ready(2));
  std::vector<std::shared_ptr<Asked>> all;
  for (std::uint64_t id = 1; id <= kMostClientSequences; ++id) {
    all.push_back(step(id, true, false, nullptr, "10.0.0.1"));
    if (id % 64 == 0) {
      ASSERT_TRUE(done(all));
    }
  }
  for (const auto& asked : all) ASSERT_FALSE(asked->denial) << asked->denial->message;
  EXPECT_EQ(metric("partita_sequences{service=\"s\"}"), kMostClientSequences);
  const auto more = step(kMostClientSequences + 1, true, false, nullptr, "10.0.0.1");
  ASSERT_TRUE(more->denial);
  EXPECT_EQ(more->denial->kind, Denial::Kind::slowed);
  EXPECT_GT(more->denial->retry_after_ns, 0);
  const auto again = step(1, true, false, nullptr, "10.0.0.1");  // in the place of what it has
  const auto other = step(1, true, false, nullptr, "10.0.0.2");
  const auto on = step(2, false, true, nullptr, "10.0.0.1");
  ASSERT_TRUE(done({again, other, on}));
  EXPECT_FALSE(again->denial || other->denial || on->denial);
  const auto next = step(kMostClientSequences + 1, true, false, nullptr, "10.0.0.1");
  ASSERT_TRUE(done({next}));
  EXPECT_FALSE(next->denial) << "it has ended one";
  EXPECT_LE(std::abs(one->items - two->items), 2) << "each has as many";
}

// ---- by themselves ----

// Clients that each take all they get: the next one gets its part of what is left, and the places
// of one that ends what it has are given to others.
TEST(SequenceLimits, EveryClientFindsRoomUntilTheServiceIsFull) {
  Sequences all;
  all.join(1);
  std::vector<std::size_t> got;
  for (int client = 0; all.size() < kMostSequences; ++client) {
    std::size_t mine = 0;
    for (std::uint64_t id = 1;; ++id, ++mine) {
      const SequenceName name{std::to_string(client), id};
      const auto room = all.room(name);
      if (room != Sequences::Room::enough) {
        EXPECT_EQ(room, all.size() < kMostSequences ? Sequences::Room::client_has_most
                                                    : Sequences::Room::full);
        break;
      }
      all.step(name, 1, all.next_number(), 0);
    }
    ASSERT_GT(mine, 0U);
    got.push_back(mine);
  }
  EXPECT_EQ(got[0], kMostClientSequences);
  EXPECT_EQ(got[14], kMostClientSequences);
  EXPECT_EQ(got[15], kMostClientSequences * 4 / 5 + 1) << "4/5 of what is left";
  EXPECT_GT(got.size(), 18U);
  EXPECT_EQ(all.room({"late", 1}), Sequences::Room::full);
  EXPECT_EQ(all.room({"0", 1}), Sequences::Room::enough) << "begins one anew that it has";
  all.end({"0", 1});
  EXPECT_EQ(all.room({"late", 1}), Sequences::Room::enough);
  EXPECT_EQ(all.room({"0", 1}), Sequences::Room::client_has_most);
}

// The incremental count against a recount, over random begins, ends, losses and moves.
TEST(SequenceLimits, FewestIsTheFewest) {
  std::mt19937_64 random(7);
  Sequences all;
  std::set<WorkerId> here = {1, 2, 3};
  for (const WorkerId worker : here) all.join(worker);
  std::map<SequenceName, WorkerId> oracle;
  const auto recount = [&](WorkerId worker) {
    return std::ranges::count_if(oracle, [&](const auto& one) { return one.second == worker; });
  };
  WorkerId next = 4;
  for (int round = 0; round < 5'000; ++round) {
    const SequenceName name{std::to_string(random() % 5), random() % 20};
    switch (random() % 8) {
      case 0:
        all.end(name);
        oracle.erase(name);
        break;
      case 1:
        all.lose(name, round);
        oracle.erase(name);
        break;
      case 2:
        if (!oracle.contains(name)) break;
        oracle[name] = all.workers().begin()->second;
        all.move(name, oracle[name]);
        if (random() % 2 == 0) all.moved(name);
        break;
      case 3: {
        if (random() % 20 != 0) break;
        all.leave(*here.begin());
        here.erase(here.begin());
        all.join(next);
        here.insert(next++);
        break;
      }
      default: {
        const WorkerId fewest = all.workers().begin()->second;
        for (const WorkerId worker : here) ASSERT_LE(recount(fewest), recount(worker));
        all.step(name, fewest, all.next_number(), round);
        oracle[name] = fewest;
      }
    }
    ASSERT_EQ(all.size(), oracle.size());
    ASSERT_EQ(all.workers().size(), here.size());
    for (const auto& [load, worker] : all.workers()) ASSERT_EQ(load, recount(worker));
  }
}

TEST(SequenceLimits, IdleOnesEndAndSayWhy) {
  Sequences all;
  all.join(1);
  const SequenceName a{"", 1}, b{"", 2}, c{"", 3};
  for (const SequenceName& name : {a, b, c}) {
    all.step(name, 1, all.next_number(), 0);
    if (name != b) all.step_over(name, all.find(name)->number, 0);
  }
  all.step(c, 1, all.find(c)->number, kSequenceIdle);
  all.step_over(c, all.find(c)->number, kSequenceIdle);
  EXPECT_TRUE(all.expire(kSequenceIdle).empty());
  const auto ended = all.expire(kSequenceIdle + 1);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0], std::pair(WorkerId{1}, all.find(a)->number));
  EXPECT_EQ(all.find(a)->state, Sequences::State::idle);
  EXPECT_EQ(all.find(b)->state, Sequences::State::live) << "its step is under way";
  EXPECT_EQ(all.size(), 2U);
  all.expire(2 * kSequenceIdle + 2);
  EXPECT_EQ(all.find(a), nullptr) << "remembered for as long again";
  EXPECT_EQ(all.find(c)->state, Sequences::State::idle);
}

// What is remembered is bounded, however often workers die.
TEST(SequenceLimits, LostOnesAreForgottenInTheEnd) {
  Sequences all;
  for (std::uint64_t id = 0; id < 3 * kMostSequences / 2; ++id) {
    all.step({"", id}, 1, all.next_number(), 0);
    all.lose({"", id}, 0);
  }
  EXPECT_EQ(all.size(), 0U);
  EXPECT_EQ(all.find({"", 0}), nullptr);
  EXPECT_EQ(all.find({"", kMostSequences})->state, Sequences::State::lost);
}

// What a key's requests say counts from its own priority on.
TEST_F(SequenceSteps, KeysHavePriority) {
  const auto one = worker(kMs);
  ASSERT_TRUE(until_ready(1));
  one->hold = true;
  const KeyLimits high{.priority = 2}, low{.priority = -1};
  const auto asked = [&](const KeyLimits* key, std::string_view client, int priority) {
    RequestHead head;
    head.limits = key;
    head.client = client;
    head.priority = priority;
    return ask(1, 4, head);  // a batch
  };
  const auto first = asked(&low, "token 2", 0);
  ASSERT_TRUE(until([&] { return one->batches == 1; }));
  const auto slow = asked(&low, "token 2", 2), quick = asked(&high, "token 1", 0);
  one->hold = false;
  one->let_go();
  ASSERT_TRUE(done({first, slow, quick}));
  EXPECT_EQ(ended_, (std::vector<RequestId>{first->id, quick->id, slow->id}));
}

// Requests a second, and at a time; what a key had is counted.
TEST_F(SequenceSteps, KeysHaveLimits) {
  const auto one = worker(kMs);
  ASSERT_TRUE(until_ready(1));
  const KeyLimits key{.per_second = 2};
  RequestHead head;
  head.limits = &key;
  head.client = "token 1";
  head.bytes = 100;
  const auto a = ask(1, 1, head), b = ask(2, 1, head), c = ask(3, 1, head);
  ASSERT_TRUE(done({a, b, c}));
  EXPECT_FALSE(a->denial);
  EXPECT_FALSE(b->denial);
  EXPECT_EQ(c->denial->kind, Denial::Kind::slowed);
  EXPECT_GT(c->denial->retry_after_ns, 0);
  const std::string labels = "{service=\"s\",key=\"token 1\"}";
  EXPECT_EQ(metric("partita_key_requests_total" + labels), 2);
  EXPECT_EQ(metric("partita_key_bytes_total" + labels), 200);
  EXPECT_EQ(metric("partita_key_over_limit_total" + labels), 1);
  EXPECT_EQ(core_->service_views().at(0).limited, 1);
  const KeyLimits single{.at_once = 1};
  head.limits = &single;
  head.client = "token 2";
  const auto d = ask(1, 1, head), e = ask(1, 1, head);
  EXPECT_EQ(e->denial->kind, Denial::Kind::slowed);
  ASSERT_TRUE(done({d}));
  const auto f = ask(1, 1, head);
  ASSERT_TRUE(done({f}));
  EXPECT_FALSE(f->denial);
}

}  // namespace
}  // namespace partita::serve
