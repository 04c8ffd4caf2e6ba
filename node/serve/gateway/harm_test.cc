// What one client or worker does to the others: bad values, requests that end their worker, workers
// that hang.
#include <algorithm>

#include "base/index.h"
#include "serve/gateway/senders.h"
#include "serve/gateway/testing/core_fixture.h"

namespace partita::serve {
namespace {

using test::Asked;
using test::CoreTest;
using test::kMs;
using test::TestWorker;

// Each client sees its own error and nobody else's.
TEST_F(CoreTest, ABadValueFailsItsRequestAlone) {
  const auto any = worker(kMs, "d", 0);
  any->fails_of = 666;
  ASSERT_TRUE(until_ready(1));
  std::vector<std::shared_ptr<Asked>> asked;
  for (int i = 0; i < 12; ++i) {
    const float value = i % 5 == 2 ? 666.0F : static_cast<float>(i);
    asked.push_back(ask(value, 1, {.service = "s", .client = "c"}));
  }
  const auto once = ask(50, 1, {.service = "s", .idempotent = false});
  ASSERT_TRUE(until([&] {
    return once->ended && std::all_of(asked.begin(), asked.end(), [](auto& a) { return a->ended; });
  }));
  for (int i = 0; i < 12; ++i) {
    const Asked& one = *asked[at(i)];
    if (i % 5 != 2) {
      expect_twice(one, static_cast<float>(i));
      continue;
    }
    ASSERT_TRUE(one.denial);
    EXPECT_EQ(one.denial->kind, Denial::Kind::failed);
    EXPECT_EQ(one.denial->message, "a value of the bad client");
  }
  EXPECT_FALSE(once->denial && once->denial->message.find("bad client") != std::string::npos);
  EXPECT_GT(metric("partita_rows_rerun_total{service=\"s\"}"), 0);
  EXPECT_GT(core_->statistics("s").fail_ns, 0U);
  EXPECT_EQ(free_slots(), slots());
}

// Its sender is slowed, the others are not, and some worker is always there.
TEST_F(CoreTest, ARequestThatKillsItsWorkersIsRefusedByName) {
  std::vector<std::unique_ptr<TestWorker>> workers;
  const auto start = [&](const std::string& device) {
    workers.push_back(worker(kMs, device, 0));
    workers.back()->dies_of = 666;
  };
  start("d");
  start("e");
  ASSERT_TRUE(until_ready(2));
  const auto killer = ask(666, 1, {.service = "s", .client = "bad", .trusted = false});
  const auto good = ask(5, 1, {.service = "s", .client = "good"});
  int deaths = 0;
  bool closed = false;
  ASSERT_TRUE(until([&] {
    closed = closed || core_->service_views().at(0).ready_workers == 0;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (!workers[i] || !workers[i]->ended) continue;
      workers[i].reset();
      ++deaths;
      start(deaths == 1 ? "d" : "e");
    }
    return killer->ended && good->ended;
  }));
  expect_twice(*good, 5);
  ASSERT_TRUE(killer->denial);
  EXPECT_EQ(killer->denial->kind, Denial::Kind::harmful);
  EXPECT_EQ(killer->denial->message, "2 workers died with this request in flight");
  EXPECT_EQ(deaths, kMostDeaths);
  EXPECT_FALSE(closed);
  EXPECT_NE(said_.find("a request of bad to s is refused"), std::string::npos) << said_;
  EXPECT_EQ(metric("partita_requests_unanswered_total{service=\"s\",reason=\"harmful\"}"), 1);
  const auto again = ask(1, 1, {.service = "s", .client = "bad", .trusted = false});
  ASSERT_TRUE(again->denial);
  EXPECT_EQ(again->denial->kind, Denial::Kind::slowed);
  EXPECT_GT(again->denial->retry_after_ns, 0);
  EXPECT_EQ(metric("partita_requests_refused_total{service=\"s\",reason=\"slowed\"}"), 1);
  EXPECT_EQ(core_->service_views().at(0).withdrawn, 2) << "of no concern to how the service does";
  const auto proven = ask(2, 1, {.service = "s", .client = "bad"});
  const auto other = ask(3, 1, {.service = "s", .client = "good"});
  ASSERT_TRUE(until([&] { return proven->ended && other->ended; }));
  expect_twice(*proven, 2);  // its connection is known to be well
  expect_twice(*other, 3);
}

// Workers may take long to come back: who has ended one asks in vain for the last one's end.
TEST_F(CoreTest, AKillersNextRequestsSpareTheLastWorker) {
  service_.slo = Millis{60};
  open(patient());
  const auto first = worker(kMs, "d", 0), second = worker(kMs, "e", 0);
  first->dies_of = second->dies_of = 666;
  ASSERT_TRUE(until_ready(2));
  for (int i = 0; i < 5; ++i) {
    std::vector<std::shared_ptr<Asked>> killers;  // several at a time
    for (int n = 0; n < (i == 0 ? 1 : 3); ++n)
      // Answers on its connection do not make it better.
      killers.push_back(ask(666, 1, {.service = "s", .client = "bad", .trusted = i % 2 == 0}));
    const auto good = ask(5, 1, {.service = "s"});
    ASSERT_TRUE(until([&] {
      return good->ended &&
             std::ranges::all_of(killers, [](const auto& one) { return one->ended; });
    }));
    for (const auto& killer : killers) EXPECT_TRUE(killer->denial);
    expect_twice(*good, 5);
    EXPECT_NE(first->ended, second->ended);
  }
}

// What its sender had sent before is doubted as well, wherever it waits.
TEST_F(CoreTest, WhatAKillerHasWaitingSparesTheLastWorker) {
  service_.slo = Millis{100};
  service_.segments = {{"d", 1, 1}, {"e", 1, 1}};
  open(patient());
  const auto busy = worker(kMs, "e", 0);
  busy->dies_of = 666;
  busy->hold = true;
  ASSERT_TRUE(until_ready(1));
  const auto good = ask(5);
  ASSERT_TRUE(until([&] { return busy->batches == 1; }));
  const auto first = worker(kMs, "d", 0);
  first->hold = true;
  ASSERT_TRUE(until_ready(2));
  const auto held = ask(666, 1, {.service = "s", .client = "bad", .trusted = false});
  ASSERT_TRUE(until([&] { return first->batches == 1; }));
  const auto waits = ask(666, 1, {.service = "s", .client = "bad", .trusted = false});
  first->vanish();
  busy->hold = false;
  busy->let_go();
  ASSERT_TRUE(until([&] { return good->ended && held->ended && waits->ended; }))
      << good->ended << held->ended << waits->ended << said_;
  expect_twice(*good, 5);
  EXPECT_FALSE(busy->ended) << "the last one went, too";
}

// A connection that began to be well after its sender did harm is no better than its sender.
TEST_F(CoreTest, WhoDidHarmIsNotTrustedForAnAnswerSince) {
  const auto here = worker(kMs, "d", 0);
  here->fails_of = 13;
  ASSERT_TRUE(until_ready(1));
  const Nanos before = Loop::now_ns();
  for (int i = 0; i < kFaultsToWatch; ++i) {
    const auto bad = ask(13, 1, {.service = "s", .client = "bad", .trusted = false});
    ASSERT_TRUE(until([&] { return bad->ended; }));
  }
  const auto hold = ask(1, 1, {.service = "s", .client = "bad", .trusted = false});
  const auto since = ask(2, 1, {.service = "s", .client = "bad", .trusted_since = Loop::now_ns()});
  ASSERT_TRUE(since->denial);
  EXPECT_EQ(since->denial->kind, Denial::Kind::slowed);
  ASSERT_TRUE(until([&] { return hold->ended; }));
  const auto next = ask(2, 1, {.service = "s", .client = "bad", .trusted = false});
  ASSERT_TRUE(next->denial);
  EXPECT_LE(next->denial->retry_after_ns, kWatchedShare * (Loop::now_ns() - before));
  const auto of_old = ask(3, 1, {.service = "s", .client = "bad", .trusted_since = before});
  ASSERT_TRUE(until([&] { return of_old->ended; }));
  expect_twice(*of_old, 3);
}

// The worker neither answers nor goes, as one that was stopped: nobody waits for it.
TEST_F(CoreTest, WhatAHangingWorkerHasIsAnsweredByAnother) {
  service_.slo = Millis{300};
  open(patient());
  const auto stuck = worker(kMs, "d", 0);
  stuck->hold = true;
  ASSERT_TRUE(until_ready(1));
  const auto asked = ask(7);
  ASSERT_TRUE(until([&] { return stuck->batches == 1; }));
  const auto other = worker(kMs, "e", 0);
  ASSERT_TRUE(until_ready(2));
  ASSERT_TRUE(until([&] { return asked->ended; }));
  expect_twice(*asked, 7);
  EXPECT_NE(stuck->slots, other->slots) << "it may still write to its own";
  EXPECT_FALSE(stuck->ended);
  EXPECT_EQ(core_->service_views().at(0).ready_workers, 1);
  EXPECT_EQ(free_slots(), slots() - 1);  // it may still write there
  stuck->let_go();
  ASSERT_TRUE(until_ready(2));
  EXPECT_EQ(free_slots(), slots());
  // And where there is no other, who waits is told so.
  other->hold = true;
  const auto left = ask(8), right = ask(9);
  ASSERT_TRUE(until([&] { return left->ended && right->ended; }));
  EXPECT_EQ(left->denial->kind, Denial::Kind::expired);
  EXPECT_EQ(left->denial->message, "no worker took it in time");
  EXPECT_EQ(right->denial->kind, Denial::Kind::expired);
}

// Who is known to be well or not, where a worker of several dies or hangs with his request.
class SuspectsTest : public CoreTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    service_.slo = Millis{250};
    CoreTest::SetUp();
    first_ = worker(kMs, "d", 0), second_ = worker(kMs, "e", 0);
    first_->hold = second_->hold = true;
    ASSERT_TRUE(until_ready(2));
    held_ = ask(1, 1, of_);
    ASSERT_TRUE(until([&] { return first_->batches + second_->batches == 1; }));
    if (first_->batches == 0) first_.swap(second_);
    second_->hold = false;
    if (GetParam()) first_->vanish();  // else: it hangs
    ASSERT_TRUE(until_ready(1));
  }
  const RequestHead of_{.service = "s", .client = "c", .trusted = false};
  std::unique_ptr<TestWorker> first_, second_;
  std::shared_ptr<Asked> held_;
};
INSTANTIATE_TEST_SUITE_P(DiesOrHangs, SuspectsTest, testing::Bool());

TEST_P(SuspectsTest, AreKeptFromTheLastWorkerUntilThereIsAnAnswer) {
  const auto next = ask(2, 1, of_), good = ask(3, 1, {.service = "s", .client = "good"});
  ASSERT_TRUE(until([&] { return held_->ended && next->ended && good->ended; }));
  expect_twice(*good, 3);
  for (const auto& one : {held_, next}) {
    ASSERT_TRUE(one->denial);
    EXPECT_EQ(one->denial->message, "no worker took it in time");
  }
}

TEST_P(SuspectsTest, AreClearedByTheAnswer) {
  const auto third = worker(kMs, "f", 0);
  ASSERT_TRUE(until([&] { return held_->ended; }));
  expect_twice(*held_, 1);
  third->vanish();
  ASSERT_TRUE(until_ready(1));
  const auto next = ask(2, 1, of_);
  ASSERT_TRUE(until([&] { return next->ended; }));
  expect_twice(*next, 2);
}

// Three that took a worker along each, and must not be tried again, are no accident.
TEST_F(CoreTest, WhoseRequestsWorkersDieWithIsWatched) {
  service_.segments = {{"d", 4, 1}};
  core_->serve({service_});
  const RequestHead of{.service = "s", .idempotent = false, .client = "c", .trusted = false};
  for (int i = 0; i < kFaultsToWatch; ++i) {
    const auto any = worker(kMs, "d", 0);
    any->dies_of = 666;
    ASSERT_TRUE(until_ready(1));
    const auto asked = ask(666, 1, of);
    ASSERT_TRUE(until([&] { return asked->ended; }));
    EXPECT_EQ(asked->denial->message, "its worker died");
    if (i + 1 < kFaultsToWatch) loop_->run_until(Loop::now_ns() + kOneDeath + kMs);
  }
  const auto any = worker(100 * kMs, "d", 0);
  ASSERT_TRUE(until_ready(1));
  EXPECT_TRUE(ask(1, 1, of)->let_in);
  const auto more = ask(2, 1, of);
  ASSERT_TRUE(more->denial);
  EXPECT_EQ(more->denial->kind, Denial::Kind::slowed);
}

// One that was only slow gets at once what waits for it, and all of it is told.
TEST_F(CoreTest, AWorkerThatGoesOnTakesWhatWaits) {
  service_.slo = Millis{300};
  service_.segments = {{"d", 1, 1}};
  CoreOptions options = patient();
  options.shed = false;
  open(options);
  const auto any = worker(kMs, "d", 0);
  any->hold = true;
  ASSERT_TRUE(until_ready(1));
  const auto first = ask(1), second = ask(2);
  ASSERT_TRUE(until([&] { return any->batches == 1; }));
  loop_->run_until(Loop::now_ns() + 5 * kMs);
  int told = 0;
  core_->on_change([&] { ++told; });
  ASSERT_TRUE(until_ready(0));
  loop_->run_until(Loop::now_ns() + 5 * kMs);
  EXPECT_EQ(told, 1);
  any->hold = false;
  any->let_go();
  ASSERT_TRUE(until([&] { return first->ended && second->ended; }));
  expect_twice(*first, 1);
  expect_twice(*second, 2);
  EXPECT_EQ(told, 2);
}

// Of two that hang each keeps the slots that it has, until it says something or ends.
TEST_F(CoreTest, AHangingWorkersSlotsAreFreeOnceItHasDied) {
  service_.slo = Millis{300};
  service_.segments = {{"d", 1, 1}, {"e", 1, 1}};
  core_->serve({service_});
  const auto first = worker(kMs, "d", 0), second = worker(kMs, "e", 0);
  first->hold = second->hold = true;
  ASSERT_TRUE(until_ready(2));
  const auto left = ask(1), right = ask(2);
  ASSERT_TRUE(until([&] { return left->ended && right->ended; }));
  EXPECT_EQ(free_slots(), slots() - 2);
  first->vanish();
  ASSERT_TRUE(until([&] { return core_->worker_views().size() == 1; }));
  EXPECT_EQ(free_slots(), slots() - 1);
  ASSERT_EQ(core_->losses().size(), 1U) << "it had nothing any more, but it hung";
  EXPECT_EQ(core_->losses()[0].device, "d");
  second->let_go();
  ASSERT_TRUE(until_ready(1));
  EXPECT_EQ(free_slots(), slots());
}

}  // namespace
}  // namespace partita::serve
