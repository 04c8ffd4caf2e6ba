#include "verify/token_replica.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/rng.h"
#include "llm/engine/engine.h"
#include "llm/engine/token_times.h"
#include "verify/pool_memo.h"

namespace partita::verify {
namespace {

constexpr profile::StepCost kTokenCost{.step = 5,
                                       .sequence = 0.03,
                                       .root_sequences = 0.2,
                                       .cached_token = 1e-5,
                                       .prompt_token = 0.02,
                                       .prompt_context = 1e-7};

struct Crowd {
  profile::EngineSpec spec;
  int prefix_tokens = 0;
  std::vector<TokenRequest> requests;
};

// Crowded caches, small budgets, prefixes: what engines do at their edges.
Crowd crowded(Rng& rng) {
  Crowd one;
  one.spec = {.cost = kTokenCost,
              .step_tokens = static_cast<int>(64 + rng.below(400)),
              .sequences = static_cast<int>(1 + rng.below(40)),
              .blocks = static_cast<std::int64_t>(20 + rng.below(200))};
  if (rng.below(2) == 0) {
    one.spec.cost.root_sequences = 0;
    one.spec.cost.mixed = 1.5;
    one.spec.cost.crowded = 0.4;
    one.spec.cost.crowded_from = static_cast<int>(rng.below(8));
  }
  one.prefix_tokens = static_cast<int>(rng.below(3) * 40);
  double now = 0;
  for (int i = 0; i < 60; ++i) {
    now += rng.exponential() * 60;
    TokenRequest request{.arrival = now,
                         .in = static_cast<int>(1 + rng.below(400)),
                         .out = static_cast<int>(1 + rng.below(80))};
    request.prefix = one.prefix_tokens > 0 && rng.below(2) == 0;
    if (request.prefix) request.in = std::max(request.in, one.prefix_tokens + 1);
    if (!request.prefix && rng.below(3) == 0)
      request.came = static_cast<int>(rng.below(static_cast<std::uint64_t>(request.in)));
    one.requests.push_back(request);
  }
  return one;
}

std::vector<llm::Request> as_engine_knows(const Crowd& one) {
  std::vector<llm::Request> requests;
  for (const TokenRequest& request : one.requests)
    requests.push_back({.arrival = Millis{request.arrival},
                        .in = request.in,
                        .out = request.out,
                        .prefix = request.prefix ? 0 : -1,
                        .prefix_tokens = request.prefix ? one.prefix_tokens : 0,
                        .came = request.came});
  return requests;
}

TEST(TokenReplica, is_the_engine_that_planners_simulate) {
  Rng rng(1);
  long preemptions = 0;
  for (int round = 0; round < 400; ++round) {
    const Crowd one = crowded(rng);
    const auto engine = llm::simulate(one.spec, as_engine_knows(one));
    ASSERT_TRUE(engine);
    const std::vector<TokenRequest> served = play(one.spec, one.prefix_tokens, one.requests);
    preemptions += engine->preemptions;
    for (std::size_t i = 0; i < served.size(); ++i) {
      ASSERT_EQ(served[i].refused, engine->requests[i].refused) << round << " " << i;
      if (served[i].refused) continue;
      ASSERT_NEAR(served[i].first, engine->requests[i].first.value, 1e-6) << round << " " << i;
      ASSERT_NEAR(served[i].end, engine->requests[i].end.value, 1e-6) << round << " " << i;
    }
  }
  EXPECT_GT(preemptions, 1000);
}

profile::TokenEngine token_engine() {
  profile::TokenEngine one;
  one.spec = {.cost = kTokenCost, .step_tokens = 2048, .sequences = 64, .blocks = 20'000};
  one.request_ms = 3;
  return one;
}

plan::Terms chat(double ttft, double tpot) {
  plan::Terms terms{.name = "chat", .model = "m", .rate = Rps{4}};
  terms.tokens.emplace();
  terms.tokens->ttft = Millis{ttft};
  terms.tokens->tpot = Millis{tpot};
  terms.tokens->lengths =
      plan::TokenPair{plan::LognormalTokens{600, 0.8}, plan::LognormalTokens{150, 0.7}};
  return terms;
}

TEST(TokenReplica, says_which_promise_is_missed) {
  const ReplicaLoad load{.sequences = 64, .rate = Rps{4}, .percentile = 99};
  const ReplicaVerdict easy = judge_replica(chat(2000, 60), token_engine(), load);
  EXPECT_TRUE(easy.holds) << easy.late;
  const ReplicaVerdict first = judge_replica(chat(20, 60), token_engine(), load);
  EXPECT_FALSE(first.holds);
  EXPECT_GT(first.late_ttft, 0.1);
  EXPECT_EQ(first.late_tpot, easy.late_tpot);
  const ReplicaVerdict rest = judge_replica(chat(2000, 6), token_engine(), load);
  EXPECT_FALSE(rest.holds);
  EXPECT_GT(rest.late_tpot, 0.1);
}

TEST(TokenReplica, a_limit_of_requests_protects_tpot_and_costs_ttft) {
  const plan::Terms asked = chat(500, 12);
  const ReplicaVerdict wide = judge_replica(asked, token_engine(), {64, Rps{16}, 99});
  const ReplicaVerdict narrow = judge_replica(asked, token_engine(), {8, Rps{16}, 99});
  EXPECT_GT(wide.late_tpot, narrow.late_tpot);
  EXPECT_GT(narrow.late_ttft, wide.late_ttft);
}

// Two simulations with draws of their own agree on how many are late.
TEST(TokenReplica, agrees_with_the_planners_simulation) {
  for (const double rate : {2.0, 6.0, 10.0, 14.0}) {
    const plan::Terms asked = chat(300, 14);
    const ReplicaVerdict judged = judge_replica(asked, token_engine(), {32, Rps{rate}, 99});
    profile::TokenEngine limited = token_engine();
    limited.spec.sequences = 32;
    const llm::ReplicaTimes planned =
        llm::replica_times(asked, limited, {.rate = Rps{rate}, .count = 6000, .seed = 5});
    EXPECT_NEAR(judged.late, planned.late, 0.01 + 0.25 * planned.late) << rate;
    EXPECT_NEAR(judged.whole.value, planned.e2e.value, 0.15 * planned.e2e.value) << rate;
  }
}

TEST(TokenReplica, agrees_with_the_planners_simulation_of_prefill_apart) {
  for (const auto& [prefills, decodes] : {std::pair{1, 1}, {1, 3}, {2, 2}})
    for (const double rate : {6.0, 14.0, 22.0}) {
      const plan::Terms asked = chat(120, 9);
      profile::TokenEngine apart = token_engine();
      apart.prefills = prefills;
      apart.decodes = decodes;
      apart.move_token_ms = 0.01;
      apart.spec.sequences = 32;
      const ReplicaVerdict judged = judge_replica(asked, apart, {32, Rps{rate}, 99});
      const llm::ReplicaTimes planned =
          llm::replica_times(asked, apart, {.rate = Rps{rate}, .count = 6000, .seed = 5});
      EXPECT_NEAR(judged.late, planned.late, 0.01 + 0.25 * planned.late) << rate;
      EXPECT_NEAR(judged.late_tpot, planned.late_tpot, 0.01 + 0.25 * planned.late_tpot) << rate;
      EXPECT_NEAR(judged.whole.value, planned.e2e.value, 0.15 * planned.e2e.value) << rate;
    }
}

// Prompts are computed on fewer units than answers, or on more.
TEST(TokenReplica, agrees_with_the_planners_simulation_of_shares_of_a_gpu) {
  for (const double slower : {0.6, 2.0, 4.0})
    for (const double rate : {2.0, 6.0, 10.0}) {
      const plan::Terms asked = chat(300, 9);
      profile::TokenEngine beside = token_engine();
      beside.prefills = beside.decodes = 1;
      beside.prefill_units = beside.decode_units = 54;
      beside.spec.sequences = 32;
      beside.prompt_spec = beside.spec;
      beside.prompt_spec.cost.prompt_token *= slower;
      const ReplicaVerdict judged = judge_replica(asked, beside, {32, Rps{rate}, 99});
      const llm::ReplicaTimes planned =
          llm::replica_times(asked, beside, {.rate = Rps{rate}, .count = 6000, .seed = 5});
      EXPECT_NEAR(judged.late_ttft, planned.late_ttft, 0.01 + 0.25 * planned.late_ttft) << rate;
      EXPECT_NEAR(judged.late_tpot, planned.late_tpot, 0.01 + 0.25 * planned.late_tpot) << rate;
      EXPECT_NEAR(judged.whole.value, planned.e2e.value, 0.15 * planned.e2e.value) << rate;
    }
}

// No engine computes prompts for nothing, and none holds more work than there is time, though no
// request has a time to keep.
TEST(TokenReplica, what_is_not_possible_does_not_hold) {
  profile::TokenEngine engine;
  engine.spec.cost = kTokenCost;
  EXPECT_TRUE(may_be(engine));
  for (const double cost : {0.0, 1e-5}) {
    profile::TokenEngine free = engine;
    free.spec.cost.prompt_token = cost;
    free.spec.cost.prompt_context = 0;
    EXPECT_FALSE(may_be(free)) << cost;
  }
  profile::TokenEngine idle = engine;
  idle.spec.cost.step = idle.spec.cost.sequence = idle.spec.cost.root_sequences = 0;
  EXPECT_FALSE(may_be(idle));

  plan::Terms service;
  service.percentile = 90;
  service.tokens = plan::TokenTerms{.tpot = Millis{50}, .lengths = plan::TokenPair{1000, 1}};
  const double most = 1000 / (1000 * 0.02 + 1000 * 500 * 1e-7 + 1000.0 / 8192 * 5);
  for (const double part : {0.5, 0.9, 1.1, 100.0}) {
    const ReplicaVerdict verdict =
        judge_replica(service, engine, {64, Rps{part * most}, service.percentile});
    EXPECT_NEAR(verdict.busy, part, 1e-9 * part);
    EXPECT_EQ(verdict.holds, part < 1) << part;
  }
}

// Whoever remembers says the same as who plays, also of what differs by little.
TEST(TokenReplica, what_is_remembered_is_what_is_played) {
  plan::Terms service;
  service.slo = Millis{4000};
  service.percentile = 90;
  service.tokens = plan::TokenTerms{.ttft = Millis{800}, .lengths = plan::TokenPair{300, 60}};
  profile::TokenEngine engine;
  engine.spec.cost = kTokenCost;
  PoolMemo memo;
  for (int round = 0; round < 2; ++round)
    for (int other = 0; other < 5; ++other)
      for (const double rate : {5.0, 20.0}) {
        plan::Terms asked = service;
        profile::TokenEngine by = engine;
        if (other == 1) asked.tokens->lengths = plan::TokenPair{600, 60};
        if (other == 2) asked.tokens->prefix_share = 0.5, asked.tokens->prefix_tokens = 100;
        if (other == 3) by.request_ms = 300;
        if (other == 4) asked.traffic.arrivals = plan::GammaArrivals{.cv = 3};
        const ReplicaLoad load{16, Rps{rate}, asked.percentile};
        const ReplicaVerdict told = memo.judged(asked, by, load);
        const ReplicaVerdict played = judge_replica(asked, by, load);
        EXPECT_EQ(std::tuple(told.holds, told.late, told.busy, told.whole),
                  std::tuple(played.holds, played.late, played.busy, played.whole))
            << other << " at " << rate;
      }
  EXPECT_GT(memo.replicas.size(), 0U);
}

}  // namespace
}  // namespace partita::verify
