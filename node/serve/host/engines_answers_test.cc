// What becomes of a request by what its engine says, and by how long it took before: at its client
// and in the counts that all surfaces go by.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/front/testing/engines_fixture.h"
#include "serve/front/testing/scripted_engine.h"
#include "serve/host/host.h"

namespace partita::serve {
namespace {

using test::json, test::RawClient, test::chat, test::post, test::quick;
using test::Scripted, test::ScriptedEngine;
using testing::HasSubstr;

constexpr std::int64_t kMs = 1'000'000;

Scripted says(int status, const std::string& headers = "") {
  return {.reply = {.status = status,
                    .headers = headers,
                    .text = R"({"error":{"message":"it says )" + std::to_string(status) + "\"}}"}};
}

// Whole, of so many tokens, after so long.
Scripted whole(int tokens, std::int64_t after_ns = 0) {
  const json usage = {{"prompt_tokens", 10}, {"completion_tokens", tokens}};
  return {.reply = {.text = json{{"choices", json::array()}, {"usage", usage}}.dump()},
          .first_ns = after_ns};
}

// A token of each choice at a time.
Scripted stream(int tokens, std::int64_t first_ns, std::int64_t pause_ns, int choices = 1) {
  Scripted script{.first_ns = first_ns, .pause_ns = pause_ns / choices};
  for (int i = 0; i < tokens * choices; ++i)
    script.events.push_back(
        json{{"choices", {{{"index", i % choices}, {"delta", {{"content", "w "}}}}}}}.dump());
  return script;
}

class Answers : public test::EnginesFixture {
 protected:
  ScriptedEngine& scripted() {
    scripts.push_back(std::make_unique<ScriptedEngine>(*loop));
    addresses.push_back(scripts.back()->url());
    return *scripts.back();
  }
  TokenService promised(double ttft_ms, double tpot_ms) {
    TokenService one = service();
    one.tokens->ttft = Millis{ttft_ms};
    one.tokens->tpot = Millis{tpot_ms};
    return one;
  }
  // As gateway.json says it.
  actuate::GatewayState view_state() {
    auto core = Core::open(*loop, {.link_path = testing::TempDir() + "answers.sock"}, nullptr);
    return state_of(**core, *pool, {}, {});
  }
  const TokenFates& fates() { return counters().fates; }
  void turn_for(std::int64_t ns) { loop->run_until(Loop::now_ns() + ns); }
  // Not streamed; what its client gets.
  RawClient::Answer tell(int out = 5) { return ask(post(chat("ann", out, false))); }

  std::vector<std::unique_ptr<ScriptedEngine>> scripts;
};

// ---- of whom a status says something

TEST_F(Answers, AClientsFaultIsItsOwn) {
  ScriptedEngine& engine = scripted();
  begin(promised(800, 50));
  engine.script = [](const json&) { return whole(20); };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(tell().status, 200);
  for (const int status : {400, 413, 422}) {
    engine.script = [&](const json&) { return says(status); };
    const auto answer = tell();
    EXPECT_EQ(answer.status, status);
    EXPECT_THAT(answer.body, HasSubstr("it says " + std::to_string(status)));
  }
  EXPECT_EQ(engine.asked, 8);  // none of them twice
  EXPECT_EQ(fates().rejected, 3);
  EXPECT_EQ(fates().answered, 5);
  EXPECT_EQ(fates().in_slo, 5);
  EXPECT_EQ(fates().failed, 0);
  EXPECT_EQ(chat_service().recents.traffic(Loop::now_ns()).mean_out, 20);
  const ServiceView view = view_of(chat_service());
  const actuate::GatewayRequests told = requests_of(view, {});
  EXPECT_EQ(told.in_slo, 5);
  EXPECT_EQ(told.missed + told.shed, 0);
  EXPECT_EQ(view.withdrawn, 3);
}

TEST_F(Answers, AnEngineThatIsNotWhatItShouldBeIsAFaultOfTheService) {
  ScriptedEngine& engine = scripted();
  begin(promised(800, 50));
  for (const int status : {401, 403, 404}) {
    engine.script = [&](const json&) { return says(status); };
    const auto answer = tell();
    EXPECT_EQ(answer.status, 500);  // its key and its model are right
    EXPECT_THAT(json::parse(answer.body)["error"]["message"].get<std::string>(),
                HasSubstr("it says " + std::to_string(status)));
  }
  EXPECT_EQ(fates().failed, 3);
  EXPECT_EQ(fates().in_slo, 0);
  EXPECT_EQ(requests_of(view_of(chat_service()), {}).missed, 3);
  EXPECT_EQ(chat_service().recents.traffic(Loop::now_ns()).mean_in, 0);
}

TEST_F(Answers, WhatAnEngineNeverDoesIsItsClientsFault) {
  ScriptedEngine& engine = scripted();
  begin(promised(800, 50));
  engine.script = [](const json& body) { return body.contains("input") ? says(404) : whole(5); };
  EXPECT_EQ(tell().status, 200);
  const json input = {{"model", "chat"}, {"input", "a"}};
  EXPECT_EQ(ask(post(input, "", "/v1/embeddings")).status, 404);
  EXPECT_EQ(fates().rejected, 1);
  EXPECT_EQ(fates().failed, 0);
}

TEST_F(Answers, EmbeddingsAreNoAnswersOfNoTokens) {
  engine();
  begin(service());
  EXPECT_EQ(ask(post(chat("ann", 20))).status, 200);
  const json input = {{"model", "chat"}, {"input", "a b c"}};
  for (int i = 0; i < 9; ++i) EXPECT_EQ(ask(post(input, "", "/v1/embeddings")).status, 200);
  const actuate::TokenTraffic seen = chat_service().recents.traffic(Loop::now_ns());
  EXPECT_EQ(seen.mean_out, 20);
  EXPECT_EQ(seen.mean_in, 3);
  EXPECT_EQ(counters().fates.answered, 10);
}

// An engine may be started anew under its URL with another name for its model.
TEST_F(Answers, ARenamedModelIsAskedForByItsNewName) {
  ScriptedEngine& engine = scripted();
  engine.script = [&](const json& body) {
    return body["model"] == engine.model ? whole(5) : says(404);
  };
  begin(promised(8000, 50));
  EXPECT_EQ(tell().status, 200);
  turn_for(kNamesEvery);
  engine.model = "other";
  EXPECT_EQ(tell().status, 200);
  EXPECT_EQ(fates().answered, 2);
  EXPECT_EQ(fates().failed, 0);
}

// ---- asked again

TEST_F(Answers, WhatWasRefusedOnceIsSentAgainSoon) {
  ScriptedEngine& engine = scripted();
  begin(promised(8000, 50));
  engine.script = [&](const json&) { return engine.asked == 1 ? says(503) : whole(5); };
  const std::int64_t begun = Loop::now_ns();
  EXPECT_EQ(tell().status, 200);
  EXPECT_LT(Loop::now_ns() - begun, 2'000 * kMs);
  EXPECT_EQ(engine.asked, 2);
  EXPECT_EQ(counters().retries, 1);
  EXPECT_EQ(fates().in_slo, 1);
}

TEST_F(Answers, ARefusalOfAllEnginesIsPassedOnWithItsTime) {
  ScriptedEngine& one = scripted();
  ScriptedEngine& other = scripted();
  begin(promised(8000, 50));
  for (const int status : {503, 429}) {
    for (const auto& each : scripts)
      each->script = [&](const json&) { return says(status, "Retry-After: 7\r\n"); };
    const auto answer = tell();
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.header("Retry-After"), "7");
    EXPECT_THAT(answer.body, HasSubstr("it says " + std::to_string(status)));
  }
  EXPECT_EQ(one.asked + other.asked, 2 * kMostTries);
  EXPECT_EQ(fates().failed, 1);
  EXPECT_EQ(fates().full, 1);
  EXPECT_EQ(fates().answered, 0);
}

TEST_F(Answers, WhoMayNotBeSentTwiceIsNot) {
  ScriptedEngine& engine = scripted();
  begin(service());
  engine.script = [&](const json&) { return says(503, "Retry-After: 3\r\n"); };
  const auto answer = ask(post(chat("ann", 5, false), "Partita-Idempotent: false\r\n"));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.header("Retry-After"), "3");
  EXPECT_EQ(engine.asked, 1);
}

TEST_F(Answers, NoEngineIsNoFullQueue) {
  engine();
  begin(service());
  engines.clear();
  RawClient waits = client();
  ASSERT_TRUE(waits.wait([&] { return !pool->ready(); }));
  EXPECT_EQ(tell().status, 503);
  EXPECT_EQ(fates().unready, 1);
  EXPECT_EQ(fates().full, 0);
  EXPECT_EQ(requests_of(view_of(chat_service()), {}).shed, 1);
}

// ---- what promises are held against

TEST_F(Answers, AWholeAnswerMayBeTooSlow) {
  ScriptedEngine& engine = scripted();
  begin(promised(100, 10));
  engine.script = [](const json&) { return whole(30, 500 * kMs); };  // of 100 + 29 x 10
  EXPECT_EQ(tell(30).status, 200);
  engine.script = [](const json&) { return whole(60, 500 * kMs); };  // of 100 + 59 x 10
  EXPECT_EQ(tell(60).status, 200);
  EXPECT_EQ(fates().answered, 2);
  EXPECT_EQ(fates().in_slo, 1);
}

// A TTFT is kept by the first token, however long the answer goes on; who waits longer is late.
TEST_F(Answers, WhoHasItsFirstTokenInTimeIsOnTime) {
  ScriptedEngine& engine = scripted();
  begin(promised(800, 0));
  Recents recents;
  for (const bool in_time : {true, false}) {
    SCOPED_TRACE(in_time);
    recents.clear();
    const auto note = [&] {
      note_requests(recents, {view_of(chat_service())}, static_cast<double>(Loop::now_ns()) / 1e9);
    };
    engine.script = [&](const json&) {
      return stream(16, (in_time ? 20 : 2'500) * kMs, 150 * kMs);
    };
    note();
    const auto under_way = send_all({chat("ann", 16), chat("bob", 16)});
    for (int i = 0; i < 9; ++i) {
      turn_for(200 * kMs);
      note();
    }
    const auto recent = requests_of(view_of(chat_service()), recents).recent;
    ASSERT_TRUE(recent);
    EXPECT_NEAR(recent->asked, 2, 1e-6);
    EXPECT_NEAR(recent->missed(), in_time ? 0 : 2, 1e-6);
    for (const auto& one : under_way) EXPECT_EQ(one->answer().status, 200);
  }
  EXPECT_EQ(fates().in_slo, 2);
}

TEST_F(Answers, EachChoiceIsHeldAgainstThePromise) {
  ScriptedEngine& engine = scripted();
  begin(promised(5'000, 60));
  for (const int choices : {1, 2}) {
    engine.script = [&](const json&) { return stream(6, kMs, 90 * kMs, choices); };
    json body = chat("ann", 6);
    body["n"] = choices;
    EXPECT_EQ(ask(post(body)).status, 200);
    EXPECT_EQ(fates().answered, choices);
    EXPECT_EQ(fates().in_slo, 0);
  }
  EXPECT_EQ(counters().itl.count(), 5 + 2 * 5);
  EXPECT_NEAR(counters().tpot.sum(), 2 * 0.090, 0.030);
}

// ---- who is let in

// Engines that were slow while they warmed up are tried once they have nothing to do, one request
// at a time, until what was seen of them is forgotten.
TEST_F(Answers, EnginesThatWereSlowOnceAreTriedAgain) {
  ScriptedEngine& engine = scripted();
  begin(promised(500, 50));
  engine.script = [](const json&) { return stream(2, 1'500 * kMs, 15 * kMs); };
  const auto slow = send_all(std::vector<json>(8, chat("ann", 2)));
  for (const auto& one : slow) EXPECT_EQ(one->answer().status, 200);
  engine.script = [](const json&) { return stream(2, 50 * kMs, 15 * kMs); };
  const auto together = send_all({chat("bob", 2), chat("eve", 2)});
  EXPECT_EQ(together[0]->answer().status, 200);  // it is tried
  const auto beside = together[1]->answer();     // by one
  EXPECT_EQ(beside.status, 429);
  EXPECT_NE(beside.header("Retry-After"), "");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(ask(post(chat("bob", 2))).status, 200);
  const auto after = send_all({chat("bob", 2), chat("eve", 2)});  // it is believed
  for (const auto& one : after) EXPECT_EQ(one->answer().status, 200);
  EXPECT_EQ(fates().late, 1);
}

TEST_F(Answers, WhatWouldBeLateIsRefused) {
  profile::EngineSpec slow = quick();
  slow.cost = {.step = 5, .prompt_token = 1};
  engine(slow);
  profile::TokenEngine known;
  known.spec = slow;
  begin(promised(100, 0), {.engines = {{"m", {known}}}});
  const auto of_tokens = [](const std::string& user, int count) {
    json body = chat(user, 2);
    std::string text;
    for (int i = 0; i < count; ++i) text += user + " ";
    body["messages"][0]["content"] = text;
    return body;
  };
  const auto never = ask(post(of_tokens("ann", 700)));  // never in time: to come again is no use
  EXPECT_EQ(never.status, 400);
  EXPECT_EQ(never.header("Retry-After"), "");
  EXPECT_EQ(json::parse(never.body)["error"]["type"], "invalid_request_error");
  EXPECT_EQ(fates().rejected, 1);
  const auto both = send_all({of_tokens("bob", 60), of_tokens("eve", 60)});
  EXPECT_EQ(both[0]->answer().status, 200);
  const auto beside = both[1]->answer();
  EXPECT_EQ(beside.status, 429);
  EXPECT_EQ(beside.header("Retry-After"), "1");
  EXPECT_EQ(json::parse(beside.body)["error"]["code"], "rate_limit_exceeded");
  EXPECT_EQ(fates().late, 1);
  EXPECT_EQ(fates().in_slo, 1);
}

TEST_F(Answers, APictureIsNotRefusedForItsBytes) {
  engine();
  begin(promised(100, 0));
  json body = chat("ann", 2);
  const json url = {{"url", "data:image/png;base64," + std::string(440'000, 'A')}};
  const json picture = {{"type", "image_url"}, {"image_url", url}};
  body["messages"][0]["content"] = {{{"type", "text"}, {"text", "what is this?"}}, picture};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(post(body)).status, 200);
  EXPECT_EQ(fates().late + fates().rejected, 0);
}

// ---- signs of life

TEST_F(Answers, TokensThatComeAreASignOfLife) {
  ScriptedEngine& engine = scripted();
  begin(service());
  engine.script = [](const json&) { return stream(40, kMs, 100 * kMs); };
  RawClient one = client();
  one.send(post(chat("ann", 40)));
  ASSERT_TRUE(one.wait([&] { return !one.input().empty(); }));
  engine.health_hangs = true;
  const std::int64_t hung = Loop::now_ns();
  turn_for(kProbeEvery + kProbePatience + 200 * kMs);
  EXPECT_FALSE(pool->ready());  // it gets nothing new
  const auto told = [&] { return view_state().services.at(0).engines.at(0).state; };
  EXPECT_EQ(told(), actuate::WorkerReadiness::leaving);
  chat_service().tick(hung + kEngineDead + kProbeEvery);  // so long after its last healthy word
  const test::Read read = test::read_stream(one.answer().body);
  EXPECT_TRUE(read.done);
  EXPECT_EQ(read.errors, 0);
  EXPECT_EQ(fates().answered, 1);
  turn_for(kProbePatience);
  EXPECT_EQ(told(), actuate::WorkerReadiness::silent);
}

// ---- OpenAI's form

TEST_F(Answers, RefusalsHaveTheFormOfThoseWhoAsk) {
  engine();
  FrontOptions secured;
  secured.tokens = parse_tokens("t", "0123456789abcdef chat\n").value();
  begin(service(), {}, secured);
  const auto unknown = tell();
  EXPECT_EQ(unknown.status, 401);
  EXPECT_EQ(json::parse(unknown.body)["error"]["code"], "invalid_api_key");
  EXPECT_NE(unknown.header("WWW-Authenticate"), "");
  const std::string key = "Authorization: Bearer 0123456789abcdef\r\n";
  const auto nowhere = ask(post(chat("a", 1), key, "/v1/responses"));
  EXPECT_EQ(nowhere.status, 404);
  EXPECT_EQ(json::parse(nowhere.body)["error"]["message"], "no such route");
  const std::string ready = "GET /v2/models/chat/ready HTTP/1.1\r\nHost: h\r\n" + key + "\r\n";
  EXPECT_EQ(ask(ready).status, 200);
}

}  // namespace
}  // namespace partita::serve
