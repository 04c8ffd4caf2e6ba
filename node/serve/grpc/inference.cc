#include "serve/grpc/inference.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "serve/front/gateway_exchange.h"
#include "serve/oip/grpc_messages.h"

namespace partita::serve {

void GrpcInference::end(GrpcOutcome&& outcome, std::optional<int> http_status) {
  if (std::exchange(over_, true)) return;
  give_back();
  log(http_status.value_or(http_status_of(outcome.status.error_code())), outcome.message.Length());
  const auto kept = call_.self();  // which may end with it
  call_.answered(*this, std::move(outcome));
}

void GrpcInference::let_go(const grpc::Status& status) {
  if (std::exchange(over_, true)) return;
  give_back();
  log(http_status_of(status.error_code()), 0);
}

void GrpcInference::give_back() {
  if (admitted_) call_.shared().backend.release(*std::exchange(admitted_, std::nullopt));
  if (peer_call_) std::exchange(peer_call_, {})->let_go();
  key_.reset();
}

void GrpcInference::log(int status, std::size_t bytes_out) {
  const std::int64_t until = ended_ns_ > 0 ? ended_ns_ : Loop::now_ns();
  call_.log({.began = began_,
             .service = service_,
             .status = status,
             .items = submitted_ns_ > 0 ? bound_.items : 0,
             .queue_ns = submitted_ns_ > 0 ? until - submitted_ns_ : 0,
             .bytes_in = bytes_in_,
             .bytes_out = bytes_out});
}

void GrpcInference::deny(const Denial& why) {
  if (over_) return;
  Denial denial = why;
  if (!call_.by() && denial.kind == Denial::Kind::absent)
    denial =
        told_apart(call_.shared().peers->pool, std::move(denial), service_, PeerPool::Way::grpc,
                   call_.client(), infers_ && !(peer_call_ && peer_call_->was_handed_back()));
  GrpcOutcome outcome{
      .status = {static_cast<grpc::StatusCode>(grpc_status_of(status_of(denial.kind))),
                 denial.message}};
  if (denial.retry_after_ns > 0)
    outcome.retry_after_ms = std::to_string((denial.retry_after_ns - 1) / 1'000'000 + 1);
  if (call_.by() && denial.elsewhere && submitted_ns_ == 0) {
    outcome.handed_back = is_not_here(denial) ? kBackAbsent : kBackFull;
    if (call_.by()->counted) call_.shared().backend.uncount(service_, denial.kind);
  }
  end(std::move(outcome), status_of(denial.kind));
}

bool GrpcInference::permitted(std::string_view service) {
  auto refusal = call_.forbidden(service);
  if (refusal) end({.status = *std::move(refusal)});
  return !over_;
}

std::optional<Denial> GrpcInference::admit(const InferRequest& wanted) {
  GrpcShared& shared = call_.shared();
  RequestHead head = head_of(wanted, ask_.asked.of_set);
  head.service = wanted.model;
  head.items = bound_.items;
  head.idempotent = call_.metadata("partita-idempotent") != "false";
  head.client = call_.client();
  head.limits = call_.token() == nullptr ? nullptr : &call_.token()->limits;
  head.bytes = bytes_in_;
  {
    const std::lock_guard lock(shared.mutex);
    const GrpcShared::Connection& connection = shared.connections[call_.peer()];
    head.trusted = connection.answered_ns > 0 && !connection.faulted;
    head.trusted_since = connection.answered_ns;
  }
  head.trace_parent = call_.trace().parent;
  head.trace_state = call_.trace().state;
  const auto deadline = call_.context().deadline();
  if (deadline != std::chrono::system_clock::time_point::max()) {
    const auto left = deadline - std::chrono::system_clock::now();
    const auto nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    constexpr std::int64_t kDay = 86'400'000'000'000;
    if (nanos < kDay)
      head.timeout_ns =
          std::max<std::int64_t>(1, std::min<std::int64_t>(nanos, head.timeout_ns.value_or(kDay)));
  }
  auto request = shared.backend.admit(head);
  if (!request) return std::move(request.error());
  admitted_ = *request;
  if (!shared.backend.claim(*admitted_, bound_.items)) {
    give_back();
    return no_memory(wanted.model);
  }
  return std::nullopt;
}

void GrpcInference::deny_or_go(const Denial& why, bool asked) {
  GrpcShared& shared = call_.shared();
  if (shared.peers == nullptr || !why.elsewhere || call_.by()) return deny(why);
  const PeerPool& pool = shared.peers->pool;
  const std::string known = pool.carried_as(service_);
  if (known.empty() || pool.offers(known, PeerPool::Way::grpc, {}, call_.client()) == 0)
    return deny(why);
  const Token* const token = call_.token();
  if (token != nullptr && token->limits != KeyLimits{}) {
    RequestHead head;
    head.service = service_;
    head.client = call_.client();
    head.limits = &token->limits;
    head.bytes = bytes_in_;
    head.again = asked;
    auto key = shared.backend.key_begun(head);
    if (!key) return deny(key.error());
    key_ = *std::move(key);
  }
  hand_over(known, why);
}

void GrpcInference::hand_over(const std::string& known, const Denial& why) {
  GrpcShared& shared = call_.shared();
  submitted_ns_ = Loop::now_ns();
  GrpcPeerAsk ask{
      .service = known,
      .method = infers_ ? std::string(kGrpcService) + "ModelInfer" : call_.context().method(),
      .client = call_.client(),
      .idempotent = call_.metadata("partita-idempotent") != "false",
      .counted = shared.backend.known(service_),
      .trace = call_.trace(),
      .deadline = call_.context().deadline(),
      .message = request_};
  const auto ended = [weak = weak_from_this(), why](std::optional<GrpcPeerAnswer> answer) {
    const auto one = weak.lock();
    if (one == nullptr || one->over_) return;
    one->ended_ns_ = Loop::now_ns();
    if (!answer) return one->deny(why);
    one->call_.shared().backend.uncount(one->service_, why.kind);
    one->end({.status = answer->status,
              .message = std::move(answer->message),
              .retry_after_ms = std::move(answer->retry_after_ms)});
  };
  peer_call_ = std::make_shared<GrpcPeerCall>(*shared.peers, std::move(ask), ended);
  request_.Clear();
  peer_call_->next();
}

void GrpcInference::refuse(grpc::ByteBuffer&& request, const grpc::Status& why) {
  request_.Swap(&request);
  bytes_in_ = request_.Length();
  const MessagePieces message(request_);
  if (auto asked = parse_grpc_infer(message.pieces)) id_ = std::move(asked->id);
  end({.status = why});
}

void GrpcInference::ask_elsewhere(const std::string& model, grpc::ByteBuffer&& request,
                                  const Denial& why) {
  request_.Swap(&request);
  bytes_in_ = request_.Length();
  service_ = model;
  deny_or_go(why, false);
}

void GrpcInference::begin(grpc::ByteBuffer&& request) {
  infers_ = true;
  request_.Swap(&request);
  bytes_in_ = request_.Length();
  const MessagePieces message(request_);
  auto ask = ask_by_grpc(call_.shared().backend, message.pieces);
  if (!ask) return fail(grpc::StatusCode::INVALID_ARGUMENT, to_string(ask.error()));
  ask_ = *std::move(ask);
  infer(message.pieces);
}

void GrpcInference::infer(Pieces message) {
  GrpcShared& shared = call_.shared();
  Backend& backend = shared.backend;
  const InferRequest& wanted = ask_.wanted;
  id_ = wanted.id;
  service_ = wanted.model.substr(0, kMaxNameBytes);
  if (!permitted(wanted.model)) return;
  if (ask_.other_version)
    return fail(grpc::StatusCode::NOT_FOUND, "model '" + wanted.model + "' has no such version");
  if (ask_.asked.service.empty()) return deny_or_go(not_here(shared.pool(), wanted.model), false);
  if (call_.by()) shared.peers->pool.count_in(service_);
  if (backend.model(wanted.model) == nullptr) {
    backend.turned_away(wanted.model);
    Denial why = no_worker(wanted.model);
    why.retry_after_ns = 0;
    return deny_or_go(why, false);
  }
  auto bound = bind_grpc_ask(backend, ask_, call_.caller().shares());
  if (!bound) return fail(grpc::StatusCode::INVALID_ARGUMENT, to_string(bound.error()));
  service_ = wanted.model.substr(0, kMaxNameBytes);
  const ModelSpec& spec = *backend.model(wanted.model);
  auto& kept = shared.models[wanted.model];
  if (kept == nullptr || *kept != spec) kept = std::make_shared<const ModelSpec>(spec);
  model_ = kept;
  bound_ = *std::move(bound);
  if (const auto denial = admit(wanted)) return deny_or_go(*denial, true);
  const InputRow row = [&](int item, int tensor) {
    return backend.input(*admitted_, item, tensor);
  };
  const GrpcTensors from{message, call_.caller().shares()};
  if (const auto placed = place_grpc_ask(ask_, *model_, bound_, from, row); !placed)
    return fail(grpc::StatusCode::INVALID_ARGUMENT, to_string(placed.error()));
  request_.Clear();
  submitted_ns_ = Loop::now_ns();
  backend.submit(*admitted_, completion());
}

Completion GrpcInference::completion() {
  Completion completion;
  completion.ended = [weak = weak_from_this()](std::optional<Denial> why) {
    const auto one = weak.lock();
    if (one == nullptr || one->over_) return;
    one->ended_ns_ = Loop::now_ns();
    if (why) {
      const bool own = why->kind == Denial::Kind::failed || why->kind == Denial::Kind::harmful;
      if (own) one->call_.well(false);
      return one->deny(*why);
    }
    one->call_.well(true);
    one->answer();
  };
  return completion;
}

void GrpcInference::answer() {
  auto outputs = answered_of(call_.shared().backend, *admitted_, *model_, bound_, ask_.regions);
  if (!outputs)
    return fail(static_cast<grpc::StatusCode>(grpc_status_of(outputs.error().http_status)),
                outputs.error().message);
  const InferParts parts = infer_parts(*model_, ask_, bound_, *outputs);
  grpc::Slice slice(parts.bytes);
  auto* to = const_cast<std::uint8_t*>(slice.begin());
  const auto put = [&](std::string_view part) { to = std::copy_n(part.data(), part.size(), to); };
  for (std::size_t i = 0; i < parts.heads.size(); ++i) {
    put(parts.heads[i]);
    for (const std::span<const char> part : (*outputs)[i].parts) put({part.data(), part.size()});
  }
  end({.message = grpc::ByteBuffer(&slice, 1)});
}

}  // namespace partita::serve
