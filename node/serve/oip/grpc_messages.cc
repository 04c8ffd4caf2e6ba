#include "serve/oip/grpc_messages.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <variant>

#include "base/proto_scan.h"
#include "serve/wire/items.h"
#include "serve/wire/texts.h"

namespace partita::serve {

namespace {

// Field numbers of the protocol's messages.
enum InferField : std::uint32_t {
  kModelName = 1,
  kModelVersion_ = 2,
  kId = 3,
  kParameters = 4,
  kInputs = 5,
  kOutputs = 6,
  kRaw = 7
};
enum TensorField : std::uint32_t {
  kName = 1,
  kDatatype = 2,
  kShape = 3,
  kTensorParameters = 4,
  kContents = 5
};
constexpr std::uint32_t kRawOutputs = 6;
constexpr std::uint32_t kStreamError = 1, kStreamAnswer = 2;
constexpr std::size_t kMaxKeyBytes = 256;

// One entry of a map of parameters, whatever its type.
struct GrpcParameter {
  std::string key, text;
  std::int64_t number = 0;
};

GrpcParameter read_parameter(ProtoScan& scan, WireType type) {
  GrpcParameter parameter;
  if (type != WireType::bytes) scan.fail("a parameter is wanted");
  scan.message(scan.length(), [&](std::uint32_t number, WireType kind) {
    if (number == 1) {
      parameter.key = scan.text(kind, kMaxKeyBytes);
    } else if (number == 2 && kind == WireType::bytes) {
      scan.message(scan.length(), [&](std::uint32_t choice, WireType of) {
        if (of == WireType::varint)
          parameter.number = static_cast<std::int64_t>(scan.varint());
        else if (choice == 3)
          parameter.text = scan.text(of, kMaxNameBytes);
        else
          scan.skip(of);
      });
    } else {
      scan.skip(kind);
    }
  });
  return parameter;
}

// Whether it was about shared memory.
bool take_shared(const GrpcParameter& parameter, SharedPlace& place) {
  const auto size = static_cast<std::uint64_t>(parameter.number);
  if (parameter.key == "shared_memory_region")
    place.region = parameter.text;
  else if (parameter.key == "shared_memory_offset")
    place.offset = size;
  else if (parameter.key == "shared_memory_byte_size")
    place.bytes = size;
  else
    return false;
  return true;
}

void read_shape(ProtoScan& scan, WireType type, std::vector<std::int64_t>& shape) {
  const auto one = [&] {
    if (shape.size() > kMaxDimensions) return scan.fail("too many dimensions");
    shape.push_back(static_cast<std::int64_t>(scan.varint()));
  };
  if (type == WireType::varint) return one();
  if (type != WireType::bytes) return scan.fail("a shape is wanted");
  const std::uint64_t bytes = scan.length(), end = scan.position() + bytes;
  while (scan.ok() && scan.position() < end) one();
  if (scan.position() > end) scan.fail("a shape that ends in a number");
}

InferInput read_input_tensor(ProtoScan& scan) {
  InferInput input;
  input.carrier = Carrier::binary;
  std::size_t parameters = 0;
  scan.message(scan.length(), [&](std::uint32_t number, WireType type) {
    if (number == kName) {
      input.name = scan.text(type, kMaxNameBytes);
    } else if (number == kDatatype) {
      input.datatype = scan.text(type, kMaxKeyBytes);
    } else if (number == kShape) {
      read_shape(scan, type, input.shape);
    } else if (number == kTensorParameters) {
      if (++parameters > kMaxParameters) return scan.fail("too many parameters");
      if (take_shared(read_parameter(scan, type), input.place)) input.carrier = Carrier::shared;
    } else if (number == kContents && type == WireType::bytes) {
      if (input.carrier == Carrier::typed) return scan.fail("contents twice");
      input.bytes = scan.length();
      input.offset = scan.position();
      if (input.bytes > 0) input.carrier = Carrier::typed;
      scan.jump(input.bytes);
    } else {
      scan.skip(type);
    }
  });
  return input;
}

InferOutput read_output_tensor(ProtoScan& scan) {
  InferOutput output;
  SharedPlace place;
  std::size_t parameters = 0;
  scan.message(scan.length(), [&](std::uint32_t number, WireType type) {
    if (number == kName) {
      output.name = scan.text(type, kMaxNameBytes);
    } else if (number == 2) {
      if (++parameters > kMaxParameters) return scan.fail("too many parameters");
      const GrpcParameter parameter = read_parameter(scan, type);
      if (take_shared(parameter, place)) output.place = place;
      if (parameter.key == "classification" && parameter.number != 0)
        scan.fail("classification is not supported");
    } else {
      scan.skip(type);
    }
  });
  return output;
}

void take_parameter(ProtoScan& scan, const GrpcParameter& parameter, InferRequest& request) {
  const auto keep = [&](const auto& value, auto& into) {
    if (value)
      into = *value;
    else
      scan.fail(to_string(value.error()));
  };
  if (parameter.key == "priority") {
    keep(priority_from("parameter priority", parameter.number), request.priority);
  } else if (parameter.key == "timeout" && parameter.number != 0) {
    keep(timeout_from_us("parameter timeout", parameter.number), request.timeout_ns);
  } else if (parameter.key == "sequence_id") {
    if (parameter.text.empty())
      request.sequence = static_cast<std::uint64_t>(parameter.number);
    else
      keep(sequence_from("parameter sequence_id", parameter.text), request.sequence);
  } else if (parameter.key == "sequence_start") {
    request.sequence_begins = parameter.number != 0;
  } else if (parameter.key == "sequence_end") {
    request.sequence_ends = parameter.number != 0;
  }
}

struct RawPlace {
  std::uint64_t offset = 0, bytes = 0;
};

// raw_input_contents stand for the inputs that are not in shared memory, in order.
void assign_raw(ProtoScan& scan, const std::vector<RawPlace>& raw, InferRequest& request) {
  std::size_t next = 0;
  for (InferInput& input : request.inputs) {
    if (input.carrier == Carrier::shared) continue;
    if (input.carrier == Carrier::typed) {
      if (!raw.empty()) scan.fail("contents and raw_input_contents in one request");
      continue;
    }
    if (next == raw.size()) {
      scan.fail("input '" + input.name + "' has neither contents nor raw_input_contents");
      return;
    }
    input.offset = raw[next].offset;
    input.bytes = raw[next++].bytes;
  }
  if (next < raw.size()) scan.fail("more raw_input_contents than inputs");
}

// Which field of InferTensorContents has the values of a type (0: none has), and, where its numbers
// are wider than the type, what they may be. int32 comes as 64 bits that are cut, as protobuf has
// it. In the order of DataType.
struct Contents {
  std::uint32_t field = 0;
  std::int64_t low = INT64_MIN, high = INT64_MAX;
};
constexpr Contents kContentsOf[] = {{1, 0, 1},
                                    {4, 0, 255},
                                    {4, 0, 65'535},
                                    {4, 0, UINT32_MAX},
                                    {5},
                                    {2, -128, 127},
                                    {2, -32'768, 32'767},
                                    {2},
                                    {3},
                                    {},
                                    {6},
                                    {7},
                                    {},
                                    {8}};
static_assert(std::size(kContentsOf) == kDataTypes);
const Contents& contents_of(DataType type) { return kContentsOf[static_cast<int>(type)]; }

// Reads one number of the message and gives its bytes in the type; narrower ones are checked.
std::uint64_t read_number(ProtoScan& scan, DataType type) {
  if (type == DataType::fp32) return scan.fixed32();
  if (type == DataType::fp64) return scan.fixed64();
  const std::uint64_t value = scan.varint();
  const auto number = static_cast<std::int64_t>(value);
  const Contents& is = contents_of(type);
  if (number < is.low || number > is.high) scan.fail("a number out of range");
  return value;
}

Result<void> read_typed(ProtoScan& scan, const InferInput& input, const TensorSpec& tensor,
                        std::span<const std::span<char>> rows) {
  const std::uint32_t wanted = contents_of(tensor.type).field;
  const std::size_t size = size_of(tensor.type);
  const std::size_t in_row = rows.empty() ? 0 : rows[0].size() / size, all = in_row * rows.size();
  std::size_t count = 0;
  const auto put = [&] {
    const std::uint64_t value = read_number(scan, tensor.type);
    if (count == all) return scan.fail("more values than the shape has");
    std::memcpy(rows[count / in_row].data() + count % in_row * size, &value, size);
    ++count;
  };
  scan.seek(input.offset);
  scan.message(input.bytes, [&](std::uint32_t number, WireType type) {
    if (number != wanted) return scan.fail("values in a field of another type");
    if (type != WireType::bytes) return put();
    const std::uint64_t bytes = scan.length(), end = scan.position() + bytes;
    while (scan.ok() && scan.position() < end) put();
    if (scan.position() > end) scan.fail("values that end in a number");
  });
  if (scan.ok() && count < all) scan.fail("fewer values than the shape has");
  if (!scan.ok()) return bad_input("input '" + input.name + "'", scan.error());
  return {};
}

Result<void> read_texts(ProtoScan& scan, const InferInput& input, const TensorSpec& tensor,
                        std::span<const std::span<char>> rows) {
  const std::string context = "input '" + input.name + "'";
  std::string bytes;
  scan.seek(input.offset);
  if (input.carrier != Carrier::typed) {  // bind_request() has bounded it
    bytes.resize(input.bytes);
    scan.copy(bytes);
    auto spread = scan.ok() ? spread_texts(bytes, tensor, rows) : bad_input("", scan.error());
    if (!spread) spread.error().context = context;
    return spread;
  }
  TextRows into(tensor, rows);
  scan.message(input.bytes, [&](std::uint32_t number, WireType type) {
    if (number != contents_of(tensor.type).field || type != WireType::bytes)
      return scan.fail("values in a field of another type");
    const std::uint64_t size = scan.length();
    if (size > tensor.text_bytes) return scan.fail("a value longer than the model takes");
    bytes.resize(size);
    scan.copy(bytes);
    if (!scan.ok()) return;
    if (const std::string fault = into.put(bytes); !fault.empty()) scan.fail(fault);
  });
  if (scan.ok() && !into.full()) scan.fail("fewer values than the shape has");
  if (!scan.ok()) return bad_input(context, scan.error());
  return {};
}

// Where a field goes: a text, a number, a message whose own fields are read one by one.
using ReadField = std::function<void(ProtoScan&, std::uint32_t number, WireType)>;
struct FieldPlace {
  std::uint32_t number;
  std::variant<std::string*, std::uint64_t*, ReadField> into;
};
// The fields of a message that have a place; others, and those of another type, are skipped.
Result<void> read_fields(Pieces message, const std::vector<FieldPlace>& places) {
  ProtoScan scan(message);
  scan.message(scan.size(), [&](std::uint32_t number, WireType type) {
    const auto place = std::ranges::find(places, number, &FieldPlace::number);
    if (place == places.end()) return scan.skip(type);
    if (auto* const text = std::get_if<std::string*>(&place->into))
      **text = scan.text(type, kMaxNameBytes);
    else if (auto* const value = std::get_if<std::uint64_t*>(&place->into);
             value && type == WireType::varint)
      **value = scan.varint();
    else if (auto* const read = std::get_if<ReadField>(&place->into);
             read && type == WireType::bytes)
      scan.message(scan.length(),
                   [&](std::uint32_t of, WireType kind) { (*read)(scan, of, kind); });
    else
      scan.skip(type);
  });
  if (!scan.ok()) return bad_input("message", scan.error());
  return {};
}

std::string encode_tensor(const TensorSpec& tensor, Sizes whole) {
  std::string out, shape;
  append_field(out, kName, tensor.name);
  append_field(out, kDatatype, name_of(tensor.type));
  for (const std::int64_t size : whole) append_varint(shape, static_cast<std::uint64_t>(size));
  append_field(out, kShape, shape);
  return out;
}

std::string encode_parameter(std::string_view key, std::uint32_t choice, std::string_view text,
                             std::uint64_t number) {
  std::string value, entry;
  if (choice == 3)
    append_field(value, choice, text);
  else
    append_field(value, choice, number);
  append_field(entry, 1, key);
  append_field(entry, 2, value);
  return entry;
}

}  // namespace

Result<ModelName> parse_model_name(Pieces message) {
  ModelName model;
  TRY(read_fields(message, {{1, &model.name}, {2, &model.version}}));
  return model;
}

bool brings_model(std::string_view parameter) {
  return parameter == "config" || parameter.starts_with("file:");
}

Result<RepositoryAsk> parse_repository_index(Pieces message) {
  RepositoryAsk ask;
  std::uint64_t ready = 0;
  TRY(read_fields(message, {{1, &ask.repository}, {2, &ready}}));
  ask.ready = ready != 0;
  return ask;
}

Result<RepositoryAsk> parse_repository_model(Pieces message) {
  RepositoryAsk ask;
  const auto parameter = [&](ProtoScan& scan, std::uint32_t number, WireType type) {
    if (number != 1) return scan.skip(type);  // values may be files
    std::string said = scan.text(type, kMaxNameBytes);
    if (brings_model(said)) ask.brought = std::move(said);
  };
  TRY(read_fields(message, {{1, &ask.repository}, {2, &ask.model}, {3, parameter}}));
  return ask;
}

Result<RegionAsk> parse_shared_region(Pieces message) {
  RegionAsk ask;
  TRY(read_fields(message, {{1, &ask.name}, {2, &ask.key}, {3, &ask.offset}, {4, &ask.bytes}}));
  return ask;
}

Result<InferRequest> parse_grpc_infer(Pieces message) {
  ProtoScan scan(message);
  InferRequest request;
  request.binary_outputs = true;
  std::vector<RawPlace> raw;
  std::size_t parameters = 0;
  scan.message(scan.size(), [&](std::uint32_t number, WireType type) {
    if (number == kModelName) {
      request.model = scan.text(type, kMaxNameBytes);
    } else if (number == kModelVersion_) {
      request.version = scan.text(type, kMaxNameBytes);
    } else if (number == kId) {
      request.id = scan.text(type, kMaxNameBytes);
    } else if (number == kParameters) {
      if (++parameters > kMaxParameters) return scan.fail("too many parameters");
      take_parameter(scan, read_parameter(scan, type), request);
    } else if (number == kInputs && type == WireType::bytes) {
      if (request.inputs.size() == kMaxTensors) return scan.fail("too many inputs");
      request.inputs.push_back(read_input_tensor(scan));
    } else if (number == kOutputs && type == WireType::bytes) {
      if (request.outputs.size() == kMaxTensors) return scan.fail("too many outputs");
      request.outputs.push_back(read_output_tensor(scan));
    } else if (number == kRaw && type == WireType::bytes) {
      if (raw.size() == kMaxTensors) return scan.fail("too many raw_input_contents");
      const std::uint64_t bytes = scan.length();
      raw.push_back({scan.position(), bytes});
      scan.jump(bytes);
    } else {
      scan.skip(type);
    }
  });
  if (scan.ok()) assign_raw(scan, raw, request);
  if (!scan.ok()) return bad_input("message", scan.error());
  return request;
}

Result<void> read_grpc_tensor(Pieces message, const InferInput& input, const TensorSpec& tensor,
                              std::span<const std::span<char>> rows) {
  ProtoScan scan(message);
  if (tensor.type == DataType::bytes) return read_texts(scan, input, tensor, rows);
  if (input.carrier == Carrier::typed) return read_typed(scan, input, tensor, rows);
  scan.seek(input.offset);
  for (const std::span<char> row : rows) scan.copy(row);
  if (!scan.ok()) return bad_input("input '" + input.name + "'", scan.error());
  return {};
}

std::string encode_flag(bool value) {
  std::string out;
  if (value) append_field(out, 1, std::uint64_t{1});
  return out;
}

std::string encode_server_metadata() {
  std::string out;
  append_field(out, 1, kServerName);
  append_field(out, 2, kServerVersion);
  for (const std::string_view extension : kServerExtensions) append_field(out, 3, extension);
  return out;
}

std::string encode_model_metadata(const ModelSpec& model, std::span<const std::string> versions) {
  std::string out;
  append_field(out, 1, model.name);
  for (const std::string& version : versions) append_field(out, 2, version);
  append_field(out, 3, model.platform);
  const auto add = [&](std::uint32_t field, const TensorSpec& tensor) {
    append_field(out, field, encode_tensor(tensor, whole_shape(tensor, tensor.shape, -1)));
  };
  for (const TensorSpec& tensor : model.inputs) add(4, tensor);
  for (const TensorSpec& tensor : model.outputs) add(5, tensor);
  return out;
}

std::string encode_infer_head(const ModelSpec& model, std::string_view id,
                              const BoundRequest& request,
                              std::span<const AnsweredOutput> answered) {
  std::string out;
  append_field(out, kModelName, model.name);
  append_field(out, kModelVersion_, model.version);
  if (!id.empty()) append_field(out, kId, id);
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    const BoundOutput& output = request.outputs[i];
    const TensorSpec& spec = model.outputs[static_cast<std::size_t>(output.tensor)];
    std::string tensor = encode_tensor(spec, answered[i].shape);
    if (output.carrier == Carrier::shared) {
      const auto add = [&](const std::string& entry) {
        append_field(tensor, kTensorParameters, entry);
      };
      add(encode_parameter("shared_memory_region", 3, output.place.region, 0));
      add(encode_parameter("shared_memory_offset", 2, "", output.place.offset));
      add(encode_parameter("shared_memory_byte_size", 2, "", answered[i].bytes));
    }
    append_field(out, kInputs, tensor);  // `outputs` is field 5 of the response
  }
  return out;
}

std::string encode_raw_head(std::size_t bytes) {
  std::string out;
  append_varint(out, kRawOutputs << 3 | 2);
  append_varint(out, bytes);
  return out;
}

std::string encode_stream_head(std::size_t bytes) {
  std::string last, out;
  append_field(last, kParameters, encode_parameter("triton_final_response", 1, "", 1));
  append_varint(out, kStreamAnswer << 3 | 2);
  append_varint(out, last.size() + bytes);
  return out + last;  // fields come in any order
}

std::string encode_stream_error(std::string_view message, std::string_view id) {
  std::string whose, out;
  append_field(whose, kId, id);
  append_field(out, kStreamError, message);
  return out + encode_stream_head(whose.size()) + whose;
}

}  // namespace partita::serve
