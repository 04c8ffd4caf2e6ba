#include "serve/oip/answer.h"

#include <algorithm>

#include "base/form.h"
#include "serve/oip/json_scan.h"
#include "serve/oip/tensor_json.h"
#include "serve/wire/items.h"

namespace partita::serve {

namespace {

void append_shape(std::string& out, const std::vector<std::int64_t>& shape) {
  out += "\"shape\":[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out.push_back(',');
    out += std::to_string(shape[i]);
  }
  out.push_back(']');
}

void append_head(std::string& out, const TensorSpec& tensor) {
  out += "{\"name\":";
  append_json_string(out, tensor.name);
  out += ",\"datatype\":\"";
  out += name_of(tensor.type);
  out += "\",";
}

void append_values(std::string& out, const TensorSpec& tensor, const AnsweredOutput& answered) {
  out += ",\"data\":[";
  bool first = true;
  for (const std::span<const char> part : answered.parts) {
    append_json_row(out, tensor.type, part, first);
    first = first && part.empty();
  }
  out.push_back(']');
}

void append_tensors(std::string& out, std::string_view name,
                    const std::vector<TensorSpec>& tensors) {
  out += ",\"";
  out += name;
  out += "\":[";
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0) out.push_back(',');
    append_head(out, tensors[i]);
    append_shape(out, whole_shape(tensors[i], tensors[i].shape, -1));
    out.push_back('}');
  }
  out.push_back(']');
}

}  // namespace

std::string infer_answer(const ModelSpec& model, std::string_view id, const BoundRequest& request,
                         std::span<const AnsweredOutput> answered) {
  std::string out = "{\"model_name\":";
  append_json_string(out, model.name);
  out += ",\"model_version\":";
  append_json_string(out, model.version);
  if (!id.empty()) {
    out += ",\"id\":";
    append_json_string(out, id);
  }
  out += ",\"outputs\":[";
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    const BoundOutput& output = request.outputs[i];
    const TensorSpec& tensor = model.outputs[static_cast<std::size_t>(output.tensor)];
    const std::string bytes = std::to_string(answered[i].bytes);
    if (i > 0) out.push_back(',');
    append_head(out, tensor);
    append_shape(out, answered[i].shape);
    if (output.carrier == Carrier::binary) {
      out += ",\"parameters\":{\"binary_data_size\":" + bytes + "}";
    } else if (output.carrier == Carrier::shared) {
      out += ",\"parameters\":{\"shared_memory_region\":";
      append_json_string(out, output.place.region);
      out += ",\"shared_memory_offset\":" + std::to_string(output.place.offset) +
             ",\"shared_memory_byte_size\":" + bytes + "}";
    } else {
      append_values(out, tensor, answered[i]);
    }
    out.push_back('}');
  }
  out += "]}";
  return out;
}

bool has_binary(const BoundRequest& request) {
  return std::any_of(request.outputs.begin(), request.outputs.end(),
                     [](const BoundOutput& output) { return output.carrier == Carrier::binary; });
}

std::string model_metadata(const ModelSpec& model, std::span<const std::string> versions) {
  std::string out = "{\"name\":";
  append_json_string(out, model.name);
  out += ",\"versions\":[";
  for (const std::string& version : versions) {
    if (out.back() != '[') out.push_back(',');
    append_json_string(out, version);
  }
  out += "],\"platform\":";
  append_json_string(out, model.platform);
  append_tensors(out, "inputs", model.inputs);
  append_tensors(out, "outputs", model.outputs);
  out.push_back('}');
  return out;
}

std::string server_metadata() {
  std::vector<std::string_view> extensions(std::begin(kServerExtensions),
                                           std::end(kServerExtensions));
  extensions.push_back("binary_tensor_data");
  return write_form(
      [&](Form& f) {
        f.told("name", kServerName);
        f.told("version", kServerVersion);
        f.told_list("extensions", extensions, {});
      },
      Form::Style::compact);
}

std::string error_answer(std::string_view message) {
  std::string out = "{\"error\":";
  append_json_string(out, message);
  out.push_back('}');
  return out;
}

}  // namespace partita::serve
