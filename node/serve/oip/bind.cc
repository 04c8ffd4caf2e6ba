#include "serve/oip/bind.h"

#include <algorithm>
#include <string>
#include <utility>

#include "serve/wire/texts.h"

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

// The sizes of an item in a shape, without the rows.
std::vector<std::int64_t> item_sizes(const std::vector<std::int64_t>& shape, int batch_axis) {
  std::vector<std::int64_t> sizes = shape;
  if (batch_axis != kNoBatchAxis) sizes.erase(sizes.begin() + batch_axis);
  return sizes;
}

bool shape_fits(const std::vector<std::int64_t>& shape, const TensorSpec& tensor) {
  const bool rows = tensor.batch_axis != kNoBatchAxis;
  if (shape.size() != tensor.shape.size() + (rows ? 1 : 0)) return false;
  for (std::size_t i = 0, in = 0; i < shape.size(); ++i) {
    if (rows && i == static_cast<std::size_t>(tensor.batch_axis)) continue;
    const std::int64_t wanted = tensor.shape[in++];
    if (shape[i] != wanted && !(wanted == kOpen && shape[i] >= 1)) return false;
  }
  return true;
}

// Whether as many bytes come as the shape says.
Result<void> check_bytes(const InferInput& input, const TensorSpec& tensor, std::uint64_t rows,
                         std::uint64_t row_bytes) {
  if (input.carrier != Carrier::shared && input.carrier != Carrier::binary) return {};
  const std::uint64_t wanted = rows * row_bytes;
  const std::uint64_t given = input.carrier == Carrier::shared ? input.place.bytes : input.bytes;
  const std::uint64_t least =
      tensor.type == DataType::bytes ? wanted - rows * tensor.text_bytes : wanted;
  if (given >= least && given <= wanted) return {};
  return bad_input("input '" + input.name + "'",
                   std::to_string(given) + " bytes where " +
                       (least < wanted ? std::to_string(least) + " to " : "") +
                       std::to_string(wanted) + " are wanted for shape " + shape_text(input.shape));
}

// How many rows it has; 1 where it has no batch axis.
Result<std::int64_t> check_input(const InferInput& input, const TensorSpec& tensor) {
  const std::string context = "input '" + input.name + "'";
  if (input.datatype != name_of(tensor.type))
    return bad_input(context, "datatype " + input.datatype + " where " +
                                  std::string(name_of(tensor.type)) + " is wanted");
  if (!shape_fits(input.shape, tensor))
    return bad_input(context, "shape " + shape_text(input.shape) + " where " +
                                  wanted_shape(tensor) + " is wanted");
  const bool has_axis = tensor.batch_axis != kNoBatchAxis;
  const std::int64_t rows = has_axis ? input.shape[static_cast<std::size_t>(tensor.batch_axis)] : 1;
  if (rows < 1 || rows > kMaxRequestItems)
    return bad_input(context, "shape " + shape_text(input.shape) + ": 1 to " +
                                  std::to_string(kMaxRequestItems) + " rows are wanted");
  if (input.carrier == Carrier::json && json_cannot(tensor.type))
    return bad_input(context,
                     input.datatype + " cannot be written in JSON: send it as binary data");
  std::size_t row_bytes = tensor.open_bytes > 0 ? 0 : bytes_of(tensor);
  if (tensor.open_bytes > 0) {
    const auto bytes = bytes_of_item(tensor, item_sizes(input.shape, tensor.batch_axis));
    if (!bytes)
      return bad_input(context, "shape " + shape_text(input.shape) + " is more than " +
                                    std::to_string(tensor.open_bytes) +
                                    " bytes a row (--open-bytes of the worker)");
    row_bytes = *bytes;
  }
  TRY(check_bytes(input, tensor, static_cast<std::uint64_t>(rows), row_bytes));
  return rows;
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
    // How much text there will be, or of which sizes, nobody knows yet.
    const TensorSpec& spec = model.outputs[static_cast<std::size_t>(tensor)];
    if (output.place->bytes < wanted && spec.type != DataType::bytes && spec.open_bytes == 0)
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
    auto output = TRY(bind_output(wish, request, model, items));
    if (protocol == Protocol::grpc && output.carrier == Carrier::json)
      output.carrier = Carrier::binary;
    const TensorSpec& tensor = model.outputs[static_cast<std::size_t>(output.tensor)];
    if (output.carrier == Carrier::json && json_cannot(tensor.type))
      return bad_input(
          "output '" + tensor.name + "'",
          std::string(name_of(tensor.type)) + " cannot be written in JSON: ask for binary_data");
    for (const BoundOutput& before : bound)
      if (before.tensor == output.tensor)
        return bad_input("output '" + tensor.name + "'", "asked for twice");
    bound.push_back(std::move(output));
  }
  return bound;
}

}  // namespace

std::string wanted_shape(const TensorSpec& tensor) {
  std::string text;
  const auto add = [&](const std::string& size) { text += (text.empty() ? "[" : ",") + size; };
  const auto rank = static_cast<int>(tensor.shape.size());
  for (int i = 0; i <= rank; ++i) {
    if (i == tensor.batch_axis) add("n");
    if (i == rank) break;
    const std::int64_t size = tensor.shape[static_cast<std::size_t>(i)];
    add(size == kOpen ? "?" : std::to_string(size));
  }
  return text.empty() ? "[]" : text + "]";
}

Result<BoundRequest> bind_request(const InferRequest& request, const ModelSpec& model,
                                  Protocol protocol) {
  BoundRequest bound;
  std::vector<bool> given(model.inputs.size());
  const std::string* counted = nullptr;  // the input that said how many rows there are
  for (const InferInput& input : request.inputs) {
    const std::string context = "input '" + input.name + "'";
    const int index = index_of(model.inputs, input.name);
    if (index < 0)
      return bad_input(context, "model '" + model.name + "' has " + names_of(model.inputs));
    const auto position = static_cast<std::size_t>(index);
    if (given[position]) return bad_input(context, "given twice");
    given[position] = true;
    const TensorSpec& tensor = model.inputs[position];
    const std::int64_t rows = TRY(check_input(input, tensor));
    if (tensor.batch_axis != kNoBatchAxis) {
      if (counted == nullptr) bound.items = static_cast<int>(rows);
      if (rows != bound.items)
        return bad_input(context, std::to_string(rows) + " rows where '" + *counted + "' has " +
                                      std::to_string(bound.items));
      counted = &input.name;
    }
    if (tensor.open_bytes > 0) {
      bound.sizes.resize(request.inputs.size());
      bound.sizes[bound.inputs.size()] = item_sizes(input.shape, tensor.batch_axis);
    }
    bound.inputs.push_back(index);
    if (input.carrier == Carrier::binary) bound.binary_bytes += input.bytes;
  }
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!given[i]) return bad_input("input '" + model.inputs[i].name + "'", "missing");
  bound.outputs = TRY(bind_outputs(request, model, protocol, bound.items));
  return bound;
}

Sizes input_sizes(const ModelSpec& model, const BoundRequest& request, std::size_t input) {
  if (!request.sizes.empty() && !request.sizes[input].empty()) return request.sizes[input];
  return model.inputs[static_cast<std::size_t>(request.inputs[input])].shape;
}

std::vector<std::span<char>> input_places(const ModelSpec& model, const BoundRequest& request,
                                          std::size_t input, const InputRow& row) {
  const int tensor = request.inputs[input];
  const TensorSpec& spec = model.inputs[static_cast<std::size_t>(tensor)];
  const Sizes sizes = input_sizes(model, request, input);
  const int items = spec.batch_axis == kNoBatchAxis ? 1 : request.items;
  std::vector<std::span<char>> rows;
  rows.reserve(static_cast<std::size_t>(items));
  for (int item = 0; item < items; ++item)
    rows.push_back(begin_item(spec, sizes, row(item, tensor)));
  return spec.batch_axis <= 0 ? rows : in_order<char>(parts_of_row(spec, sizes), rows);
}

void share_inputs(const ModelSpec& model, const BoundRequest& request, const InputRow& row) {
  if (request.items == 1) return;
  for (const int tensor : request.inputs) {
    if (model.inputs[static_cast<std::size_t>(tensor)].batch_axis != kNoBatchAxis) continue;
    const std::span<char> first = row(0, tensor);
    for (int item = 1; item < request.items; ++item)
      std::ranges::copy(first, row(item, tensor).begin());
  }
}

Result<std::vector<AnsweredOutput>> take_outputs(const ModelSpec& model,
                                                 const BoundRequest& request,
                                                 const OutputRow& row) {
  std::vector<AnsweredOutput> all;
  all.reserve(request.outputs.size());
  for (const BoundOutput& output : request.outputs) {
    const TensorSpec& tensor = model.outputs[static_cast<std::size_t>(output.tensor)];
    AnsweredOutput& out = all.emplace_back();
    std::vector<std::int64_t> sizes = tensor.shape;
    out.parts.reserve(static_cast<std::size_t>(request.items));
    for (int item = 0; item < request.items; ++item) {
      const std::span<const char> whole = row(item, output.tensor);
      const auto used = used_part(tensor, whole);
      if (!used) return bad_input(tensor.name, "the worker gave no valid text, or sizes");
      if (tensor.open_bytes > 0) {
        auto own = *sizes_in(tensor, whole);
        if (item > 0 && own != sizes)
          return bad_input(tensor.name, "rows of different sizes came out: send one at a time");
        sizes = std::move(own);
      }
      out.parts.push_back(*used);
      out.bytes += used->size();
    }
    if (tensor.batch_axis > 0)
      out.parts = in_order<const char>(parts_of_row(tensor, sizes), out.parts);
    out.shape = whole_shape(tensor, sizes, request.items);
  }
  return all;
}

}  // namespace partita::serve
