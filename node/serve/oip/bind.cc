#include "serve/oip/bind.h"

#include <algorithm>
#include <string>
#include <utility>

namespace partita::serve {

namespace {

bool json_cannot(DataType type) { return type == DataType::fp16 || type == DataType::bf16; }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  return text + "]";
}

int index_of(const std::vector<TensorSpec>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TensorSpec& tensor) { return tensor.name == name; });
  return found == tensors.end() ? -1 : static_cast<int>(found - tensors.begin());
}

std::string names_of(const std::vector<TensorSpec>& tensors) {
  std::string names;
  for (const TensorSpec& tensor : tensors)
    names += (names.empty() ? "'" : ", '") + tensor.name + "'";
  return names;
}

Result<void> check_input(const InferInput& input, const TensorSpec& tensor) {
  const std::string context = "input '" + input.name + "'";
  if (input.datatype != name_of(tensor.type))
    return bad_input(context, "datatype " + input.datatype + " where " +
                                  std::string(name_of(tensor.type)) + " is wanted");
  const bool fits = input.shape.size() == tensor.shape.size() + 1 &&
                    std::equal(tensor.shape.begin(), tensor.shape.end(), input.shape.begin() + 1);
  if (!fits)
    return bad_input(context, "shape " + shape_text(input.shape) + " where " +
                                  wanted_shape(tensor) + " is wanted");
  if (input.shape[0] < 1 || input.shape[0] > kMaxRequestItems)
    return bad_input(context, "shape " + shape_text(input.shape) + ": 1 to " +
                                  std::to_string(kMaxRequestItems) + " rows are wanted");
  if (input.carrier == Carrier::json && json_cannot(tensor.type))
    return bad_input(context,
                     input.datatype + " cannot be written in JSON: send it as binary data");
  const std::uint64_t wanted = static_cast<std::uint64_t>(input.shape[0]) * bytes_of(tensor);
  const std::uint64_t given = input.carrier == Carrier::shared ? input.place.bytes : input.bytes;
  const bool sized = input.carrier == Carrier::shared || input.carrier == Carrier::binary;
  if (sized && tensor.type == DataType::bytes) {
    const std::uint64_t least = wanted - static_cast<std::uint64_t>(input.shape[0]) *
                                             static_cast<std::uint64_t>(tensor.text_bytes);
    if (given < least || given > wanted)
      return bad_input(context, std::to_string(given) + " bytes where " + std::to_string(least) +
                                    " to " + std::to_string(wanted) + " are wanted for shape " +
                                    shape_text(input.shape));
    return {};
  }
  if (sized && given != wanted)
    return bad_input(context, std::to_string(given) + " bytes where " + std::to_string(wanted) +
                                  " are wanted for shape " + shape_text(input.shape));
  return {};
}

Result<BoundOutput> bind_output(const InferOutput& output, const InferRequest& request,
                                const ModelSpec& model, int items) {
  const std::string context = "output '" + output.name + "'";
  const int tensor = index_of(model.outputs, output.name);
  if (tensor < 0)
    return bad_input(context, "model '" + model.name + "' has " + names_of(model.outputs));
  BoundOutput bound{.tensor = tensor};
  if (output.place) {
    const std::uint64_t wanted = static_cast<std::uint64_t>(items) *
                                 bytes_of(model.outputs[static_cast<std::size_t>(tensor)]);
    // How much text there will be nobody knows yet.
    if (output.place->bytes < wanted &&
        model.outputs[static_cast<std::size_t>(tensor)].type != DataType::bytes)
      return bad_input(context, "a shared place of " + std::to_string(output.place->bytes) +
                                    " bytes for " + std::to_string(wanted));
    bound.carrier = Carrier::shared;
    bound.place = *output.place;
  } else if (output.binary.value_or(request.binary_outputs)) {
    bound.carrier = Carrier::binary;
  }
  return bound;
}

Result<std::vector<BoundOutput>> bind_outputs(const InferRequest& request, const ModelSpec& model,
                                              Protocol protocol, int items) {
  std::vector<InferOutput> wishes = request.outputs;
  if (wishes.empty())
    for (const TensorSpec& tensor : model.outputs) wishes.push_back({.name = tensor.name});
  std::vector<BoundOutput> bound;
  for (const InferOutput& wish : wishes) {
    auto output = bind_output(wish, request, model, items);
    if (!output) return failed(output.error());
    if (protocol == Protocol::grpc && output->carrier == Carrier::json)
      output->carrier = Carrier::binary;
    const TensorSpec& tensor = model.outputs[static_cast<std::size_t>(output->tensor)];
    if (output->carrier == Carrier::json && json_cannot(tensor.type))
      return bad_input(
          "output '" + tensor.name + "'",
          std::string(name_of(tensor.type)) + " cannot be written in JSON: ask for binary_data");
    for (const BoundOutput& before : bound)
      if (before.tensor == output->tensor)
        return bad_input("output '" + tensor.name + "'", "asked for twice");
    bound.push_back(std::move(*output));
  }
  return bound;
}

}  // namespace

std::string wanted_shape(const TensorSpec& tensor) {
  std::string text = "[n";
  for (const std::int64_t size : tensor.shape) text += "," + std::to_string(size);
  return text + "]";
}

Result<BoundRequest> bind_request(const InferRequest& request, const ModelSpec& model,
                                  Protocol protocol) {
  BoundRequest bound;
  std::vector<bool> given(model.inputs.size());
  for (const InferInput& input : request.inputs) {
    const std::string context = "input '" + input.name + "'";
    const int index = index_of(model.inputs, input.name);
    if (index < 0)
      return bad_input(context, "model '" + model.name + "' has " + names_of(model.inputs));
    const auto position = static_cast<std::size_t>(index);
    if (given[position]) return bad_input(context, "given twice");
    given[position] = true;
    if (const auto fits = check_input(input, model.inputs[position]); !fits)
      return failed(fits.error());
    if (bound.inputs.empty()) bound.items = static_cast<int>(input.shape[0]);
    if (input.shape[0] != bound.items)
      return bad_input(context, std::to_string(input.shape[0]) + " rows where '" +
                                    request.inputs[0].name + "' has " +
                                    std::to_string(bound.items));
    bound.inputs.push_back(index);
    if (input.carrier == Carrier::binary) bound.binary_bytes += input.bytes;
  }
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!given[i]) return bad_input("input '" + model.inputs[i].name + "'", "missing");
  auto outputs = bind_outputs(request, model, protocol, bound.items);
  if (!outputs) return failed(outputs.error());
  bound.outputs = std::move(*outputs);
  return bound;
}

}  // namespace partita::serve
