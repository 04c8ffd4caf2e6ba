// An inference that came as a message of inference.GRPCInferenceService, by gRPC or gRPC-web, held
// against the model it is for: what both doors do alike. Loop thread only.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/front/backend.h"
#include "serve/oip/bind.h"
#include "serve/oip/grpc_messages.h"

namespace partita::serve {

inline constexpr std::string_view kGrpcService = "/inference.GRPCInferenceService/";

struct GrpcAsk {
  InferRequest wanted = {};  // its model is the service, where there is one
  AskedModel asked = {};
  bool other_version = false;  // the model is there, in other versions
  bool any_bucket = false;
};
// bad_input as parse_grpc_infer().
Result<GrpcAsk> ask_by_grpc(const Backend& backend, Pieces message);

// For the model that its service has now; where a shorter bucket will do the ask names that.
// bad_input in words for the client.
Result<BoundRequest> bind_grpc_ask(const Backend& backend, GrpcAsk& ask);

// Reads the tensors of the message into its rows.
Result<void> place_grpc_ask(const GrpcAsk& ask, const ModelSpec& model, const BoundRequest& bound,
                            Pieces message, const InputRow& row);

}  // namespace partita::serve
