// Holds a request against the model it is for: names, data types, shapes and sizes. What comes out
// can be read and answered without looking at names again. An item is a row: inputs have as many on
// their batch axis as there are items; a model without batch axes takes one. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "serve/oip/infer_request.h"
#include "serve/wire/items.h"
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
  std::vector<std::vector<std::int64_t>> sizes = {};  // by input: of an item, where some are open
  std::vector<BoundOutput> outputs = {};
  std::uint64_t binary_bytes = 0;  // of all binary inputs together
};

// bad_input in words for the client: "input 'x': shape [1,3,224] where [n,3,224,224] is wanted".
// gRPC answers carry bytes only, so JSON's limits on data types do not hold there.
enum class Protocol : std::uint8_t { http, grpc };
Result<BoundRequest> bind_request(const InferRequest& request, const ModelSpec& model,
                                  Protocol protocol);

// "[n,3,224,224]" of a tensor with its batch axis; "?" is what is open.
std::string wanted_shape(const TensorSpec& tensor);

// The sizes of an item of an input, without the rows.
Sizes input_sizes(const ModelSpec& model, const BoundRequest& request, std::size_t input);

// The places in memory for the values of an input, in the order in which they lie in the whole
// tensor. Of an input that all items share it is the first row; share_inputs() fills the others.
using InputRow = std::function<std::span<char>(int item, int tensor)>;
std::vector<std::span<char>> input_places(const ModelSpec& model, const BoundRequest& request,
                                          std::size_t input, const InputRow& row);
void share_inputs(const ModelSpec& model, const BoundRequest& request, const InputRow& row);

// What came out, by BoundRequest::outputs; the parts refer to the rows.
struct AnsweredOutput {
  std::vector<std::int64_t> shape = {};  // of the whole tensor
  std::vector<std::span<const char>> parts = {};
  std::size_t bytes = 0;
};
// One item's tensor in the model's outputs.
using OutputRow = std::function<std::span<const char>(int item, int tensor)>;
// Looks at the rows once; an Error where a worker wrote what cannot be.
Result<std::vector<AnsweredOutput>> take_outputs(const ModelSpec& model,
                                                 const BoundRequest& request, const OutputRow& row);

}  // namespace partita::serve
