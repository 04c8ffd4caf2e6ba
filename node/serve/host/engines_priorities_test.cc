// Who is served while more is asked of language models than their engines carry: by priority, and
// by key among those of one priority; and what engines say of their KV caches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  // Evenly, for so long; then all answers are waited for.
  void flood(std::vector<Asking*> all, std::int64_t ns) {
    const std::int64_t end = Loop::now_ns() + ns;
    for (std::int64_t now = Loop::now_ns(); now < end; now = Loop::now_ns()) {
      for (Asking* one : all) {
        if (one->next > now) continue;
        one->next = std::max(one->next, now - 50 * kMsec) +
                    static_cast<std::int64_t>(static_cast<double>(kSec) / one->rate);
        one->clients.push_back(std::make_unique<RawClient>(*loop, front->port()));
        one->clients.back()->send_now(hundred(one->headers));
        ++one->sent;
      }
      loop->run_until(now + 2 * kMsec);
    }
    for (Asking* one : all)
      for (const auto& client : one->clients) {
        const int status = client->answer().status;
        one->answered += status == 200;
        one->refused += status == 429;
      }
  }
  Rng rng{1};
  static double share(int part, int all) { return static_cast<double>(part) / std::max(all, 1); }
  const TokenFates& fates() { return counters().fates; }
};

constexpr char kKeyFile[] =
    "0123456789abcdef-light *\n"
    "0123456789abcdef-heavy *\n"
    "0123456789abcdef-first * priority=3\n";
std::string bearer(const std::string& name) {
  return "Authorization: Bearer 0123456789abcdef-" + name + "\r\n";
}
FrontOptions secured() {
  FrontOptions options;
  options.tokens = parse_tokens("t", kKeyFile).value();
  return options;
}

TEST_F(Priorities, TheLowerIsRefusedFirst) {
  begin_slow(600);
  Asking high{"Partita-Priority: 2\r\n", 6}, low{"", 30};
  flood({&high, &low}, 3 * kSec);
  EXPECT_GE(share(high.answered, high.sent), 0.8) << high.answered << " of " << high.sent;
  EXPECT_GT(low.answered, 0);  // what is left
  EXPECT_LE(share(low.answered, low.sent), 0.6) << low.answered << " of " << low.sent;
  EXPECT_EQ(high.answered + high.refused + low.answered + low.refused, high.sent + low.sent);
  EXPECT_GE(share(static_cast<int>(fates().in_slo), high.answered + low.answered), 0.7);
}

TEST_F(Priorities, AKeyGetsItsShareBesideOneThatFloods) {
  begin_slow(600, secured());
  Asking light{bearer("light"), 4}, heavy{bearer("heavy"), 40};
  flood({&light, &heavy}, 3 * kSec);
  EXPECT_GE(share(light.answered, light.sent), 0.7) << light.answered << " of " << light.sent;
  EXPECT_GT(heavy.answered, light.answered / 2);  // what the other does not use
  EXPECT_LE(share(heavy.answered, heavy.sent), 0.5);
  EXPECT_GT(fates().over_share, 0);
  EXPECT_THAT(pool->metrics(), HasSubstr("fate=\"over_share\""));
  EXPECT_GT(requests_of(view_of(chat_service()), {}).shed, 0);
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
  begin_waiting(100, {});
  send("busy", 700, "");
  RawClient& low = send("low", 20, "");
  loop->run_until(Loop::now_ns() + 300 * kMsec);
  RawClient& high = send("high", 20, "Partita-Priority: 2\r\n");
  EXPECT_TRUE(high.wait([&] { return chat_service().waiting() == 2; }));
  EXPECT_EQ(first_of({{"low", &low}, {"high", &high}}), "low");
}

TEST_F(Waiting, WhereNoMoreMayWaitTheLowerMakesRoom) {
  begin_waiting(1000, {.queue_limit = 1});
  RawClient& busy = send("busy", 200, "");
  RawClient& low = send("low", 5, "");
  RawClient& other = send("other", 5, "");
  const auto full = other.answer();
  EXPECT_EQ(full.status, 429);
  RawClient& high = send("high", 5, "Partita-Priority: 1\r\n");
  const auto gone = low.answer();
  EXPECT_EQ(gone.status, 429);
  EXPECT_THAT(gone.body, HasSubstr("higher priority"));
  EXPECT_NE(gone.header("Retry-After"), "");
  EXPECT_EQ(busy.answer().status, 200);
  EXPECT_EQ(high.answer().status, 200);
  EXPECT_EQ(fates().full, 2);
  EXPECT_EQ(fates().answered, 2);
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
  auto core = Core::open(*loop, {.link_path = testing::TempDir() + "caches.sock"}, nullptr);
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
