// What the doors for gRPC and gRPC-web do alike with calls of inference.GRPCInferenceService: an
// inference is held against the model it is for, other calls are answered. Loop thread only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/front/backend.h"
#include "serve/front/shared_memory.h"
#include "serve/front/tokens.h"
#include "serve/oip/bind.h"
#include "serve/oip/grpc_messages.h"

namespace partita::serve {

inline constexpr std::string_view kGrpcService = "/inference.GRPCInferenceService/";

// gRPC's status codes, by HTTP's statuses as docs/serving.md has them, and the other way round.
int grpc_status_of(int http_status);
int http_status_of(int grpc_status);

// Who calls; no token: tokens are not asked for. A gateway that hands a call over may have that
// alone.
struct GrpcCaller {
  const Token* token = nullptr;
  bool hands_over = false;
  SharedMemory* memory = nullptr;  // that the door offers; null: none
  bool may_all() const { return !hands_over && (token == nullptr || token->all); }
  // That its requests may name regions of.
  const SharedMemory* shares() const { return may_all() ? memory : nullptr; }
};
struct CallRefusal {
  int http_status = 400;
  std::string message = {};
};
// A message, or why there is none.
using CallAnswer = tl::expected<std::string, CallRefusal>;
// ModelReady, ModelMetadata, ModelConfig of a model that is `service` here.
bool asks_of_model(std::string_view call);
CallAnswer answer_of_model(const Backend& backend, std::string_view call, const std::string& model,
                           const std::string& service);
// Of any other, but for inferences. What Triton has and is not here is refused by name.
CallAnswer answer_call(Backend& backend, const GrpcCaller& caller, std::string_view call,
                       Pieces message);

struct GrpcAsk {
  InferRequest wanted = {};  // its model is the service, where there is one
  AskedModel asked = {};
  bool other_version = false;  // the model is there, in other versions
  bool any_bucket = false;
  OutputRegions regions = {};
};
// bad_input as parse_grpc_infer().
Result<GrpcAsk> ask_by_grpc(const Backend& backend, Pieces message);

// For the model that its service has now; where a shorter bucket will do the ask names that.
// bad_input in words for the client. `memory`: as GrpcCaller::shares().
Result<BoundRequest> bind_grpc_ask(const Backend& backend, GrpcAsk& ask,
                                   const SharedMemory* memory);

// Reads the tensors of the message, and of `memory`, into its rows.
struct GrpcTensors {
  Pieces message;
  const SharedMemory* memory = nullptr;
};
Result<void> place_grpc_ask(const GrpcAsk& ask, const ModelSpec& model, const BoundRequest& bound,
                            const GrpcTensors& from, const InputRow& row);
// What came out of a request, that in shared memory written there; else why nothing did.
tl::expected<std::vector<AnsweredOutput>, CallRefusal> answered_of(Backend& backend,
                                                                   RequestId request,
                                                                   const ModelSpec& model,
                                                                   const BoundRequest& bound,
                                                                   const OutputRegions& regions);
// A ModelInferResponse, as it was asked for: what stands before the bytes of each output, and the
// bytes of all together. Outputs in shared memory have none of their own any more.
struct InferParts {
  std::vector<std::string> heads;
  std::size_t bytes = 0;
};
InferParts infer_parts(const ModelSpec& model, const GrpcAsk& ask, const BoundRequest& bound,
                       std::span<AnsweredOutput> answered);

}  // namespace partita::serve
