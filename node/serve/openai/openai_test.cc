// What is read of OpenAI's requests and events, where prompts begin alike, what a replica is
// expected to do, and limits of keys; the wire forms have a fuzz target besides.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "serve/openai/answer_pace.h"
#include "serve/openai/answer_verdict.h"
#include "serve/openai/engine_guess.h"
#include "serve/openai/engine_metrics.h"
#include "serve/openai/event_stream.h"
#include "serve/openai/openai_request.h"
#include "serve/openai/prefix_index.h"
#include "serve/openai/token_limits.h"
#include "serve/openai/token_recents.h"

namespace partita::serve {
namespace {

using Kind = StreamEvent::Kind;
constexpr std::int64_t kMs = 1'000'000;

Kind kind_of(const std::string& data) { return read_event("data: " + data + "\n\n").kind; }

TEST(ReadEvent, SaysWhatItIs) {
  EXPECT_EQ(kind_of("[DONE]"), Kind::done);
  EXPECT_EQ(kind_of(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})"), Kind::other);
  EXPECT_EQ(kind_of(R"({"choices":[{"delta":{"content":"a"}}]})"), Kind::token);
  EXPECT_EQ(kind_of(R"({"choices":[{"delta":{"reasoning_content":"a"}}]})"), Kind::token);
  EXPECT_EQ(kind_of(R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})"), Kind::token);
  EXPECT_EQ(kind_of(R"({"choices":[{"text":" a"}],"usage":null})"), Kind::token);
  EXPECT_EQ(kind_of(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})"), Kind::other);
  EXPECT_EQ(kind_of(R"({"choices":[],"usage":{"prompt_tokens":1}})"), Kind::usage);
  EXPECT_EQ(kind_of(R"({"error":{"message":"x"}})"), Kind::error);
  EXPECT_EQ(kind_of(R"({"error":null,"choices":[{"text":"a"}]})"), Kind::token);
  EXPECT_EQ(kind_of("{broken"), Kind::other);
  EXPECT_EQ(read_event(": ping\n\n").kind, Kind::other);
  // In a text that holds such words they are a text.
  EXPECT_EQ(kind_of(R"({"choices":[{"text":"\"usage\":{\"prompt_tokens\":9}"}]})"), Kind::token);
  EXPECT_EQ(read_event("data: {\"choices\":\ndata: [{\"text\":\"a\"}]}\n\n").kind, Kind::token);
}

TEST(MessageOfError, IsWhatTheEngineSays) {
  EXPECT_EQ(message_of_error(R"({"error":{"type":"x","message":"no \"m\"","code":404}})"),
            "no \"m\"");
  EXPECT_EQ(message_of_error(R"({"object":"error","message":"no","code":404})"), "no");
  EXPECT_EQ(message_of_error(R"({"detail":"Not Found"})"), "Not Found");
  for (const char* other : {"<html>", R"({"error":{"message":7}})", R"({"error)", "", "[1]"})
    EXPECT_EQ(message_of_error(other), other);
}

TEST(ReadEvent, SaysWhoseTokenItIs) {
  const auto choice = [](const std::string& choices) {
    return read_event("data: {\"choices\":[" + choices + "]}\n\n").choice;
  };
  EXPECT_EQ(choice(R"({"text":"a"})"), 0);
  EXPECT_EQ(choice(R"({"index":3,"delta":{"content":"a"}})"), 3);
  EXPECT_EQ(choice(R"({"delta":{"content":"a"},"index":2},{"index":1,"delta":{}})"), 2);
  EXPECT_EQ(choice(R"({"index":1,"text":"a"},{"index":0,"text":"b"})"), -1);
  EXPECT_EQ(kind_of(R"({"choices":[{"index":0.5,"text":"a"}]})"), Kind::token);
}

TEST(ReadEvent, ReadsUsage) {
  const auto event =
      read_event(R"(data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,)"
                 R"("prompt_tokens_details":{"cached_tokens":4}}})");
  EXPECT_EQ(event.usage, (TokenUsage{.prompt = 7, .completion = 5, .cached = 4}));
  EXPECT_EQ(read_answer(R"({"usage":{"prompt_tokens":7,"completion_tokens":null}})").usage,
            (TokenUsage{.prompt = 7}));
  EXPECT_EQ(read_answer(R"({"id":1})").usage, std::nullopt);
  EXPECT_EQ(read_answer("Internal Server Error").usage, std::nullopt);
}

// A stream remembers what is around a text; what it says of an event is what the event says.
TEST(EventStream, SaysOfEachEventWhatItSaysAlone) {
  const auto framed = [](const std::string& text,
                         const std::string& rest = "\"}}],\"usage\":null}") {
    return R"(data: {"id":"a","choices":[{"index":0,"delta":{"content":")" + text + rest + "\n\n";
  };
  const std::string texts[] = {"a",
                               "b",
                               "",
                               " c",
                               R"(\")",
                               R"(\\)",
                               "d",
                               R"(","role":")",
                               R"(","x":")",
                               R"("}}],"error":{"message":")",
                               "line\ndata: ",
                               "\r",
                               "e{}[]:,",
                               "\xC3\xA4",
                               R"("}}],"usage":{"prompt_tokens":1},"y":[{"z":{"w":")"};
  EventStream stream;
  int events = 0;
  const auto same = [&](const StreamEvent& event) {
    const StreamEvent alone = read_event(event.bytes);
    EXPECT_EQ(event.kind, alone.kind) << event.bytes;
    EXPECT_EQ(event.usage, alone.usage) << event.bytes;
    EXPECT_EQ(event.text, alone.text) << event.bytes;
    EXPECT_EQ(event.choice, alone.choice) << event.bytes;
    ++events;
  };
  for (int i = 0; i < 2; ++i)
    for (const std::string& text : texts)
      for (const std::string& one :
           {framed("first"), framed(text), framed(text, R"("}}],"usage":{"prompt_tokens":2}})"),
            framed(text, R"(","tool_calls":[{"index":0}]}}]})"), framed(text, "broken"),
            framed(text, R"("}},{"delta":{"content":"other"}}]})"),
            R"(data: {"choices":[{"index":5,"delta":{"content":")" + text + "\"}}]}\n\n",
            framed(text)})
        EXPECT_TRUE(stream.take(one, same));
  EXPECT_GE(events, 2 * 15 * 7);
}

TEST(OpenaiRequest, TheEngineGetsWhatItsClientSent) {
  const std::string body =
      R"( {"messages":[{"role":"user","content":"\"model\""}], "model" : "chat","n":2} )";
  const auto request = parse_openai_request(body);
  ASSERT_TRUE(request) << to_string(request.error());
  EXPECT_EQ(request->model, "chat");
  EXPECT_EQ(request->prompt, R"([{"role":"user","content":"\"model\""}])");
  EXPECT_EQ(engine_body(*request, "org/m"),
            R"({"messages":[{"role":"user","content":"\"model\""}], "model" : "org/m","n":2} )");
}

TEST(OpenaiRequest, AsksForUsageWhateverTheClientSays) {
  const std::string body = R"({"model":"m","stream":true})";
  EXPECT_EQ(engine_body(*parse_openai_request(body), "m"),
            R"({"stream_options":{"include_usage":true},"model":"m","stream":true})");
  const auto sent = [](const std::string& options, const std::string& stream = "true") {
    const std::string behind = R"({"model":"m","stream":)" + stream + options + "}";
    const std::string before =
        "{" + options.substr(1) + R"(,"stream":)" + stream + R"(,"model":"m"})";
    const auto request = parse_openai_request(behind), other = parse_openai_request(before);
    const std::string made = engine_body(*request, "m");
    EXPECT_EQ(made.find("include_usage\":true") != std::string::npos,
              engine_body(*other, "m").find("include_usage\":true") != std::string::npos);
    EXPECT_EQ(adds_usage(*request), made != behind) << "what is added is kept back";
    return made.substr(behind.size() - options.size() - 1);
  };
  EXPECT_EQ(sent(R"(,"stream_options":{"x":1})"),
            R"(,"stream_options":{"include_usage":true,"x":1}})");
  EXPECT_EQ(sent(R"(,"stream_options":{"include_usage":false, "continuous_usage_stats":true})"),
            R"(,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(sent(R"(,"stream_options":null)"), R"(,"stream_options":{"include_usage":true}})");
  for (const char* options : {R"(,"stream_options":{"include_usage":true,"x":1})",
                              R"(,"stream_options":{"x":1,"include_usage":true})"})
    EXPECT_EQ(sent(options), options + std::string("}"));
  EXPECT_EQ(sent(R"(,"stream_options":{"x":1})", "false"), R"(,"stream_options":{"x":1}})");
  for (const char* bad : {"", "[]", R"({"n":1})", R"({"model":1})", R"({"model":"a","model":"b"})",
                          R"({"model":"a","stream_options":1})",
                          R"({"model":"a","stream_options":{},"stream_options":{}})",
                          R"({"model":"a","stream":1})", R"({"model":"a"} x)"})
    EXPECT_FALSE(parse_openai_request(bad)) << bad;
}

TEST(PrefixIndex, KnowsBeginningsAndForgetsTheOldest) {
  const std::string text(10 * kPrefixBytes + 5, 'a');
  const PrefixHashes all = prefix_hashes(text);
  ASSERT_EQ(all.size(), 10u);
  PrefixIndex index(12);
  EXPECT_EQ(index.known(all), 0u);
  index.add(all);
  EXPECT_EQ(index.known(all), 10u);
  EXPECT_EQ(index.known(prefix_hashes(text.substr(0, 3 * kPrefixBytes) + std::string(300, 'b'))),
            3u);
  EXPECT_EQ(index.known(prefix_hashes(text, 1)), 0u);  // behind other tools
  index.add(prefix_hashes(std::string(5 * kPrefixBytes, 'c')));
  EXPECT_EQ(index.known(all), 7u);
}

profile::TokenEngine known_engine() {
  profile::TokenEngine known;
  known.spec = {.cost = {.step = 10, .sequence = 1, .prompt_token = 0.1},
                .step_tokens = 1000,
                .sequences = 4};
  known.request_ms = 2;
  return known;
}

TEST(EngineGuess, CountsWhatIsInFront) {
  const profile::TokenEngine known = known_engine();
  EngineGuess guess({&known}, 0, std::make_shared<EngineFactors>());
  const std::int64_t zero = 1'000'000 * kMs;
  EXPECT_EQ(guess.ttft(100, 0, zero), (2 + 10 + 10) * kMs);
  EXPECT_EQ(guess.ttft(100, 90, zero), (2 + 10 + 1) * kMs);
  EXPECT_EQ(guess.ttft(2500, 0, zero), (2 + 3 * 10 + 250) * kMs);
  GuessedRequest first{.prompt = 500}, second{.prompt = 100};
  guess.begin(first, zero);
  // Half a step that runs, one for both, and all their tokens.
  EXPECT_EQ(guess.ttft(100, 0, zero), (2 + 5 + 10 + 60) * kMs);
  EXPECT_EQ(guess.ttft(100, 0, zero + 20 * kMs), (2 + 5 + 10 + 40) * kMs);
  guess.begin(second, zero);
  guess.first_token(first, zero + first.expected, true);  // as expected: nothing is learned
  EXPECT_EQ(guess.open(), 2);
  EXPECT_EQ(guess.tpot(zero), 11 * kMs);
  guess.tokens(first, 7);
  EXPECT_EQ(guess.tokens_held(), 507);
  guess.end(first, 0, zero);
  guess.end(second, 0, zero);
  EXPECT_EQ(guess.open(), 0);
  EXPECT_EQ(guess.tokens_held(), 0);
  EXPECT_EQ(guess.ttft(100, 0, zero), (2 + 10 + 10) * kMs);
}

// A first token that was assumed and then came is one sequence, and its place is free at its end.
TEST(EngineGuess, CountsAnAssumedFirstTokenOnce) {
  const profile::TokenEngine known = known_engine();
  EngineGuess guess({&known}, 0, std::make_shared<EngineFactors>());
  GuessedRequest one{.prompt = 500};
  guess.begin(one, kMs);
  guess.first_token(one, 2 * kMs, false);
  guess.first_token(one, 3 * kMs, true);
  guess.tokens(one, 4);
  EXPECT_EQ(guess.open(), 1);
  EXPECT_EQ(guess.tokens_held(), 504);
  guess.end(one, 0, 9 * kMs);
  EXPECT_EQ(guess.open(), 0);
  EXPECT_EQ(guess.tokens_held(), 0);
}

TEST(EngineGuess, LearnsFromWhatIsMeasured) {
  EngineGuess guess({}, 8, std::make_shared<EngineFactors>());
  std::int64_t now = kMs;
  for (int i = 0; i < 100; ++i) {
    GuessedRequest one{.prompt = 1000};
    guess.begin(one, now);
    now += 700 * kMs;
    guess.first_token(one, now, true);
    now += 500 * kMs;
    guess.end(one, 50 * kMs, now);
  }
  EXPECT_NEAR(static_cast<double>(guess.ttft(1000, 0, now)), 700e6, 20e6);
  EXPECT_EQ(guess.limit(), 8);
}

// Nobody is expected to be slow for longer than kRatioFades after the last that was, and one client
// says no more than kMostVotes answers do, however many it had.
TEST(MeasuredRatio, FadesAndBelievesNobodyAlone) {
  constexpr std::int64_t kSecond = 1'000 * kMs;
  const std::int64_t zero = 1000 * kSecond;
  MeasuredRatio ratio;
  EXPECT_EQ(ratio.at(zero), 1);
  ratio.add(20, 1, zero);
  EXPECT_EQ(ratio.at(zero), 1);  // one answer is no rule
  for (int i = 0; i < 50; ++i) ratio.add(20, 1, zero);
  EXPECT_EQ(ratio.at(zero), 20);  // it is alone
  EXPECT_EQ(ratio.at(zero + kRatioFades), 1);
  double before = 20;
  for (int second = 0; second <= 60; ++second) {
    const double now = ratio.at(zero + second * kSecond);
    EXPECT_LE(now, before);
    before = now;
  }
  for (std::uint64_t client = 2; client < 5; ++client) ratio.add(1.1, client, zero + kSecond);
  EXPECT_LE(ratio.at(zero + kSecond), 1.1);
  ratio.add(1e9, 9, zero + kSecond);
  EXPECT_LE(ratio.at(zero + kSecond), kMostCorrection);
  ratio.add(0, 9, zero + kSecond);  // says nothing
}

// Against what its comment says, worked out anew for random samples; and never smaller where one of
// them is larger.
TEST(MeasuredRatio, IsTheWeightedMedian) {
  Rng dice(3);
  for (int round = 0; round < 300; ++round) {
    struct One {
      double ratio;
      std::uint64_t client;
      std::int64_t at;
    };
    std::vector<One> all(static_cast<std::size_t>(1 + dice.below(30)));
    std::int64_t at = kRatioFades;
    for (One& one : all) {
      at += static_cast<std::int64_t>(dice.uniform() * 3'000) * kMs;
      one = {0.1 + 10 * dice.uniform(), static_cast<std::uint64_t>(dice.below(9)), at};
    }
    const auto of = [&](const std::vector<One>& samples) {
      MeasuredRatio ratio;
      for (const One& one : samples) ratio.add(one.ratio, one.client, one.at);
      return ratio.at(at);
    };
    std::vector<std::pair<double, double>> votes{{1, kDoubt}};
    for (std::uint64_t client = 0; client < 9; ++client) {
      std::vector<One> its;
      for (const One& one : all)
        if (one.client == client) its.push_back(one);
      if (its.size() > kSamplesOfClient)
        its.erase(its.begin(), its.end() - static_cast<long>(kSamplesOfClient));
      double sum = 0;
      const auto fresh = [&](const One& one) {
        return std::max(1 - static_cast<double>(at - one.at) / static_cast<double>(kRatioFades),
                        0.0);
      };
      for (const One& one : its) sum += fresh(one);
      for (const One& one : its)
        votes.emplace_back(one.ratio, fresh(one) * (sum > kMostVotes ? kMostVotes / sum : 1));
    }
    double half = 0, below = 0;
    for (const auto& vote : votes) half += vote.second / 2;
    const double found = of(all);
    for (const auto& [ratio, weight] : votes)
      if (ratio < found) below += weight;
    EXPECT_LT(below, half);
    for (const auto& [ratio, weight] : votes)
      if (ratio == found) below += weight;
    EXPECT_GE(below, half * (1 - 1e-12));
    std::vector<One> slower = all;
    slower[static_cast<std::size_t>(dice.below(slower.size()))].ratio *= 3;
    EXPECT_GE(of(slower), found);
  }
}

// What was slow since makes no prompt hopeless; what was measured before does.
TEST(EngineGuess, KnowsWhatCanNeverBeInTime) {
  const std::int64_t zero = 1'000'000 * kMs;
  EngineGuess unknown({}, 0, std::make_shared<EngineFactors>());
  EXPECT_FALSE(unknown.soonest_ttft(1'000'000, 0, zero));
  const profile::TokenEngine known = known_engine();
  EngineGuess guess({&known}, 0, std::make_shared<EngineFactors>());
  EXPECT_EQ(guess.soonest_ttft(2500, 0, zero), (2 + 3 * 10 + 250) * kMs);
  EXPECT_EQ(guess.soonest_ttft(2500, 2400, zero), (2 + 10 + 10) * kMs);
  std::vector<GuessedRequest> slow(10, {.prompt = 100});
  for (GuessedRequest& one : slow) {
    guess.begin(one, zero);
    guess.first_token(one, zero + 5000 * kMs, true);
  }
  EXPECT_GT(guess.ttft(100, 0, zero), 500 * kMs);
  EXPECT_EQ(guess.soonest_ttft(2500, 0, zero), (2 + 3 * 10 + 250) * kMs);
  for (GuessedRequest& one : slow) guess.end(one, 0, zero + 5000 * kMs);
  EXPECT_EQ(guess.ttft(100, 0, zero + 5000 * kMs + kRatioFades), (2 + 10 + 10) * kMs);
}

// Two choices, of which one stops early and one is slow: that one's gaps, whoever is in between.
TEST(AnswerPace, IsThatOfTheSlowestChoice) {
  SecondsHistogram gaps(kTokenBounds);
  AnswerPace pace(2);
  EXPECT_EQ(pace.tpot(9), 0);
  for (int i = 0; i < 11; ++i) {
    pace.add(0);
    if (i < 3) pace.add(1);
    EXPECT_EQ(pace.fresh(), i < 3 ? 2 : 1);
    pace.came((100 + 70 * i) * kMs, gaps);
  }
  EXPECT_EQ(pace.first(), 100 * kMs);
  EXPECT_EQ(pace.events(), 14);
  EXPECT_EQ(pace.tpot(14), 70 * kMs);
  EXPECT_EQ(pace.tpot(0), 70 * kMs);
  EXPECT_EQ(gaps.count(), 10 + 2);
  EXPECT_NEAR(gaps.sum(), 12 * 0.070, 1e-9);
  EXPECT_EQ(pace.tpot(28), 700 * kMs / 21);  // 22 tokens in 11 events, and 6 in 3
  pace.restart();
  EXPECT_EQ(pace.events() + pace.first() + pace.tpot(5), 0);
  pace.add(-1);  // a token of each in one event
  pace.came(kMs, gaps);
  pace.add(-1);
  pace.came(6 * kMs, gaps);
  EXPECT_EQ(pace.tpot(4), 5 * kMs);
}

TEST(AnswerVerdict, SaysOfWhom) {
  const auto fate = [](int status, bool other = false) {
    return fate_of(what_says(status, other, true), status);
  };
  EXPECT_EQ(fate(200), &TokenFates::answered);
  for (const int status : {400, 413, 422}) EXPECT_EQ(fate(status), &TokenFates::rejected);
  EXPECT_EQ(fate(429), &TokenFates::full);
  for (const int status : {401, 403, 404, 405, 500, 501, 502, 503, 301, 418})
    EXPECT_EQ(fate(status), &TokenFates::failed) << status;
  for (const int status : {404, 405, 501}) EXPECT_EQ(fate(status, true), &TokenFates::rejected);
  EXPECT_EQ(fate(401, true), &TokenFates::failed);
  for (const int status : {200, 204, 307})
    EXPECT_EQ(fate_of(what_says(status, false, false), status), &TokenFates::failed);
}

TEST(ReadAnswer, KnowsWhatIsNone) {
  const auto good = [](std::string_view text) { return read_answer(text).good; };
  EXPECT_TRUE(good(R"( {"choices":[],"error":null} )"));
  EXPECT_TRUE(good(R"({"data":[{"embedding":[0.5,NaN]}]})"));
  for (const char* const text :
       {"", "[]", "null", "<html>", R"({"a":1)", R"({"a":1}{})", R"({"error":{"message":"x"}})"})
    EXPECT_FALSE(good(text)) << text;
}

// Of one whose end alone is seen, the promises are held against every first token that there might
// have been: late is what none of them explains.
TEST(AnswerVerdict, AWholeAnswerIsJudgedByItsEnd) {
  plan::Terms terms;
  terms.tokens.emplace();
  for (const double ttft : {0.0, 800.0})
    for (const double tpot : {0.0, 50.0})
      for (std::int64_t tokens : {0, 1, 2, 30})
        for (std::int64_t e2e = 100; e2e < 4000; e2e += 100) {
          terms.tokens->ttft = Millis{ttft};
          terms.tokens->tpot = Millis{tpot};
          bool might = false;
          for (std::int64_t first = 1; first <= e2e; ++first) {
            const double each =
                tokens > 1 ? static_cast<double>(e2e - first) / static_cast<double>(tokens - 1) : 0;
            const bool at_end = tokens > 1 || first == e2e;
            might = might || (at_end && !(ttft > 0 && static_cast<double>(first) > ttft) &&
                              !(tpot > 0 && each > tpot));
          }
          EXPECT_EQ(keeps(terms, {.e2e = e2e * kMs, .tokens = tokens}), might)
              << ttft << " " << tpot << " " << tokens << " " << e2e;
        }
  EXPECT_TRUE(keeps(terms, {.e2e = 9'000 * kMs}));  // of how many tokens, nobody says
  EXPECT_FALSE(keeps(terms, {.ttft = 801 * kMs, .tpot = kMs, .e2e = 900 * kMs}));
  EXPECT_FALSE(keeps(terms, {.ttft = kMs, .tpot = 51 * kMs, .e2e = 900 * kMs}));
  EXPECT_FALSE(keeps(terms, {.e2e = kMs, .empty = true}));
  EXPECT_TRUE(keeps(terms, {.ttft = kMs, .tpot = 50 * kMs, .e2e = 9'000 * kMs}));
}

// Bytes of a picture are no text.
TEST(OpenaiRequest, CountsPicturesByTheirNumber) {
  const std::string picture = "data:image/png;base64," + std::string(440'000, 'A');
  const nlohmann::json with = {
      {"model", "m"},
      {"messages",
       {{{"role", "user"},
         {"content",
          {{{"type", "text"}, {"text", "what is in the picture?"}},
           {{"type", "image_url"}, {"image_url", {{"url", picture}}}}}}}}}};
  const std::string body = with.dump();
  const auto request = parse_openai_request(body);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->media, 1);
  EXPECT_LT(request->text_bytes, 200u);
  EXPECT_NEAR(guessed_prompt_tokens(*request, 4), kMediaTokens, 50);
  const auto text = parse_openai_request(
      R"({"model":"m","n":3,"messages":[{"role":"user","content":"image_url"}],"tools":[1]})");
  EXPECT_EQ(text->media, 0);
  EXPECT_EQ(text->text_bytes, text->prompt.size() + text->tools.size());
  EXPECT_EQ(text->answers, 3);
  EXPECT_TRUE(
      parse_openai_request(R"({"model":"m","messages":[{"content":[1,{"image_url":2}]},3]})"));
}

TEST(OpenaiRequest, SaysHowManyTokensItMayComeTo) {
  const auto most = [](const std::string& rest) {
    return parse_openai_request(R"({"model":"m",)" + rest + "}")->most_tokens;
  };
  EXPECT_EQ(most(R"("max_tokens":20)"), 20);
  EXPECT_EQ(most(R"("max_completion_tokens":30,"n":2,"max_tokens":20)"), 60);
  EXPECT_EQ(most(R"("max_tokens":null,"n":3)"), 0);
  EXPECT_EQ(most(R"("max_tokens":"20")"), 0);  // the engine refuses that
  EXPECT_EQ(most(R"("max_tokens":1e300)"), 1e9);
  EXPECT_EQ(most(R"("max_tokens":1e9,"n":1e9)"), 1e9);
  EXPECT_EQ(most(R"("max_tokens":20,"best_of":5,"n":2)"), 100);
  EXPECT_EQ(most(R"("max_tokens":20,"prompt":["a","b, [c]","d"],"n":2)"), 120);
  EXPECT_EQ(most(R"("max_tokens":20,"prompt":[[1,2,3],[4]])"), 40);
  EXPECT_EQ(most(R"("max_tokens":20,"prompt":[1,2,3])"), 20);
  EXPECT_EQ(most(R"("max_tokens":20,"prompt":"[1,2,3]")"), 20);
  EXPECT_EQ(most(R"("max_tokens":20,"messages":[{},{}])"), 20);
  const auto list = parse_openai_request(R"({"model":"m","prompt":["a","b"],"n":3,"best_of":4})");
  EXPECT_EQ(list->answers, 6);
  EXPECT_EQ(most_answered(*list, 50), 2 * 4 * 50);
  const auto many = parse_openai_request(R"({"model":"m","n":1e300})");
  EXPECT_EQ(many->answers, kMostAnswers);
  EXPECT_EQ(most_answered(*many, 50), 1e9);
}

TEST(KeyUse, WaitsForTheMinuteToPass) {
  const KeyLimits limits{.requests = 2, .tokens = 600};
  KeyUse use;
  const std::int64_t zero = 5'000 * kMs, second = 1'000 * kMs;
  EXPECT_EQ(use.ask(limits, {}, zero), 0);
  EXPECT_EQ(use.ask(limits, {}, zero), 0);
  EXPECT_NEAR(static_cast<double>(use.ask(limits, {}, zero)), 30e9, 10);
  EXPECT_EQ(use.ask(limits, {}, zero + 31 * second), 0);
  use.ended(899);  // with the one asked for 300 below nothing
  EXPECT_NEAR(static_cast<double>(use.ask(limits, {}, zero + 46 * second)), 15.1e9, 10);
  EXPECT_EQ(KeyUse{}.ask({}, {.tokens = 1e9}, zero), 0);
  KeyUse owes;
  EXPECT_EQ(owes.ask({.tokens = 1}, {.tokens = 1e15}, zero), 0);
  EXPECT_GT(owes.ask({.tokens = 1}, {}, zero), 1'000'000'000 * kMs);
}

TEST(TokenRecents, ForgetAfterHalfAMinute) {
  TokenRecents recents;
  constexpr std::int64_t kSecond = 1'000 * kMs;
  const auto at = [&](int second) { return (1000 + second) * kSecond; };
  for (int second = 0; second < 20; ++second) {
    recents.first_token(at(second), 100 * kMs);
    recents.answered(at(second), {.prompt = 50, .completion = 10}, true, 5 * kMs);
  }
  const actuate::TokenTraffic seen = recents.traffic(at(20));
  EXPECT_DOUBLE_EQ(seen.out_per_s, 10);
  EXPECT_DOUBLE_EQ(seen.in_per_s, 50);
  EXPECT_DOUBLE_EQ(seen.mean_in, 50);
  EXPECT_NEAR(*seen.ttft_p99_ms, 100, 1);
  EXPECT_NEAR(*seen.tpot_p50_ms, 5, 0.1);
  const actuate::TokenTraffic later = recents.traffic(at(60));
  EXPECT_EQ(later.out_per_s, 0);
  EXPECT_FALSE(later.ttft_p50_ms);
}

// What nobody counted makes requests no shorter; what is refused was asked for as well.
TEST(TokenRecents, LearnLengthsOfWhatWasToldAndOfWhatWasRefused) {
  TokenRecents recents;
  const std::int64_t now = 1'000'000 * kMs;
  for (int i = 0; i < 4; ++i) recents.answered(now, {.prompt = 1000, .completion = 8}, true, 0);
  for (int i = 0; i < 6; ++i) recents.answered(now, {.prompt = 0, .completion = 2}, false, 0);
  EXPECT_DOUBLE_EQ(recents.traffic(now).mean_in, 1000);
  EXPECT_DOUBLE_EQ(recents.traffic(now).mean_out, 8);
  EXPECT_GT(recents.traffic(now).out_per_s, 4 * 8 / 30.0);  // all of it was computed
  for (int i = 0; i < 4; ++i) recents.refused(now, 3000);
  EXPECT_DOUBLE_EQ(recents.traffic(now).mean_in, 2000);
  EXPECT_DOUBLE_EQ(recents.traffic(now).mean_out, 8);
}

// As vLLM, SGLang and llama.cpp write them.
TEST(EngineMetrics, SaysWhatEnginesSayOfTheirCaches) {
  const auto vllm = read_engine_metrics(
      "# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.\n"
      "# TYPE vllm:kv_cache_usage_perc gauge\n"
      "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a}b\"} 0.25\n"
      "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 3.0\n"
      "vllm:num_preemptions_total{engine=\"0\",model_name=\"m\"} 1.2e+01\n"
      "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",engine=\"0\","
      "num_gpu_blocks=\"27961\",num_gpu_blocks_override=\"None\"} 1.0\n");
  EXPECT_EQ(vllm,
            (EngineMetrics{
                .kv_cache_usage = 0.25, .kv_tokens = 16 * 27961, .waiting = 3, .preemptions = 12}));
  // Two ranks: the fuller cache, the smaller room, all that wait.
  const auto two = read_engine_metrics(
      "vllm:gpu_cache_usage_perc{engine=\"0\"} 0.5\nvllm:gpu_cache_usage_perc{engine=\"1\"} 0.75\n"
      "vllm:num_requests_waiting{engine=\"0\"} 1\nvllm:num_requests_waiting{engine=\"1\"} 2\r\n");
  EXPECT_EQ(two, (EngineMetrics{.kv_cache_usage = 0.75, .waiting = 3}));
  const auto sglang = read_engine_metrics(
      "sglang:token_usage{model_name=\"m\"} 0.28 1700000000\n"
      "sglang:max_total_num_tokens{model_name=\"m\"} 420123\nsglang:num_queue_reqs{} 7\n");
  EXPECT_EQ(sglang, (EngineMetrics{.kv_cache_usage = 0.28, .kv_tokens = 420123, .waiting = 7}));
  EXPECT_EQ(read_engine_metrics("llamacpp:kv_cache_usage_ratio 0.5").kv_cache_usage, 0.5);
  for (const char* nothing :
       {"", "<html>", "vllm:kv_cache_usage_perc NaN\n", "vllm:kv_cache_usage_perc{a=\"1\" 0.5\n",
        "vllm:kv_cache_usage_perc 1.5\n", "vllm:kv_cache_usage_perc\n",
        "vllm:cache_config_info{num_gpu_blocks=\"None\",block_size=\"16\"} 1\n"})
    EXPECT_EQ(read_engine_metrics(nothing), EngineMetrics{}) << nothing;
}

}  // namespace
}  // namespace partita::serve
