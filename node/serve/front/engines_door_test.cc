// Language models through the HTTP door, with engines behind that take time and compute nothing:
// what comes through as it is, who is asked, what happens to a request whose engine or client goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/front/testing/engines_fixture.h"
#include "serve/front/testing/scripted_engine.h"

namespace partita::serve {
namespace {

using test::json, test::RawClient, test::chat, test::post, test::quick, test::Read;
using test::read_stream, test::words;
using testing::HasSubstr;
using testing::Not;

class Engines : public test::EnginesFixture {};

TEST_F(Engines, StreamsComeAsTheyAre) {
  engine();
  begin(service());
  const auto answer = ask(post(chat("ann", 20)));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("Content-Type"), "text/event-stream; charset=utf-8");
  const Read read = read_stream(answer.body);
  EXPECT_EQ(read.text, words("ann", 20));
  EXPECT_TRUE(read.done);
  EXPECT_EQ(read.usages, 0);  // it did not ask
  EXPECT_EQ(counters().used.prompt, 3);
  EXPECT_EQ(counters().used.completion, 20);
  EXPECT_EQ(counters().ttft.count(), 1);
  EXPECT_EQ(counters().itl.count(), 19);
  EXPECT_EQ(counters().fates.answered, 1);

  json asks = chat("bob", 3);
  asks["stream_options"] = {{"include_usage", true}};
  EXPECT_EQ(read_stream(ask(post(asks)).body).usages, 1);
}

TEST_F(Engines, WholeAnswersEmbeddingsModels) {
  engine();
  begin(service());
  const json whole = json::parse(ask(post(chat("ann", 5, false))).body);
  EXPECT_EQ(whole["choices"][0]["message"]["content"], words("ann", 5));
  EXPECT_EQ(whole["model"], "m");
  EXPECT_EQ(whole["created"], 0);
  json twice = chat("ann", 5, false);
  twice["n"] = 2;
  EXPECT_EQ(ask(post(twice)).status, 400);  // rather than one answer where two are wanted
  EXPECT_EQ(counters().used.completion, 5);
  const json text = {{"model", "chat"}, {"prompt", "once upon"}, {"max_tokens", 2}, {"user", "u"}};
  EXPECT_EQ(json::parse(ask(post(text, "", "/v1/completions")).body)["choices"][0]["text"],
            words("u", 2));
  const json input = {{"model", "chat"}, {"input", "a b c"}};
  EXPECT_EQ(json::parse(ask(post(input, "", "/v1/embeddings")).body)["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(json::parse(ask("GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n").body)["data"][0]["id"],
            "chat");
  const auto model = [&](const std::string& name) {
    return ask("GET /v1/models/" + name + " HTTP/1.1\r\nHost: h\r\n\r\n");
  };
  EXPECT_EQ(json::parse(model("chat").body)["object"], "model");
  EXPECT_EQ(model("who").status, 404);
  EXPECT_EQ(json::parse(model("who").body)["error"]["type"], "invalid_request_error");
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").body,
              HasSubstr("vllm:generation_tokens_total{model_name=\"chat\"} 7\n"));
  EXPECT_EQ(ask(post(chat("x", 0), "", "/v1/nothing")).status, 404);
  const json other = {{"model", "who"}, {"prompt", ""}};
  EXPECT_EQ(ask(post(other, "", "/v1/completions")).status, 404);
}

TEST_F(Engines, ManyStreamsAreNeverMixed) {
  engine();
  engine();
  begin(service());
  std::vector<json> bodies;
  for (int i = 0; i < 40; ++i) bodies.push_back(chat("c" + std::to_string(i), 5 + i));
  const auto clients = send_all(bodies);
  for (int i = 0; i < 40; ++i)
    EXPECT_EQ(read_stream(clients[static_cast<std::size_t>(i)]->answer().body).text,
              words("c" + std::to_string(i), 5 + i));
  EXPECT_EQ(counters().used.completion, 40 * 5 + 40 * 39 / 2);
  EXPECT_EQ(engines[0]->tokens_produced() + engines[1]->tokens_produced(), 980);
  EXPECT_GT(engines[0]->requests(), 5);
  EXPECT_GT(engines[1]->requests(), 5);
}

TEST_F(Engines, AClientThatLeavesEndsItsRequest) {
  engine();
  begin(service());
  RawClient one = client();
  one.send(post(chat("ann", 100'000)));
  ASSERT_TRUE(one.wait([&] { return one.input().find("ann.3 ") != std::string::npos; }));
  EXPECT_EQ(engines[0]->open_requests(), 1);
  RawClient waits = client();
  one.leave();
  EXPECT_TRUE(waits.wait([&] { return engines[0]->open_requests() == 0; }));
  EXPECT_EQ(counters().fates.withdrawn, 1);
  EXPECT_GE(counters().used.completion, 4);
  EXPECT_TRUE(pool->idle());
}

TEST_F(Engines, AnEngineLostInTheMiddleIsSaid) {
  engine();
  begin(service());
  RawClient one = client();
  one.send(post(chat("ann", 100'000)));
  ASSERT_TRUE(one.wait([&] { return one.input().find("ann.3 ") != std::string::npos; }));
  engines.clear();
  const auto answer = one.answer();
  const Read read = read_stream(answer.body);
  EXPECT_EQ(read.errors, 1);
  EXPECT_FALSE(read.done);
  EXPECT_THAT(answer.body, HasSubstr("\"code\":\"engine_lost\""));
  EXPECT_THAT(answer.body, Not(HasSubstr("<no end>")));
  EXPECT_EQ(read.text, words("ann", static_cast<int>(counters().used.completion)));
  EXPECT_EQ(counters().fates.cut, 1);
}

// The engine is well, and answers when it is asked: it computes another prompt.
TEST_F(Engines, AStreamOfWhichNothingMoreComesIsEndedAndSaid) {
  profile::EngineSpec spec = quick();
  spec.cost.prompt_token = 3;
  engine(spec);
  begin(service(), {.shed = false, .stream_idle_ns = 300'000'000});
  RawClient one = client();
  one.send(post(chat("ann", 100'000)));
  ASSERT_TRUE(one.wait([&] { return one.input().find("ann.3 ") != std::string::npos; }));
  json longer = chat("bob", 2);
  std::string text;
  for (int i = 0; i < 400; ++i) text += "word ";
  longer["messages"][0]["content"] = text;
  RawClient other = client();
  other.send(post(longer));
  const auto answer = one.answer();
  EXPECT_THAT(answer.body, HasSubstr("\"code\":\"stream_idle\""));
  const Read read = read_stream(answer.body);
  EXPECT_EQ(read.errors, 1);
  EXPECT_FALSE(read.done);
  EXPECT_EQ(read.text, words("ann", static_cast<int>(counters().used.completion)));
  EXPECT_EQ(counters().fates.cut, 1);
  EXPECT_EQ(read_stream(other.answer().body).text, words("bob", 2));
  EXPECT_TRUE(other.wait([&] { return engines[0]->open_requests() == 0; }));
}

// Others go on while it reads nothing; what lies for it is bounded, and then it is let go.
TEST_F(Engines, AClientThatDoesNotReadHoldsNobodyUp) {
  profile::EngineSpec spec = quick();
  spec.cost.step = 0.05;
  engine(spec);
  FrontOptions options;
  options.limits.stream_bytes = 1 << 16;
  begin(service(), {.shed = false}, options);
  RawClient sleeper(*loop, front->port(), 4096);
  sleeper.send(post(chat("ann", 1'000'000)));
  ASSERT_TRUE(sleeper.wait([&] { return sleeper.input().find("ann.3 ") != std::string::npos; }));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(read_stream(ask(post(chat("bob", 50))).body).text, words("bob", 50));
  RawClient waits = client();
  EXPECT_TRUE(waits.wait([&] { return engines[0]->open_requests() == 0; }));
  EXPECT_EQ(counters().fates.withdrawn, 1);
  EXPECT_LT(counters().used.completion, 1'000'000);
}

TEST_F(Engines, BeforeTheFirstTokenAnotherEngineIsAsked) {
  profile::EngineSpec slow = quick();
  slow.cost.step = 5000;
  engine(slow);
  engine();
  begin(service(), {.routing = Routing::round_robin});
  const auto clients = send_all({chat("c0", 10), chat("c1", 10), chat("c2", 10), chat("c3", 10)});
  EXPECT_TRUE(clients[0]->wait([&] { return engines[0]->open_requests() == 2; }));
  engines.erase(engines.begin());
  for (std::size_t i = 0; i < 4; ++i) {
    const Read read = read_stream(clients[i]->answer().body);
    EXPECT_EQ(read.text, words("c" + std::to_string(i), 10));
    EXPECT_TRUE(read.done);
  }
  EXPECT_EQ(counters().retries, 2);
  EXPECT_EQ(counters().fates.answered, 4);
}

// It may be why: the engines that are left are not for it.
TEST_F(Engines, AfterTwoLostEnginesNoThirdIsAsked) {
  profile::EngineSpec slow = quick();
  slow.cost.step = 60'000;
  for (int i = 0; i < 3; ++i) engine(slow);
  begin(service(), {.shed = false});
  RawClient one = client();
  one.send(post(chat("ann", 5)));
  for (int death = 0; death < 2; ++death) {
    const auto has_it = [](const auto& each) { return each->open_requests() > 0; };
    ASSERT_TRUE(one.wait([&] { return std::ranges::any_of(engines, has_it); }));
    engines.erase(std::ranges::find_if(engines, has_it));
  }
  const auto answer = one.answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("two engines were lost with it"));
  EXPECT_EQ(counters().retries, 1);
  EXPECT_EQ(counters().fates.failed, 1);
  ASSERT_EQ(engines.size(), 1U);
  EXPECT_EQ(engines[0]->requests(), 0);
}

TEST_F(Engines, NoEngineGivesAnAnswer) {
  engine();
  begin(service());
  engines.clear();
  const auto answer = ask(post(chat("ann", 5), "Partita-Idempotent: false\r\n"));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.header("Retry-After"), "1");
  EXPECT_EQ(json::parse(answer.body)["error"]["type"], "server_error");
  EXPECT_EQ(counters().fates.failed, 1);
}

TEST_F(Engines, PromptsGoWhereTheirBeginningIs) {
  engine();
  engine();
  begin(service());
  std::string context;
  for (int i = 0; i < 400; ++i) context += "word" + std::to_string(i) + " ";
  for (int i = 0; i < 8; ++i) {
    json body = chat("u" + std::to_string(i), 2);
    body["messages"][0]["content"] = context + std::to_string(i);
    EXPECT_EQ(ask(post(body)).status, 200);
  }
  EXPECT_EQ(std::max(engines[0]->requests(), engines[1]->requests()), 8);
  EXPECT_GT(counters().used.cached, 7 * 350);
}

TEST_F(Engines, WhoWaitsGoesByPriority) {
  sequences = 1;
  engine();
  FrontOptions secured;
  secured.tokens = parse_tokens("t",
                                "0123456789abcdef chat\n"
                                "fedcba9876543210 chat priority=3\n")
                       .value();
  begin(service(), {}, secured);
  std::vector<std::unique_ptr<RawClient>> clients;
  const auto send = [&](const std::string& user, const std::string& key) {
    clients.push_back(std::make_unique<RawClient>(*loop, front->port()));
    clients.back()->send(post(chat(user, 100, false), "Authorization: Bearer " + key + "\r\n"));
  };
  send("first", "0123456789abcdef");
  send("later", "0123456789abcdef\r\nPartita-Priority: 8");  // which only its key could give
  send("urgent", "fedcba9876543210");
  EXPECT_EQ(chat_service().waiting(), 2);
  EXPECT_EQ(clients[2]->answer().status, 200);
  EXPECT_EQ(chat_service().waiting(), 0);  // the other one has only just begun
  EXPECT_EQ(counters().fates.answered, 2);
  EXPECT_EQ(clients[1]->answer().status, 200);
}

TEST_F(Engines, KeysHaveLimitsAndAreCounted) {
  engine();
  FrontOptions secured;
  secured.tokens = parse_tokens("t",
                                "0123456789abcdef chat rpm=2\n"
                                "fedcba9876543210 chat tpm=10\n")
                       .value();
  begin(service(), {}, secured);
  const std::string one = "Authorization: Bearer 0123456789abcdef\r\n";
  const std::string other = "Authorization: Bearer fedcba9876543210\r\n";
  EXPECT_EQ(ask(post(chat("a", 2), one)).status, 200);
  EXPECT_EQ(ask(post(chat("a", 2), one)).status, 200);
  const auto refused = ask(post(chat("a", 2), one));
  EXPECT_EQ(refused.status, 429);
  EXPECT_NEAR(std::stoi(refused.header("Retry-After")), 30, 1);
  EXPECT_EQ(ask(post(chat("b", 27), other)).status, 200);  // 30 with the prompt, of 10
  EXPECT_NEAR(std::stoi(ask(post(chat("b", 1), other)).header("Retry-After")), 126, 1);
  EXPECT_EQ(counters().fates.limited, 2);
  EXPECT_EQ(counters().by_key.at("token 1"), (TokenUsage{.prompt = 6, .completion = 4}));
  EXPECT_EQ(counters().by_key.at("token 2"), (TokenUsage{.prompt = 3, .completion = 27}));
}

// What a key's requests may come to is set aside while they are under way, else any number at once
// would be within a limit per minute; what they did not come to is given back.
TEST_F(Engines, RequestsAtOnceAreWithinALimitOfTokens) {
  engine();
  FrontOptions secured;
  secured.tokens = parse_tokens("t", "fedcba9876543210 chat tpm=200\n").value();
  begin(service(), {}, secured);
  const std::string key = "Authorization: Bearer fedcba9876543210\r\n";
  RawClient one = client();
  json long_answer = chat("ann", 80);
  one.send(post(long_answer, key));
  ASSERT_TRUE(one.wait([&] { return one.input().find("ann.3 ") != std::string::npos; }));
  EXPECT_EQ(ask(post(chat("bob", 120), key)).status, 429);
  EXPECT_EQ(ask(post(chat("bob", 5), key)).status, 200);
  long_answer["max_completion_tokens"] = 1'000;  // of more than there is: once all of that is there
  EXPECT_EQ(ask(post(long_answer, key)).status, 429);
  EXPECT_EQ(read_stream(one.answer().body).text, words("ann", 80));
  EXPECT_EQ(counters().fates.limited, 2);
}

TEST_F(Engines, EachPromptOfAListIsWithinALimitOfTokens) {
  test::ScriptedEngine scripted(*loop);
  scripted.script = [](const json&) {
    const std::string token = R"({"choices":[{"index":0,"text":"a"}]})";
    return test::Scripted{.events = {token, token}, .pause_ns = 3'600'000'000'000};
  };
  addresses.push_back(scripted.url());
  FrontOptions secured;
  secured.tokens = parse_tokens("t", "fedcba9876543210 chat tpm=200\n").value();
  begin(service(), {}, secured);
  const std::string key = "Authorization: Bearer fedcba9876543210\r\n";
  for (const json& more : {json{{"prompt", {"a", "b"}}, {"n", 1}}, json{{"prompt", "a"}, {"n", 2}},
                           json{{"prompt", "a"}, {"best_of", 2}}}) {
    json body = {{"model", "chat"}, {"max_tokens", 85}, {"stream", true}};
    body.update(more);
    RawClient one = client();
    one.send(post(body, key, "/v1/completions"));
    ASSERT_TRUE(one.wait([&] { return chat_service().engines().running() == 1; }));
    EXPECT_EQ(ask(post(chat("bob", 40), key)).status, 429) << more;
    one.leave();
    RawClient waits = client();
    ASSERT_TRUE(waits.wait([&] { return pool->idle(); }));
  }
  EXPECT_EQ(counters().fates.limited, 3);
}

TEST_F(Engines, KeysHaveTheLimitsOfOtherModelsToo) {
  engine();
  FrontOptions secured;
  secured.tokens = parse_tokens("t",
                                "0123456789abcdef chat at-once=1\n"
                                "fedcba9876543210 chat rps=1\n")
                       .value();
  begin(service(), {}, secured);
  const std::string key = "Authorization: Bearer 0123456789abcdef\r\n";
  RawClient one = client();
  one.send(post(chat("ann", 80), key));
  ASSERT_TRUE(one.wait([&] { return one.input().find("ann.3 ") != std::string::npos; }));
  EXPECT_EQ(ask(post(chat("bob", 2), key)).status, 429);
  EXPECT_EQ(read_stream(one.answer().body).text, words("ann", 80));
  EXPECT_EQ(ask(post(chat("bob", 2), key)).status, 200);
  const std::string other = "Authorization: Bearer fedcba9876543210\r\n";
  EXPECT_EQ(ask(post(chat("a", 1), other)).status, 200);
  EXPECT_EQ(ask(post(chat("a", 1), other)).status, 429);
}

TEST_F(Engines, AnEngineThatIsTakenAwayEndsItsStreams) {
  engine();
  engine();
  begin(service());
  RawClient one = client();
  one.send(post(chat("ann", 300)));
  ASSERT_TRUE(one.wait([&] { return one.input().find("ann.3 ") != std::string::npos; }));
  TokenService less = service();
  const std::size_t its = engines[0]->open_requests() == 1 ? 0 : 1;
  less.engines.erase(less.engines.begin() + static_cast<long>(its));
  pool->serve({less});
  EXPECT_EQ(ask(post(chat("bob", 2))).status, 200);
  EXPECT_EQ(engines[its]->requests(), 1);
  EXPECT_EQ(read_stream(one.answer().body).text, words("ann", 300));
  pool->serve({});
  EXPECT_EQ(ask(post(chat("bob", 2))).status, 404);
}

}  // namespace
}  // namespace partita::serve
