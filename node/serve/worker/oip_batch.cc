#include "serve/worker/oip_batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/document.h"
#include "base/json_writer.h"

namespace partita::serve {
namespace {

constexpr double kMostExact = 9e15;  // whole numbers that a double holds

Result<std::vector<std::int64_t>> shape_of(const Document& document, const Node& tensor) {
  const Result<const Node*> list = list_member(document, tensor, "shape");
  if (!list) return failed(list.error());
  std::vector<std::int64_t> shape;
  for (const Node& size : (*list)->items) {
    const bool whole = size.kind == Node::Kind::number && std::abs(size.number) < kMostExact &&
                       size.number == std::floor(size.number);
    if (!whole) return bad_input(document.at(size), "a shape holds whole numbers");
    shape.push_back(static_cast<std::int64_t>(size.number));
  }
  return shape;
}

Result<std::vector<TensorSpec>> tensors_of_metadata(const Document& document, std::string_view key,
                                                    int max_batch, const ChosenShapes& chosen) {
  const Result<const Node*> list = list_member(document, document.root, key);
  if (!list) return failed(list.error());
  std::vector<TensorSpec> tensors;
  for (const Node& node : (*list)->items) {
    const Result<std::string> name = string_member(document, node, "name");
    if (!name) return failed(name.error());
    const Result<std::string> type = string_member(document, node, "datatype");
    if (!type) return failed(type.error());
    const Result<DataType> data_type = parse_data_type(document.at(node), *type);
    if (!data_type) return failed(data_type.error());
    const Result<std::vector<std::int64_t>> whole = shape_of(document, node);
    if (!whole) return failed(whole.error());
    Result<ItemShape> item = item_shape(*name, *whole, chosen);
    if (!item) return failed(item.error());
    if (!item->batched && max_batch > 1)
      return bad_input(*name, "the server takes one item at a time; say --batch 1");
    tensors.push_back({.name = *name, .type = *data_type, .shape = std::move(item->shape)});
  }
  return tensors;
}

// The shape of a whole batch, as text between brackets.
std::string batch_shape(const TensorSpec& tensor, std::size_t items) {
  std::string text = fmt::format("{}", items);
  for (const std::int64_t size : tensor.shape) text += fmt::format(",{}", size);
  return text;
}

// Bytes of this output in the binary part; bad_input when it is not what was asked for.
Result<std::size_t> output_bytes(const Document& document, const Node& node,
                                 const TensorSpec& wanted, std::size_t items) {
  const Result<std::string> type = string_member(document, node, "datatype");
  if (!type) return failed(type.error());
  const Result<std::vector<std::int64_t>> shape = shape_of(document, node);
  if (!shape) return failed(shape.error());
  std::vector<std::int64_t> whole = {static_cast<std::int64_t>(items)};
  whole.insert(whole.end(), wanted.shape.begin(), wanted.shape.end());
  if (*type != name_of(wanted.type) || *shape != whole) {
    return bad_input(document.at(node),
                     fmt::format("output '{}' is not {} [{}]", wanted.name, name_of(wanted.type),
                                 batch_shape(wanted, items)));
  }
  const Node* parameters = node.find("parameters");
  const Node* bytes = parameters == nullptr ? nullptr : parameters->find("binary_data_size");
  const std::size_t expected = items * bytes_of(wanted);
  const bool text = wanted.type == DataType::bytes && bytes != nullptr &&
                    bytes->kind == Node::Kind::number && bytes->number >= 0 &&
                    bytes->number == std::floor(bytes->number);
  if (text && bytes->number <= static_cast<double>(kMaxItemBytes))
    return static_cast<std::size_t>(bytes->number);
  if (bytes == nullptr || bytes->kind != Node::Kind::number ||
      bytes->number != static_cast<double>(expected)) {
    return bad_input(document.at(node),
                     fmt::format("output '{}' does not come as {} bytes", wanted.name, expected));
  }
  return expected;
}

}  // namespace

Result<ModelSpec> parse_oip_metadata(std::string_view json, int max_batch,
                                     const ChosenShapes& chosen) {
  const Result<Document> document = parse_document("metadata.json", json);
  if (!document) return failed(document.error());
  const Result<std::string> name = string_member(*document, document->root, "name");
  if (!name) return failed(name.error());
  auto inputs = tensors_of_metadata(*document, "inputs", max_batch, chosen);
  if (!inputs) return failed(inputs.error());
  auto outputs = tensors_of_metadata(*document, "outputs", max_batch, chosen);
  if (!outputs) return failed(outputs.error());
  ModelSpec model{.name = *name,
                  .platform = "forward",
                  .inputs = *std::move(inputs),
                  .outputs = *std::move(outputs),
                  .max_batch = max_batch};
  give_text_room(model, kTextBytes);
  if (auto checked = check_model("metadata.json", model); !checked) return failed(checked.error());
  return model;
}

std::string oip_request_json(const ModelSpec& model, std::size_t items,
                             std::span<const std::size_t> bytes) {
  JsonWriter json;
  json.raw("{\"inputs\":[");
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const TensorSpec& input = model.inputs[i];
    json.raw(i == 0 ? "{\"name\":" : ",{\"name\":").string(input.name);
    json.raw(
        fmt::format(",\"datatype\":\"{}\",\"shape\":[{}],\"parameters\":{{"
                    "\"binary_data_size\":{}}}}}",
                    name_of(input.type), batch_shape(input, items), bytes[i]));
  }
  json.raw("],\"outputs\":[");
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    json.raw(i == 0 ? "{\"name\":" : ",{\"name\":").string(model.outputs[i].name);
    json.raw(",\"parameters\":{\"binary_data\":true}}");
  }
  return json.raw("]}").take();
}

std::string trace_headers(const SlotTrace& trace) {
  if (trace.parent.empty()) return "";
  std::string headers = fmt::format("traceparent: {}\r\n", trace.parent);
  if (!trace.state.empty()) headers += fmt::format("tracestate: {}\r\n", trace.state);
  return headers;
}

Result<std::vector<std::string_view>> parse_oip_answer(const ModelSpec& model, std::size_t items,
                                                       std::string_view body,
                                                       std::size_t json_bytes) {
  if (json_bytes > body.size()) return bad_input("answer", "its JSON is longer than its body");
  const Result<Document> document = parse_document("answer.json", body.substr(0, json_bytes));
  if (!document) return failed(document.error());
  const Result<const Node*> list = list_member(*document, document->root, "outputs");
  if (!list) return failed(list.error());
  std::string_view rest = body.substr(json_bytes);
  std::vector<std::string_view> found(model.outputs.size());
  for (const Node& node : (*list)->items) {
    const Result<std::string> name = string_member(*document, node, "name");
    if (!name) return failed(name.error());
    const auto output = std::ranges::find(model.outputs, *name, &TensorSpec::name);
    if (output == model.outputs.end()) {
      return bad_input(document->at(node), "an output that was not asked for");
    }
    const Result<std::size_t> bytes = output_bytes(*document, node, *output, items);
    if (!bytes) return failed(bytes.error());
    std::string_view& place = found[static_cast<std::size_t>(output - model.outputs.begin())];
    if (place.data() != nullptr || rest.size() < *bytes) {
      return bad_input(document->at(node), "an output twice, or without its bytes");
    }
    place = rest.substr(0, *bytes);
    rest.remove_prefix(*bytes);
  }
  if (!rest.empty() || std::ranges::any_of(found, [](auto part) { return part.empty(); })) {
    return bad_input("answer", "outputs are missing, or bytes are left over");
  }
  return found;
}

}  // namespace partita::serve
