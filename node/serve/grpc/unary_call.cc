// A call of one message, which is answered by one, or by a status alone.
#include <algorithm>

#include "serve/front/grpc_ask.h"
#include "serve/grpc/inference.h"

namespace partita::serve {
namespace {

class UnaryCall final : public GrpcCall {
 public:
  using GrpcCall::GrpcCall;
  void OnReadDone(bool ok) override {
    wait_no_more();
    on_loop(*this, [ok](UnaryCall& call) {
      if (call.finished_) return;
      if (ok) return call.serve();
      call.fail(400, "a message is wanted");
    });
  }
  void OnCancel() override {
    on_loop(*this, [](UnaryCall& call) { call.end(grpc::Status::CANCELLED); });
  }
  void end(const grpc::Status& status) override;
  void answered(GrpcInference& inference, GrpcOutcome&& outcome) override;

 private:
  void start() override { StartRead(&request_); }
  void serve();
  void about_model(std::string_view call, Pieces message);
  void infer();
  void answer(const CallAnswer& said);
  void fail(int http_status, const std::string& message) {
    end({static_cast<grpc::StatusCode>(grpc_status_of(http_status)), message});
  }
  void write_log(int status, std::size_t bytes_out) {
    log({.began = began_,
         .service = service_,
         .status = status,
         .bytes_in = bytes_in_,
         .bytes_out = bytes_out});
  }

  const Began began_ = {};
  grpc::ByteBuffer request_ = {}, response_ = {};
  // On the loop.
  std::uint64_t bytes_in_ = 0;
  std::string service_ = {};
  std::shared_ptr<GrpcInference> inference_ = {};  // null: it asks for none
};

void UnaryCall::end(const grpc::Status& status) {
  if (std::exchange(finished_, true)) return;
  if (inference_)
    inference_->let_go(status);
  else
    write_log(http_status_of(status.error_code()), 0);
  Finish(status);
}

void UnaryCall::answered(GrpcInference&, GrpcOutcome&& outcome) {
  if (std::exchange(finished_, true)) return;
  if (!outcome.retry_after_ms.empty())
    context_->AddTrailingMetadata("retry-after-ms", outcome.retry_after_ms);
  if (!outcome.handed_back.empty()) context_->AddTrailingMetadata(kHandedBack, outcome.handed_back);
  if (!outcome.status.ok()) return Finish(outcome.status);
  response_ = std::move(outcome.message);
  StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
}

void UnaryCall::serve() {
  bytes_in_ = request_.Length();
  std::string_view call = context_->method();
  if (!call.starts_with(kGrpcService))
    return fail(501, "only inference.GRPCInferenceService is here");
  call.remove_prefix(kGrpcService.size());
  const bool open = call == "ServerLive" || call == "ServerReady";
  if (const auto refusal = identify(); refusal && !open) return end(*refusal);
  if (call == "ModelInfer") return infer();
  const MessagePieces message(request_);
  if (asks_of_model(call)) return about_model(call, message.pieces);
  answer(answer_call(shared_->backend, caller(), call, message.pieces));
}

void UnaryCall::infer() {
  inference_ = std::make_shared<GrpcInference>(*this, began_);
  inference_->begin(std::move(request_));
}

void UnaryCall::about_model(std::string_view call, Pieces message) {
  const auto model = parse_model_name(message);
  if (!model) return fail(400, to_string(model.error()));
  const std::string service = asked_model(shared_->backend, model->name, model->version).service;
  if (const auto refusal = forbidden(service.empty() ? model->name : service)) return end(*refusal);
  service_ = (service.empty() ? model->name : service).substr(0, kMaxNameBytes);
  if (!service.empty())
    return answer(answer_of_model(shared_->backend, call, model->name, service));
  const bool elsewhere = call != "ModelReady";
  Denial why = elsewhere ? not_here(shared_->pool(), service_) : unknown_model(service_);
  why.elsewhere = elsewhere;
  if (!model->version.empty() && why.kind == Denial::Kind::unknown_model)
    why.message += " of this version";
  inference_ = std::make_shared<GrpcInference>(*this, began_);
  inference_->ask_elsewhere(service_, std::move(request_), why);
}

void UnaryCall::answer(const CallAnswer& said) {
  if (!said) return fail(said.error().http_status, said.error().message);
  if (std::exchange(finished_, true)) return;
  write_log(200, said->size());
  grpc::Slice slice(said->data(), said->size());
  response_ = grpc::ByteBuffer(&slice, 1);
  StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
}

}  // namespace

std::shared_ptr<GrpcCall> make_unary_call(std::shared_ptr<GrpcShared> shared,
                                          grpc::GenericCallbackServerContext* context) {
  return std::make_shared<UnaryCall>(std::move(shared), context);
}

}  // namespace partita::serve
