// ScriptedEngine: an engine that answers as a test says: any status, or a stream whose tokens come
// when they are told to.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/door/address.h"
#include "base/door/listener.h"
#include "base/door/loop.h"

namespace partita::serve::test {

// What it does with a request.
struct Scripted {
  Reply reply = {.status = 200, .text = "{}"};
  // Where there are some, a stream: an event each, so long after the one before, then [DONE].
  std::vector<std::string> events = {};
  std::int64_t first_ns = 0, pause_ns = 0;
  bool dies = false;  // its connection, at first_ns, without a word
  bool ends = true;   // else nothing more comes after [DONE]
  bool only_done = false;  // a stream in which nothing comes before that
};

class ScriptedEngine final : public Site {
 public:
  explicit ScriptedEngine(Loop& loop) : loop_(loop) {
    const auto address = parse_listen_address("127.0.0.1:0").value();
    listener_ = DoorListener::open(loop, desk_, listen_on("127.0.0.1:0", address).value());
  }
  std::shared_ptr<Exchange> route(const HttpHead& head, const Peer&) override;
  Reply refusal(int status, std::string_view) override { return {.status = status}; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(listener_->port()); }

  std::function<Scripted(const nlohmann::json&)> script = [](const auto&) { return Scripted{}; };
  std::string model = "m";
  bool health_hangs = false;
  int asked = 0, names_asked = 0;

 private:
  friend class ScriptedExchange;
  Loop& loop_;
  DoorLimits limits_ = {};
  DoorCounts counts_ = {};
  Desk desk_{.site = *this, .limits = limits_, .counts = counts_};
  std::unique_ptr<DoorListener> listener_;
};

class ScriptedExchange final : public Exchange {
 public:
  ScriptedExchange(ScriptedEngine& engine, HeadFacts facts)
      : engine_(engine),
        facts_(std::move(facts)),
        timer_(engine.loop_, [this](std::int64_t due) { next(due); }) {}
  const HeadFacts& facts() const override { return facts_; }
  Step begin() override {
    if (facts_.method == Method::get) {
      if (facts_.path == "/health" && engine_.health_hangs) return Step::backend;
      engine_.names_asked += facts_.path == "/v1/models";
      reply.text = nlohmann::json{{"data", {{{"id", engine_.model}}}}}.dump();
      return Step::answer;
    }
    text_wanted = facts_.content_length;
    return Step::text;
  }
  Step on_text() override {
    ++engine_.asked;
    script_ = engine_.script(nlohmann::json::parse(text));
    reply = script_.reply;
    const bool streams = !script_.events.empty() || script_.dies || script_.only_done;
    if (!streams && script_.first_ns == 0) return Step::answer;
    timer_.at(Loop::now_ns() + script_.first_ns);
    stream_broken = script_.dies;
    return streams ? Step::stream : Step::backend;
  }

 private:
  void next(std::int64_t due) {
    const auto lives = shared_from_this();
    if ((script_.events.empty() && !script_.only_done) || script_.dies) {
      end();
      return;
    }
    if (!std::exchange(stream_begun, true)) reply.content_type = "text/event-stream";
    if (!script_.only_done) pieces += "data: " + script_.events[at_++] + "\n\n";
    if (at_ == script_.events.size()) {
      pieces += "data: [DONE]\n\n";
      if (script_.ends)
        end();
      else if (wake)
        wake();
      return;
    }
    if (wake) wake();
    timer_.at(due + script_.pause_ns);
  }

  ScriptedEngine& engine_;
  HeadFacts facts_;
  Scripted script_ = {};
  std::size_t at_ = 0;
  Loop::Timer timer_;
};

inline std::shared_ptr<Exchange> ScriptedEngine::route(const HttpHead& head, const Peer&) {
  HeadFacts facts;
  facts.method = head.method;
  facts.method_name = head.method_name;
  facts.path = head.target;
  facts.content_length = head.content_length.value_or(0);
  return std::make_shared<ScriptedExchange>(*this, std::move(facts));
}

}  // namespace partita::serve::test
