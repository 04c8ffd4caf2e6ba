// What tests of language models behind the HTTP door share: engines that take time and compute
// nothing, their clients' bodies, and what a stream of theirs says.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "serve/engines/engine_pool.h"
#include "serve/front/testing/door_fixture.h"
#include "serve/standin/standin.h"

namespace partita::serve::test {

using nlohmann::json;

inline profile::EngineSpec quick() {
  return {.cost = {.step = 1, .prompt_token = 0.01}, .step_tokens = 512, .sequences = 64};
}

inline json chat(const std::string& user, int out, bool stream = true) {
  return {{"model", "chat"},
          {"user", user},
          {"max_tokens", out},
          {"stream", stream},
          {"messages", {{{"role", "user"}, {"content", "tell me " + user}}}}};
}

inline std::string post(const json& body, const std::string& headers = "",
                        const std::string& path = "/v1/chat/completions") {
  return request("POST " + path, body.dump(), headers);
}

// What an answer of the stand-in says: "USER.0 USER.1 ... "
inline std::string words(const std::string& user, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += user + "." + std::to_string(i) + " ";
  return text;
}

struct Read {
  std::string text;
  int usages = 0, errors = 0;
  bool done = false;
};
inline Read read_stream(const std::string& body) {
  Read read;
  EventStream events;
  events.take(body, [&](const StreamEvent& event) {
    read.done = event.kind == StreamEvent::Kind::done;
    read.usages += event.usage.has_value();
    read.errors += event.kind == StreamEvent::Kind::error;
    if (event.kind != StreamEvent::Kind::token) return;
    const json parsed = json::parse(event.bytes.substr(6));
    read.text += parsed["choices"][0]["delta"]["content"].get<std::string>();
  });
  EXPECT_FALSE(events.inside());
  return read;
}

class EnginesFixture : public DoorFixture {
 protected:
  void engine(const profile::EngineSpec& spec = quick()) {
    auto opened = Standin::open(*loop, {.model = "m", .spec = spec});
    ASSERT_TRUE(opened);
    engines.push_back(*std::move(opened));
    addresses.push_back("http://127.0.0.1:" + std::to_string(engines.back()->port()));
  }
  TokenService service() const {
    TokenService one;
    one.name = "chat";
    one.model = "m";
    one.tokens.emplace();
    for (const std::string& url : addresses)
      one.engines.push_back({.url = url, .sequences = sequences});
    return one;
  }
  void begin(const TokenService& one, EngineOptions options = {}, FrontOptions front_options = {}) {
    pool = std::make_unique<EnginePool>(*loop, std::move(options), nullptr);
    pool->serve({one});
    front_options.listen = "127.0.0.1:0";
    auto opened = Front::open(*loop, backend, front_options, pool.get());
    ASSERT_TRUE(opened) << to_string(opened.error());
    front = *std::move(opened);
    RawClient waits = client();
    const auto all_ready = [&] {
      for (const auto& replica : chat_service().engines().here())
        if (!replica->ready() || replica->models.empty()) return false;
      return true;
    };
    ASSERT_TRUE(waits.wait(all_ready));
  }
  // As many requests at once as there are users, each of so many tokens.
  std::vector<std::unique_ptr<RawClient>> send_all(const std::vector<json>& bodies) {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (const json& body : bodies) {
      clients.push_back(std::make_unique<RawClient>(*loop, front->port()));
      clients.back()->send(post(body));
    }
    return clients;
  }
  EngineService& chat_service() { return *pool->find("chat"); }
  const TokenCounters& counters() { return chat_service().counters(); }
  void TearDown() override { front.reset(); }

  int sequences = 0;
  std::vector<std::unique_ptr<Standin>> engines;
  std::vector<std::string> addresses;
  std::unique_ptr<EnginePool> pool;
};

}  // namespace partita::serve::test
