// The messages of inference.GRPCInferenceService (the protocol's six calls), as bytes. Requests lie
// in pieces, as gRPC has them; tensors stay there until they are read into their rows. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/oip/answer.h"
#include "serve/oip/bind.h"
#include "serve/oip/infer_request.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

using Pieces = std::span<const std::string_view>;

struct ModelName {
  std::string name, version;
};
// Of ModelReadyRequest and ModelMetadataRequest.
Result<ModelName> parse_model_name(Pieces message);
// Of a ModelInferRequest. Inputs that are Carrier::binary or typed say where in the message.
Result<InferRequest> parse_grpc_infer(Pieces message);
// Reads the bytes (binary), or the numbers (typed) of an input into its places (input_places()).
Result<void> read_grpc_tensor(Pieces message, const InferInput& input, const TensorSpec& tensor,
                              std::span<const std::span<char>> rows);

std::string encode_flag(bool value);  // ServerLive, ServerReady, ModelReady responses
std::string encode_server_metadata();
std::string encode_model_metadata(const ModelSpec& model, std::span<const std::string> versions);

// A ModelInferResponse's bytes without raw_output_contents, and what precedes the bytes of an
// output there: they follow, each behind its head, in the order of request.outputs.
std::string encode_infer_head(const ModelSpec& model, std::string_view id,
                              const BoundRequest& request,
                              std::span<const AnsweredOutput> answered);
std::string encode_raw_head(std::size_t bytes);

}  // namespace partita::serve
