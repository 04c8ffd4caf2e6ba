#include "serve/engines/engine_call.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "serve/engines/engine_service.h"
#include "serve/oip/json_scan.h"

namespace partita::serve {
namespace {

constexpr std::string_view kLost = "engine_lost", kIdle = "stream_idle";
constexpr int kNotFound = 404;
constexpr std::size_t kMostQuoted = 300;  // bytes of what an engine says

// What can stand in a header.
std::string header_text(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c >= ' ' && c < 127) out += c;
  return out;
}

int whole_tokens(double tokens) { return static_cast<int>(std::min(tokens, 1e9)) + 1; }

}  // namespace

EngineCall::EngineCall(EngineService& service, EngineAsk ask, std::int64_t now)
    : service_(service),
      ask_(std::move(ask)),
      request_(parse_openai_request(ask_.body).value()),
      hashes_(prefix_hashes(request_.prompt, text_hash(request_.tools))),
      client_(text_hash(ask_.client)),
      arrived_(now),
      prompt_tokens_(whole_tokens(guessed_prompt_tokens(request_, service.bytes_per_token(now)))),
      paces_(static_cast<std::size_t>(request_.answers)) {
  most_tokens = request_.most_tokens;
}

EngineCall::~EngineCall() = default;

std::string EngineCall::request_head() const {
  std::string head = replica_->head("POST", ask_.path);
  head += "Content-Type: application/json\r\nAccept: text/event-stream, application/json\r\n";
  if (!ask_.trace.parent.empty()) head += "traceparent: " + ask_.trace.parent + "\r\n";
  if (!ask_.trace.state.empty()) head += "tracestate: " + ask_.trace.state + "\r\n";
  return head;
}

void EngineCall::go(std::shared_ptr<EngineReplica> replica) {
  const std::int64_t now = Loop::now_ns();
  replica_ = std::move(replica);
  ++tries_;
  status_ = 0;
  streams_ = refused_ = false;
  tokens_ = 0;
  std::ranges::fill(paces_, Pace{});
  retry_after_.clear();
  events_ = {};
  held_.clear();
  guessed_ = {.prompt = prompt_tokens_,
              .cached = service_.cached_tokens(*this, *replica_, now),
              .client = client_};
  replica_->guess.begin(guessed_, now);
  replica_->prefixes.add(hashes_);
  replica_->calls.push_back(this);
  auto body =
      std::make_shared<const std::string>(engine_body(request_, service_.model_at(*replica_)));
  std::string head = request_head();
  head += "Content-Length: " + std::to_string(body->size()) + "\r\n\r\n";
  links_.push_back(std::make_unique<EngineLink>(
      replica_->lines, std::move(head), std::move(body),
      EngineLink::Ends{[this](HttpResponse& answer) { more(answer); },
                       [this](std::string_view why) { link_ended(why); }}));
  links_.back()->start();
}

// ---- what comes

void EngineCall::more(HttpResponse& answer) {
  if (status_ == 0) {
    status_ = answer.status();
    type_ = header_text(answer.header("content-type"));
    retry_after_ = header_text(answer.header("retry-after"));
    streams_ = status_ == 200 && type_.starts_with("text/event-stream");
  }
  if (answer.body().empty()) return;
  if (streams_) {
    take_events(answer.body());
    return answer.drop_body();
  }
  held_ += answer.body();
  answer.drop_body();
  if (held_.size() <= kMostWholeAnswer) return;
  links_.back()->close();
  let_go_of_engine(Loop::now_ns());
  tries_ = kMostTries;
  again_or_fail("its answer is too long");
}

void EngineCall::take_events(std::string_view bytes) {
  out_.clear();
  const std::int64_t before = tokens_;
  if (!events_.take(bytes, [&](const StreamEvent& event) { note(event); })) {
    links_.back()->close();
    return link_ended("an event of its answer is too long");
  }
  const std::int64_t now = heard_ = Loop::now_ns();
  replica_->hear(now);
  const bool flushes = flushed_ || tokens_ > before || done_ || error_;
  if (tokens_ > before) note_tokens(now);
  if (!flushes) {
    held_ += out_;
    return;
  }
  if (!flushed_) out_ = std::exchange(held_, {}) + out_;
  flushed_ = true;
  if (!out_.empty()) piece(out_);
}

void EngineCall::note(const StreamEvent& event) {
  if (event.usage) usage_ = event.usage;
  if (event.kind == StreamEvent::Kind::token) {
    ++tokens_;
    if (event.choice < 0)
      for (Pace& pace : paces_) ++pace.fresh;
    else  // one that was not asked for is one of them
      ++paces_[static_cast<std::size_t>(event.choice) % paces_.size()].fresh;
  }
  done_ = done_ || event.kind == StreamEvent::Kind::done;
  error_ = error_ || event.kind == StreamEvent::Kind::error;
  if (event.kind == StreamEvent::Kind::usage && adds_usage(request_)) return;  // we asked for it
  out_ += event.bytes;
}

void EngineCall::note_tokens(std::int64_t now) {
  TokenCounters& counters = service_.counted();
  if (first_ == 0) {
    first_ = now;
    counters.ttft.add(now - arrived_);
    service_.recents.first_token(now, now - arrived_);
    replica_->guess.first_token(guessed_, now, true);
  }
  for (Pace& pace : paces_) {
    const int count = std::exchange(pace.fresh, 0);
    if (count == 0) continue;
    if (pace.tokens == 0) {
      pace.first = now;
      counters.itl.add(0, count - 1);
    } else {
      counters.itl.add((now - pace.last) / count, count);
    }
    pace.last = now;
    pace.tokens += count;
    replica_->guess.tokens(guessed_, count);
  }
}

void EngineCall::assume_first_token(std::int64_t now) {
  if (streams_ || guessed_.decodes || now < guessed_.begun + guessed_.expected) return;
  replica_->guess.first_token(guessed_, now, false);
}

// ---- how it ends

// An event may hold more than one token: those that the engine counted are shared out by events.
std::int64_t EngineCall::tpot() const {
  std::int64_t events = 0, slowest = 0;
  for (const Pace& pace : paces_) events += pace.tokens;
  const std::int64_t counted = std::max(usage_ ? usage_->completion : 0, events);
  for (const Pace& pace : paces_) {
    const std::int64_t out = pace.tokens == 0 ? 0 : counted * pace.tokens / events;
    if (out > 1) slowest = std::max(slowest, (pace.last - pace.first) / (out - 1));
  }
  return slowest;
}

AnswerTimes EngineCall::times(std::int64_t now) const {
  AnswerTimes times{
      .ttft = first_ == 0 ? 0 : first_ - arrived_, .tpot = tpot(), .e2e = now - arrived_};
  // The other choices have a token at least.
  if (usage_) times.tokens = std::max<std::int64_t>(usage_->completion - (request_.answers - 1), 0);
  return times;
}

void EngineCall::let_go_of_engine(std::int64_t now) {
  if (replica_ == nullptr) return;
  replica_->guess.end(guessed_, tpot(), now);
  std::erase(replica_->calls, this);
}

void EngineCall::link_ended(std::string_view why) {
  const std::int64_t now = Loop::now_ns();
  let_go_of_engine(now);
  if (!why.empty()) {
    replica_->suspect();
    ++lost_;
  }
  if (over_) return;
  if (streams_ && (done_ || error_)) return whole(now);
  if (why.empty() && !streams_) return whole(now);
  if (!flushed_) return again_or_fail(why.empty() ? "its answer has no end" : why);
  cut("the engine was lost in the middle of the answer: " +
          std::string(why.empty() ? "its answer has no end" : why),
      kLost);
}

// An engine that is well may still have lost a sequence.
void EngineCall::end_if_idle(std::int64_t now, std::int64_t most) {
  if (over_ || !streams_ || !flushed_ || done_ || error_ || now - heard_ < most) return;
  links_.back()->close();
  let_go_of_engine(now);
  cut("nothing more of the answer came for " + std::to_string(most / 1'000'000) + " ms", kIdle);
}

void EngineCall::engine_lost(std::string_view why) {
  links_.back()->close();
  link_ended(why);
}

void EngineCall::again() {
  tried.push_back(replica_.get());
  replica_ = nullptr;
  ++service_.counted().retries;
  service_.again(*this);
}

void EngineCall::again_or_fail(std::string_view why) {
  if (may_go_again()) return again();
  count({.fate = &TokenFates::failed});
  end(Denial{.kind = Denial::Kind::not_ready,
             .message = (lost_ < kMostLost ? "no engine gave an answer: "
                                           : "two engines were lost with it: ") +
                        std::string(why),
             .retry_after_ns = 1'000'000'000});
}

// The client has some of it: it is told that the rest is missing.
void EngineCall::cut(std::string_view why, std::string_view code) {
  count({.fate = &TokenFates::cut, .used = {.prompt = prompt_tokens_, .completion = tokens_}});
  piece(error_event(why, code));
  end(std::nullopt);
}

// An engine has said all that it says.
void EngineCall::whole(std::int64_t now) {
  const AnswerSays says =
      error_ ? AnswerSays::failed : what_says(status_, replica_->answers_others(ask_.path));
  if (status_ == kNotFound) replica_->ask_names();  // it may have been renamed
  refused_ = says == AnswerSays::busy || says == AnswerSays::unfit;
  if (refused_ && may_go_again()) return again();
  if (says == AnswerSays::answered) replica_->note_answered(ask_.path);
  pass_on(says, now);
}

void EngineCall::pass_on(AnswerSays says, std::int64_t now) {
  if (!streams_) usage_ = usage_of_answer(held_);
  const TokenUsage used = usage_.value_or(TokenUsage{.completion = tokens_});
  const bool answered = says == AnswerSays::answered;
  count({.fate = fate_of(says, status_),
         .used = used,
         .prompt_bytes = answered && usage_ && request_.media == 0 ? request_.text_bytes : 0,
         .times = times(now)});
  if (says == AnswerSays::unfit)
    return end(Denial{.kind = Denial::Kind::failed,
                      .message = "its engine is not what '" + service_.terms().name +
                                 "' needs: it answers " + std::to_string(status_) + ": " +
                                 held_.substr(0, kMostQuoted)});
  if (!streams_) piece(held_);
  end(std::nullopt);
}

void EngineCall::leave() {
  if (over_) return;
  if (!links_.empty()) links_.back()->close();
  let_go_of_engine(Loop::now_ns());
  count({.fate = &TokenFates::withdrawn,
         .used = {.prompt = tokens_ > 0 ? prompt_tokens_ : 0, .completion = tokens_}});
  over_ = true;
}

void EngineCall::expire() {
  if (refused_) return pass_on(what_says(status_, false), Loop::now_ns());
  count({.fate = &TokenFates::expired});
  end(Denial{.kind = Denial::Kind::expired, .message = "it waited too long for an engine"});
}

void EngineCall::count(const EngineCame& came) {
  if (!std::exchange(counted_, true)) service_.over(*this, came);
}

void EngineCall::piece(std::string_view bytes) {
  if (over_ || !completion.piece) return;
  completion.piece(
      {.http_status = status_, .content_type = type_, .retry_after = retry_after_, .bytes = bytes});
  type_.clear();
  retry_after_.clear();
}

void EngineCall::end(std::optional<Denial> denial) {
  if (std::exchange(over_, true)) return;
  replica_ = nullptr;
  if (completion.ended) completion.ended(std::move(denial));
}

}  // namespace partita::serve
