// Answers that are kept, through the core: who finds what, and when it is forgotten.
#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"
#include "serve/gateway/response_cache.h"
#include "serve/gateway/testing/core_fixture.h"

namespace partita::serve {
namespace {

using test::Asked;
using test::CoreTest;
using test::kMs;
using test::TestWorker;

class CacheCore : public CoreTest {
 protected:
  CacheCore() { service_.slo = Millis{20'000}; }  // nothing is late here
  void open_with(const plan::CacheTerms& wish, const std::string& service = "s") {
    CoreOptions options = patient();
    options.caches.emplace(service, wish);
    open(options);
  }
  static RequestHead of(std::string_view client) {
    RequestHead head;
    head.client = client;
    return head;
  }
  // Waits for it, and looks at what came.
  void expect_answer(const std::shared_ptr<Asked>& asked, float value) {
    ASSERT_TRUE(until([&] { return asked->ended; }));
    expect_twice(*asked, value);
  }
  double of_cache(const std::string& name) {
    const bool tritons = name.starts_with("nv_");
    return metric(name + (tritons ? "{model=\"s\",version=\"1\"}" : "{service=\"s\"}"));
  }
  // Several equal requests while the worker holds the first.
  std::vector<std::shared_ptr<Asked>> ask_together(TestWorker& worker, float value, int requests) {
    worker.hold = true;
    std::vector<std::shared_ptr<Asked>> all;
    for (int i = 0; i < requests; ++i) all.push_back(ask(value));
    EXPECT_TRUE(until([&] { return worker.batches > 0; }));
    return all;
  }
};

// Against a plain table of who asked for what since when.
TEST_F(CacheCore, RunsWhatWasNotAskedForAndAnswersTheRest) {
  for (const bool shared : {false, true}) {
    open_with({.memory = Mib{1}, .shared = shared});
    auto one = worker(kMs / 10);
    ASSERT_TRUE(until_ready(1));
    std::set<std::tuple<std::string, int, int>> asked;
    Rng rng(shared ? 1 : 2);
    int ran = 0, ran_before = 0, hits = 0;
    for (int i = 0; i < 300; ++i) {
      if (i % 100 == 99) {  // another worker, and all is forgotten
        one->vanish();
        ASSERT_TRUE(until_ready(0));
        ran_before += one->items;
        one = worker(kMs / 10);
        ASSERT_TRUE(until_ready(1));
        asked.clear();
      }
      const std::string client = rng.below(2) == 0 ? "anna" : "bert";
      const int value = static_cast<int>(rng.below(12)), rows = 1 + static_cast<int>(rng.below(2));
      const bool fresh = asked.emplace(shared ? "" : client, value, rows).second;
      expect_answer(ask(static_cast<float>(value), rows, of(client)), static_cast<float>(value));
      ran += fresh ? rows : 0;
      hits += fresh ? 0 : 1;
      ASSERT_EQ(ran_before + one->items, ran) << i;
    }
    EXPECT_EQ(of_cache("nv_cache_num_hits_per_model"), hits);
    EXPECT_EQ(of_cache("nv_cache_num_misses_per_model"), 300 - hits);
    EXPECT_EQ(of_cache("nv_inference_request_success"), 300);
    EXPECT_EQ(of_cache("nv_inference_count"), ran);
    EXPECT_EQ(core_->service_views().at(0).counters.offered, 300);
    EXPECT_EQ(core_->service_views().at(0).counters.in_slo, 300);
    EXPECT_EQ(free_slots(), slots());
    EXPECT_TRUE(core_->idle());
  }
}

TEST_F(CacheCore, EqualRequestsUnderWayRunOnce) {
  open_with({.memory = Mib{1}});
  const auto one = worker(kMs);
  ASSERT_TRUE(until_ready(1));
  const auto all = ask_together(*one, 3, 6);
  core_->release(all[4]->id);  // it does not wait any longer
  one->let_go();
  for (const int i : {0, 1, 2, 3, 5}) expect_answer(all[static_cast<std::size_t>(i)], 3);
  EXPECT_EQ(one->items, 1);
  EXPECT_FALSE(all[4]->ended);
  EXPECT_EQ(of_cache("partita_cache_merged_total"), 5);
  EXPECT_EQ(core_->service_views().at(0).counters.completed, 5);
  EXPECT_EQ(core_->service_views().at(0).counters.cancelled, 1);
  EXPECT_EQ(free_slots(), slots());
}

TEST_F(CacheCore, WhoWaitsGoesOnWhenTheFirstLeaves) {
  open_with({.memory = Mib{1}});
  const auto one = worker(kMs);
  ASSERT_TRUE(until_ready(1));
  const auto all = ask_together(*one, 3, 4);
  core_->release(all[0]->id);
  one->hold = false;
  one->let_go();
  for (const int i : {1, 2, 3}) expect_answer(all[static_cast<std::size_t>(i)], 3);
  EXPECT_EQ(one->items, 2);
  EXPECT_EQ(free_slots(), slots());
  EXPECT_TRUE(core_->idle());
}

TEST_F(CacheCore, ErrorsAreNotKeptAndNobodyElses) {
  open_with({.memory = Mib{1}});
  const auto one = worker(kMs);
  ASSERT_TRUE(until_ready(1));
  one->fails_of = 3;
  const auto all = ask_together(*one, 3, 3);
  one->hold = false;
  one->let_go();
  ASSERT_TRUE(until([&] { return all[0]->ended && all[1]->ended && all[2]->ended; }));
  for (const auto& asked : all) EXPECT_EQ(asked->denial->kind, Denial::Kind::failed);
  EXPECT_GE(one->items, 3);  // each by itself
  EXPECT_EQ(of_cache("partita_cache_answers"), 0);
  one->fails_of = {};
  expect_answer(ask(3), 3);
  EXPECT_EQ(of_cache("partita_cache_answers"), 1);
}

// What ends workers ends no more of them for those who wait for it.
TEST_F(CacheCore, HarmIsToldToAllWhoAskForIt) {
  open_with({.memory = Mib{1}});
  std::vector<std::unique_ptr<TestWorker>> workers;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(worker(kMs, "d", i));
    workers.back()->dies_of = 3;
  }
  ASSERT_TRUE(until_ready(3));
  std::vector<std::shared_ptr<Asked>> all;
  for (int i = 0; i < 4; ++i) all.push_back(ask(3));
  ASSERT_TRUE(until([&] { return std::ranges::all_of(all, &Asked::ended); }));
  for (const auto& asked : all) EXPECT_EQ(asked->denial->kind, Denial::Kind::harmful);
  EXPECT_EQ(core_->losses().size(), static_cast<std::size_t>(kMostDeaths));
  expect_answer(ask(9), 9);
}

TEST_F(CacheCore, WhatIsUrgentWaitsForNothingThatIsLess) {
  open_with({.memory = Mib{1}});
  const auto one = worker(kMs);
  ASSERT_TRUE(until_ready(1));
  const auto all = ask_together(*one, 3, 1);
  RequestHead soon, high, later;
  soon.timeout_ns = 10'000 * kMs;
  high.priority = 1;
  later.timeout_ns = 40'000 * kMs;
  ask(3, 1, soon), ask(3, 1, high), ask(3, 1, later);
  const auto waits = ask(3);
  EXPECT_EQ(of_cache("partita_cache_merged_total"), 1);
  EXPECT_EQ(of_cache("nv_cache_num_misses_per_model"), 4);
  one->hold = false;
  one->let_go();
  expect_answer(waits, 3);
}

TEST_F(CacheCore, IsNotForWhatHasEffectsNorForDoubtedSenders) {
  open_with({.memory = Mib{1}});
  const auto one = worker(kMs);
  ASSERT_TRUE(until_ready(1));
  RequestHead effects;
  effects.idempotent = false;
  for (int i = 0; i < 3; ++i) expect_answer(ask(3, 1, effects), 3);
  EXPECT_EQ(one->items, 3);
  expect_answer(ask(3), 3);
  expect_answer(ask(3), 3);
  EXPECT_EQ(one->items, 4);
  expect_answer(ask(3, 1, effects), 3);
  EXPECT_EQ(one->items, 5);
}

TEST_F(CacheCore, AgesAndIsForgottenWhenItIsLoadedAnew) {
  open_with({.memory = Mib{1}, .ttl = Seconds{0.3}});
  const auto one = worker(kMs);
  ASSERT_TRUE(until_ready(1));
  expect_answer(ask(3), 3);
  const Nanos came = Loop::now_ns();
  expect_answer(ask(3), 3);
  if (Loop::now_ns() - came < 200 * kMs) {
    EXPECT_EQ(one->items, 1);
  }
  until([&] { return Loop::now_ns() > came + 301 * kMs; });
  expect_answer(ask(3), 3);
  const int items = one->items;
  EXPECT_GE(items, 2);
  EXPECT_TRUE(core_->set_loaded("s", false));
  EXPECT_TRUE(core_->set_loaded("s", true));
  expect_answer(ask(3), 3);
  EXPECT_EQ(one->items, items + 1);
}

// A flush must not break what is promised: what plans are made by is as without a cache.
TEST_F(CacheCore, HitsAreDemandAndTellNothingOfWorkers) {
  open_with({.memory = Mib{1}});
  const auto one = worker(40 * kMs);
  ASSERT_TRUE(until_ready(1));
  expect_answer(ask(3), 3);
  for (int i = 0; i < 200; ++i) expect_answer(ask(3), 3);
  const ServiceView view = core_->service_views().at(0);
  EXPECT_EQ(view.counters.offered, 201);
  EXPECT_GE(view.p50, 40 * kMs);
  EXPECT_EQ(view.counters.items, 1);
  EXPECT_EQ(core_->statistics("s").hit_count, 200U);
  EXPECT_EQ(core_->statistics("s").miss_count, 1U);
}

TEST_F(CacheCore, LimitsOfKeysHoldForHits) {
  open_with({.memory = Mib{1}});
  const auto one = worker(kMs);
  ASSERT_TRUE(until_ready(1));
  const KeyLimits limits{.per_second = 5};
  int answered = 0, slowed = 0;
  for (int i = 0; i < 20; ++i) {
    RequestHead head = of("token 1");
    head.limits = &limits;
    const auto asked = ask(3, 1, head);
    ASSERT_TRUE(until([&] { return asked->ended; }));
    ++(asked->denial ? slowed : answered);
  }
  EXPECT_GE(answered, 5);
  EXPECT_GT(slowed, 0);
  EXPECT_EQ(metric("partita_key_requests_total{service=\"s\",key=\"token 1\"}"), answered);
  EXPECT_EQ(metric("partita_key_over_limit_total{service=\"s\",key=\"token 1\"}"), slowed);
  EXPECT_EQ(one->items, 1);
}

TEST_F(CacheCore, AModelMayAskForIt) {
  open_with({.memory = Mib{1}}, std::string(kCachesAsked));
  for (const bool asks : {false, true}) {
    TestWorker one(*loop_, link_path(directory_), "", kMs, {}, false, "s", asks);
    ASSERT_TRUE(until_ready(1));
    for (int i = 0; i < 3; ++i) expect_answer(ask(3), 3);
    EXPECT_EQ(one.items, asks ? 1 : 3);
    one.vanish();
    ASSERT_TRUE(until_ready(0));
  }
}

// Against a model of what each requests is to find: its own, its key's or nobody's answers.
TEST_F(CacheCore, FollowsItsTermsWhileItRuns) {
  open(patient());
  const auto one = worker(kMs / 10);
  ASSERT_TRUE(until_ready(1));
  const std::vector<std::optional<plan::CacheTerms>> wanted{
      std::nullopt,
      plan::CacheTerms{.memory = Mib{1}},
      plan::CacheTerms{.memory = Mib{1}, .shared = true},
      plan::CacheTerms{.memory = Mib{2}, .ttl = Seconds{1e9}},
      std::nullopt,
      plan::CacheTerms{.memory = Mib{1}}};
  for (const auto& cache : wanted) {
    service_.cache = cache;
    for (int again = 0; again < 2; ++again) {  // what says the same forgets nothing
      core_->serve({service_});
      const int before = one->items;
      for (const std::string_view client : {"a", "a", "b", "b"})
        expect_answer(ask(3, 1, of(client)), 3);
      const int distinct = !cache ? 4 : again == 1 ? 0 : cache->shared ? 1 : 2;
      EXPECT_EQ(one->items - before, distinct);
    }
    const auto kept = core_->statistics("s").kept;
    ASSERT_EQ(kept.has_value(), cache.has_value());
    if (!cache) continue;
    EXPECT_EQ(kept->terms, *cache);
    EXPECT_EQ(kept->from, "services");
    EXPECT_EQ(kept->answers, cache->shared ? 1U : 2U);
  }
  EXPECT_NE(said_.find("answers of s are kept: 2 MiB, 1000000000 s (services)"), std::string::npos)
      << said_;
  EXPECT_NE(said_.find("no answers of s are kept any more"), std::string::npos) << said_;
}

// Whatever becomes of the cache, each that waits in it is answered, and the flag has the last word.
TEST_F(CacheCore, WhoWaitsIsAnsweredWhenItsTermsChange) {
  for (const bool flag : {false, true}) {
    CoreOptions options = patient();
    if (flag) options.caches.emplace("s", plan::CacheTerms{.memory = Mib{0}});
    service_.cache = plan::CacheTerms{.memory = Mib{1}};
    open(options);
    for (const std::optional<plan::CacheTerms>& next :
         {std::optional<plan::CacheTerms>(), std::optional(plan::CacheTerms{.memory = Mib{2}}),
          std::optional(plan::CacheTerms{.memory = Mib{2}, .shared = true})}) {
      service_.cache = plan::CacheTerms{.memory = Mib{1}};
      core_->serve({service_});
      auto one = worker(kMs);
      ASSERT_TRUE(until_ready(1));
      const auto all = ask_together(*one, 7, 5);
      service_.cache = next;
      core_->serve({service_});
      auto others = ask(7);  // by the new terms
      one->hold = false;
      one->let_go();
      for (const auto& asked : all) expect_answer(asked, 7);
      expect_answer(others, 7);
      EXPECT_EQ(one->items, flag ? 6 : next ? 1 : 2);
      one->vanish();
      ASSERT_TRUE(until_ready(0));
    }
  }
}

TEST_F(CacheCore, StepsOfSequencesAreNotKept) {
  open_with({.memory = Mib{1}});
  TestWorker one(*loop_, link_path(directory_), "", kMs, {}, true);
  ASSERT_TRUE(until_ready(1));
  for (int i = 0; i < 4; ++i) {
    RequestHead head;
    head.sequence = 7;
    head.sequence_begins = i == 0;
    expect_answer(ask(3, 1, head), 3);
  }
  EXPECT_EQ(one.items, 4);
  EXPECT_NE(said_.find("no answers of s are kept: it has state"), std::string::npos) << said_;
}

// Neither what a canary answered is kept, nor does a shadow miss what is asked.
TEST_F(CacheCore, CanariesAndShadowsAreNotKept) {
  ServedService fresh = service_;
  fresh.name = "s@2";
  fresh.segments = {{"f", 4, 1}};
  for (const bool shadow : {false, true}) {
    CoreOptions options = patient();
    options.caches.emplace("s", plan::CacheTerms{.memory = Mib{1}});
    options.caches.emplace("s@2", plan::CacheTerms{.memory = Mib{1}});
    options.canaries.emplace("s", CanaryWish{.version = "2", .share = 0.5, .shadow = shadow});
    open(options);
    core_->serve({service_, fresh});
    const auto one = worker(kMs);
    TestWorker two(*loop_, link_path(directory_), "/state/workers.json:f:0", kMs, {}, false, "s@2");
    ASSERT_TRUE(until([&] { return core_->ready("s") && core_->ready("s@2"); }));
    for (int i = 0; i < 20; ++i) expect_answer(ask(3), 3);
    ASSERT_TRUE(until([&] { return two.items == 10; }));
    EXPECT_EQ(one->items, 1) << shadow;
    EXPECT_TRUE(until([&] { return core_->canary("s")->answers == 10; }));
  }
}

}  // namespace
}  // namespace partita::serve
