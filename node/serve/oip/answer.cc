#include "serve/oip/answer.h"

#include <algorithm>

#include "serve/oip/json_scan.h"
#include "serve/oip/tensor_json.h"

namespace partita::serve {

namespace {

void append_shape(std::string& out, std::string_view rows, const TensorSpec& tensor) {
  out += "\"shape\":[";
  out += rows;
  for (const std::int64_t size : tensor.shape) {
    out.push_back(',');
    out += std::to_string(size);
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

void append_values(std::string& out, const TensorSpec& tensor, const BoundRequest& request,
                   const std::function<std::span<const char>(int item)>& row) {
  out += ",\"data\":[";
  for (int item = 0; item < request.items; ++item)
    append_json_row(out, tensor.type, row(item), item == 0);
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
    append_shape(out, "-1", tensors[i]);
    out.push_back('}');
  }
  out.push_back(']');
}

}  // namespace

std::string infer_answer(const ModelSpec& model, std::string_view id, const BoundRequest& request,
                         const OutputRow& row) {
  std::string out = "{\"model_name\":";
  append_json_string(out, model.name);
  out += ",\"model_version\":\"";
  out += kModelVersion;
  out += "\"";
  if (!id.empty()) {
    out += ",\"id\":";
    append_json_string(out, id);
  }
  out += ",\"outputs\":[";
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    const BoundOutput& output = request.outputs[i];
    const TensorSpec& tensor = model.outputs[static_cast<std::size_t>(output.tensor)];
    std::size_t size = 0;
    for (int item = 0; item < request.items; ++item) size += row(item, output.tensor).size();
    const std::string bytes = std::to_string(size);
    if (i > 0) out.push_back(',');
    append_head(out, tensor);
    append_shape(out, std::to_string(request.items), tensor);
    if (output.carrier == Carrier::binary) {
      out += ",\"parameters\":{\"binary_data_size\":" + bytes + "}";
    } else if (output.carrier == Carrier::shared) {
      out += ",\"parameters\":{\"shared_memory_region\":";
      append_json_string(out, output.place.region);
      out += ",\"shared_memory_offset\":" + std::to_string(output.place.offset) +
             ",\"shared_memory_byte_size\":" + bytes + "}";
    } else {
      append_values(out, tensor, request, [&](int item) { return row(item, output.tensor); });
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

std::string model_metadata(const ModelSpec& model) {
  std::string out = "{\"name\":";
  append_json_string(out, model.name);
  out += ",\"versions\":[\"";
  out += kModelVersion;
  out += "\"],\"platform\":";
  append_json_string(out, model.platform);
  append_tensors(out, "inputs", model.inputs);
  append_tensors(out, "outputs", model.outputs);
  out.push_back('}');
  return out;
}

std::string server_metadata() {
  return "{\"name\":\"" + std::string(kServerName) + "\",\"version\":\"" +
         std::string(kServerVersion) +
         "\",\"extensions\":[\"binary_tensor_data\",\"model_repository\",\"statistics\","
         "\"system_shared_memory\"]}";
}

std::string error_answer(std::string_view message) {
  std::string out = "{\"error\":";
  append_json_string(out, message);
  out.push_back('}');
  return out;
}

}  // namespace partita::serve
