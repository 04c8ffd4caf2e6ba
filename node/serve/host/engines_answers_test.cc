// What becomes of a request by what its engine says, and by how long it took before: at its client
// and in the counts that all surfaces go by.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/door/testing/http2_client.h"
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
    auto core = Core::open(
        *loop, {.link_path = testing::TempDir() + "answers" + std::to_string(::getpid())}, nullptr);
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

// What looks like an answer and is none is its engine's failure, which its client is told of.
TEST_F(Answers, WhatIsNoAnswerIsAFaultOfTheService) {
  ScriptedEngine& engine = scripted();
  begin(promised(8000, 50));
  Scripted nothing{.first_ns = kMs};
  nothing.only_done = true;
  const Scripted all[] = {
      {.reply = {.status = 200, .content_type = "text/html", .text = "<html>hello"}},
      {.reply = {.status = 200, .text = ""}},
      {.reply = {.status = 200, .text = R"({"choices":[]} {})"}},
      {.reply = {.status = 200, .text = R"({"error":{"message":"out of memory"}})"}},
      {.reply = {.status = 204}},
      {.reply = {.status = 307, .headers = "Location: /elsewhere\r\n"}},
      nothing};
  long failed = 0;
  for (const Scripted& script : all) {
    engine.script = [&](const json&) { return script; };
    const auto answer =
        ask(post(chat("ann", 5, script.only_done), "Partita-Idempotent: false\r\n"));
    EXPECT_EQ(answer.status, 502) << failed;
    EXPECT_EQ(json::parse(answer.body)["error"]["type"], "server_error") << failed;
    EXPECT_EQ(fates().failed, ++failed);
  }
  EXPECT_EQ(fates().answered, 0);
  EXPECT_EQ(counters().used, TokenUsage{});
  EXPECT_EQ(requests_of(view_of(chat_service()), {}).arrived, failed);
  EXPECT_EQ(requests_of(view_of(chat_service()), {}).missed, failed);
  engine.script = [&](const json&) { return engine.asked % 2 == 1 ? nothing : stream(3, 0, kMs); };
  engine.asked = 0;
  const auto second = test::read_stream(ask(post(chat("ann", 3))).body);
  EXPECT_EQ(second.text, "w w w ");  // as it might have been sent elsewhere
  EXPECT_TRUE(second.done);
}

// As of an ordinary batch of embeddings.
TEST_F(Answers, ALongAnswerComesWhole) {
  ScriptedEngine& engine = scripted();
  FrontOptions options;
  options.limits.stream_bytes = 1 << 16;
  begin(service(), {}, options);
  const json vectors(200'000, 0.25);
  const std::string text = json{{"data", {{{"embedding", vectors}}}}}.dump();
  engine.script = [&](const json&) { return Scripted{.reply = {.text = text}}; };
  const json input = {{"model", "chat"}, {"input", "a"}};
  EXPECT_TRUE(ask(post(input, "", "/v1/embeddings")).body == text);
  test::Http2Client client2(*loop, front->port());
  const auto answer = client2.ask("POST", "/v1/embeddings", input.dump());
  EXPECT_TRUE(answer.whole && answer.body == text);
  const std::string word(1'000'000, 'w');
  engine.script = [&](const json&) {
    Scripted script = stream(3, kMs, kMs);
    script.events[1] = json{{"choices", {{{"index", 0}, {"delta", {{"content", word}}}}}}}.dump();
    return script;
  };
  EXPECT_TRUE(test::read_stream(ask(post(chat("ann", 3))).body).text == "w " + word + "w ");
  EXPECT_TRUE(
      test::read_stream(client2.ask("POST", "/v1/chat/completions", chat("a", 3).dump()).body)
          .text == "w " + word + "w ");
  EXPECT_EQ(fates().answered, 4);
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

// A kept connection that breaks may have brought it to its engine.
TEST_F(Answers, WhatBreaksItsConnectionIsSentTwiceAtMost) {
  for (int i = 0; i < 2; ++i) scripted();
  begin(service());
  const auto all = [&](const Scripted& script) {
    for (const auto& one : scripts) one->script = [script](const json&) { return script; };
  };
  const auto asked = [&] { return scripts[0]->asked + scripts[1]->asked; };
  all(whole(5, 20 * kMs));
  for (const auto& one : send_all(std::vector<json>(4, chat("ann", 5))))
    EXPECT_EQ(one->answer().status, 200);  // connections of both are kept
  all({.dies = true});
  const int before = asked();
  EXPECT_EQ(ask(post(chat("ann", 5), "Partita-Idempotent: false\r\n")).status, 503);
  EXPECT_EQ(asked() - before, 1);
  all(whole(5));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(tell().status, 200);
  all({.dies = true});
  const int again = asked();
  EXPECT_EQ(tell().status, 503);
  EXPECT_EQ(asked() - again, 2);
  EXPECT_EQ(fates().failed, 2);
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

// Who was sent to one of them and who waits are told the same as who comes then.
TEST_F(Answers, WhereAllEnginesHaveDiedNobodyWaits) {
  sequences = 2;
  for (int i = 0; i < 2; ++i) engine();
  begin(promised(3'000, 0), {.shed = false});
  const auto under_way = send_all(std::vector<json>(4, chat("ann", 100'000)));
  ASSERT_TRUE(under_way[3]->wait([&] { return !under_way[3]->input().empty(); }));
  const auto waiting = send_all(std::vector<json>(3, chat("bob", 5)));
  engines.clear();
  const auto after = send_all(std::vector<json>(12, chat("eve", 5)));
  for (const auto* all : {&waiting, &after})
    for (const auto& one : *all) {
      const auto answer = one->answer();
      EXPECT_EQ(answer.status, 503);
      EXPECT_NE(answer.header("Retry-After"), "");
    }
  EXPECT_EQ(fates().failed + fates().unready, 15);
  EXPECT_EQ(fates().expired, 0);
}

// ---- that never comes

// Its engine is well.
TEST_F(Answers, WhatAnEngineLostBeforeItsFirstTokenIsSentAgain) {
  for (int i = 0; i < 2; ++i) scripted();
  begin(service());
  int asked = 0;
  const auto look_in = [&](std::int64_t ns) {
    std::vector<EngineCall*> calls;
    for (const auto& one : chat_service().engines().here())
      calls.insert(calls.end(), one->calls.begin(), one->calls.end());
    for (EngineCall* call : calls) call->end_if_idle(Loop::now_ns() + ns, 0);
  };
  for (const bool streams : {true, false}) {
    asked = 0;
    for (const auto& one : scripts)
      one->script = [&, streams](const json&) {
        const std::int64_t first = ++asked == 1 ? 3'600'000 * kMs : 50 * kMs;
        return streams ? stream(5, first, kMs) : whole(5, first);
      };
    RawClient one = client();
    one.send(post(chat("ann", 5, streams)));
    ASSERT_TRUE(one.wait([&] { return asked == 1; }));
    look_in(kLongestWait / 2);
    EXPECT_EQ(counters().retries, streams ? 0 : 1);
    look_in(kLongestWait + kMs);
    EXPECT_EQ(counters().retries, streams ? 1 : 2);
    EXPECT_EQ(one.answer().status, 200);
    EXPECT_EQ(asked, 2);
  }
  EXPECT_EQ(fates().answered, 2);
}

TEST_F(Answers, WhatItsClientWantsNoMoreEndsAtItsEngine) {
  ScriptedEngine& engine = scripted();
  begin(promised(200, 10));
  engine.script = [](const json&) { return stream(2, 3'600'000 * kMs, 0); };
  for (const bool streams : {true, false})
    for (const int own_ms : {60, 400}) {
      const std::int64_t begun = Loop::now_ns();
      const auto answer = ask(
          post(chat("ann", 2, streams), "Partita-Timeout-Ms: " + std::to_string(own_ms) + "\r\n"));
      EXPECT_EQ(answer.status, 504);
      EXPECT_GE(Loop::now_ns() - begun, own_ms * kMs);
      EXPECT_LT(Loop::now_ns() - begun, 3'000 * kMs);
      EXPECT_EQ(chat_service().engines().running(), 0);
    }
  EXPECT_EQ(engine.asked, 4);
  EXPECT_EQ(fates().expired, 2);
  EXPECT_EQ(fates().withdrawn, 2);  // of which nothing that is promised is missed
}

TEST_F(Answers, AnAnswerIsOverAtItsLastEvent) {
  ScriptedEngine& engine = scripted();
  begin(service());
  engine.script = [](const json&) {
    Scripted script = stream(3, kMs, kMs);
    script.ends = false;
    return script;
  };
  const std::int64_t begun = Loop::now_ns();
  EXPECT_TRUE(test::read_stream(ask(post(chat("ann", 3))).body).done);
  EXPECT_LT(Loop::now_ns() - begun, 10'000 * kMs);
  EXPECT_EQ(fates().answered, 1);
  EXPECT_EQ(chat_service().engines().running(), 0);
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

TEST_F(Answers, EachPromptOfAListIsHeldAgainstThePromise) {
  ScriptedEngine& engine = scripted();
  begin(promised(500, 60));
  json body = {{"model", "chat"}, {"prompt", {"a", "b", "c"}}, {"max_tokens", 6}, {"stream", true}};
  engine.script = [](const json&) { return stream(6, kMs, 90 * kMs, 3); };
  EXPECT_EQ(ask(post(body, "", "/v1/completions")).status, 200);
  body["stream"] = false;
  engine.script = [](const json&) { return whole(18, 1'100 * kMs); };  // of 500 + 5 x 60
  EXPECT_EQ(ask(post(body, "", "/v1/completions")).status, 200);
  EXPECT_EQ(fates().answered, 2);
  EXPECT_EQ(fates().in_slo, 0);
}

// ---- who is let in

// What it would cost on the engine that is planned there, not on another of its model.
TEST_F(Answers, EnginesAreKnownByWhatIsPlannedThere) {
  const auto engine_of = [](double token_ms, int gpus, const std::string& name) {
    profile::TokenEngine one{.name = {.configuration = name},
                             .mig_profile = gpus > 0 ? "7g.80gb" : "1g.10gb"};
    one.gpus = std::max(gpus, 1);
    one.spec.cost = {.step = 0, .prompt_token = token_ms};
    return one;
  };
  std::vector<profile::TokenEngine> known = {engine_of(8, 0, "slice"), engine_of(4, 1, "bf16"),
                                             engine_of(2, 1, "fp8"), engine_of(1, 2, "pair")};
  actuate::Assignment assignment;
  actuate::WorkersState workers;
  const auto add = [&](const std::string& device, const std::string& profile, std::string name) {
    actuate::AssignedSegment segment{{profile, 0}, {"chat", 1, 1}, device, "GPU-a"};
    segment.engine.configuration = std::move(name);
    assignment.segments.push_back(segment);
    workers.workers.push_back({.segment = std::move(segment), .port = 9, .pid = 1});
  };
  add("MIG-a", "1g.10gb", "slice");
  add("GPU-a", "7g.80gb", "bf16");
  add("GPU-b", "7g.80gb", "fp8");
  add("GPU-c,GPU-d", "7g.80gb", "pair");
  add("GPU-e", "7g.80gb", "");         // either of the two
  add("MIG-b", "1g.10gb", "another");  // that nobody measured
  assignment.services.push_back(promised(800, 0));
  for (int order = 0; order < 2; ++order) {
    std::ranges::reverse(known);
    EnginePool one(*loop, {.engines = {{"m", known}}}, nullptr);
    one.serve(token_services_by(assignment, workers, {.urls = {{"chat", {"http://127.0.0.1:9"}}}}));
    std::vector<double> soonest;
    for (const auto& replica : one.find("chat")->engines().here())
      soonest.push_back(static_cast<double>(replica->guess.soonest_ttft(100, 0, 0).value_or(0)) /
                        kMs);
    EXPECT_THAT(soonest, testing::ElementsAre(800, 400, 200, 100, 200, 0, 100));
  }
}

// Whoever asks for what nobody promised makes a service neither late nor short of GPUs.
TEST_F(Answers, AClientsOwnShorterPromiseIsNotTheServices) {
  ScriptedEngine& engine = scripted();
  engine.script = [](const json&) { return stream(20, kMs, 100 * kMs); };
  begin(promised(800, 0));
  for (const double ttft_ms : {800.0, 5.0}) {
    pool->serve({promised(ttft_ms, 0)});
    const auto under_way = send_all({chat("ann", 20)});
    ASSERT_TRUE(under_way[0]->wait([&] { return !under_way[0]->input().empty(); }));
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(ask(post(chat("bob", 2), "Partita-Timeout-Ms: 1\r\n")).status, 429);
    const int its = ttft_ms > 100 ? 0 : 3;  // that would have been late by what is promised, too
    EXPECT_EQ(fates().late, its);
    EXPECT_EQ(fates().withdrawn, 3);
    EXPECT_EQ(requests_of(view_of(chat_service()), {}).shed, its);
    EXPECT_EQ(under_way[0]->answer().status, 200);
  }
}

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

// ---- what is let in beside what was late

// Fewer at once while answers are late by their time per token; whoever sheds nothing takes all.
TEST_F(Answers, ThatAreLateByTheirTokensLeaveLessRoom) {
  for (const auto& [tpot_ms, shed, less] :
       {std::tuple{5.0, true, true}, {5.0, false, false}, {5000.0, true, false}}) {
    ScriptedEngine& engine = scripted();
    engine.script = [](const json&) { return stream(3, 0, 20 * kMs); };
    begin(promised(800, tpot_ms), {.shed = shed});
    const auto room = [&] { return chat_service().engines().here().back()->guess.limit(); };
    const int before = room();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(post(chat("ann", 3, true))).status, 200);
    EXPECT_EQ(room() < before, less) << tpot_ms << " " << shed;
    front.reset();  // what it has gives back to the pool,
    turn_for(kMs);  // which the loop still has work of
    pool.reset();
    scripts.clear();
    addresses.clear();
  }
}

// First tokens that are late while some are refused leave less of the promise to be used up.
TEST_F(Answers, WhoseFirstTokensAreLateMakeForLessPatience) {
  ScriptedEngine& engine = scripted();
  engine.script = [](const json&) { return stream(2, 60 * kMs, kMs); };
  begin(promised(30, 0));
  chat_service().patience.refused();
  EXPECT_EQ(ask(post(chat("ann", 2, true))).status, 200);  // on trial, the first one
  EXPECT_LT(chat_service().patience.share(), 1);
}

}  // namespace
}  // namespace partita::serve
