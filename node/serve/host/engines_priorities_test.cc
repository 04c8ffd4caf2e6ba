// Who is served while more is asked of language models than their engines carry: by priority, and
// by key among those of one priority; and what engines say of their KV caches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/rng.h"
#include "serve/front/testing/engines_fixture.h"
#include "serve/host/host.h"

namespace partita::serve {
namespace {

using test::json, test::RawClient, test::chat, test::post, test::quick, test::request;
using testing::HasSubstr;

constexpr std::int64_t kMsec = 1'000'000, kSec = 1'000'000'000;

// A stream of requests of one kind.
struct Asking {
  std::string headers;
  double rate = 1;
  int sent = 0, answered = 0, refused = 0;  // 200; 429
  // Of those sent in the first second, in which nothing is known yet of who uses how much.
  int sent_first = 0, answered_first = 0;
  std::vector<std::unique_ptr<RawClient>> clients = {};
  std::int64_t next = 0;
};

class Priorities : public test::EnginesFixture {
 protected:
  // 12 requests a second or so, of 100 tokens each, of which it has known before.
  profile::EngineSpec slow() const {
    return {.cost = {.step = 5, .prompt_token = 0.7}, .step_tokens = 512, .sequences = 16};
  }
  void begin_slow(double ttft_ms, FrontOptions doors = {}) {
    engine(slow());
    profile::TokenEngine known;
    known.spec = slow();
    TokenService one = service();
    one.tokens->ttft = Millis{ttft_ms};
    begin(one, {.engines = {{"m", {known}}}}, std::move(doors));
  }
  std::string hundred(const std::string& headers, int out = 3) {
    json body = chat("ann", out);
    std::string text;
    for (int i = 0; i < 95; ++i) text += "word" + std::to_string(rng.below(1000)) + " ";
    body["messages"][0]["content"] = text;
    return post(body, headers);
  }
  // Evenly, for 5 s; then all answers are waited for. Once more from `begin_anew` on where the
  // machine did not keep up, as the answers tell nothing then; skipped where it never does.
  void flood(const std::function<void()>& begin_anew, const std::vector<Asking*>& all) {
    for (int tries = 0; tries < 6; ++tries) {
      front.reset();
      pool.reset();
      engines.clear();
      addresses.clear();
      for (Asking* one : all) *one = {.headers = one->headers, .rate = one->rate};
      begin_anew();
      if (keeps_up_with(all, 5 * kSec)) return;
    }
    GTEST_SKIP() << "the machine is too busy";
  }
  bool keeps_up_with(const std::vector<Asking*>& all, std::int64_t ns) {
    std::int64_t late = 0;
    const std::int64_t end = Loop::now_ns() + ns;
    for (std::int64_t now = Loop::now_ns(), before = now; now < end;
         before = now, now = Loop::now_ns()) {
      late += std::max<std::int64_t>(0, now - before - 10 * kMsec);
      for (Asking* one : all) {
        if (one->next > now) continue;
        one->next = std::max(one->next, now - 50 * kMsec) +
                    static_cast<std::int64_t>(static_cast<double>(kSec) / one->rate);
        one->clients.push_back(std::make_unique<RawClient>(*loop, front->port()));
        const bool little = small && one != all.front();
        one->clients.back()->send_now(little ? post(chat("bob", 1), one->headers)
                                             : hundred(one->headers, tokens_out));
        ++one->sent;
        one->sent_first += now < end - ns + kSec;
      }
      loop->run_until(now + 2 * kMsec);
    }
    for (Asking* one : all)
      for (const auto& client : one->clients) {
        const int status = client->answer().status;
        one->answered += status == 200;
        one->answered_first += status == 200 && &client - one->clients.data() < one->sent_first;
        one->refused += status == 429;
      }
    return late < ns / 20;
  }
  bool small = false;  // what all but the first ask for
  int tokens_out = 3;
  Rng rng{1};
  static double share(int part, int all) { return static_cast<double>(part) / std::max(all, 1); }
  const TokenFates& fates() { return counters().fates; }
};

constexpr char kKeyFile[] =
    "0123456789abcdef-light *\n"
    "0123456789abcdef-heavy *\n"
    "0123456789abcdef-second * priority=2\n"
    "0123456789abcdef-first * priority=3\n"
    "0123456789abcdef-short * rpm=2\n";
std::string bearer(const std::string& name) {
  return "Authorization: Bearer 0123456789abcdef-" + name + "\r\n";
}
FrontOptions secured() {
  FrontOptions options;
  options.tokens = parse_tokens("t", kKeyFile).value();
  return options;
}

TEST_F(Priorities, TheLowerIsRefusedFirst) {
  Asking high{bearer("second"), 6}, low{bearer("light"), 30};
  flood([&] { begin_slow(600, secured()); }, {&high, &low});
  if (IsSkipped()) return;
  const int answered = high.answered - high.answered_first, sent = high.sent - high.sent_first;
  EXPECT_GE(share(answered, sent), 0.7) << answered << " of " << sent;
  EXPECT_GT(low.answered, 0);  // what is left
  EXPECT_LE(share(low.answered, low.sent), 0.6) << low.answered << " of " << low.sent;
  EXPECT_EQ(high.answered + high.refused + low.answered + low.refused, high.sent + low.sent);
  EXPECT_GE(share(static_cast<int>(fates().in_slo), high.answered + low.answered), 0.7);
}

TEST_F(Priorities, AKeyGetsItsShareBesideOneThatFloods) {
  Asking light{bearer("light"), 4}, heavy{bearer("heavy"), 40};
  flood([&] { begin_slow(600, secured()); }, {&light, &heavy});
  if (IsSkipped()) return;
  EXPECT_GE(share(light.answered, light.sent), 0.7) << light.answered << " of " << light.sent;
  EXPECT_GT(heavy.answered, light.answered / 2);  // what the other does not use
  EXPECT_LE(share(heavy.answered, heavy.sent), 0.5);
  EXPECT_GT(fates().over_share, 0);
  EXPECT_THAT(pool->metrics(), HasSubstr("fate=\"over_share\""));
  const ServiceView view = view_of(chat_service());
  EXPECT_GT(requests_of(view, {}).shed, 0);
  ASSERT_EQ(view.keys.size(), 2U);
  EXPECT_EQ(view.keys[0].answered, light.answered);
  EXPECT_EQ(view.keys[1].answered, heavy.answered);
  EXPECT_EQ(view.keys[0].refused + view.keys[1].refused, fates().over_share);
  EXPECT_GT(view.keys[1].bytes, 400 * heavy.answered);
}

// It is told of the key, and is no reason to serve more.
TEST_F(Priorities, WhatAKeysLimitRefusesIsNoDemand) {
  engine();
  begin(service(), {}, secured());
  Recents recents;
  note_requests(recents, {view_of(chat_service())}, 1);
  for (const int status : {200, 200, 429, 429, 429})
    EXPECT_EQ(ask(post(chat("ann", 2), bearer("short"))).status, status);
  const ServiceView view = view_of(chat_service());
  EXPECT_EQ(requests_of(view, {}).arrived, 2);
  EXPECT_EQ(actuate::told_keys(view.keys).at(0).refused, 3);
  note_requests(recents, {view}, 3);
  EXPECT_EQ(requests_of(view, recents).recent->asked, 2);
}

// What a request says of itself takes nothing from others.
TEST_F(Priorities, AHeaderGivesNoPriority) {
  std::vector<Asking> said;
  for (int p = 1; p <= 8; ++p) said.push_back({"Partita-Priority: " + std::to_string(p) + "\r\n"});
  Asking others{"", 6};
  std::vector<Asking*> all{&others};
  for (Asking& one : said) all.push_back(&one);
  small = true;
  tokens_out = 60;  // so that the engine always has something to do
  flood([&] { begin_slow(600); }, all);
  if (IsSkipped()) return;
  EXPECT_GE(share(others.answered, others.sent), 0.9) << others.refused << " refused";
}

// A priority takes what it uses.
TEST_F(Priorities, AHigherOneThatUsesLittleTakesLittle) {
  std::vector<Asking> high;
  for (const char* less : {"0", "-1", "-2"})
    high.push_back({bearer("first") + "Partita-Priority: " + less + "\r\n", 2});
  Asking others{bearer("light"), 6};
  small = true;
  tokens_out = 60;  // so that the engine always has something to do
  flood([&] { begin_slow(600, secured()); }, {&others, &high[0], &high[1], &high[2]});
  if (IsSkipped()) return;
  EXPECT_GE(share(others.answered, others.sent), 0.9) << others.refused << " refused";
}

// One request at a time; while it lasts others wait.
class Waiting : public Priorities {
 protected:
  void begin_waiting(double ttft_ms, EngineOptions options, FrontOptions doors = {}) {
    sequences = 1;
    engine();
    TokenService one = service();
    one.tokens->ttft = Millis{ttft_ms};
    options.shed = false;
    begin(one, std::move(options), std::move(doors));
  }
  RawClient& send(const std::string& user, int out, const std::string& headers) {
    clients.push_back(std::make_unique<RawClient>(*loop, front->port()));
    clients.back()->send(post(chat(user, out), headers));
    return *clients.back();
  }
  // Who has an answer first.
  std::string first_of(std::vector<std::pair<std::string, RawClient*>> all) {
    std::string first;
    all.front().second->wait([&] {
      for (auto& [name, client] : all)
        if (client->fetch(), first.empty() && !client->input().empty()) first = name;
      return !first.empty();
    });
    return first;
  }

  std::vector<std::unique_ptr<RawClient>> clients;
};

TEST_F(Waiting, TheHigherGoesFirst) {
  begin_waiting(1000, {}, secured());
  send("busy", 150, bearer("light"));
  RawClient& low = send("low", 20, bearer("light"));
  RawClient& high = send("high", 20, bearer("first"));  // by its key
  EXPECT_TRUE(high.wait([&] { return chat_service().waiting() == 2; }));
  EXPECT_EQ(first_of({{"low", &low}, {"high", &high}}), "high");
  EXPECT_EQ(low.answer().status, 200);
}

// A priority of p moves a request p promised TTFTs forward, and no further.
TEST_F(Waiting, NobodyWaitsForEver) {
  begin_waiting(100, {}, secured());
  send("busy", 700, bearer("light"));
  RawClient& low = send("low", 20, bearer("light"));
  loop->run_until(Loop::now_ns() + 300 * kMsec);
  RawClient& high = send("high", 20, bearer("second"));
  EXPECT_TRUE(high.wait([&] { return chat_service().waiting() == 2; }));
  EXPECT_EQ(first_of({{"low", &low}, {"high", &high}}), "low");
}

TEST_F(Waiting, WhereNoMoreMayWaitTheLowerMakesRoom) {
  begin_waiting(1000, {.queue_limit = 1}, secured());
  RawClient& busy = send("busy", 200, bearer("light"));
  RawClient& low = send("low", 5, bearer("light"));
  RawClient& other = send("other", 5, bearer("light") + "Partita-Priority: 8\r\n");
  const auto full = other.answer();
  EXPECT_EQ(full.status, 429);
  RawClient& high = send("high", 5, bearer("first"));
  const auto gone = low.answer();
  EXPECT_EQ(gone.status, 429);
  EXPECT_THAT(gone.body, HasSubstr("higher priority"));
  EXPECT_NE(gone.header("Retry-After"), "");
  EXPECT_EQ(busy.answer().status, 200);
  EXPECT_EQ(high.answer().status, 200);
  EXPECT_EQ(fates().full, 2);
  EXPECT_EQ(fates().answered, 2);
}

// Where no TTFT is promised, those of a key that has had less go before what another has sent.
TEST_F(Waiting, KeysTakeTurns) {
  begin_waiting(0, {.queue_limit = 3}, secured());
  send("busy", 150, bearer("heavy"));
  RawClient& first = send("first", 50, bearer("heavy"));
  RawClient& second = send("second", 50, bearer("heavy"));
  RawClient& third = send("third", 50, bearer("heavy"));
  EXPECT_TRUE(third.wait([&] { return chat_service().waiting() == 3; }));
  EXPECT_EQ(send("fourth", 5, bearer("heavy")).answer().status, 429);
  RawClient& light = send("light", 5, bearer("light"));
  EXPECT_EQ(third.answer().status, 429) << "makes room";
  EXPECT_EQ(fates().over_share, 1);
  EXPECT_EQ(first_of({{"light", &light}, {"second", &second}}), "light");
  EXPECT_EQ(first.answer().status, 200);
  EXPECT_EQ(second.answer().status, 200);
}

// ---- KV caches

class Caches : public Priorities {
 protected:
  void wait_for(const std::function<bool()>& what) {
    RawClient waits = client();
    EXPECT_TRUE(waits.wait(what));
  }
};

TEST_F(Caches, HowFullTheyAreIsSaid) {
  profile::EngineSpec spec = quick();
  spec.blocks = 100;
  engine(spec);
  begin(service());
  const EngineReplica& replica = *chat_service().engines().here().front();
  wait_for([&] { return replica.kv_cache_usage(Loop::now_ns()).has_value(); });
  EXPECT_EQ(replica.kv_cache_usage(Loop::now_ns()), 0);
  EXPECT_EQ(replica.kv_tokens_free(Loop::now_ns()), 1600);
  RawClient direct(*loop, engines.front()->port());
  json body = chat("ann", 1197);  // and a prompt of 3
  body["model"] = "m";
  direct.send(post(body));
  wait_for([&] { return replica.kv_cache_usage(Loop::now_ns()) == 0.75; });
  EXPECT_EQ(chat_service().engines().kv_cache_usage(), 0.75);
  EXPECT_THAT(pool->metrics(), HasSubstr("vllm:kv_cache_usage_perc{model_name=\"chat\",engine=\"" +
                                         addresses.front() + "\"} 0.75"));
  auto core = Core::open(
      *loop, {.link_path = testing::TempDir() + "caches" + std::to_string(::getpid())}, nullptr);
  actuate::GatewayState state = state_of(**core, *pool, {}, {});
  EXPECT_EQ(state.services.at(0).engines.at(0).kv_cache_usage, 0.75);
  EXPECT_EQ(state.services.at(0).tokens->kv_cache_usage, 0.75);
  state.pid = 7;
  state.identity = "it";
  const auto read = actuate::parse_gateway("g", actuate::gateway_json(state));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(*read, state);
}

// Requests that others sent there are seen in no other way.
TEST_F(Caches, WhoHasNoRoomGetsNothing) {
  profile::EngineSpec spec = slow();
  spec.blocks = 40;
  engine(spec);
  engine(spec);
  begin(service());
  RawClient direct(*loop, engines.front()->port());
  json body = chat("ann", 600);
  body["model"] = "m";
  direct.send(post(body));
  const EngineReplica& full = *chat_service().engines().here().front();
  wait_for([&] { return full.kv_tokens_free(Loop::now_ns()).value_or(1e9) < 90; });
  const long before = engines.front()->requests();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ask(hundred("")).status, 200);
  EXPECT_EQ(engines.front()->requests(), before);
  EXPECT_EQ(engines.back()->requests(), 4);
}

}  // namespace
}  // namespace partita::serve
