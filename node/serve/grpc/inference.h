// GrpcInference: one request that came as a ModelInferRequest, alone or in a stream: held against
// its model, let in, run here or handed over to another node, and answered once. Loop thread only.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "serve/front/grpc_ask.h"
#include "serve/grpc/call.h"
#include "serve/oip/bind.h"

namespace partita::serve {

struct GrpcOutcome {
  grpc::Status status = {};
  grpc::ByteBuffer message = {};    // a ModelInferResponse, where it is well
  std::string retry_after_ms = {};  // empty: not said
  std::string handed_back = {};     // to a gateway: why; empty: it was not
};

class GrpcInference : public std::enable_shared_from_this<GrpcInference> {
 public:
  // Of a call that has identified itself, and lets go of it before it ends.
  explicit GrpcInference(GrpcCall& call, const GrpcCall::Began& began = {})
      : call_(call), began_(began) {}
  // Its outcome goes to the call, at once or later.
  void begin(grpc::ByteBuffer&& request);
  // It is refused before it is looked at.
  void refuse(grpc::ByteBuffer&& request, const grpc::Status& why);
  // No inference: a question about a model that is not here, which another node may answer.
  void ask_elsewhere(const std::string& model, grpc::ByteBuffer&& request, const Denial& why);
  // Its call ends without it, with this status. Nothing is held any more, and nothing told.
  void let_go(const grpc::Status& status);
  const std::string& id() const { return id_; }  // that its client gave it

 private:
  void infer(Pieces message);
  bool permitted(std::string_view service);
  std::optional<Denial> admit(const InferRequest& wanted);
  // Refused here, nothing of it run: goes to another node, where one may have it. `asked`: its
  // key's limits have let it in.
  void deny_or_go(const Denial& why, bool asked);
  void hand_over(const std::string& known, const Denial& why);
  Completion completion();
  void answer();
  void fail(grpc::StatusCode code, const std::string& message) { end({.status = {code, message}}); }
  void deny(const Denial& denial);
  void end(GrpcOutcome&& outcome, std::optional<int> http_status = {});
  void log(int status, std::size_t bytes_out);
  void give_back();

  GrpcCall& call_;
  bool over_ = false, infers_ = false;
  grpc::ByteBuffer request_ = {};
  std::optional<RequestId> admitted_ = {};
  std::shared_ptr<const ModelSpec> model_ = {};
  BoundRequest bound_ = {};
  GrpcAsk ask_ = {};
  std::string id_ = {}, service_ = {};
  KeyHandle key_ = {};
  std::shared_ptr<GrpcPeerCall> peer_call_ = {};
  // For the access log.
  const GrpcCall::Began began_;
  std::uint64_t bytes_in_ = 0;
  std::int64_t submitted_ns_ = 0, ended_ns_ = 0;
};

}  // namespace partita::serve
