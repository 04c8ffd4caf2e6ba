// Handing a request over to the gateway of another node: what of a GatewayExchange it needs. The
// body is read whole, since it may have to be offered to more than one.
#include <algorithm>
#include <utility>

#include "serve/brain/service.h"
#include "serve/front/gateway_exchange.h"
#include "serve/openai/event_stream.h"

namespace partita::serve {
namespace {

constexpr std::size_t kMostClientName = 128;

// For a header; empty where it cannot stand in one.
std::string header_word(const std::string& text) {
  const bool fits = text.size() <= kMostClientName &&
                    std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
  return fits ? text : "";
}

// A question without a body.
class ElsewhereExchange final : public GatewayExchange {
 public:
  ElsewhereExchange(Door& door, RequestFacts facts, std::string model)
      : GatewayExchange(door, std::move(facts)) {
    service = std::move(model);
  }
  Step begin() override {
    const Denial why = not_here(door_.options.peers, service);
    return goes_over(why, false) ? hand_over() : deny(why);
  }
  void finish() override { finish_over(); }
};

}  // namespace

bool GatewayExchange::goes_over(const Denial& why, bool asked) {
  PeerPool* const peers = door_.options.peers;
  if (peers == nullptr || !why.elsewhere || !facts_.handed_by.empty()) return false;
  const std::string known = peers->carried_as(service);
  if (known.empty() || peers->offers(known, PeerPool::Way::http, {}, facts_.client) == 0)
    return false;
  if (facts_.content_length > door_.options.limits.json_bytes) return false;
  if (request_) door_.backend.release(*std::exchange(request_, std::nullopt));
  going_ = why;
  asked_ = asked;
  return true;
}

Step GatewayExchange::read_whole() {
  text_open = facts_.chunked;
  text_wanted = facts_.chunked ? door_.options.limits.json_bytes : facts_.content_length;
  return Step::text;
}

Step GatewayExchange::read_rest() {
  const std::size_t have = text.size();
  if (facts_.chunked && facts_.json_bytes) return deny(*going_);  // nobody knows how much comes
  if (facts_.chunked || facts_.content_length <= have) return hand_over();
  if (const Step more = on_growth(facts_.content_length); more != Step::text) return more;
  text.resize(facts_.content_length);
  scatter = {{text.data() + have, text.size() - have}};
  return Step::tensors;
}

tl::expected<KeyHandle, Denial> GatewayExchange::key_begun(bool asked) {
  RequestHead head;
  head.service = service;
  head.client = facts_.client;
  head.limits = &facts_.token->limits;
  head.bytes = text.size();
  head.again = asked;
  return door_.backend.key_begun(head);
}

int priority_of(const RequestFacts& facts) {
  const double of_key = facts.token != nullptr ? facts.token->limits.priority : 0;
  return std::clamp(facts.priority.value_or(0) + static_cast<int>(of_key), -kMaxPriority,
                    kMaxPriority);
}

int priority_of_key(const RequestFacts& facts) {
  if (!facts.handed_by.empty() || facts.priority.value_or(0) <= 0) return priority_of(facts);
  return facts.token != nullptr ? static_cast<int>(facts.token->limits.priority) : 0;
}

PeerAsk GatewayExchange::ask_peer() {
  PeerAsk ask{.service = door_.options.peers->carried_as(service),
              .verb = facts_.method_name,
              .target = facts_.path,
              .content_type = std::string(text_type()),
              .client = header_word(facts_.client),
              .sender = facts_.client,
              .json_bytes = facts_.json_bytes,
              .idempotent = facts_.idempotent,
              .counted = door_.backend.known(service),
              .trace = facts_.trace};
  if (facts_.timeout_ns) ask.deadline = came_ns_ + *facts_.timeout_ns;
  if (const int said = priority_(facts_); said != 0) ask.priority = said;
  return ask;
}

Step GatewayExchange::hand_over() {
  if (facts_.token != nullptr && facts_.token->limits != KeyLimits{}) {
    auto key = key_begun(asked_);
    if (!key) return deny(key.error());
    key_ = *std::move(key);
  }
  submitted_ns = Loop::now_ns();
  PeerAsk ask = ask_peer();
  ask.body = std::make_shared<const std::string>(std::move(text));
  text = {};
  const auto guarded = [weak = weak_from_this()](auto&& function) {
    return [weak, function](auto&&... values) {
      if (const auto exchange = weak.lock()) function(std::forward<decltype(values)>(values)...);
    };
  };
  peer_call_ = std::make_unique<PeerCall>(
      *door_.options.peers, std::move(ask), *going_,
      PeerCall::Ends{
          .answer = guarded(
              [this](PeerAnswer answer, bool stream) { take_answer(std::move(answer), stream); }),
          .piece = guarded([this](std::string piece) {
            on_piece({.bytes = piece});
            if (wake) wake();
          }),
          .ended = guarded([this](std::optional<Denial> why) { on_end(std::move(why)); })});
  peer_call_->start();
  return Step::stream;
}

void GatewayExchange::take_answer(PeerAnswer&& answer, bool stream) {
  uncount(*going_);
  peer_type_ = std::move(answer.content_type);
  reply = {
      .status = answer.status, .content_type = peer_type_, .headers = std::move(answer.headers)};
  if (!stream) {
    on_answer(answer);
    reply.text = std::move(answer.body);
    return;
  }
  stream_begun = true;
  if (wake) wake();
}

// Of one that was handed over: the reply is there, or why there is none.
void GatewayExchange::finish_over() {
  if (stream_begun) {
    if (denial_) pieces += error_event(denial_->message, "node_lost");
    return;
  }
  if (denial_)
    deny(*denial_);
  else if (reply.content_type == "application/json" && reply.headers.empty())
    compress();
}

std::shared_ptr<Exchange> make_elsewhere_exchange(Door& door, RequestFacts facts,
                                                  std::string model) {
  PeerPool* const peers = door.options.peers;
  if (peers == nullptr || !facts.handed_by.empty() || !peers->wants(model)) return nullptr;
  return std::make_shared<ElsewhereExchange>(door, std::move(facts), std::move(model));
}

}  // namespace partita::serve
