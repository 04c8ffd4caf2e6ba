// How long an engine is left to its streams: by hand, and of what is drawn.
#include "plan/streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace partita::plan {
namespace {

Terms language(Tokens out, double ttft_ms, double tpot_ms, double e2e_ms = 0) {
  Terms terms;
  terms.slo = Millis{e2e_ms};
  terms.tokens = TokenTerms{.ttft = Millis{ttft_ms}, .tpot = Millis{tpot_ms}};
  terms.tokens->lengths = TokenPair{100, std::move(out)};
  return terms;
}

TEST(Streams, TakeTheirTokensAtTheTimeThatIsPromised) {
  EXPECT_DOUBLE_EQ(drain_of(language(1000, 2000, 50)).value, 2 + 1000 * 0.05);
  EXPECT_DOUBLE_EQ(drain_of(language(1000, 2000, 0, 70'000)).value, 70);  // of the whole answer
  EXPECT_EQ(drain_of(language(1000, 2000, 0)), kUsualDrain);              // nobody says
  EXPECT_EQ(drain_of(language(10, 200, 50)), kLeastDrain);
  EXPECT_EQ(drain_of(language(100'000, 200, 50)), kMostDrain);
  std::vector<int> list(198, 300);
  list.insert(list.end(), {900, 2000});
  EXPECT_DOUBLE_EQ(drain_of(language(list, 0, 50)).value, 15);  // 198 of 200
  list[0] = 800;
  EXPECT_DOUBLE_EQ(drain_of(language(list, 0, 50)).value, 40);
}

TEST(Streams, OfATraceAreThoseThatItHas) {
  Terms terms = language(1, 0, 50);
  TokenTrace trace;
  trace.file = "t.csv";
  terms.tokens->lengths = trace;
  EXPECT_EQ(drain_of(terms), kUsualDrain);  // it is not loaded
  std::vector<TracedRequest> requests(100, {Seconds{0}, 10, 300});
  requests[3].out = 4000;
  requests[4].out = 500;
  trace.requests = std::make_shared<const std::vector<TracedRequest>>(requests);
  terms.tokens->lengths = trace;
  EXPECT_DOUBLE_EQ(drain_of(terms).value, 25);
  trace.out_times = 2;
  terms.tokens->lengths = trace;
  EXPECT_DOUBLE_EQ(drain_of(terms).value, 50);
}

// One of a hundred that are drawn is longer.
TEST(Streams, OneOfAHundredIsLonger) {
  for (const double cv : {0.3, 1.0, 2.0}) {
    const Terms terms = language(LognormalTokens{400, cv}, 0, 50);
    const double tokens = drain_of(terms).value / 0.05;
    Rng rng(5);
    int longer = 0;
    for (int i = 0; i < 20'000; ++i)
      longer += drawn(std::get<TokenPair>(terms.tokens->lengths).out, rng) > tokens;
    EXPECT_NEAR(longer, 200, 60) << cv;
  }
}

}  // namespace
}  // namespace partita::plan
