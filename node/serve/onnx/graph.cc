#include "serve/onnx/graph.h"

#include <bit>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "base/check.h"

static_assert(std::endian::native == std::endian::little, "weights are copied as they lie");

namespace partita::serve {
namespace {

// Protobuf: a field is its number and wire type, then a varint (0), a length and bytes (2), or four
// bytes (5).
void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}
void put_number(std::string& out, int field, std::int64_t value) {
  put_varint(out, static_cast<std::uint64_t>(field) << 3);
  put_varint(out, static_cast<std::uint64_t>(value));
}
void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_varint(out, (static_cast<std::uint64_t>(field) << 3) | 2);
  put_varint(out, bytes.size());
  out += bytes;
}
void put_float(std::string& out, int field, float value) {
  put_varint(out, (static_cast<std::uint64_t>(field) << 3) | 5);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

// Field numbers of onnx.proto.
namespace model {
constexpr int kIrVersion = 1, kProducer = 2, kGraph = 7, kOpset = 8;
}
namespace opset {
constexpr int kVersion = 2;
}
namespace graph {
constexpr int kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
}
namespace node {
constexpr int kInput = 1, kOutput = 2, kName = 3, kOperator = 4, kAttribute = 5;
}
namespace attribute {
constexpr int kName = 1, kFloat = 2, kInt = 3, kInts = 8, kType = 20;
constexpr int kOfFloat = 1, kOfInt = 2, kOfInts = 7;
}  // namespace attribute
namespace tensor {
constexpr int kDims = 1, kType = 2, kName = 8, kRaw = 9;
}
namespace value {
constexpr int kName = 1, kType = 2, kTensor = 1, kElement = 1, kShape = 2, kDim = 1;
constexpr int kSize = 1, kParameter = 2;
}  // namespace value

constexpr std::int64_t kIr = 8, kOpset = 17;

std::string value_info(const std::string& name, OnnxGraph::Element element,
                       const std::vector<std::int64_t>& whole) {
  std::string dimensions;
  bool batch = true;  // the first open one
  for (const std::int64_t size : whole) {
    std::string dimension;
    if (size < 0 && std::exchange(batch, false))
      put_bytes(dimension, value::kParameter, "batch");
    else
      put_number(dimension, value::kSize, size);
    put_bytes(dimensions, value::kDim, dimension);
  }
  std::string of_tensor, type, info;
  put_number(of_tensor, value::kElement, static_cast<int>(element));
  put_bytes(of_tensor, value::kShape, dimensions);
  put_bytes(type, value::kTensor, of_tensor);
  put_bytes(info, value::kName, name);
  put_bytes(info, value::kType, type);
  return info;
}

std::string tensor_proto(const OnnxWeight& weight) {
  std::string out;
  for (const std::int64_t size : weight.shape) put_number(out, tensor::kDims, size);
  const bool floats = std::holds_alternative<std::vector<float>>(weight.values);
  const auto element = floats ? OnnxGraph::Element::float32 : OnnxGraph::Element::int64;
  put_number(out, tensor::kType, static_cast<int>(element));
  put_bytes(out, tensor::kName, weight.name);
  std::visit(
      [&](const auto& values) {
        const auto raw = std::as_bytes(std::span(values));
        put_bytes(out, tensor::kRaw, {reinterpret_cast<const char*>(raw.data()), raw.size()});
      },
      weight.values);
  return out;
}

std::string attribute_proto(const std::string& name, const OnnxGraph::Attribute& given) {
  std::string out;
  put_bytes(out, attribute::kName, name);
  int type = attribute::kOfInt;
  if (const auto* number = std::get_if<std::int64_t>(&given)) {
    put_number(out, attribute::kInt, *number);
  } else if (const auto* real = std::get_if<float>(&given)) {
    put_float(out, attribute::kFloat, *real);
    type = attribute::kOfFloat;
  } else {
    for (const std::int64_t one : std::get<std::vector<std::int64_t>>(given))
      put_number(out, attribute::kInts, one);
    type = attribute::kOfInts;
  }
  put_number(out, attribute::kType, type);
  return out;
}

}  // namespace

namespace {

std::vector<std::int64_t> with_batch(std::vector<std::int64_t> shape) {
  shape.insert(shape.begin(), -1);
  return shape;
}

}  // namespace

void OnnxGraph::whole_input(const std::string& name, Element element,
                            const std::vector<std::int64_t>& whole) {
  put_bytes(inputs_, graph::kInput, value_info(name, element, whole));
}

void OnnxGraph::whole_output(const std::string& name, Element element,
                             const std::vector<std::int64_t>& whole) {
  put_bytes(outputs_, graph::kOutput, value_info(name, element, whole));
}

void OnnxGraph::input(const std::string& name, Element element,
                      const std::vector<std::int64_t>& shape) {
  whole_input(name, element, with_batch(shape));
}

void OnnxGraph::output(const std::string& name, Element element,
                       const std::vector<std::int64_t>& shape) {
  whole_output(name, element, with_batch(shape));
}

std::string OnnxGraph::weight(OnnxWeight weight) {
  std::size_t count = 1;
  for (const std::int64_t size : weight.shape) count *= static_cast<std::size_t>(size);
  CHECK(std::visit([](const auto& values) { return values.size(); }, weight.values) == count);
  weights_.push_back(std::move(weight));
  return weights_.back().name;
}

std::string OnnxGraph::node(const std::string& op, const std::vector<std::string>& inputs,
                            const std::string& output, const Attributes& attributes) {
  std::string out;
  for (const std::string& name : inputs) put_bytes(out, node::kInput, name);
  put_bytes(out, node::kOutput, output);
  put_bytes(out, node::kName, output);
  put_bytes(out, node::kOperator, op);
  for (const auto& [name, given] : attributes)
    put_bytes(out, node::kAttribute, attribute_proto(name, given));
  put_bytes(nodes_, graph::kNode, out);
  return output;
}

std::string OnnxGraph::bytes() const {
  std::string whole = nodes_;
  put_bytes(whole, graph::kName, name_);
  for (const OnnxWeight& weight : weights_)
    put_bytes(whole, graph::kInitializer, tensor_proto(weight));
  whole += inputs_;
  whole += outputs_;
  std::string version, out;
  put_number(version, opset::kVersion, kOpset);
  put_number(out, model::kIrVersion, kIr);
  put_bytes(out, model::kProducer, "partita");
  put_bytes(out, model::kGraph, whole);
  put_bytes(out, model::kOpset, version);
  return out;
}

}  // namespace partita::serve
