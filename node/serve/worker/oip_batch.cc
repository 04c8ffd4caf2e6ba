#include "serve/worker/oip_batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/document.h"
#include "base/append.h"
#include "base/form.h"

namespace partita::serve {
namespace {

constexpr double kMostExact = 9e15;  // whole numbers that a double holds

Result<std::vector<std::int64_t>> shape_of(const Document& document, const Node& tensor) {
  const Node* list = TRY(list_member(document, tensor, "shape"));
  std::vector<std::int64_t> shape;
  for (const Node& size : list->items) {
    const bool whole = size.kind == Node::Kind::number && std::abs(size.number) < kMostExact &&
                       size.number == std::floor(size.number);
    if (!whole) return bad_input(document.at(size), "a shape holds whole numbers");
    shape.push_back(static_cast<std::int64_t>(size.number));
  }
  return shape;
}

Result<std::vector<TensorSpec>> tensors_of_metadata(const Document& document, std::string_view key,
                                                    int max_batch, const ChosenShapes& chosen) {
  const Node* list = TRY(list_member(document, document.root, key));
  std::vector<TensorSpec> tensors;
  for (const Node& node : list->items) {
    const std::string name = TRY(string_member(document, node, "name"));
    const std::string type = TRY(string_member(document, node, "datatype"));
    const DataType data_type = TRY(parse_data_type(document.at(node), type));
    const std::vector<std::int64_t> whole = TRY(shape_of(document, node));
    ItemShape item = TRY(item_shape(name, whole, chosen));
    if (!item.batched && max_batch > 1)
      return bad_input(name, "the server takes one item at a time; say --batch 1");
    tensors.push_back({.name = name, .type = data_type, .shape = std::move(item.shape)});
  }
  return tensors;
}

// The shape of a whole batch, as text between brackets.
std::vector<std::int64_t> batch_shape(const TensorSpec& tensor, std::size_t items) {
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(items)};
  shape.insert(shape.end(), tensor.shape.begin(), tensor.shape.end());
  return shape;
}

// Bytes of this output in the binary part; bad_input when it is not what was asked for.
Result<std::size_t> output_bytes(const Document& document, const Node& node,
                                 const TensorSpec& wanted, std::size_t items) {
  const std::string type = TRY(string_member(document, node, "datatype"));
  const std::vector<std::int64_t> shape = TRY(shape_of(document, node));
  const std::vector<std::int64_t> whole = batch_shape(wanted, items);
  if (type != name_of(wanted.type) || shape != whole) {
    return bad_input(document.at(node),
                     fmt::format("output '{}' is not {} [{}]", wanted.name, name_of(wanted.type),
                                 joined(whole, ",")));
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
  const Document document = TRY(parse_document("metadata.json", json));
  const std::string name = TRY(string_member(document, document.root, "name"));
  auto inputs = TRY(tensors_of_metadata(document, "inputs", max_batch, chosen));
  auto outputs = TRY(tensors_of_metadata(document, "outputs", max_batch, chosen));
  ModelSpec model{.name = name,
                  .platform = "forward",
                  .inputs = std::move(inputs),
                  .outputs = std::move(outputs),
                  .max_batch = max_batch};
  give_text_room(model, kTextBytes);
  TRY(check_model("metadata.json", model));
  return model;
}

std::string oip_request_json(const ModelSpec& model, std::size_t items,
                             std::span<const std::size_t> bytes) {
  const auto input = [&](Form& f, std::size_t i) {
    f.told("name", model.inputs[i].name);
    f.told("datatype", name_of(model.inputs[i].type));
    f.told("shape", batch_shape(model.inputs[i], items));
    f.told_object("parameters", [&](Form& of) { of.told("binary_data_size", bytes[i]); });
  };
  const auto output = [&](Form& f, std::size_t i) {
    f.told("name", model.outputs[i].name);
    f.told_object("parameters", [](Form& of) { of.told("binary_data", true); });
  };
  const auto request = [&](Form& f) {
    f.rows("inputs", model.inputs.size(), input, {});
    f.rows("outputs", model.outputs.size(), output, {});
  };
  return write_form(request, Form::Style::compact);
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
  const Document document = TRY(parse_document("answer.json", body.substr(0, json_bytes)));
  const Node* list = TRY(list_member(document, document.root, "outputs"));
  std::string_view rest = body.substr(json_bytes);
  std::vector<std::string_view> found(model.outputs.size());
  for (const Node& node : list->items) {
    const std::string name = TRY(string_member(document, node, "name"));
    const auto output = std::ranges::find(model.outputs, name, &TensorSpec::name);
    if (output == model.outputs.end())
      return bad_input(document.at(node), "an output that was not asked for");
    const std::size_t bytes = TRY(output_bytes(document, node, *output, items));
    std::string_view& place = found[static_cast<std::size_t>(output - model.outputs.begin())];
    if (place.data() != nullptr || rest.size() < bytes)
      return bad_input(document.at(node), "an output twice, or without its bytes");
    place = rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }
  if (!rest.empty() || std::ranges::any_of(found, [](auto part) { return part.empty(); }))
    return bad_input("answer", "outputs are missing, or bytes are left over");
  return found;
}

}  // namespace partita::serve
