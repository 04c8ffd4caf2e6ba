#include "llm/engine/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace partita::llm {
namespace {

struct Moments {
  double mean = 0, cv = 0;
};
template <class Value>
Moments moments(const std::vector<Request>& requests, Value value) {
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const double one = value(i);
    sum += one;
    squares += one * one;
  }
  const double n = static_cast<double>(requests.size()), mean = sum / n;
  return {mean, std::sqrt(squares / n - mean * mean) / mean};
}

TEST(Workload, LengthsAndGapsHaveTheirMoments) {
  const Workload workload{.in = LognormalTokens{800, 1.5}, .out = ListedTokens{10, 30, 50}};
  const auto requests = requests_of(workload, Rps{4}, 200'000, 3);
  ASSERT_TRUE(requests);
  const Moments in = moments(*requests, [&](std::size_t i) { return (*requests)[i].in; });
  EXPECT_NEAR(in.mean / 800, 1, 0.02);
  EXPECT_NEAR(in.cv / 1.5, 1, 0.05);
  const Moments out = moments(*requests, [&](std::size_t i) { return (*requests)[i].out; });
  EXPECT_NEAR(out.mean / 30, 1, 0.01);
  EXPECT_NEAR(out.cv / (std::sqrt(800.0 / 3) / 30), 1, 0.01);
  const Moments gap = moments(*requests, [&](std::size_t i) {
    return (*requests)[i].arrival.value - (i > 0 ? (*requests)[i - 1].arrival.value : 0);
  });
  EXPECT_NEAR(gap.mean / 250, 1, 0.02);
  EXPECT_NEAR(gap.cv, 1, 0.02);
}

TEST(Workload, ASeedSaysAllAndLengthsDoNotShiftArrivals) {
  const Workload one{.in = LognormalTokens{100, 1}, .out = 7};
  const Workload other{.in = 100, .out = LognormalTokens{7, 1}};
  const auto a = requests_of(one, Rps{1}, 50, 9), b = requests_of(one, Rps{1}, 50, 9),
             c = requests_of(one, Rps{1}, 50, 10), d = requests_of(other, Rps{1}, 50, 9);
  ASSERT_TRUE(a && b && c && d);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ((*a)[i].in, (*b)[i].in);
    EXPECT_EQ((*a)[i].arrival, (*d)[i].arrival);
  }
  EXPECT_NE((*a)[49].arrival, (*c)[49].arrival);
}

TEST(Workload, AShareOfRequestsHasThePrefix) {
  const auto requests = requests_of({.in = 50, .out = 1, .prefix_share = 0.25, .prefix_tokens = 64},
                                    Rps{0}, 10'000, 1);
  ASSERT_TRUE(requests);
  int with = 0;
  for (const Request& request : *requests) {
    with += request.prefix == 0;
    EXPECT_EQ(request.in, request.prefix == 0 ? 65 : 50);
    EXPECT_EQ(request.arrival, Millis{0});
  }
  EXPECT_NEAR(with, 2500, 150);
}

TEST(Workload, RefusesWhatItCannotDraw) {
  EXPECT_FALSE(requests_of({.in = 0}, Rps{1}, 1, 1));
  EXPECT_FALSE(requests_of({.in = ListedTokens{}}, Rps{1}, 1, 1));
  EXPECT_FALSE(requests_of({.out = LognormalTokens{100, 11}}, Rps{1}, 1, 1));
  EXPECT_FALSE(requests_of({.prefix_share = 1.5}, Rps{1}, 1, 1));
  EXPECT_FALSE(requests_of({}, Rps{-1}, 1, 1));
  EXPECT_FALSE(requests_of({}, Rps{1}, -1, 1));
}

constexpr char kTrace[] = "at_s,prompt_tokens,output_tokens\n4.5,374,44\n8.5,396,109\n";

TEST(TokenTrace, IsReadAndPlayed) {
  const auto trace = parse_token_trace("t.csv", kTrace);
  ASSERT_TRUE(trace);
  EXPECT_EQ(*trace, (std::vector<TracedRequest>{{Seconds{0}, 374, 44}, {Seconds{4}, 396, 109}}));
  const std::vector<Request> twice = requests_of(*trace, 2);
  EXPECT_EQ(twice[1].arrival, Millis{2000});
  EXPECT_EQ(twice[1].out, 109);
}

TEST(TokenTrace, RefusalsNameTheLine) {
  for (const char* row : {"8,0,1", "8,1,0", "8,1,x", "4,1,1", "-1,1,1", "8,1"}) {
    const auto trace = parse_token_trace("t.csv", std::string(kTrace) + row + "\n");
    ASSERT_FALSE(trace) << row;
    EXPECT_EQ(trace.error().context, "t.csv:4") << row;
  }
}

// An open loop near nothing sees every request alone; one above what the engine can do queues.
TEST(TokenTrace, AnOpenLoopQueuesWhereItMust) {
  const EngineSpec spec{
      .cost = {.step = 10, .prompt_token = 0.1}, .step_tokens = 512, .sequences = 8, .blocks = 500};
  const Workload workload{.in = 100, .out = 10};  // 20 ms to the first token, 10 ms for each after
  const auto calm = requests_of(workload, Rps{0.01}, 50, 1);
  const auto run = simulate(spec, *calm);
  ASSERT_TRUE(run);
  for (const Served& served : run->requests) EXPECT_NEAR(served.ttft().value, 20, 1e-6);
  // At most 8 sequences, 10 steps of 10 ms each at least: 80 a second, less prompts' time.
  const auto storm = requests_of(workload, Rps{200}, 2000, 1);
  const auto late = simulate(spec, *storm);
  ASSERT_TRUE(late);
  EXPECT_GT(late->requests.back().ttft(), Millis{10'000});
  EXPECT_LT(2000 / late->end.value * 1000, 80);
}

TEST(TokenTrace, reads_what_azure_publishes_as_it_is) {
  const auto trace = parse_token_trace("azure.csv",
                                       "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                       "2023-11-16 23:59:59.5000000,374,44\n"
                                       "2023-11-17 00:00:01.7500000,396,109\n");
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->size(), 2U);
  EXPECT_EQ(trace->at(0).at, Seconds{0});
  EXPECT_NEAR(trace->at(1).at.value, 2.25, 1e-6);
  EXPECT_EQ(trace->at(1).out, 109);
  const auto odd =
      parse_token_trace("azure.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n");
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().message,
            "TIMESTAMP is 'yesterday', must be a date and a time such as 2023-11-16 18:15:46.68");
}

}  // namespace
}  // namespace partita::llm
