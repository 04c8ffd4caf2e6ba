// Against a server with a script: what is sent when, and what is counted.
#include "serve/load/load_run.h"

#include <gtest/gtest.h>

#include "serve/load/load_judgement.h"
#include "serve/load/load_report.h"
#include "serve/load/testing/stub_server.h"

namespace partita::serve {
namespace {

constexpr sim::Nanos kRunMs = 1'000'000;
const char* const kMetadata =
    R"({"name": "m", "versions": ["1"], "platform": "null",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}]})";

StubServer::Script always(StubAnswer answer) {
  return [answer](long, const std::string&) { return answer; };
}

LoadOptions options_for(const StubServer& server, double seconds) {
  return {.url = *parse_url("url", server.url()),
          .connections = 32,
          .duration = static_cast<sim::Nanos>(seconds * 1e9),
          .patience = 2000 * kRunMs};
}

std::vector<LoadService> poisson(double rate, sim::Nanos slo = 100 * kRunMs) {
  return {{"m", slo, sim::ArrivalSource::poisson(Rps{rate}, Rng(3))}};
}

long arrivals_within(double rate, double seconds) {
  sim::ArrivalSource source = sim::ArrivalSource::poisson(Rps{rate}, Rng(3));
  long count = 0;
  while (source.next() < static_cast<sim::Nanos>(seconds * 1e9)) ++count;
  return count;
}

const LoadTally& only(const Result<LoadOutcome>& outcome) { return outcome->services.front(); }

TEST(LoadRun, SendsWhatIsDueAndCountsIt) {
  StubServer server({{"m", kMetadata}}, always({.after_ns = 5 * kRunMs}));
  RealClock clock;
  const auto outcome = run_load(options_for(server, 0.5), poisson(400), clock);
  ASSERT_TRUE(outcome) << to_string(outcome.error());
  EXPECT_EQ(only(outcome).offered(), arrivals_within(400, 0.5));
  EXPECT_EQ(only(outcome).completed(), only(outcome).offered());
  EXPECT_EQ(server.requests(), only(outcome).offered());
  EXPECT_GE(only(outcome).latencies().percentile(1), 5 * kRunMs);
  EXPECT_EQ(only(outcome).open(), 0);
}

// A server that stands still for 200 ms: every request that is due meanwhile waits for the rest of
// it, which a client that waits for its answers would not see.
TEST(LoadRun, AStallIsInTheLatenciesOfAllThatWereDue) {
  const auto script = [](long n, const std::string&) {
    return StubAnswer{.stalls_ns = n == 100 ? 200 * kRunMs : 0};
  };
  StubServer server({{"m", kMetadata}}, script);
  RealClock clock;
  LoadOptions options = options_for(server, 1);
  options.connections = 4;  // far fewer than what comes meanwhile
  const auto outcome = run_load(options, poisson(1000), clock);
  ASSERT_TRUE(outcome) << to_string(outcome.error());
  EXPECT_EQ(only(outcome).completed(), only(outcome).offered());
  EXPECT_GT(outcome->waited, 0);
  // About 200 of 1000 requests wait 200 ms to 0 ms, evenly: half of the stall is at 90 %.
  EXPECT_GE(only(outcome).latencies().percentile(99), 170 * kRunMs);
  EXPECT_GE(only(outcome).latencies().percentile(90), 70 * kRunMs);
}

TEST(LoadRun, TellsRefusedFailedAndResetApart) {
  const auto script = [](long n, const std::string&) {
    switch (n % 6) {
      case 0:
        return StubAnswer{.status = 503};
      case 1:
        return StubAnswer{.status = 429, .closes = true};
      case 2:
        return StubAnswer{.status = 500};
      case 3:
        return StubAnswer{.hangs_up = true};
      case 4:
        return StubAnswer{.closes = true};
      default:
        return StubAnswer{};
    }
  };
  StubServer server({{"m", kMetadata}}, script);
  RealClock clock;
  const auto outcome = run_load(options_for(server, 0.6), poisson(300), clock);
  ASSERT_TRUE(outcome) << to_string(outcome.error());
  const long n = only(outcome).offered();
  EXPECT_EQ(server.requests(), n);
  const auto of = [&](int kind) { return (n + 5 - kind) / 6; };
  EXPECT_EQ(only(outcome).refused(), of(0) + of(1));
  EXPECT_EQ(only(outcome).failed(), of(2) + of(3));
  EXPECT_EQ(only(outcome).reset(), of(3));
  EXPECT_EQ(only(outcome).completed(), of(4) + of(5));
  // Several are under way at once: whichever of its kind ended first.
  const std::string& failed = only(outcome).first_failure;
  EXPECT_TRUE(failed == "status 500" || (!failed.empty() && !failed.starts_with("status ")))
      << failed;
  const std::string& refused = only(outcome).first_refusal;
  EXPECT_TRUE(refused == "status 503" || refused == "status 429") << refused;
}

TEST(LoadRun, GoesOnWhileNobodyListens) {
  auto server = std::make_unique<StubServer>(std::map<std::string, std::string>{{"m", kMetadata}},
                                             always({}));
  RealClock clock;
  LoadOptions options = options_for(*server, 0.5);
  bool gone = false;
  options.stop = [&] {  // asked every 100 ms
    if (!std::exchange(gone, true)) return false;
    server.reset();
    return false;
  };
  const auto outcome = run_load(options, poisson(400), clock);
  ASSERT_TRUE(outcome) << to_string(outcome.error());
  EXPECT_EQ(only(outcome).offered(), arrivals_within(400, 0.5));
  EXPECT_GT(only(outcome).completed(), 0);
  EXPECT_GT(only(outcome).reset(), 50);
  EXPECT_EQ(only(outcome).first_failure, "the connection was refused, or broke");
  EXPECT_EQ(only(outcome).completed() + only(outcome).reset(), only(outcome).offered());
}

TEST(LoadRun, RequestsAreTheSameForTheSameSeed) {
  std::vector<std::vector<std::string>> seen(3);
  for (std::size_t run = 0; run < 3; ++run) {
    StubServer server({{"m", kMetadata}}, [&](long, const std::string& request) {
      seen[run].push_back(request.substr(request.find("\r\n\r\n")));
      return StubAnswer{};
    });
    RealClock clock;
    LoadOptions options = options_for(server, 0.1);
    options.connections = 1;
    options.seed = run == 2 ? 8 : 7;
    options.token = "secret";
    ASSERT_TRUE(run_load(options, poisson(200), clock));
  }
  ASSERT_GT(seen[0].size(), 3U);
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_NE(seen[0], seen[2]);
  EXPECT_NE(seen[0][0], seen[0][1]);
}

TEST(LoadRun, SaysWhatIsWrongWithTheServer) {
  StubServer server({{"m", "{\"inputs\": 3}"}}, always({}));
  RealClock clock;
  LoadOptions options = options_for(server, 0.1);
  const auto unread = run_load(options, poisson(10), clock);
  ASSERT_FALSE(unread);
  EXPECT_NE(to_string(unread.error()).find("/v2/models/m:"), std::string::npos)
      << to_string(unread.error());
  std::vector<LoadService> other = poisson(10);
  other[0].name = "other model";
  const auto unknown = run_load(options, other, clock);
  ASSERT_FALSE(unknown);
  EXPECT_NE(to_string(unknown.error()).find("status 404"), std::string::npos);
  options.url.port = 1;
  EXPECT_EQ(run_load(options, poisson(10), clock).error().code, ErrorCode::environment);
}

TEST(LoadRun, EndsWithoutAnswersInTime) {
  StubServer server({{"m", kMetadata}}, always({.after_ns = 60'000 * kRunMs}));
  RealClock clock;
  LoadOptions options = options_for(server, 0.1);
  options.patience = 200 * kRunMs;
  const auto outcome = run_load(options, poisson(100), clock);
  ASSERT_TRUE(outcome) << to_string(outcome.error());
  EXPECT_EQ(only(outcome).failed(), arrivals_within(100, 0.1));
  EXPECT_EQ(only(outcome).reset(), 0);
}

TEST(LoadRun, GoesOnUntilThereWereEnoughRequests) {
  StubServer server({{"m", kMetadata}}, always({}));
  RealClock clock;
  LoadOptions options = options_for(server, 0.01);
  options.min_requests = 150;
  const auto outcome = run_load(options, poisson(1000), clock);
  ASSERT_TRUE(outcome) << to_string(outcome.error());
  EXPECT_EQ(only(outcome).offered(), 150);
}

// ---- language models

std::vector<LoadService> chat(int requests, int in, int out) {
  LoadService one{.name = "m", .slo = 0, .arrivals = {}, .tokens = plan::TokenTerms{}};
  one.in_flight = 1;
  one.lengths.assign(static_cast<std::size_t>(requests), {in, out});
  return {std::move(one)};
}

StubAnswer streamed(int tokens) {
  std::string body;
  for (int i = 0; i < tokens; ++i) body += "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n";
  body += R"(data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":)" +
          std::to_string(tokens) + "}}\n\ndata: [DONE]\n\n";
  return {.body = body};
}

LoadOptions until_all(const StubServer& server) {
  LoadOptions options = options_for(server, 0);
  options.duration = sim::kForever;
  return options;
}

// An engine that has a prompt's beginning cached answers sooner than one that has not: what was
// asked in another run is asked in other words, of the same number.
TEST(LoadRun, PromptsAreOtherOnesEachTime) {
  std::vector<std::string> prompts;
  StubServer server({}, [&](long, const std::string& request) {
    const auto begin = request.find(R"("prompt":")") + 10;
    prompts.push_back(request.substr(begin, request.find('"', begin) - begin));
    return streamed(3);
  });
  RealClock clock;
  for (int run = 0; run < 2; ++run) {
    const auto outcome = run_load(until_all(server), chat(2, 12, 3), clock);
    ASSERT_TRUE(outcome) << to_string(outcome.error());
    EXPECT_EQ(only(outcome).completed(), 2);
    EXPECT_EQ(only(outcome).tokens.out, only(outcome).tokens.asked);
  }
  ASSERT_EQ(prompts.size(), 4U);
  for (const std::string& one : prompts) {
    EXPECT_EQ(std::ranges::count(one, ' '), 11) << one;
    EXPECT_EQ(std::ranges::count(prompts, one), 1) << one;
  }
}

TEST(LoadRun, ARefusalOfAllIsSaidWithItsReason) {
  StubServer server({},
                    always({.status = 503, .body = R"({"error":{"message":"none is ready"}})"}));
  RealClock clock;
  const LoadOptions options = until_all(server);
  const auto outcome = run_load(options, chat(3, 12, 3), clock);
  ASSERT_TRUE(outcome) << to_string(outcome.error());
  EXPECT_EQ(only(outcome).refused(), 3);
  EXPECT_EQ(only(outcome).first_refusal, "status 503: none is ready");
  const LoadReport report = report_of(options, {{"chat", 0, true}}, *outcome);
  EXPECT_NE(load_report_text(report).find("none is ready"), std::string::npos);
  EXPECT_NE(silence(report).find("all 3 requests were refused"), std::string::npos);
  EXPECT_EQ(parse_load_report("", load_report_json(report)).value(), report);
}

TEST(LoadRun, AStreamWithoutATokenIsNoAnswer) {
  StubServer server({}, always(streamed(0)));
  RealClock clock;
  const auto outcome = run_load(until_all(server), chat(3, 12, 3), clock);
  ASSERT_TRUE(outcome) << to_string(outcome.error());
  EXPECT_EQ(only(outcome).failed(), 3);
  EXPECT_EQ(only(outcome).completed(), 0);
  EXPECT_NE(only(outcome).first_failure.find("without a token"), std::string::npos);
}

TEST(LoadRun, AnswersThatAreShorterThanAskedForAreTold) {
  StubServer server({}, always(streamed(2)));
  RealClock clock;
  const LoadOptions options = until_all(server);
  const auto outcome = run_load(options, chat(3, 12, 3), clock);
  ASSERT_TRUE(outcome) << to_string(outcome.error());
  const auto doubts = load_doubts(report_of(options, {{"m", 1, true}}, *outcome));
  EXPECT_TRUE(std::ranges::any_of(doubts, [](const std::string& one) {
    return one.find("67 % of the tokens") != std::string::npos;
  }));
}

}  // namespace
}  // namespace partita::serve
