#include "serve/grpc/grpc_front.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include "base/door/address.h"
#include "base/door/trace_context.h"
#include "base/secret_file.h"
#include "serve/front/gateway_exchange.h"
#include "serve/front/grpc_ask.h"
#include "serve/grpc/end_connection.h"
#include "serve/grpc/peer_channels.h"
#include "serve/oip/grpc_messages.h"

namespace partita::serve {

namespace {

constexpr int kReadChunk = 65'536, kFrameBytes = 1 << 18, kWindowBytes = 1 << 20;
constexpr int kKeptByMalloc = 16 << 20, kMallocStep = 1 << 20;
constexpr std::size_t kMaxPemBytes = 1u << 20;
constexpr std::size_t kKeptForOthers = 16;             // one of so many calls no address gets alone
constexpr std::size_t kRefusedKindly = 64;             // calls of a connection that wait to hear it
constexpr std::int64_t kMessageGrace = 1'000'000'000;  // before a call makes room for others
constexpr std::int64_t kLookEvery = 1'000'000'000;

grpc::StatusCode code_of(Denial::Kind kind) {
  switch (kind) {
    case Denial::Kind::unknown_model:
      return grpc::StatusCode::NOT_FOUND;
    case Denial::Kind::bad_request:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Denial::Kind::too_large:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Denial::Kind::not_ready:
    case Denial::Kind::absent:
    case Denial::Kind::overloaded:
    case Denial::Kind::would_be_late:
      return grpc::StatusCode::UNAVAILABLE;
    case Denial::Kind::expired:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Denial::Kind::harmful:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case Denial::Kind::lost:
      return grpc::StatusCode::ABORTED;
    case Denial::Kind::slowed:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Denial::Kind::failed:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

// As the HTTP door would answer; for the access log.
int http_status_of(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return 200;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return 400;
    case grpc::StatusCode::UNAUTHENTICATED:
      return 401;
    case grpc::StatusCode::PERMISSION_DENIED:
      return 403;
    case grpc::StatusCode::NOT_FOUND:
      return 404;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return 429;
    case grpc::StatusCode::CANCELLED:
      return 499;
    case grpc::StatusCode::UNIMPLEMENTED:
      return 501;
    case grpc::StatusCode::UNAVAILABLE:
      return 503;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return 504;
    default:
      return 500;
  }
}

std::string_view view_of(grpc::string_ref text) { return {text.data(), text.size()}; }

// gRPC takes memory for each message and gives it back. Left alone, malloc returns it to the kernel
// in between, and page faults cost as much as the copy. Up to kKeptByMalloc stay per arena.
void keep_pages() {
  ::mallopt(M_TRIM_THRESHOLD, kKeptByMalloc);
  ::mallopt(M_MMAP_THRESHOLD, kKeptByMalloc);
  ::mallopt(M_TOP_PAD, kMallocStep);
}

Result<std::string> read_pem(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kMaxPemBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.find("-----BEGIN") == std::string::npos)
    return bad_input(file, "not a file in PEM form");
  return text;
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

// The pieces of a message, kept alive.
struct Received {
  std::vector<grpc::Slice> slices = {};
  std::vector<std::string_view> pieces = {};
  explicit Received(const grpc::ByteBuffer& buffer) {
    if (!buffer.Dump(&slices).ok()) slices.clear();
    pieces.reserve(slices.size());
    for (const grpc::Slice& slice : slices)
      pieces.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
};

class Call;

// What calls of a door share; outlives the door as long as a call does.
struct Shared {
  Loop& loop;
  Backend& backend;
  const Tokens tokens;
  const std::shared_ptr<OidcTokens> oidc;
  bool asks_for_tokens() const { return !tokens.empty() || oidc != nullptr; }
  const bool new_traces;
  AccessLog* const log;
  const std::size_t most_per_connection, most_calls;
  const std::unique_ptr<PeerChannels> peers;  // null: nothing is handed over
  const PeerPool* pool() const { return peers ? &peers->pool : nullptr; }
  std::atomic<bool> closing = false;
  std::atomic<int> port = 0;
  struct Connection {
    std::size_t calls = 0, refused = 0;
    std::int64_t answered_ns = 0;  // its first answer
    bool faulted = false;
  };
  // Under the mutex, up to the calls that wait for their message, by their number.
  std::mutex mutex = {};
  std::set<Call*> calls = {};
  std::map<std::string, Connection> connections = {};  // with open calls, by peer
  std::map<std::string, std::size_t> hosts = {};       // calls of each
  std::map<std::uint64_t, Call*> receiving = {};
  std::uint64_t next_call = 1;
  // Of this address, or of any, one that has waited for its message for longer than the grace.
  std::shared_ptr<Call> oldest_waiting(const std::string& host) const;
  std::map<std::string, std::shared_ptr<const ModelSpec>, std::less<>> models = {};  // on the loop
};

// A call. gRPC's threads begin it and end it; `backend` is touched on the loop alone, and so is
// everything below `finished_`.
class Call final : public grpc::ServerGenericBidiReactor {
 public:
  Call(std::shared_ptr<Shared> shared, grpc::GenericCallbackServerContext* context)
      : shared_(std::move(shared)), context_(context) {}

  // The call keeps itself until OnDone.
  void begin(std::shared_ptr<Call> self) {
    self_ = std::move(self);
    peer_ = context_->peer();
    std::optional<grpc::Status> refusal;
    std::shared_ptr<Call> displaced;
    bool pile = false;
    {
      const std::lock_guard lock(shared_->mutex);
      // Where the door closes nobody would end this call.
      if (shared_->closing)
        refusal.emplace(grpc::StatusCode::UNAVAILABLE, "this gateway is shutting down");
      else
        refusal = enter(displaced);
      refused_ = refusal.has_value();
      if (refused_) pile = ++shared_->connections[peer_].refused == kRefusedKindly;
    }
    if (displaced) displaced->end_later("others needed its place, and its message had not come");
    if (!refusal) return StartRead(&request_);
    finished_ = true;
    Finish(*refusal);
    // Refused calls hold their memory until that is sent, which a client can put off.
    if (pile) end_connection(peer_, shared_->port);
  }
  // Ends it, from any thread, when it still waits for its message.
  void end_later(const char* why) {
    on_loop([why](Call& call) {
      if (!call.received_) call.end({grpc::StatusCode::RESOURCE_EXHAUSTED, why});
    });
  }
  const std::string& peer() const { return peer_; }
  std::int64_t began() const { return began_ns_; }
  void OnReadDone(bool ok) override {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->receiving.erase(number_);
    }
    on_loop([ok](Call& call) {
      call.received_ = true;
      if (call.finished_) return;
      if (ok) return call.serve();
      call.end({grpc::StatusCode::INVALID_ARGUMENT, "a message is wanted"});
    });
  }
  void OnCancel() override {
    on_loop([](Call& call) { call.end(grpc::Status::CANCELLED); });
  }
  void OnDone() override {
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->calls.erase(this) > 0) leave();
      if (refused_) forget(&Shared::Connection::refused);
    }
    self_.reset();  // the end, unless the loop still holds it
  }
  // Its end may be told on the thread that learns of it: OnDone waits for nothing. Saves a thread.
  bool InternalInlineable() override { return true; }
  std::shared_ptr<Call> self() { return self_; }
  void end(const grpc::Status& status);

 private:
  // Both under the mutex.
  std::optional<grpc::Status> enter(std::shared_ptr<Call>& displaced);
  void leave();
  void forget(std::size_t Shared::Connection::*count);
  void well(bool answered);
  template <class F>
  void on_loop(F&& function) {
    shared_->loop.post([call = self_, function = std::forward<F>(function)] { function(*call); });
  }
  void serve();
  void infer();
  std::optional<Denial> admit(const InferRequest& wanted);
  // Refused here, nothing of it run: goes to another node, where one may have it. `asked`: its
  // key's limits have let it in.
  void deny_or_go(const Denial& why, bool asked);
  void hand_over(const std::string& known, const Denial& why);
  void answer_infer();
  void send(std::string_view message);
  void fail(grpc::StatusCode code, const std::string& message) { end({code, message}); }
  void deny(const Denial& denial);
  void give_back() {
    if (admitted_) shared_->backend.release(*std::exchange(admitted_, std::nullopt));
    if (peer_call_) std::exchange(peer_call_, {})->let_go();
    key_.reset();
  }
  std::string_view metadata(const char* key) const;
  bool permitted(std::string_view service);
  void log(int status, std::size_t bytes_out);

  const std::shared_ptr<Shared> shared_;
  grpc::GenericCallbackServerContext* context_;
  std::shared_ptr<Call> self_ = {};
  grpc::ByteBuffer request_ = {}, response_ = {};

  std::string peer_ = {};
  std::uint64_t number_ = 0;

  bool refused_ = false, finished_ = false, received_ = false;
  std::optional<int> log_status_ = {};
  HeldToken token_ = nullptr;  // null: tokens are not asked for
  std::optional<RequestId> admitted_ = {};
  std::shared_ptr<const ModelSpec> model_ = {};
  BoundRequest bound_ = {};
  std::string id_ = {};
  // For the access log.
  const std::int64_t began_ns_ = Loop::now_ns();
  const std::int64_t began_unix_ns_ = unix_ns();
  std::uint64_t bytes_in_ = 0;
  std::int64_t submitted_ns_ = 0, ended_ns_ = 0;
  std::string service_ = {};
  std::string of_set_ = {};          // which model of its set
  std::optional<HandedBy> by_ = {};  // none: it came from a client
  std::string client_ = {};          // its token, or where it is
  KeyHandle key_ = {};
  std::shared_ptr<GrpcPeerCall> peer_call_ = {};
  bool infers_ = false;  // not only asks what a model takes
  TraceContext trace_ = {};
};

// "127.0.0.1" of "ipv4:127.0.0.1:4711".
std::string host_of_peer(const std::string& peer) {
  return host_of(peer.substr(std::min(peer.find(':') + 1, peer.size())));
}

std::shared_ptr<Call> Shared::oldest_waiting(const std::string& host) const {
  for (const auto& [order, call] : receiving) {
    if (Loop::now_ns() - call->began() < kMessageGrace) break;
    if (host.empty() || host_of_peer(call->peer()) == host) return call->self();
  }
  return nullptr;
}

std::optional<grpc::Status> Call::enter(std::shared_ptr<Call>& displaced) {
  Shared& all = *shared_;
  const auto full = [](const char* what) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, what);
  };
  const std::string host = host_of_peer(peer_);
  const auto connection = all.connections.find(peer_);
  if (connection != all.connections.end() && connection->second.calls >= all.most_per_connection)
    return full("too many calls on this connection");
  const auto there = all.hosts.find(host);
  const bool share =
      there != all.hosts.end() && there->second >= all.most_calls - all.most_calls / kKeptForOthers;
  if (share || all.calls.size() >= all.most_calls) {
    displaced = all.oldest_waiting(share ? host : "");
    if (displaced == nullptr)
      return full(share ? "too many calls of this address" : "too many calls");
    all.receiving.erase(displaced->number_);
  }
  number_ = all.next_call++;
  all.receiving.emplace(number_, this);
  all.calls.insert(this);
  ++all.connections[peer_].calls;
  ++all.hosts[host];
  return std::nullopt;
}

void Call::leave() {
  Shared& all = *shared_;
  all.receiving.erase(number_);
  if (const auto host = all.hosts.find(host_of_peer(peer_)); --host->second == 0)
    all.hosts.erase(host);
  forget(&Shared::Connection::calls);
}

// One less. Whether it was well is remembered while others of it are open, or nobody needs the
// room.
void Call::forget(std::size_t Shared::Connection::*count) {
  auto& connections = shared_->connections;
  const auto found = connections.find(peer_);
  --(found->second.*count);
  if (found->second.calls + found->second.refused > 0) return;
  const bool keep = found->second.answered_ns > 0 || found->second.faulted;
  if (!keep || connections.size() > shared_->most_calls) connections.erase(found);
}

// What became of an inference of this connection.
void Call::well(bool answered) {
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->connections.find(peer_);
  if (found == shared_->connections.end()) return;
  if (!answered) found->second.faulted = true;
  if (answered && found->second.answered_ns == 0) found->second.answered_ns = Loop::now_ns();
}

void Call::end(const grpc::Status& status) {
  if (std::exchange(finished_, true)) return;
  give_back();
  log(log_status_.value_or(http_status_of(status.error_code())), 0);
  Finish(status);
}

void Call::send(std::string_view message) {
  if (std::exchange(finished_, true)) return;
  log(http_status_of(grpc::StatusCode::OK), message.size());
  grpc::Slice slice(message.data(), message.size());
  response_ = grpc::ByteBuffer(&slice, 1);
  StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
}

void Call::deny(const Denial& denial) {
  if (denial.retry_after_ns > 0 && !finished_)
    context_->AddTrailingMetadata("retry-after-ms",
                                  std::to_string((denial.retry_after_ns - 1) / 1'000'000 + 1));
  log_status_ = status_of(denial.kind);
  if (!by_ && denial.kind == Denial::Kind::absent && !finished_) {
    PeerPool& pool = shared_->peers->pool;
    pool.count_out(service_, PeerPool::Fate::nobody);
    if (infers_ && !(peer_call_ && peer_call_->was_handed_back())) pool.count_uncarried(service_);
  }
  if (by_ && denial.elsewhere && submitted_ns_ == 0 && !finished_) {
    context_->AddTrailingMetadata(kHandedBack,
                                  std::string(is_not_here(denial) ? kBackAbsent : kBackFull));
    if (by_->counted) shared_->backend.uncount(service_, denial.kind);
  }
  fail(code_of(denial.kind), denial.message);
}

std::string_view Call::metadata(const char* key) const {
  const auto& all = context_->client_metadata();
  const auto found = all.find(key);
  return found == all.end() ? std::string_view() : view_of(found->second);
}

void Call::log(int status, std::size_t bytes_out) {
  if (shared_->log == nullptr) return;
  const std::int64_t now = Loop::now_ns(), until = ended_ns_ > 0 ? ended_ns_ : now;
  const std::string client = context_->peer();
  shared_->log->add({.unix_ns = began_unix_ns_,
                     .client = client,
                     .method = "gRPC",
                     .path = context_->method(),
                     .service = service_,
                     .trace_parent = trace_.parent,
                     .status = status,
                     .items = submitted_ns_ > 0 ? bound_.items : 0,
                     .bytes_in = bytes_in_,
                     .bytes_out = bytes_out,
                     .queue_ns = submitted_ns_ > 0 ? until - submitted_ns_ : 0,
                     .total_ns = now - began_ns_});
}

bool Call::permitted(std::string_view service) {
  if (by_ || !shared_->asks_for_tokens() || (token_ != nullptr && allows(*token_, service)))
    return true;
  fail(grpc::StatusCode::PERMISSION_DENIED,
       "this token is not for service '" + std::string(service) + "'");
  return false;
}

void Call::serve() {
  bytes_in_ = request_.Length();
  trace_ = trace_of(*context_, shared_->new_traces);
  client_ = host_of_peer(peer_);
  std::string_view method = context_->method();
  if (!method.starts_with(kGrpcService))
    return fail(grpc::StatusCode::UNIMPLEMENTED, "only inference.GRPCInferenceService is here");
  method.remove_prefix(kGrpcService.size());
  if (method == "ServerLive") return send(encode_flag(true));
  if (method == "ServerReady") return send(encode_flag(shared_->backend.ready()));
  if (shared_->peers != nullptr && !metadata(kHandedOver).empty()) {
    by_ = shared_->peers->pool.handed_by(metadata(kHandedOver), metadata("authorization"));
    if (!by_)
      return fail(grpc::StatusCode::UNAUTHENTICATED,
                  "who hands over shows the token of the gateways");
    const std::string_view whom = metadata(kHandedFor).substr(0, kMaxNameBytes);
    client_ = whom.empty() ? by_->node : std::string(whom);
  } else if (shared_->asks_for_tokens()) {
    auto held = held_token(shared_->tokens, shared_->oidc.get(), metadata("authorization"));
    if (!held)
      return fail(grpc::StatusCode::UNAUTHENTICATED, held.error() + " (metadata authorization)");
    token_ = *std::move(held);
    client_ = token_->name;
  }
  if (method == "ModelInfer") return infer();
  if (method == "ServerMetadata") return send(encode_server_metadata());
  if (method != "ModelReady" && method != "ModelMetadata")
    return fail(grpc::StatusCode::UNIMPLEMENTED, "the protocol has no call " + std::string(method));
  const auto model = parse_model_name(Received(request_).pieces);
  if (!model) return fail(grpc::StatusCode::INVALID_ARGUMENT, to_string(model.error()));
  const std::string service = asked_model(shared_->backend, model->name, model->version).service;
  if (!permitted(service.empty() ? model->name : service)) return;
  if (service.empty()) {
    service_ = model->name.substr(0, kMaxNameBytes);
    const bool elsewhere = method == "ModelMetadata";
    Denial why = elsewhere ? not_here(shared_->pool(), service_) : unknown_model(service_);
    why.elsewhere = elsewhere;
    if (!model->version.empty() && why.kind == Denial::Kind::unknown_model)
      why.message += " of this version";
    return deny_or_go(why, false);
  }
  if (method == "ModelReady") return send(encode_flag(shared_->backend.ready(service)));
  const ModelSpec* spec = shared_->backend.model(service);
  if (spec == nullptr)
    return fail(grpc::StatusCode::UNAVAILABLE,
                "no worker of model '" + service + "' has said what it takes");
  send(encode_model_metadata(*spec, versions_of(shared_->backend, model->name)));
}

std::optional<Denial> Call::admit(const InferRequest& wanted) {
  RequestHead head;
  head.service = wanted.model;
  head.model = of_set_;
  head.items = bound_.items;
  head.priority = wanted.priority;
  head.timeout_ns = wanted.timeout_ns;
  head.sequence = wanted.sequence;
  head.sequence_begins = wanted.sequence_begins;
  head.sequence_ends = wanted.sequence_ends;
  head.idempotent = metadata("partita-idempotent") != "false";
  head.client = client_;
  head.limits = token_ == nullptr ? nullptr : &token_->limits;
  head.bytes = bytes_in_;
  {
    const std::lock_guard lock(shared_->mutex);
    const Shared::Connection& connection = shared_->connections[peer_];
    head.trusted = connection.answered_ns > 0 && !connection.faulted;
    head.trusted_since = connection.answered_ns;
  }
  head.trace_parent = trace_.parent;
  head.trace_state = trace_.state;
  const auto deadline = context_->deadline();
  if (deadline != std::chrono::system_clock::time_point::max()) {
    const auto left = deadline - std::chrono::system_clock::now();
    const auto nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    constexpr std::int64_t kDay = 86'400'000'000'000;
    if (nanos < kDay)
      head.timeout_ns =
          std::max<std::int64_t>(1, std::min<std::int64_t>(nanos, head.timeout_ns.value_or(kDay)));
  }
  auto request = shared_->backend.admit(head);
  if (!request) return std::move(request.error());
  admitted_ = *request;
  if (!shared_->backend.claim(*admitted_, bound_.items)) {
    give_back();
    return Denial{.kind = Denial::Kind::overloaded,
                  .message = "no memory for another request of '" + wanted.model + "'",
                  .retry_after_ns = 1'000'000'000};
  }
  return std::nullopt;
}

void Call::deny_or_go(const Denial& why, bool asked) {
  if (shared_->peers == nullptr || !why.elsewhere || by_) return deny(why);
  const PeerPool& pool = shared_->peers->pool;
  const std::string known = pool.carried_as(service_);
  if (known.empty() || pool.offers(known, PeerPool::Way::grpc, {}) == 0) return deny(why);
  if (token_ != nullptr && token_->limits != KeyLimits{}) {
    RequestHead head;
    head.service = service_;
    head.client = client_;
    head.limits = &token_->limits;
    head.bytes = bytes_in_;
    head.again = asked;
    auto key = shared_->backend.key_begun(head);
    if (!key) return deny(key.error());
    key_ = *std::move(key);
  }
  hand_over(known, why);
}

void Call::hand_over(const std::string& known, const Denial& why) {
  submitted_ns_ = Loop::now_ns();
  GrpcPeerAsk ask{.service = known,
                  .method = context_->method(),
                  .client = client_,
                  .idempotent = metadata("partita-idempotent") != "false",
                  .counted = shared_->backend.known(service_),
                  .trace = trace_,
                  .deadline = context_->deadline(),
                  .message = request_};
  const auto ended = [weak = std::weak_ptr(self_), why](std::optional<GrpcPeerAnswer> answer) {
    const auto call = weak.lock();
    if (call == nullptr || call->finished_) return;
    call->ended_ns_ = Loop::now_ns();
    if (!answer) return call->deny(why);
    call->shared_->backend.uncount(call->service_, why.kind);
    if (!answer->retry_after_ms.empty())
      call->context_->AddTrailingMetadata("retry-after-ms", answer->retry_after_ms);
    if (!answer->status.ok()) return call->end(answer->status);
    call->finished_ = true;
    call->log(http_status_of(grpc::StatusCode::OK), answer->message.Length());
    call->response_ = std::move(answer->message);
    call->give_back();
    call->StartWriteAndFinish(&call->response_, grpc::WriteOptions(), grpc::Status::OK);
  };
  peer_call_ = std::make_shared<GrpcPeerCall>(*shared_->peers, std::move(ask), ended);
  request_.Clear();
  peer_call_->next();
}

void Call::infer() {
  infers_ = true;
  const Received message(request_);
  Backend& backend = shared_->backend;
  auto ask = ask_by_grpc(backend, message.pieces);
  if (!ask) return fail(grpc::StatusCode::INVALID_ARGUMENT, to_string(ask.error()));
  const InferRequest& wanted = ask->wanted;
  of_set_ = ask->asked.of_set;
  service_ = wanted.model.substr(0, kMaxNameBytes);
  if (!permitted(wanted.model)) return;
  if (ask->other_version)
    return fail(grpc::StatusCode::NOT_FOUND, "model '" + wanted.model + "' has no such version");
  if (ask->asked.service.empty()) return deny_or_go(not_here(shared_->pool(), wanted.model), false);
  if (by_) shared_->peers->pool.count_in(service_);
  if (backend.model(wanted.model) == nullptr) {
    backend.turned_away(wanted.model);
    Denial why = no_worker(wanted.model);
    why.retry_after_ns = 0;
    return deny_or_go(why, false);
  }
  auto bound = bind_grpc_ask(backend, *ask);
  if (!bound) return fail(grpc::StatusCode::INVALID_ARGUMENT, to_string(bound.error()));
  service_ = wanted.model.substr(0, kMaxNameBytes);
  const ModelSpec& spec = *backend.model(wanted.model);
  auto& kept = shared_->models[wanted.model];
  if (kept == nullptr || *kept != spec) kept = std::make_shared<const ModelSpec>(spec);
  model_ = kept;
  bound_ = *std::move(bound);
  id_ = wanted.id;
  if (const auto denial = admit(wanted)) return deny_or_go(*denial, true);
  const InputRow row = [&](int item, int tensor) {
    return backend.input(*admitted_, item, tensor);
  };
  if (const auto placed = place_grpc_ask(*ask, *model_, bound_, message.pieces, row); !placed)
    return fail(grpc::StatusCode::INVALID_ARGUMENT, to_string(placed.error()));
  request_.Clear();
  Completion completion;
  completion.ended = [weak = std::weak_ptr(self_)](std::optional<Denial> why) {
    const auto call = weak.lock();
    if (call == nullptr || call->finished_) return;
    call->ended_ns_ = Loop::now_ns();
    if (why) {
      const bool own = why->kind == Denial::Kind::failed || why->kind == Denial::Kind::harmful;
      if (own) call->well(false);
      return call->deny(*why);
    }
    call->well(true);
    call->answer_infer();
  };
  submitted_ns_ = Loop::now_ns();
  backend.submit(*admitted_, std::move(completion));
}

void Call::answer_infer() {
  const auto outputs = take_outputs(*model_, bound_, [&](int item, int tensor) {
    return shared_->backend.output(*admitted_, item, tensor);
  });
  if (!outputs) return fail(grpc::StatusCode::INTERNAL, to_string(outputs.error()));
  ModelSpec named;  // as it was asked for
  if (!of_set_.empty()) (named = *model_).name = of_set_;
  const std::string head =
      encode_infer_head(of_set_.empty() ? *model_ : named, id_, bound_, *outputs);
  std::vector<std::string> heads;
  std::size_t total = head.size();
  for (const AnsweredOutput& output : *outputs) {
    heads.push_back(encode_raw_head(output.bytes));
    total += heads.back().size() + output.bytes;
  }
  grpc::Slice slice(total);
  auto* to = const_cast<std::uint8_t*>(slice.begin());
  const auto put = [&](const char* from, std::size_t bytes) { to = std::copy_n(from, bytes, to); };
  put(head.data(), head.size());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    put(heads[i].data(), heads[i].size());
    for (const std::span<const char> part : (*outputs)[i].parts) put(part.data(), part.size());
  }
  finished_ = true;
  log(http_status_of(grpc::StatusCode::OK), total);
  response_ = grpc::ByteBuffer(&slice, 1);
  give_back();
  StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
}

class Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    auto call = std::make_shared<Call>(shared_, context);
    Call* reactor = call.get();
    call->begin(std::move(call));
    return reactor;
  }

 private:
  const std::shared_ptr<Shared> shared_;
};

Result<std::shared_ptr<grpc::ServerCredentials>> credentials_of(const GrpcOptions& options) {
  if (options.tls_certificate.empty() && options.tls_key.empty())
    return grpc::InsecureServerCredentials();
  if (auto secret = check_secret_file(options.tls_key); !secret) return failed(secret.error());
  const auto certificate = read_pem(options.tls_certificate);
  if (!certificate) return failed(certificate.error());
  const auto key = read_pem(options.tls_key);
  if (!key) return failed(key.error());
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back({*key, *certificate});
  return grpc::SslServerCredentials(tls);
}

}  // namespace

struct GrpcFront::Impl {
  std::shared_ptr<Shared> shared;
  std::unique_ptr<Service> service;
  std::unique_ptr<grpc::Server> server = {};
  std::unique_ptr<Loop::Timer> late = {};  // calls whose message does not come
  int port = 0;
};

GrpcFront::GrpcFront(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<GrpcFront>> GrpcFront::open(Loop& loop, Backend& backend,
                                                   const GrpcOptions& options) {
  const auto address = parse_listen_address(options.listen);
  if (!address) return failed(address.error());
  const bool secure = !options.tls_certificate.empty() || !options.tls_key.empty();
  if (auto safe = check_exposure(options.listen, *address, secure,
                                 !options.tokens.empty() || options.oidc != nullptr);
      !safe)
    return failed(safe.error());
  const auto credentials = credentials_of(options);
  if (!credentials) return failed(credentials.error());
  std::unique_ptr<PeerChannels> peers;
  if (options.peers != nullptr) {
    const std::string& ca = options.peers->options().ca_file;
    auto roots = ca.empty() ? Result<std::string>("") : read_pem(ca);
    if (!roots) return failed(roots.error());
    peers = std::make_unique<PeerChannels>(*options.peers, *std::move(roots));
  }
  keep_pages();
  auto impl = std::make_unique<Impl>();
  impl->shared =
      std::shared_ptr<Shared>(new Shared{.loop = loop,
                                         .backend = backend,
                                         .tokens = options.tokens,
                                         .oidc = options.oidc,
                                         .new_traces = options.new_traces,
                                         .log = options.log,
                                         .most_per_connection = options.calls_per_connection,
                                         .most_calls = options.calls,
                                         .peers = std::move(peers)});
  impl->service = std::make_unique<Service>(impl->shared);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_text(address->address), *credentials, &impl->port);
  builder.RegisterCallbackGenericService(impl->service.get());
  builder.SetMaxReceiveMessageSize(static_cast<int>(
      std::min<std::size_t>(options.message_bytes, std::numeric_limits<int>::max())));
  builder.SetMaxSendMessageSize(-1);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Large messages in few pieces: fewer reads, frames and window updates for each.
  builder.AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadChunk);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  // A client may pretend not to have heard the first of these: calls are counted besides, and who
  // goes on opening more is put out.
  const auto number = [](auto value) { return static_cast<int>(value); };
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, number(options.calls_per_connection));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, number(options.idle_ns / 1'000'000));
  builder.SetResourceQuota(grpc::ResourceQuota("partita").Resize(options.memory_bytes));
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0)
    return failed({ErrorCode::in_use, "gRPC cannot listen here", options.listen});
  impl->shared->port = impl->port;
  impl->late = std::make_unique<Loop::Timer>(
      loop, [shared = impl->shared, patience = options.message_ns, at = impl.get()](std::int64_t) {
        std::vector<std::shared_ptr<Call>> late;
        {
          const std::lock_guard lock(shared->mutex);
          for (const auto& [order, call] : shared->receiving) {
            if (Loop::now_ns() - call->began() < patience) break;  // in their order
            late.push_back(call->self());
          }
        }
        for (const auto& call : late) call->end_later("its message took too long");
        at->late->at(Loop::now_ns() + kLookEvery);
      });
  impl->late->at(Loop::now_ns() + kLookEvery);
  return std::unique_ptr<GrpcFront>(new GrpcFront(std::move(impl)));
}

GrpcFront::~GrpcFront() {
  impl_->shared->closing = true;
  std::vector<std::shared_ptr<Call>> open;
  {
    const std::lock_guard lock(impl_->shared->mutex);
    for (Call* call : impl_->shared->calls) open.push_back(call->self());
  }
  for (const auto& call : open)
    if (call != nullptr)
      call->end({grpc::StatusCode::UNAVAILABLE, "this gateway is shutting down"});
  open.clear();
  if (impl_->shared->peers) impl_->shared->peers->wait_for_calls();
  impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
}

int GrpcFront::port() const { return impl_->port; }

void GrpcFront::drain() { impl_->shared->closing = true; }

}  // namespace partita::serve
