// PeerCall: a request on its way to the gateway of another node and back, over HTTP. It is offered
// to kMostPeerTries nodes at most, one after the other: to the next where one hands it back, gives
// no connection, or is lost with it before any of the answer was passed on; the last of these only
// where it may run twice. An answer is passed on whole, but for a stream of events, which is passed
// on as it comes. Loop thread only; to be let go through let_go(), never destroyed from inside of a
// call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/door/trace_context.h"
#include "serve/front/backend.h"
#include "serve/peers/peer_pool.h"

namespace partita::serve {

// Why one is refused that asks for what this node does not carry: that there is no such model, or,
// where the fleet wants it, that no node carries it now. null: the node is of no fleet.
Denial not_here(const PeerPool* peers, const std::string& name);
// What is said where `why` is that: nobody carries it, or those who do have no place for it. Counts
// it so, the first as demand where it `asks`.
Denial told_apart(PeerPool& pool, Denial why, const std::string& service, PeerPool::Way way,
                  std::string_view sender, bool asks);
// Whether that, or the want of workers, is the reason.
bool is_not_here(const Denial& why);

struct PeerAsk {
  std::string service;                // as the plan names it
  std::string verb = "POST", target;  // "/v2/models/chat/infer"
  std::string content_type = "application/json";
  std::shared_ptr<const std::string> body = std::make_shared<std::string>();
  std::string client = {};                       // for whom it asks, where that is a word
  std::string sender = {};                       // whose places it takes
  std::optional<std::uint64_t> json_bytes = {};  // Inference-Header-Content-Length
  std::optional<std::int64_t> deadline = {};     // of the monotonic clock
  std::optional<int> priority = {};
  bool idempotent = true;
  bool counted = false;  // as one that was asked for, here
  TraceContext trace = {};
};

struct PeerAnswer {
  int status = 0;
  std::string content_type = {}, headers = {}, body = {};
};

class PeerCall {
 public:
  struct Ends {
    // The answer: whole, or the head of a stream, whose pieces follow.
    std::function<void(PeerAnswer answer, bool stream)> answer;
    std::function<void(std::string)> piece;
    // Once, last: nothing, or why there is no answer, or no more of it.
    std::function<void(std::optional<Denial>)> ended;
  };
  // `why`: what is said where nobody takes it. The pool outlives it.
  PeerCall(PeerPool& pool, PeerAsk ask, Denial why, Ends ends);
  ~PeerCall();
  PeerCall(const PeerCall&) = delete;
  PeerCall& operator=(const PeerCall&) = delete;
  void start();  // may call `ended`
  // A node had it, and counts it, that could not take it.
  bool was_handed_back() const { return handed_back_; }
  // Nothing is called any more, and a node that has it sees that the client has gone.
  static void let_go(std::unique_ptr<PeerCall> call);

 private:
  void next();
  void more(HttpResponse& answer);
  void link_ended(std::string_view why);
  void over(std::optional<Denial> why);
  void handed_back(const HttpResponse& answer);
  void lost(std::string_view why);
  std::string head() const;

  PeerPool& pool_;
  const PeerAsk ask_;
  Denial why_;
  Ends ends_;
  std::vector<std::string> tried_ = {};
  std::unique_ptr<PeerUse> use_ = {};
  std::vector<std::unique_ptr<EngineLink>> links_ = {};  // the last one is in use
  PeerAnswer answer_ = {};
  bool head_seen_ = false, back_ = false, stream_ = false, over_ = false;
  bool handed_back_ = false;
};

}  // namespace partita::serve
