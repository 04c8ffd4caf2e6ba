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
constexpr std::int64_t kSoon = 1'000'000'000;  // to come again
constexpr std::size_t kMostQuoted = 300;  // bytes of what an engine says

// What can stand in a header.
std::string header_text(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c >= ' ' && c < 127) out += c;
  return out;
}

constexpr double kMostGuessed = 1e9;  // tokens

}  // namespace

EngineCall::EngineCall(EngineService& service, EngineAsk ask, std::int64_t now)
    : service_(service),
      ask_(std::move(ask)),
      request_(parse_openai_request(ask_.body).value()),
      hashes_(prefix_hashes(request_.prompt, text_hash(request_.tools))),
      arrived_(now),
      pace_(request_.answers) {
  client = text_hash(ask_.client);
  const double guessed = guessed_prompt_tokens(request_, service.bytes_per_token(now));
  prompt_tokens = static_cast<int>(std::min(guessed, kMostGuessed)) + 1;
}

EngineCall::~EngineCall() = default;

std::string EngineCall::request_head() const {
  std::string head = partita::request_head("POST", replica_->url, ask_.path);
  head += "Content-Type: application/json\r\nAccept: text/event-stream, application/json\r\n";
  if (!ask_.trace.parent.empty()) head += "traceparent: " + ask_.trace.parent + "\r\n";
  if (!ask_.trace.state.empty()) head += "tracestate: " + ask_.trace.state + "\r\n";
  return head;
}

void EngineCall::go(std::shared_ptr<EngineReplica> replica) {
  const std::int64_t now = Loop::now_ns();
  replica_ = std::move(replica);
  expected_ = expected_time(service_, *this, *replica_, now);
  ++tries_;
  status_ = 0;
  streams_ = done_ = chosen_ = false;
  refused_.reset();
  usage_.reset();
  pace_.restart();
  retry_after_.clear();
  events_ = {};
  held_.clear();
  guessed_ = {.prompt = prompt_tokens,
              .cached = cached_tokens(*this, *replica_, service_.bytes_per_token(now)),
              .client = client};
  replica_->guess.begin(guessed_, now);
  replica_->sent(prompt_tokens - guessed_.cached);
  replica_->prefixes.add(hashes_);
  replica_->calls.push_back(this);
  auto body =
      std::make_shared<const std::string>(engine_body(request_, model_at(service_, *replica_)));
  std::string head = request_head();
  head += "Content-Length: " + std::to_string(body->size()) + "\r\n\r\n";
  links_.push_back(std::make_unique<EngineLink>(
      replica_->lines, std::move(head), std::move(body),
      EngineLink::Ends{[this](HttpResponse& answer) { more(answer); },
                       [this](std::string_view why) { link_ended(why); }}));
  // A kept connection may be closed already: what may not be sent twice, or was lost with one
  // engine, has one of its own.
  links_.back()->start(!ask_.idempotent || lost_ > 0);
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
  if (!events_.take(bytes, [&](const StreamEvent& event) { note(event); })) {
    links_.back()->close();
    return link_ended("an event of its answer is too long");
  }
  const std::int64_t now = heard_ = Loop::now_ns();
  replica_->hear();
  const int fresh = pace_.fresh();
  const bool flushes = flushed_ || fresh > 0 || (done_ && chosen_) || error_;
  if (fresh > 0) {
    if (pace_.first() == 0) {
      service_.counted().ttft.add(now - arrived_);
      service_.shares.has_token(*this);
      service_.recents.first_token(now, now - arrived_);
      const plan::Terms& terms = service_.terms();
      if (const auto late = late_by_ttft(terms, now - arrived_))
        service_.patience.began(*late, 1 - terms.percentile / 100);
      replica_->guess.first_token(guessed_, now, true);
    }
    pace_.came(now, service_.counted().itl);
    replica_->guess.tokens(guessed_, fresh);
  }
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
  chosen_ = chosen_ || event.choices;
  if (event.kind == StreamEvent::Kind::token) pace_.add(event.choice);
  done_ = done_ || event.kind == StreamEvent::Kind::done;
  error_ = error_ || event.kind == StreamEvent::Kind::error;
  if (event.kind == StreamEvent::Kind::usage && adds_usage(request_)) return;  // we asked for it
  out_ += event.bytes;
}

// Of an answer that comes as a whole nobody can tell before its end.
bool on_time(const EngineCall& call, std::int64_t now, std::int64_t ttft) {
  if (call.over_ || call.counted_) return false;
  if (!call.request_.stream) return call.replica_ != nullptr && now - call.arrived_ < kLongestWait;
  const std::int64_t first = call.pace_.first();
  return first > 0 && (ttft <= 0 || first - call.arrived_ <= ttft);
}

void EngineCall::assume_first_token(std::int64_t now) {
  if (streams_ || guessed_.decodes || now < guessed_.begun + guessed_.expected) return;
  service_.shares.has_token(*this);
  replica_->guess.first_token(guessed_, now, false);
}

// ---- how it ends

void EngineCall::let_go_of_engine(std::int64_t now) {
  if (replica_ == nullptr) return;
  replica_->guess.end(guessed_, pace_.tpot(usage_ ? usage_->completion : 0), now);
  std::erase(replica_->calls, this);
}

void EngineCall::link_ended(std::string_view why) {
  const std::int64_t now = Loop::now_ns();
  let_go_of_engine(now);
  if (!why.empty()) {
    replica_->suspect();
    lost_ += std::max(links_.back()->lost_with_it(), 1);
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
  if (over_) return;
  if (!flushed_ && !done_) {
    if (ask_.timeout_ns && now - arrived_ >= *ask_.timeout_ns) return expire(now);
    const std::int64_t took = now - guessed_.begun;
    if (took >= std::max({most, kLongestWait, kTimesExpected * expected_}))
      engine_lost("nothing of the answer came for " + std::to_string(took / 1'000'000) + " ms");
    return;
  }
  if (done_ || error_) {
    if (now - heard_ < kEndOfAnswer) return;
    links_.back()->close();
    return link_ended("");
  }
  if (now - heard_ < most) return;
  links_.back()->close();
  let_go_of_engine(now);
  cut("nothing more of the answer came for " + std::to_string(most / 1'000'000) + " ms", kIdle);
}

void EngineCall::engine_lost(std::string_view why) {
  links_.back()->close();
  link_ended(why);
}

bool EngineCall::again() {
  if (!ask_.idempotent || tries_ >= kMostTries || lost_ >= kMostLost) return false;
  tried.push_back(replica_.get());
  replica_ = nullptr;
  ++service_.counted().retries;
  service_.again(*this, tries_);
  return true;
}

void EngineCall::again_or_fail(std::string_view why) {
  if (again()) return;
  count({.fate = &TokenFates::failed});
  end(Denial{.kind = Denial::Kind::not_ready,
             .message = (lost_ < kMostLost ? "no engine gave an answer: "
                                           : "two engines were lost with it: ") +
                        std::string(why),
             .retry_after_ns = kSoon});
}

// The client has some of it: it is told that the rest is missing.
void EngineCall::cut(std::string_view why, std::string_view code) {
  count(
      {.fate = &TokenFates::cut, .used = {.prompt = prompt_tokens, .completion = pace_.events()}});
  piece(error_event(why, code));
  end(std::nullopt);
}

// An engine has said all that it says.
void EngineCall::whole(std::int64_t now) {
  const WholeAnswer read = streams_ ? WholeAnswer{chosen_, usage_} : read_answer(held_);
  usage_ = read.usage;
  const AnswerSays says = error_
                              ? AnswerSays::failed
                              : what_says(status_, replica_->answers_others(ask_.path), read.good);
  if (status_ == kNotFound) replica_->ask_names();  // it may have been renamed
  if (says == AnswerSays::busy || says == AnswerSays::unfit || says == AnswerSays::nothing)
    refused_ = says;
  if (refused_ && again()) return;
  if (says == AnswerSays::answered) replica_->note_answered(ask_.path);
  pass_on(says, now);
}

void EngineCall::pass_on(AnswerSays says, std::int64_t now) {
  const bool answered = says == AnswerSays::answered;
  const TokenUsage used = usage_.value_or(
      TokenUsage{.prompt = answered ? prompt_tokens : 0, .completion = pace_.events()});
  AnswerTimes times{.ttft = pace_.first() == 0 ? 0 : pace_.first() - arrived_,
                    .tpot = pace_.tpot(used.completion),
                    .e2e = now - arrived_,
                    .empty = streams_ ? pace_.first() == 0 : usage_ && usage_->completion == 0};
  const plan::Terms& terms = service_.terms();
  if (const auto late = late_by_tpot(terms, times); answered && late && service_.sheds)
    replica_->guess.answered(*late, 1 - terms.percentile / 100);
  // The other choices have a token at least.
  if (usage_) times.tokens = std::max<std::int64_t>(usage_->completion - (request_.answers - 1), 0);
  if (usage_ && request_.most_tokens > 0)
    times.tokens = std::min(*times.tokens,
                            static_cast<std::int64_t>(request_.most_tokens / request_.sequences));
  count({.fate = fate_of(says, status_),
         .used = used,
         .told = usage_.has_value(),
         .prompt_bytes = answered && usage_ && request_.media == 0 ? request_.text_bytes : 0,
         .times = times});
  const std::string said =
      std::to_string(status_) + ": " + message_of_error(held_).substr(0, kMostQuoted);
  if (says == AnswerSays::nothing)
    return end(Denial{.kind = Denial::Kind::no_answer,
                      .message = "what its engine answers is no answer: " + said});
  if (says == AnswerSays::unfit)
    return end(Denial{.kind = Denial::Kind::failed,
                      .message = "its engine is not what '" + service_.terms().name +
                                 "' needs: it answers " + said});
  if (!streams_) piece(std::exchange(held_, {}));
  end(std::nullopt);
}

void EngineCall::leave() {
  if (over_) return;
  if (!links_.empty()) links_.back()->close();
  let_go_of_engine(Loop::now_ns());
  count({.fate = &TokenFates::withdrawn,
         .used = {.prompt = pace_.events() > 0 ? prompt_tokens : 0, .completion = pace_.events()}});
  over_ = true;
}

void EngineCall::expire(std::int64_t now) {
  if (!links_.empty()) links_.back()->close();
  const bool there = replica_ != nullptr;
  let_go_of_engine(now);
  if (refused_) return pass_on(*refused_, now);
  count({.fate = may_expire(service_, *this, now) ? &TokenFates::withdrawn : &TokenFates::expired});
  end(Denial{.kind = Denial::Kind::expired,
             .message = there ? "its engine took longer than its client waits"
                              : "it waited too long for an engine",
             .retry_after_ns = there ? 0 : kSoon});
}

void strand(EngineCall& call, Denial why) {
  if (call.refused_) return call.pass_on(*call.refused_, Loop::now_ns());
  call.refuse(std::move(why), call.tries_ > 0 ? &TokenFates::failed : &TokenFates::unready);
}

void EngineCall::refuse(Denial why, long TokenFates::*fate) {
  count({.fate = fate});
  end(std::move(why));
}

void EngineCall::count(const EngineCame& came) {
  if (!std::exchange(counted_, true)) service_.over(*this, came);
}

int cached_tokens(const EngineCall& call, const EngineReplica& replica, double bytes_per_token) {
  const auto bytes = static_cast<double>(replica.prefixes.known(call.hashes()) * kPrefixBytes);
  return static_cast<int>(std::min(bytes / bytes_per_token, call.prompt_tokens - 1.0));
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
