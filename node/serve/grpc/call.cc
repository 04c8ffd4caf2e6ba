#include "serve/grpc/call.h"

#include <algorithm>

#include "base/door/address.h"
#include "serve/grpc/end_connection.h"

namespace partita::serve {
namespace {

constexpr std::size_t kKeptForOthers = 16;          // one of so many calls no address gets alone
constexpr std::size_t kRefusedKindly = 64;          // calls of a connection that wait to hear it
constexpr std::int64_t kWaitGrace = 1'000'000'000;  // before a call makes room for others

std::string_view view_of(grpc::string_ref text) { return {text.data(), text.size()}; }

// "127.0.0.1" of "ipv4:127.0.0.1:4711".
std::string host_of_peer(const std::string& peer) {
  return host_of(peer.substr(std::min(peer.find(':') + 1, peer.size())));
}

// Metadata that comes twice counts as not said, as with the headers of the HTTP door.
TraceContext trace_of(const grpc::GenericCallbackServerContext& context, bool new_traces) {
  const auto& all = context.client_metadata();
  const auto said = [&](const char* key) {
    const auto found = all.find(key);
    return found == all.end() ? std::string_view() : view_of(found->second);
  };
  TraceContext found = all.count("traceparent") == 1
                           ? trace_context(said("traceparent"), said("tracestate"))
                           : TraceContext{};
  if (found.parent.empty() && new_traces) found.parent = new_trace_parent();
  return found;
}

}  // namespace

MessagePieces::MessagePieces(const grpc::ByteBuffer& buffer) {
  if (!buffer.Dump(&slices).ok()) slices.clear();
  pieces.reserve(slices.size());
  for (const grpc::Slice& slice : slices)
    pieces.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
}

// ---- calls that are open

std::shared_ptr<GrpcCall> GrpcShared::oldest_waiting(const std::string& host) const {
  for (const auto& [order, call] : waiting) {
    if (Loop::now_ns() - call->waits_since_ < kWaitGrace) break;
    if (host.empty() || host_of_peer(call->peer()) == host) return call->self();
  }
  return nullptr;
}

std::optional<grpc::Status> GrpcShared::take(const std::string& peer,
                                             std::shared_ptr<GrpcCall>& displaced) {
  const auto full = [](const char* what) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, what);
  };
  const std::string host = host_of_peer(peer);
  const auto connection = connections.find(peer);
  if (connection != connections.end() && connection->second.calls >= most_per_connection)
    return full("too many calls on this connection");
  const auto there = hosts.find(host);
  const bool share =
      there != hosts.end() && there->second >= most_calls - most_calls / kKeptForOthers;
  if (share || calls.size() + in_streams >= most_calls) {
    displaced = oldest_waiting(share ? host : "");
    if (displaced == nullptr)
      return full(share ? "too many calls of this address" : "too many calls");
    waiting.erase(displaced->number_);
  }
  ++connections[peer].calls;
  ++hosts[host];
  return std::nullopt;
}

void GrpcShared::give(const std::string& peer) {
  if (const auto host = hosts.find(host_of_peer(peer)); --host->second == 0) hosts.erase(host);
  forget(peer, &Connection::calls);
}

// Whether it was well is remembered while others of it are open, or nobody needs the room.
void GrpcShared::forget(const std::string& peer, std::size_t Connection::*count) {
  const auto found = connections.find(peer);
  --(found->second.*count);
  if (found->second.calls + found->second.refused > 0) return;
  const bool keep = found->second.answered_ns > 0 || found->second.faulted;
  if (!keep || connections.size() > most_calls) connections.erase(found);
}

void GrpcCall::begin(std::shared_ptr<GrpcCall> self) {
  self_ = std::move(self);
  std::optional<grpc::Status> refusal;
  std::shared_ptr<GrpcCall> displaced;
  bool pile = false;
  {
    const std::lock_guard lock(shared_->mutex);
    // Where the door closes nobody would end this call.
    if (shared_->closing)
      refusal.emplace(grpc::StatusCode::UNAVAILABLE, "this gateway is shutting down");
    else
      refusal = shared_->take(peer_, displaced);
    refused_ = refusal.has_value();
    if (refused_) pile = ++shared_->connections[peer_].refused == kRefusedKindly;
    if (!refused_) shared_->calls.insert(this);
  }
  if (displaced) end_later(displaced, "others needed its place, and its message had not come");
  if (!refusal) {
    wait_anew();
    return start();
  }
  finished_ = true;
  Finish(*refusal);
  // Refused calls hold their memory until that is sent, which a client can put off.
  if (pile) end_connection(peer_, shared_->port);
}

void GrpcCall::end_later(const std::shared_ptr<GrpcCall>& call, const char* why) {
  GrpcShared& shared = *call->shared_;
  std::uint64_t wait = 0;
  {
    const std::lock_guard lock(shared.mutex);
    wait = call->number_;
  }
  shared.loop.post([call, why, wait] {
    {
      const std::lock_guard lock(call->shared_->mutex);
      if (wait == 0 || call->number_ != wait) return;
    }
    call->end({grpc::StatusCode::RESOURCE_EXHAUSTED, why});
  });
}

void GrpcCall::wait_anew() {
  const std::lock_guard lock(shared_->mutex);
  shared_->waiting.erase(number_);
  number_ = shared_->next_number++;
  waits_since_ = Loop::now_ns();
  shared_->waiting.emplace(number_, this);
}

void GrpcCall::wait_no_more() {
  const std::lock_guard lock(shared_->mutex);
  shared_->waiting.erase(std::exchange(number_, 0));
}

void GrpcCall::OnDone() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->waiting.erase(number_);
    if (shared_->calls.erase(this) > 0) shared_->give(peer_);
    if (refused_) shared_->forget(peer_, &GrpcShared::Connection::refused);
  }
  self_.reset();  // the end, unless the loop still holds it
}

void GrpcCall::well(bool answered) {
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->connections.find(peer_);
  if (found == shared_->connections.end()) return;
  if (!answered) found->second.faulted = true;
  if (answered && found->second.answered_ns == 0) found->second.answered_ns = Loop::now_ns();
}

// ---- who calls

std::string_view GrpcCall::metadata(const char* key) const {
  const auto& all = context_->client_metadata();
  const auto found = all.find(key);
  return found == all.end() ? std::string_view() : view_of(found->second);
}

std::optional<grpc::Status> GrpcCall::identify() {
  trace_ = trace_of(*context_, shared_->new_traces);
  client_ = host_of_peer(peer_);
  if (shared_->peers != nullptr && !metadata(kHandedOver).empty()) {
    by_ = shared_->peers->pool.handed_by(metadata(kHandedOver), metadata("authorization"));
    if (!by_)
      return grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                          "who hands over shows the token of the gateways");
    const std::string_view whom = metadata(kHandedFor).substr(0, kMaxNameBytes);
    client_ = whom.empty() ? by_->node : std::string(whom);
  } else if (shared_->asks_for_tokens()) {
    auto held = held_token(shared_->tokens, shared_->oidc.get(), metadata("authorization"));
    if (!held)
      return grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                          held.error() + " (metadata authorization)");
    token_ = *std::move(held);
    client_ = token_->name;
  }
  return std::nullopt;
}

std::optional<grpc::Status> GrpcCall::forbidden(std::string_view service) const {
  if (by_ || !shared_->asks_for_tokens() || (token_ != nullptr && allows(*token_, service)))
    return std::nullopt;
  return grpc::Status(grpc::StatusCode::PERMISSION_DENIED,
                      "this token is not for service '" + std::string(service) + "'");
}

void GrpcCall::log(const Line& line) const {
  if (shared_->log == nullptr) return;
  const std::string client = context_->peer();
  shared_->log->add({.unix_ns = line.began.unix_ns,
                     .client = client,
                     .method = "gRPC",
                     .path = context_->method(),
                     .service = line.service,
                     .trace_parent = trace_.parent,
                     .status = line.status,
                     .items = line.items,
                     .bytes_in = line.bytes_in,
                     .bytes_out = line.bytes_out,
                     .queue_ns = line.queue_ns,
                     .total_ns = Loop::now_ns() - line.began.ns});
}

}  // namespace partita::serve
