// The messages of inference.GRPCInferenceService, as bytes: of the protocol's six calls, and of
// Triton's extensions the requests that name models and regions, and streams. Requests lie in
// pieces, as gRPC has them; tensors stay there until they are read into their rows. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

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
// Of ModelReady-, ModelMetadata-, ModelConfig- and ModelStatisticsRequest.
Result<ModelName> parse_model_name(Pieces message);
struct RepositoryAsk {
  std::string repository = {}, model = {};
  bool ready = false;        // those alone that are
  std::string brought = {};  // a parameter that brings_model()
};
Result<RepositoryAsk> parse_repository_index(Pieces message);
Result<RepositoryAsk> parse_repository_model(Pieces message);  // to load, or unload
// Of the requests about system shared memory. A message without a key or sizes has none.
struct RegionAsk {
  std::string name = {}, key = {};
  std::uint64_t offset = 0, bytes = 0;
};
Result<RegionAsk> parse_shared_region(Pieces message);
// Whether a parameter of Triton's load is what is to be loaded in place of what is there.
bool brings_model(std::string_view parameter);
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

// What precedes a ModelInferResponse of so many bytes in a ModelStreamInferResponse, with what
// makes it the last one of its request: models answer once.
std::string encode_stream_head(std::size_t bytes);
// That it failed, and whose request it was.
std::string encode_stream_error(std::string_view message, std::string_view id);

}  // namespace partita::serve
