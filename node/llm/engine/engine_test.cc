#include "llm/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "llm/engine/engines.h"
#include "llm/engine/split.h"
#include "llm/engine/testing/plain_engine.h"

namespace partita::llm {
namespace {

constexpr StepCost kCost{.step = 5,
                         .sequence = 0.25,
                         .root_sequences = 0.5,
                         .cached_token = 0.001,
                         .prompt_token = 0.03,
                         .prompt_context = 1e-6};

// ---- hand values

TEST(Engine, OneRequestTakesItsStepsAlone) {
  const EngineSpec spec{.cost = {.step = 10, .cached_token = 1, .prompt_token = 0.5},
                        .step_tokens = 64,
                        .sequences = 8,
                        .blocks = 100};
  const Request request{.arrival = Millis{3}, .in = 100, .out = 3};
  const auto run = simulate(spec, std::vector{request});
  ASSERT_TRUE(run);
  // Two pieces of its prompt, 64 and 36 tokens; then a token reads 100 of cache, the next one 101.
  EXPECT_EQ(run->requests[0].first, Millis{3 + 10 + 32 + 10 + 18});
  EXPECT_EQ(run->requests[0].end, run->requests[0].first + Millis{110 + 111});
  EXPECT_EQ(tpot(run->requests[0], request), Millis{110.5});
  EXPECT_EQ(run->steps, 4);
  EXPECT_EQ(run->tokens_out, 3);
}

TEST(Engine, APromptSlowsTheStepsOfOthers) {
  const EngineSpec spec{
      .cost = {.step = 10, .prompt_token = 1}, .step_tokens = 33, .sequences = 8, .blocks = 100};
  const std::vector<Request> requests = {{.in = 1, .out = 5}, {.arrival = Millis{15}, .in = 64}};
  const auto run = simulate(spec, requests);
  ASSERT_TRUE(run);
  // Steps end at 11 (prompt), 21, 21 + 10 + 32, 95 + 10 - 10, ...: two pieces of 32 beside a token.
  EXPECT_EQ(run->requests[0].first, Millis{11});
  EXPECT_EQ(run->requests[1].first, Millis{21 + 42 + 42});
  EXPECT_EQ(run->requests[0].end, Millis{21 + 42 + 42 + 10});
}

// Two that decode are one more than there is room for, and a prompt beside them costs 8 more.
TEST(Engine, ACrowdAndAPromptBesideItCostTheirOwn) {
  const EngineSpec spec{
      .cost = {.step = 10, .prompt_token = 1, .mixed = 8, .crowded = 4, .crowded_from = 1},
      .step_tokens = 64,
      .sequences = 8,
      .blocks = 100};
  const std::vector<Request> requests = {
      {.in = 1, .out = 4}, {.in = 2, .out = 3}, {.arrival = Millis{20}, .in = 6, .out = 1}};
  const auto run = simulate(spec, requests);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->requests[0].first, Millis{13});  // both prompts, nobody decodes
  // A step of two that decode, then one beside a prompt of six tokens, then one alone.
  EXPECT_EQ(run->requests[1].end, Millis{13 + 14 + 14 + 6 + 8});
  EXPECT_EQ(run->requests[2].first, Millis{13 + 14 + 14 + 6 + 8});
  EXPECT_EQ(run->requests[0].end, Millis{13 + 14 + 14 + 6 + 8 + 10});
  EngineSpec either = spec;
  either.cost.root_sequences = 1;
  EXPECT_FALSE(simulate(either, requests));
}

TEST(Engine, WithoutBlocksTheYoungestStartsAnew) {
  const EngineSpec spec{.cost = {.step = 1}, .step_tokens = 64, .sequences = 8, .blocks = 3};
  const std::vector<Request> requests = {{.in = 16, .out = 17}, {.in = 16, .out = 17}};
  const auto run = simulate(spec, requests);
  ASSERT_TRUE(run);
  // Both prompts fit; the first token of the first takes the last block, the second one goes.
  EXPECT_EQ(run->requests[0].end, Millis{17});
  EXPECT_EQ(run->requests[0].preemptions, 0);
  EXPECT_EQ(run->requests[1].first, Millis{1});
  EXPECT_EQ(run->requests[1].preemptions, 1);
  // It begins again when the first has ended: its prompt and one token, then 15 tokens.
  EXPECT_EQ(run->requests[1].end, Millis{17 + 16});
}

TEST(Engine, APrefixIsComputedOnceWhileItIsKept) {
  const EngineSpec spec{
      .cost = {.prompt_token = 1}, .step_tokens = 1000, .sequences = 4, .blocks = 8};
  const Request shares{.in = 100, .out = 1, .prefix = 0, .prefix_tokens = 90};
  const auto run = simulate(spec, std::vector{shares, shares}, {.in_flight = 1});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->requests[0].ttft(), Millis{100});
  EXPECT_EQ(run->requests[1].cached, 80);  // five whole blocks
  EXPECT_EQ(run->requests[1].ttft(), Millis{20});
  // Another one that needs the room drives it out.
  const auto three =
      simulate(spec, std::vector{shares, Request{.in = 120, .out = 1}, shares}, {.in_flight = 1});
  ASSERT_TRUE(three);
  EXPECT_EQ(three->requests[2].cached, 0);
}

TEST(Engine, WhatFitsNowhereIsRefused) {
  const EngineSpec spec{.cost = kCost, .step_tokens = 64, .sequences = 8, .blocks = 2};
  const std::vector<Request> requests = {{.in = 32, .out = 2}, {.in = 32, .out = 1}};
  const auto run = simulate(spec, requests);
  ASSERT_TRUE(run);
  EXPECT_TRUE(run->requests[0].refused);
  EXPECT_FALSE(run->requests[1].refused);
  EXPECT_FALSE(simulate({.step_tokens = 4, .sequences = 8}, requests));
  EXPECT_FALSE(simulate({.cost = {.step = -1}}, requests));
  EXPECT_FALSE(simulate(spec, std::vector<Request>{{.in = 0}}));
  EXPECT_FALSE(simulate(spec, std::vector<Request>{{.arrival = Millis{2}}, {}}));
  EXPECT_FALSE(simulate(spec, std::vector<Request>{{.in = 9, .prefix = 1, .prefix_tokens = 9}}));
}

TEST(Engine, APromptWhoseCacheCameIsNotComputed) {
  const EngineSpec spec{
      .cost = {.prompt_token = 1}, .step_tokens = 1000, .sequences = 4, .blocks = 8};
  const auto run = simulate(spec, std::vector<Request>{{.in = 100, .out = 1, .came = 90}});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->requests[0].first, Millis{10});
  EXPECT_EQ(run->most_blocks, 7);
  EXPECT_FALSE(simulate(spec, std::vector<Request>{{.in = 9, .came = 9}}));
  EXPECT_FALSE(
      simulate(spec, std::vector<Request>{{.in = 9, .prefix = 0, .prefix_tokens = 3, .came = 2}}));
}

// ---- prefill apart

profile::TokenEngine apart(int prefills, int decodes) {
  profile::TokenEngine engine;
  engine.spec = {.cost = {.step = 10, .cached_token = 1, .prompt_token = 0.5},
                 .step_tokens = 1000,
                 .sequences = 8,
                 .blocks = 100};
  engine.prefills = prefills;
  engine.decodes = decodes;
  engine.move_token_ms = 0.1;
  return engine;
}

TEST(Apart, ARequestIsComputedMovedAndAnswered) {
  const Request request{.arrival = Millis{3}, .in = 100, .out = 3};
  const auto run = simulate_group(apart(1, 1), std::vector{request});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->requests[0].first, Millis{3 + 10 + 50});
  // 100 tokens move; the first token goes in as a prompt's, the next one reads 101 of cache.
  EXPECT_EQ(run->requests[0].end, Millis{63 + 10 + 10.5 + 111});
  EXPECT_EQ(run->tokens_out, 3);
  const auto alone = simulate_group(apart(1, 1), std::vector<Request>{{.in = 100, .out = 1}});
  EXPECT_EQ(alone->requests[0].end, alone->requests[0].first);
}

TEST(Apart, PromptsDoNotSlowAnswers) {
  std::vector<Request> requests = {{.in = 10, .out = 40}};
  const Millis alone = simulate_group(apart(1, 1), requests)->requests[0].end;
  for (int i = 1; i < 20; ++i) requests.push_back({.arrival = Millis{5.0 * i}, .in = 500});
  EXPECT_EQ(simulate_group(apart(1, 1), requests)->requests[0].end, alone);
  profile::TokenEngine together = apart(0, 0);
  EXPECT_GT(simulate_group(together, requests)->requests[0].end, 2 * alone);
  EXPECT_EQ(*simulate_group(together, requests), *simulate(together.spec, requests));
}

// ---- shares of a GPU

// What computes takes 80/units ms, what waits for memory as long on any: both are straight over
// 1/units, so that the law is exact in between.
profile::TokenEngine on_units(int units) {
  profile::TokenEngine engine = apart(0, 0);
  engine.name.configuration = "m";
  engine.spec.cost.prompt_token = 80.0 / units;
  return engine;
}

TEST(Beside, TheLawIsExactOverOneByUnits) {
  const EnginesByUnits measured{{16, on_units(16)}, {48, on_units(48)}, {128, on_units(128)}};
  const auto beside = beside_of(measured, 128);
  ASSERT_EQ(beside.size(), 7u);
  for (const profile::TokenEngine& one : beside) {
    EXPECT_EQ(one.prefill_units + one.decode_units, 128);
    EXPECT_NEAR(one.prompt_spec.cost.prompt_token, 80.0 / one.prefill_units, 1e-12);
    EXPECT_NEAR(one.spec.cost.prompt_token, 80.0 / one.decode_units, 1e-12);
    EXPECT_EQ(one.prompt_spec.cost.step, 10);
    EXPECT_EQ(one.prompt_spec.blocks + one.spec.blocks, 100);
  }
  EXPECT_EQ(beside[1].name.configuration, "m, prefill on 32 and decode on 96 of 128 SMs");
}

TEST(Beside, NothingIsBelievedBeyondWhatWasMeasured) {
  EXPECT_TRUE(beside_of({{128, on_units(128)}}, 128).empty());
  const auto beside = beside_of({{40, on_units(40)}, {128, on_units(128)}}, 128);
  for (const profile::TokenEngine& one : beside)
    EXPECT_GE(std::min(one.prefill_units, one.decode_units), 40);
  EXPECT_EQ(beside.size(), 3u);
  EXPECT_TRUE(beside_of({{16, on_units(16)}, {32, on_units(32)}}, 128).empty());
}

// Wherever either says that it is crowded; what bends the other way is straightened, never faster.
TEST(Beside, WhereItIsCrowdedItIsOnAllShares) {
  profile::TokenEngine few = on_units(16), many = on_units(128);
  few.spec.cost.crowded = 2;
  few.spec.cost.crowded_from = 5;
  many.spec.cost.root_sequences = 1;
  for (const profile::TokenEngine& one : beside_of({{16, few}, {128, many}}, 128)) {
    const StepCost& cost = one.spec.cost;
    const double part = (1.0 / 16 - 1.0 / one.decode_units) / (1.0 / 16 - 1.0 / 128);
    EXPECT_NEAR(cost.crowded, 2 * (1 - part), 1e-12);
    EXPECT_TRUE(cost.crowded == 0 || cost.crowded_from == 5);
    for (const double n : {1.0, 2.0, 40.0})
      EXPECT_GE(cost.of_sequences(n) * (1 + 1e-12),
                (1 - part) * few.spec.cost.of_sequences(n) + part * many.spec.cost.of_sequences(n));
    EXPECT_TRUE(simulate_group(one, std::vector<Request>{{.in = 100, .out = 3}}));
  }
}

// A prompt on its share takes its time, and answers on theirs take no notice of it.
TEST(Beside, PromptsAndAnswersHaveTheirOwnTime) {
  const auto beside = beside_of({{16, on_units(16)}, {128, on_units(128)}}, 128);
  const auto run = simulate_group(beside[1], std::vector<Request>{{.in = 100, .out = 3}});
  ASSERT_TRUE(run);
  EXPECT_NEAR(run->requests[0].first.value, 10 + 100 * 80.0 / 32, 1e-9);
  EXPECT_NEAR((run->requests[0].end - run->requests[0].first).value,
              beside[1].move_token_ms * 100 + 10 + 80.0 / 96 + 10 + 101, 1e-9);
}

// ---- the door

// Answers of four times what an engine carries: shares of all that come that keep both promises.
double kept_of_overload(Millis tpot, double may_be_late) {
  constexpr Millis kTtft{1000}, kTpot{30};
  EngineSpec spec{.cost = {.step = 10, .sequence = 0.25, .prompt_token = 0.1},
                  .step_tokens = 512,
                  .sequences = 64,
                  .blocks = 100'000};
  Rng rng(3);
  std::vector<Request> requests(6000);
  Millis time{0};
  for (Request& one : requests) {
    time += Millis{20 * rng.exponential()};
    one = {.arrival = time, .in = 200, .out = 50 + static_cast<int>(rng.below(101))};
  }
  const Door door{.ttft = kTtft, .mean_out = 100, .tpot = tpot, .may_be_late = may_be_late};
  const auto run = simulate(spec, requests, {.door = door});
  std::size_t kept = 0;
  for (std::size_t i = requests.size() / 4; i < requests.size(); ++i) {  // it has learned
    const Served& one = run->requests[i];
    kept += !one.refused && one.ttft() <= kTtft && llm::tpot(one, requests[i]) <= kTpot;
  }
  return static_cast<double>(kept) / (0.75 * static_cast<double>(requests.size()));
}

// 44 at once take 30 ms per token, prompts that come between included: 14.8 a second, 0.29 of all.
TEST(Door, WhatIsLetInIsInTime) {
  EXPECT_LT(kept_of_overload({}, 0), 0.02);  // 64 at once: 39 ms
  for (const double may_be_late : {0.0, 0.01, 0.1}) {
    EXPECT_GT(kept_of_overload(Millis{30}, may_be_late), 0.22) << may_be_late;
    EXPECT_LT(kept_of_overload(Millis{30}, may_be_late), 0.30) << may_be_late;
  }
}

// ---- the plain one

struct Case {
  EngineSpec spec;
  std::vector<Request> requests;
  Loop loop;
};

Case random_case(Rng& rng) {
  const auto upto = [&](int most) {
    return 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(most)));
  };
  Case one;
  one.spec.cost = kCost;
  if (rng.below(2) == 0) {
    one.spec.cost.root_sequences = 0;
    one.spec.cost.crowded = 0.75;
    one.spec.cost.crowded_from = static_cast<int>(rng.below(6));
    one.spec.cost.mixed = 3;
  }
  one.spec.sequences = upto(rng.below(4) ? 12 : 100);
  one.spec.step_tokens = one.spec.sequences + upto(rng.below(2) ? 20 : 300);
  one.spec.blocks = upto(rng.below(2) ? 20 : 200);
  one.loop.in_flight = rng.below(2) ? upto(20) : 0;
  std::vector<int> prefix_tokens;
  for (int k = upto(3); k > 0; --k) prefix_tokens.push_back(upto(60));
  Millis time{0};
  for (int k = upto(60); k > 0; --k) {
    time += Millis{rng.below(3) ? 20 * rng.exponential() : 0};
    Request request{.arrival = time, .in = upto(120), .out = upto(rng.below(4) ? 60 : 1)};
    if (rng.below(2)) {
      request.prefix = static_cast<int>(rng.below(prefix_tokens.size()));
      request.prefix_tokens = prefix_tokens[static_cast<std::size_t>(request.prefix)];
      request.in += request.prefix_tokens;
    } else if (rng.below(3) == 0) {
      request.came = upto(request.in) - 1;
    }
    one.requests.push_back(request);
  }
  if (one.loop.in_flight == 0 && rng.below(2))
    one.loop.door = {.ttft = Millis{rng.below(3) ? 300 * rng.uniform() : 0},
                     .wait = Millis{rng.below(2) ? 300 * rng.uniform() : 0},
                     .request_ms = 3 * rng.uniform(),
                     .request_token_ms = 0.01 * rng.uniform(),
                     .mean_out = 30,
                     .tpot = Millis{rng.below(2) ? 60 * rng.uniform() : 0},
                     .may_be_late = 0.3 * rng.uniform()};
  return one;
}

TEST(Engine, IsThePlainOne) {
  std::int64_t preemptions = 0, hits = 0, refused = 0, turned_away = 0;
  const int rounds = test_rounds(400);
  for (int seed = 0; seed < rounds; ++seed) {
    Rng rng(static_cast<std::uint64_t>(seed));
    const Case one = random_case(rng);
    const auto run = simulate(one.spec, one.requests, one.loop);
    ASSERT_TRUE(run) << to_string(run.error());
    const EngineRun plain = PlainEngine(one.spec, one.requests, one.loop).run();
    ASSERT_EQ(*run, plain) << "seed " << seed;
    preemptions += run->preemptions;
    for (const Served& served : run->requests) {
      hits += served.cached > 0;
      refused += served.refused;
      turned_away += served.refused && one.loop.door.ttft.value > 0;
    }
  }
  EXPECT_GT(preemptions, rounds);  // the cases are about something
  EXPECT_GT(hits, rounds);
  EXPECT_GT(refused, rounds / 10);
  EXPECT_GT(turned_away, rounds);
}

}  // namespace
}  // namespace partita::llm
