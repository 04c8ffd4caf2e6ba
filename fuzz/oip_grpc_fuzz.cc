// Messages of the gRPC door: cut in pieces or whole, they read the same; tensors stay inside of
// their rows and of the message; what is told of a stream's answer holds all of the answer.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "serve/oip/bind.h"
#include "serve/oip/grpc_messages.h"
#include "target.h"

namespace {

namespace serve = partita::serve;

// The rows' bytes, or nothing where the tensor is refused.
std::string read_tensor(serve::Pieces message, const serve::InferInput& input,
                        const serve::TensorSpec& tensor, int items) {
  const std::size_t bytes = serve::bytes_of(tensor);
  std::string values(bytes * static_cast<std::size_t>(items), '\0');
  std::vector<std::span<char>> rows;
  for (std::size_t i = 0; i < values.size(); i += bytes)
    rows.emplace_back(values.data() + i, bytes);
  return serve::read_grpc_tensor(message, input, tensor, rows) ? values : "";
}

// The requests of Triton's extensions.
void check_extensions(serve::Pieces whole, serve::Pieces pieces) {
  const auto index = serve::parse_repository_index(whole);
  CHECK(index.has_value() == serve::parse_repository_index(pieces).has_value());
  const auto model = serve::parse_repository_model(whole);
  const auto cut = serve::parse_repository_model(pieces);
  CHECK(model.has_value() == cut.has_value());
  CHECK(!model || (model->brought == cut->brought && model->model == cut->model));
  CHECK(!model || model->brought.empty() || serve::brings_model(model->brought));
  const auto region = serve::parse_shared_region(whole);
  const auto parted = serve::parse_shared_region(pieces);
  CHECK(region.has_value() == parted.has_value());
  CHECK(!region || (region->key == parted->key && region->bytes == parted->bytes));
}

}  // namespace

FUZZ_TARGET(oip_grpc) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t cut = std::min<std::size_t>(data[0], text.size());
  const std::string_view whole[] = {text};
  const std::string_view pieces[] = {text.substr(0, cut), "", text.substr(cut)};
  const auto model_name = serve::parse_model_name(whole);
  CHECK(model_name.has_value() == serve::parse_model_name(pieces).has_value());
  check_extensions(whole, pieces);
  const auto request = serve::parse_grpc_infer(whole);
  const auto again = serve::parse_grpc_infer(pieces);
  CHECK(request.has_value() == again.has_value());
  if (!request) return 0;
  CHECK(request->inputs.size() == again->inputs.size());
  const serve::ModelSpec model{.name = "m",
                               .platform = "null",
                               .inputs = {{"x", serve::DataType::fp32, {4}},
                                          {"k", serve::DataType::int8, {2}},
                                          {"w", serve::DataType::bytes, {2}, 16}},
                               .outputs = {{"y", serve::DataType::fp32, {1}}},
                               .max_batch = 8};
  const auto bound = serve::bind_request(*request, model, serve::Protocol::grpc);
  if (!bound) return 0;
  for (std::size_t i = 0; i < request->inputs.size(); ++i) {
    const serve::InferInput& input = request->inputs[i];
    if (input.carrier == serve::Carrier::shared) continue;
    CHECK(input.offset + input.bytes <= text.size());
    const auto& tensor = model.inputs[static_cast<std::size_t>(bound->inputs[i])];
    CHECK(read_tensor(whole, input, tensor, bound->items) ==
          read_tensor(pieces, again->inputs[i], tensor, bound->items));
  }
  const float value = 0;
  const auto outputs = serve::take_outputs(model, *bound, [&](int, int) {
    return std::span(reinterpret_cast<const char*>(&value), sizeof value);
  });
  CHECK(outputs && !serve::encode_infer_head(model, request->id, *bound, *outputs).empty());
  return 0;
}
