// Holds a request against the model it is for: names, data types, shapes and sizes. What comes out
// can be read and answered without looking at names again. An item is a row: the leading dimension
// of every input is the number of items. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "serve/oip/infer_request.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

inline constexpr std::int64_t kMaxRequestItems = 4096;

struct BoundOutput {
  int tensor = 0;  // of the model's outputs
  Carrier carrier = Carrier::json;
  SharedPlace place = {};  // shared
  bool operator==(const BoundOutput&) const = default;
};

struct BoundRequest {
  int items = 1;
  std::vector<int> inputs = {};  // the model's input that each input of the request is
  std::vector<BoundOutput> outputs = {};
  std::uint64_t binary_bytes = 0;  // of all binary inputs together
};

// bad_input in words for the client: "input 'x': shape [1,3,224] where [n,3,224,224] is wanted".
// gRPC answers carry bytes only, so JSON's limits on data types do not hold there.
enum class Protocol : std::uint8_t { http, grpc };
Result<BoundRequest> bind_request(const InferRequest& request, const ModelSpec& model,
                                  Protocol protocol);

// "[n,3,224,224]" of a tensor with its batch dimension.
std::string wanted_shape(const TensorSpec& tensor);

}  // namespace partita::serve
