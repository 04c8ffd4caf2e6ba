// Inference requests as JSON: what is read points into the text, what fits a model has its sizes,
// and numbers are those that another reader sees.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "serve/oip/answer.h"
#include "serve/oip/bind.h"
#include "serve/oip/tensor_json.h"
#include "serve/wire/texts.h"
#include "target.h"

namespace {

namespace serve = partita::serve;
using nlohmann::json;

void flatten(const json& value, std::vector<json>& out) {
  if (!value.is_array()) return out.push_back(value);
  for (const json& each : value) flatten(each, out);
}

// Decodes an array as FP32 and as INT64, and compares.
template <class T>
void check_numbers(std::string_view text, serve::DataType type) {
  const json other = json::parse(text, nullptr, false);
  std::vector<json> flat;
  if (!other.is_discarded()) flatten(other, flat);
  const std::size_t count = std::max<std::size_t>(flat.size(), 1);
  std::vector<T> values(count);
  const std::span<char> rows[] = {{reinterpret_cast<char*>(values.data()), count * sizeof(T)}};
  const serve::TensorSpec tensor{"x", type, {static_cast<std::int64_t>(count)}};
  if (!serve::decode_json_tensor(text, tensor, rows)) return;
  CHECK(!other.is_discarded());
  for (std::size_t i = 0; i < count; ++i) {
    const T expected = flat[i].get<T>();
    const T slack = std::is_integral_v<T> ? T{0} : static_cast<T>(std::abs(expected) * T(1e-6));
    CHECK(values[i] >= expected - slack && values[i] <= expected + slack);
  }
}

// Decodes an array as BYTES, and compares.
void check_texts(std::string_view text) {
  const json other = json::parse(text, nullptr, false);
  std::vector<json> flat;
  if (!other.is_discarded()) flatten(other, flat);
  serve::TensorSpec tensor{"w", serve::DataType::bytes, {}};
  tensor.shape = {static_cast<std::int64_t>(std::max<std::size_t>(flat.size(), 1))};
  tensor.text_bytes = text.size() + 1;
  std::string row(serve::bytes_of(tensor), '\xFF');
  const std::span<char> rows[] = {row};
  if (!serve::decode_json_tensor(text, tensor, rows)) return;
  const auto used = serve::used_part(tensor, row);
  CHECK(used.has_value());
  if (other.is_discarded()) return;  // text that is not UTF-8, which the other reader refuses
  std::size_t next = 0;
  serve::each_text(*used, [&](std::string_view element) {
    CHECK(flat.at(next++).get<std::string>() == element);
  });
  CHECK(next == flat.size());
  std::string again = "[";
  serve::append_json_row(again, tensor.type, *used, true);
  CHECK(json::parse(again + "]") == json(flat));
}

// The binary form of two rows, cut off anywhere.
void check_binary(std::string_view bytes) {
  const serve::TensorSpec tensor{"w", serve::DataType::bytes, {2}, 64};
  std::string memory(2 * serve::bytes_of(tensor), '\xFF');
  const std::span<char> rows[] = {std::span(memory).first(memory.size() / 2),
                                  std::span(memory).last(memory.size() / 2)};
  if (!serve::spread_texts(bytes, tensor, rows)) return;
  std::string again;
  for (const std::span<char> row : rows) {
    const auto used = serve::used_part(tensor, row);
    CHECK(used.has_value());
    again.append(used->data(), used->size());
  }
  CHECK(again == bytes);
}

const serve::ModelSpec& model() {
  static const serve::ModelSpec spec{.name = "m",
                                     .platform = "null",
                                     .inputs = {{"x", serve::DataType::fp32, {4}},
                                                {"k", serve::DataType::int32, {2}},
                                                {"w", serve::DataType::bytes, {2}, 64}},
                                     .outputs = {{"y", serve::DataType::fp32, {1}},
                                                 {"h", serve::DataType::fp16, {1}},
                                                 {"v", serve::DataType::bytes, {}, 8}},
                                     .max_batch = 8};
  return spec;
}

// Open sizes, rows on the second axis, a scalar that all rows share.
void check_open(const serve::InferRequest& request) {
  static const serve::ModelSpec spec{
      .name = "m",
      .platform = "null",
      .inputs = {{"x", serve::DataType::fp32, {2, serve::kOpen}, 0, 1, 64, {2, 1}},
                 {"k", serve::DataType::int32, {}, 0, serve::kNoBatchAxis}},
      .outputs = {{"y", serve::DataType::fp32, {serve::kOpen}, 0, 0, 64}},
      .max_batch = 8};
  CHECK(serve::check_model("m", spec));
  const auto bound = serve::bind_request(request, spec, serve::Protocol::http);
  if (!bound) return;
  const serve::SlotLayout layout = slot_layout(spec);
  std::vector<char> slots(layout.bytes * static_cast<std::size_t>(bound->items));
  const serve::InputRow row = [&](int item, int tensor) {
    const auto at = static_cast<std::size_t>(tensor);
    return std::span(slots).subspan(
        static_cast<std::size_t>(item) * layout.bytes + layout.inputs[at],
        serve::bytes_of(spec.inputs[at]));
  };
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    std::size_t bytes = 0;
    for (const std::span<char> place : input_places(spec, *bound, i, row)) {
      std::ranges::fill(place, '\x01');
      bytes += place.size();
    }
    if (request.inputs[i].carrier == serve::Carrier::binary)
      CHECK(bytes == request.inputs[i].bytes);
    const auto tensor = static_cast<std::size_t>(bound->inputs[i]);
    const auto sizes = sizes_in(spec.inputs[tensor], row(bound->items - 1, bound->inputs[i]));
    CHECK(sizes || tensor == 1);
  }
  share_inputs(spec, *bound, row);
}

}  // namespace

FUZZ_TARGET(oip_json) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  serve::probe_items(text);
  check_numbers<float>(text, serve::DataType::fp32);
  check_numbers<std::int64_t>(text, serve::DataType::int64);
  check_texts(text);
  check_binary(text);
  const auto request = serve::parse_infer_json(text);
  if (!request) return 0;
  for (const serve::InferInput& input : request->inputs) {
    if (input.carrier != serve::Carrier::json) continue;
    CHECK(input.json.data() >= text.data() &&
          input.json.data() + input.json.size() <= text.data() + text.size());
    CHECK(input.json.front() == '[' && input.json.back() == ']');
  }
  check_open(*request);
  const auto bound = serve::bind_request(*request, model(), serve::Protocol::http);
  if (!bound) return 0;
  CHECK(bound->inputs.size() == model().inputs.size());
  CHECK(bound->items >= 1 && bound->items <= serve::kMaxRequestItems);
  const float value = 0;  // as BYTES an empty element
  const auto outputs = serve::take_outputs(model(), *bound, [&](int, int) {
    return std::span(reinterpret_cast<const char*>(&value), sizeof value);
  });
  CHECK(outputs && json::accept(serve::infer_answer(model(), request->id, *bound, *outputs)));
  return 0;
}
