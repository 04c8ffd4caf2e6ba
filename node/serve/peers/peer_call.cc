#include "serve/peers/peer_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/parse_number.h"

namespace partita::serve {
namespace {

constexpr std::int64_t kMilli = 1'000'000;
constexpr std::string_view kEvents = "text/event-stream";
constexpr std::string_view kPassedOn[] = {"Inference-Header-Content-Length", "Retry-After",
                                          "Retry-After-Ms"};

// It goes into a header.
std::string printable(std::string_view text) {
  std::string out(text);
  std::erase_if(out, [](char c) { return c < ' ' || c > '~'; });
  return out;
}

}  // namespace

Denial not_here(const PeerPool* peers, const std::string& name) {
  if (peers == nullptr || !peers->wants(name)) return unknown_model(name);
  return {.kind = Denial::Kind::absent,
          .message = "no node that answers carries model '" + name + "' now",
          .retry_after_ns = 1'000'000'000,
          .elsewhere = true};
}

Denial told_apart(PeerPool& pool, Denial why, const std::string& service, PeerPool::Way way,
                  std::string_view sender, bool asks) {
  if (why.kind != Denial::Kind::absent) return why;
  const bool full = pool.full(pool.carried_as(service), way, sender);
  pool.count_out(service, full ? PeerPool::Fate::full : PeerPool::Fate::nobody);
  if (full) {
    why.kind = Denial::Kind::overloaded;
    why.message =
        "the nodes that carry '" + service + "' have as much of this client's as they may";
  } else if (asks) {
    pool.count_uncarried(service);
  }
  return why;
}

bool is_not_here(const Denial& why) {
  return why.kind == Denial::Kind::not_ready || why.kind == Denial::Kind::absent ||
         why.kind == Denial::Kind::unknown_model;
}

PeerCall::PeerCall(PeerPool& pool, PeerAsk ask, Denial why, Ends ends)
    : pool_(pool), ask_(std::move(ask)), why_(std::move(why)), ends_(std::move(ends)) {}

PeerCall::~PeerCall() = default;

void PeerCall::let_go(std::unique_ptr<PeerCall> call) {
  call->over_ = true;
  for (const auto& link : call->links_) link->close();
  call->use_.reset();
  PeerPool& pool = call->pool_;
  pool.bury(std::move(call));
}

void PeerCall::start() { next(); }

std::string PeerCall::head() const {
  const bool more = tried_.size() < kMostPeerTries &&
                    pool_.offers(ask_.service, PeerPool::Way::http, tried_, ask_.sender) > 0;
  std::string text = request_head(ask_.verb, ask_.target, use_->peer().http) +
                     fmt::format("Authorization: Bearer {}\r\n{}: {}{}\r\n", pool_.options().token,
                                 kHandedOver, pool_.node(), ask_.counted || more ? kCounted : "");
  const auto add = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) text += fmt::format("{}: {}\r\n", name, value);
  };
  add(kHandedFor, ask_.client);
  if (ask_.json_bytes)
    add("Inference-Header-Content-Length", std::to_string(*ask_.json_bytes));
  else if (!ask_.body->empty())
    add("Content-Type", ask_.content_type);
  if (ask_.deadline) {
    const std::int64_t left = *ask_.deadline - Loop::now_ns();
    add("Partita-Timeout-Ms", std::to_string(std::max<std::int64_t>(left / kMilli, 1)));
  }
  if (ask_.priority) add("Partita-Priority", std::to_string(*ask_.priority));
  if (!ask_.idempotent) add("Partita-Idempotent", "false");
  add("traceparent", ask_.trace.parent);
  add("tracestate", ask_.trace.state);
  if (ask_.verb == "POST") add("Content-Length", std::to_string(ask_.body->size()));
  return text + "\r\n";
}

void PeerCall::next() {
  use_ = tried_.size() < kMostPeerTries
             ? pool_.take(ask_.service, PeerPool::Way::http, tried_, ask_.body->size(), ask_.sender)
             : nullptr;
  if (use_ == nullptr) return over(why_);
  tried_.push_back(use_->peer().node);
  head_seen_ = back_ = false;
  use_->lost = [this](std::string_view why) {
    links_.back()->close();
    lost(why);
  };
  use_->connected = [this] { return links_.back()->sent(); };
  links_.push_back(std::make_unique<EngineLink>(
      *use_->peer().lines, head(), ask_.body,
      EngineLink::Ends{[this](HttpResponse& answer) { more(answer); },
                       [this](std::string_view why) { link_ended(why); }}));
  links_.back()->start(!ask_.idempotent);
}

void PeerCall::more(HttpResponse& answer) {
  use_->heard();
  if (!std::exchange(head_seen_, true)) {
    if (!answer.header(kHandedBack).empty()) {
      back_ = handed_back_ = true;
      handed_back(answer);
    } else {
      answer_ = {.status = answer.status(),
                 .content_type = printable(answer.header("Content-Type"))};
      for (const std::string_view name : kPassedOn)
        if (const auto value = answer.header(name); !value.empty())
          answer_.headers += fmt::format("{}: {}\r\n", name, printable(value));
      stream_ = answer_.content_type.starts_with(kEvents);
      if (stream_) ends_.answer(std::move(answer_), true);
    }
  }
  if (over_ || back_) return;
  if (stream_) {
    if (std::string piece = answer.take_body(); !piece.empty()) ends_.piece(std::move(piece));
  } else {
    answer_.body += answer.take_body();
  }
}

void PeerCall::handed_back(const HttpResponse& answer) {
  const auto ms = parse_number<std::int64_t>(answer.header("Retry-After-Ms"));
  if (answer.header(kHandedBack) != kBackFull) return;
  use_->full(ms ? std::clamp<std::int64_t>(*ms, 1, 60'000) * kMilli : kMilli);
}

void PeerCall::link_ended(std::string_view why) {
  if (over_) return;
  if (!why.empty()) {
    use_->failed();
    return lost(why);
  }
  if (back_) {
    pool_.count_out(ask_.service, PeerPool::Fate::back);
    return next();
  }
  pool_.count_out(ask_.service, PeerPool::Fate::answered);
  if (!stream_) ends_.answer(std::move(answer_), false);
  if (!over_) over(std::nullopt);
}

// Its node does not answer any more. Nothing of it can have run where nothing of it was sent.
void PeerCall::lost(std::string_view why) {
  pool_.count_out(ask_.service, PeerPool::Fate::lost);
  const std::string node = use_->peer().node;
  const bool sent = links_.back()->sent();
  if (!stream_ && (ask_.idempotent || !sent)) return next();
  over(Denial{.kind = Denial::Kind::failed,
              .message = fmt::format("node {} was lost with it: {}", node, why)});
}

void PeerCall::over(std::optional<Denial> why) {
  if (std::exchange(over_, true)) return;
  use_.reset();
  ends_.ended(std::move(why));
}

}  // namespace partita::serve
