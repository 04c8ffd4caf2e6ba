// An inference request of the Open Inference Protocol v2 as it came, by HTTP or gRPC, before it is
// held against a model. Tensors themselves stay where they are: as text, behind the JSON (binary
// form), in a shared region, or in the gRPC message. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::serve {

inline constexpr std::size_t kMaxNameBytes = 1024;  // of a tensor, a model, an id, a region
inline constexpr std::size_t kMaxParameters = 64;   // of a request, an input, an output

// A place in a region of Triton's system shared memory extension.
struct SharedPlace {
  std::string region;
  std::uint64_t offset = 0, bytes = 0;
  bool operator==(const SharedPlace&) const = default;
};

// How the values of a tensor come, or go.
enum class Carrier : std::uint8_t {
  json,    // numbers in text
  binary,  // little-endian bytes
  typed,   // numbers in the protobuf message (gRPC's InferTensorContents)
  shared
};

struct InferInput {
  std::string name, datatype;
  std::vector<std::int64_t> shape = {};
  Carrier carrier = Carrier::json;
  std::string_view json = {};           // the array's text, a view into the request
  std::uint64_t offset = 0, bytes = 0;  // binary, typed: from the begin of binary part or message
  SharedPlace place = {};               // shared
};

struct InferOutput {
  std::string name;
  std::optional<bool> binary = {};
  std::optional<SharedPlace> place = {};
};

struct InferRequest {
  std::string model = {}, version = {};  // gRPC; HTTP has them in the path
  std::string id = {};
  std::vector<InferInput> inputs = {};
  std::vector<InferOutput> outputs = {};  // none: all, as `binary_outputs` says
  bool binary_outputs = false;
  int priority = 0;  // higher goes first
  // Triton's sequence extension; 0: no sequence.
  std::uint64_t sequence = 0;
  bool sequence_begins = false, sequence_ends = false;
  std::optional<std::int64_t> timeout_ns = {};
};

// Reads the JSON of a request. Where inputs have parameters.binary_data_size, their bytes follow
// the JSON in order. The result refers to `text`. bad_input says what is wrong and where.
Result<InferRequest> parse_infer_json(std::string_view text);

// The leading dimension of the first input as far as the beginning of a request's JSON tells it, so
// that admission need not wait for the rest.
std::optional<std::int64_t> probe_items(std::string_view beginning);

// What every carrier shares; `context` names the field in the message of the refusal.
Result<std::int64_t> timeout_from_us(const std::string& context, std::int64_t microseconds);
inline constexpr int kPriorityBound = 8;  // and -kPriorityBound
Result<int> priority_from(const std::string& context, std::int64_t value);
// The number of a sequence that its client names by a text: the same for the same text. Sequences
// are their client's own, so who seeks two texts of one number finds but two of its own.
inline constexpr std::size_t kMaxSequenceName = 128;
Result<std::uint64_t> sequence_from(const std::string& context, std::string_view name);

}  // namespace partita::serve
