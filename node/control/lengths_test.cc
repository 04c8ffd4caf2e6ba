#include "control/lengths.h"

#include <gtest/gtest.h>

#include <cmath>

#include "control/testing/brain_fixture.h"

namespace partita::control {
namespace {

plan::Service speaking(plan::Tokens in, plan::Tokens out) {
  plan::Service service = wanted_service("s", 10);
  service.tokens = plan::TokenTerms{.ttft = Millis{900}, .lengths = plan::TokenPair{in, out}};
  return service;
}

struct Minutes {
  std::vector<LengthKept> kept;
  Lengths lengths{kept};
  Report report;

  void see(int minutes, double mean_in, double mean_out, double answers_per_s = 10) {
    ServersSeen seen;
    seen.loads.push_back({.service = "s"});
    seen.loads.back().tokens =
        actuate::TokenTraffic{answers_per_s * mean_in, answers_per_s * mean_out, mean_in, mean_out};
    for (int m = 0; m < minutes; ++m) lengths.see(seen, report);
  }
  double mean_out(const plan::Service& told) const {
    return plan::mean_of(*lengths.corrected({{told}, 0, {}, {}}).services.front().tokens).out;
  }
};

TEST(Lengths, AreAtLeastWhatWasMeasuredAndAtMostAStepMore) {
  for (const plan::Tokens& out : {plan::Tokens{100}, plan::Tokens{plan::LognormalTokens{100, 1.5}},
                                  plan::Tokens{plan::ListedTokens{50, 100, 150}}})
    for (const double measured : {3.0, 20.0, 79.0, 106.0, 140.0, 333.0, 2500.0}) {
      Minutes now;
      const plan::Service told = speaking(plan::LognormalTokens{400, 1}, out);
      now.lengths.begin({told});
      now.see(200, 400, measured);
      EXPECT_GE(now.mean_out(told), measured * 0.94) << measured;
      EXPECT_LE(now.mean_out(told), measured * 1.3) << measured;
      EXPECT_EQ(now.kept.front().in, 1);
    }
}

TEST(Lengths, FewAnswersAndNoiseMoveNothing) {
  Minutes now;
  const plan::Service told = speaking(400, 100);
  now.lengths.begin({told});
  now.see(500, 400, 900, 0.1);  // of 150 answers: 0.98 a minute is left of those before
  EXPECT_EQ(now.mean_out(told), 100);
  Minutes noisy;
  noisy.lengths.begin({told});
  for (int k = 0; k < 300; ++k) noisy.see(1, 400 + 15 * std::sin(k), 100 - 15 * std::cos(k));
  EXPECT_EQ(noisy.kept, (std::vector<LengthKept>{{"s", 400, 100, 1, 1}}));
  EXPECT_TRUE(noisy.report.take_news().empty());
}

TEST(Lengths, WhatWasLearnedStaysWithTheLengthsThatItCorrects) {
  Minutes now;
  const plan::Service told = speaking(400, 100);
  now.lengths.begin({told});
  now.see(100, 800, 300);
  const double factor = now.kept.front().out;
  EXPECT_GT(factor, 2.9);
  EXPECT_EQ(now.report.take_news().size(), 1U);
  now.lengths.begin({told, wanted_service("another", 5)});
  EXPECT_EQ(now.kept.size(), 1U);
  EXPECT_EQ(now.kept.front().out, factor);
  now.lengths.begin({speaking(400, 200)});
  EXPECT_EQ(now.kept.front().out, 1);
  now.lengths.begin({});
  EXPECT_TRUE(now.kept.empty());
}

// Prompts of 100 and 300 tokens with answers of 10 and 50: each is taken times as much, together.
TEST(Lengths, OfATraceAreTakenTimesAsMuch) {
  Minutes now;
  plan::Service told = speaking(1, 1);
  told.tokens->lengths = plan::TokenTrace{
      .file = "t.csv",
      .requests = std::make_shared<const std::vector<plan::TracedRequest>>(
          std::vector<plan::TracedRequest>{{Seconds{0}, 100, 10}, {Seconds{1}, 300, 50}})};
  now.lengths.begin({told});
  now.see(100, 200, 30);
  EXPECT_EQ(now.mean_out(told), 30);
  now.see(300, 200, 90);
  EXPECT_GE(now.mean_out(told), 90 / 1.06);
  EXPECT_LE(now.mean_out(told), 90 * 1.1 * 1.01);
  const double times = now.kept.front().out;
  const plan::Service is = now.lengths.corrected({{told}, 0, {}, {}}).services.front();
  Rng rng(1);
  for (int k = 0; k < 20; ++k) {
    const plan::Length one = plan::drawn(*is.tokens, rng);
    EXPECT_EQ(one.out, std::lround((one.in == 100 ? 10 : 50) * times));
  }
  EXPECT_EQ(plan::differences(told, is).size(), 1U);
}

TEST(Lengths, APrefixCountsAsTheGatewayCountsIt) {
  Minutes now;
  plan::Service told = speaking(100, 100);
  told.tokens->prefix_share = 0.5;
  told.tokens->prefix_tokens = 999;
  now.lengths.begin({told});
  now.see(100, 550, 100);
  EXPECT_EQ(now.kept, (std::vector<LengthKept>{{"s", 550, 100, 1, 1}}));
}

}  // namespace
}  // namespace partita::control
