// EngineCall: a client's request in OpenAI's form on its way to an engine and back. Events of a
// stream are passed on whole and as they are, from the first that has a token on; before that
// another engine may be asked, after it an engine that is lost ends the stream with an event that
// says so. Loop thread only; let go through EngineService::release, never destroyed from inside of
// a call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/door/trace_context.h"
#include "serve/engines/engine_replica.h"
#include "serve/front/backend.h"
#include "serve/openai/answer_pace.h"
#include "serve/openai/answer_verdict.h"
#include "serve/openai/event_stream.h"
#include "serve/openai/openai_request.h"
#include "serve/openai/token_limits.h"
#include "serve/openai/token_metrics.h"

namespace partita::serve {

class EngineService;

inline constexpr int kMostTries = 3;  // times that a request may be sent to an engine
inline constexpr int kMostLost = 2;   // of those, that were lost with it: it may be why
inline constexpr std::int64_t kEndOfAnswer = 1'000'000'000;  // after its last event, at most
// What has no token after so many times what was expected, its engine has lost.
inline constexpr int kTimesExpected = 4;
inline constexpr double kUnsaidTokens = 4096;               // of an answer, at the most expected
inline constexpr std::size_t kMostWholeAnswer = 64u << 20;  // that is no stream

struct EngineAsk {
  std::string path = {};  // "/v1/chat/completions"
  std::string body = {};
  std::string key = {};     // whose usage it is; "": nobody's
  std::string client = {};  // who sends it, as far as that is known
  KeyLimits limits = {};
  int priority = 0;
  std::optional<std::int64_t> timeout_ns = {};  // to the first token of a stream, else to all of it
  bool idempotent = true;
  TraceContext trace = {};
};

// What a request came to.
struct EngineCame {
  long TokenFates::*fate = nullptr;
  TokenUsage used = {};
  bool told = false;             // that, by its engine; else it is guessed
  std::size_t prompt_bytes = 0;  // of text alone, with `used` as its engine counted; 0: nobody did
  AnswerTimes times = {};
};

class EngineCall {
 public:
  // The body of `ask` is one that parse_openai_request takes.
  EngineCall(EngineService& service, EngineAsk ask, std::int64_t now);
  ~EngineCall();
  EngineCall(const EngineCall&) = delete;
  EngineCall& operator=(const EngineCall&) = delete;

  // ---- of its service
  const EngineAsk& ask() const { return ask_; }
  // It was not let in, and ends.
  friend EngineAsk taken_back(EngineCall& call) { return std::move(call.ask_); }
  const PrefixHashes& hashes() const { return hashes_; }
  std::int64_t arrived() const { return arrived_; }
  const OpenaiRequest& request() const { return request_; }
  void go(std::shared_ptr<EngineReplica> replica);
  void leave();                                                // its client has gone
  void expire(std::int64_t now);                               // it waited too long
  void refuse(Denial why, long TokenFates::*fate);             // it waits, and is not to
  friend void strand(EngineCall& call, Denial why);            // ... since no engine is left
  void engine_lost(std::string_view why);                      // that has it
  // Where its engine has lost it or its end, or its client wants it no more. `most`: of a stream
  // between two events.
  void end_if_idle(std::int64_t now, std::int64_t most);
  bool moves() const { return !flushed_ && ask_.idempotent; }  // may be sent elsewhere
  // It has not ended, and nothing that is promised of its first token is missed.
  friend bool on_time(const EngineCall& call, std::int64_t now, std::int64_t ttft);
  // An answer that is no stream: its first token is taken to have come when it was expected.
  void assume_first_token(std::int64_t now);
  double set_aside = 0;      // tokens of its key's limit
  std::uint64_t client = 0;  // a number of whoever sends it
  int prompt_tokens = 1;     // guessed
  Completion completion = {};
  std::vector<const EngineReplica*> tried = {};  // and lost
  // Of its key's share, while it has no token: its place, and what it counts for.
  std::optional<double> tag = {};
  int rows = 1;
  bool trial = false;           // expected to be late, and let in since an engine has nothing to do
  std::int64_t not_before = 0;  // goes to an engine
  std::int64_t place = 0;       // among those that wait: as if it had come then

 private:
  void more(HttpResponse& answer);
  void take_events(std::string_view bytes);
  void note(const StreamEvent& event);
  void link_ended(std::string_view why);
  bool again();  // it is sent to an engine again; false: it may not
  void again_or_fail(std::string_view why);
  void cut(std::string_view why, std::string_view code);
  void whole(std::int64_t now);
  void pass_on(AnswerSays says, std::int64_t now);
  void let_go_of_engine(std::int64_t now);
  void count(const EngineCame& came);
  void piece(std::string_view bytes);
  void end(std::optional<Denial> denial);
  std::string request_head() const;

  EngineService& service_;
  EngineAsk ask_;
  OpenaiRequest request_;  // views into ask_.body
  PrefixHashes hashes_;
  std::int64_t arrived_ = 0, heard_ = 0;
  std::int64_t expected_ = 0;  // from its engine: a first token, or all of what is no stream
  int tries_ = 0, lost_ = 0;
  std::shared_ptr<EngineReplica> replica_ = {};
  GuessedRequest guessed_ = {};
  std::vector<std::unique_ptr<EngineLink>> links_ = {};  // the last one is in use
  EventStream events_ = {};
  std::string held_ = {}, out_ = {};
  // Of its answer, until the first piece of it goes on.
  std::string type_ = {}, retry_after_ = {};
  int status_ = 0;
  // What held_ says, where it may be asked for again.
  std::optional<AnswerSays> refused_ = {};
  AnswerPace pace_;       // of events that were passed on
  std::optional<TokenUsage> usage_ = {};
  bool streams_ = false, flushed_ = false, done_ = false, error_ = false;
  bool chosen_ = false;  // an event of a choice came
  bool counted_ = false, over_ = false;
};

// What of its prompt the replica has, by the beginnings that were sent there: tokens.
int cached_tokens(const EngineCall& call, const EngineReplica& replica, double bytes_per_token);

}  // namespace partita::serve
