#include "serve/wire/items.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace partita::serve {

std::optional<std::size_t> bytes_of_item(const TensorSpec& tensor, Sizes sizes) {
  std::size_t bytes = size_of(tensor.type);
  if (sizes.size() != tensor.shape.size()) return std::nullopt;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool fits = sizes[i] == tensor.shape[i] || (tensor.shape[i] == kOpen && sizes[i] >= 0);
    if (!fits || __builtin_mul_overflow(bytes, static_cast<std::size_t>(sizes[i]), &bytes))
      return std::nullopt;
  }
  if (is_open(tensor) && bytes > tensor.open_bytes) return std::nullopt;
  return bytes;
}

std::span<char> begin_item(const TensorSpec& tensor, Sizes sizes, std::span<char> row) {
  if (tensor.open_bytes == 0) return row;
  const std::optional<std::size_t> bytes = bytes_of_item(tensor, sizes);
  CHECK(bytes.has_value());
  std::memcpy(row.data(), sizes.data(), sizes.size_bytes());
  return row.subspan(head_bytes(tensor), *bytes);
}

std::optional<std::vector<std::int64_t>> sizes_in(const TensorSpec& tensor,
                                                  std::span<const char> row) {
  std::vector<std::int64_t> sizes;
  if (tensor.open_bytes == 0) return sizes;
  sizes.resize(tensor.shape.size());
  if (row.size() < head_bytes(tensor)) return std::nullopt;
  std::memcpy(sizes.data(), row.data(), sizes.size() * sizeof(std::int64_t));
  if (!bytes_of_item(tensor, sizes)) return std::nullopt;
  return sizes;
}

namespace {

template <class T>
void fill_with(T value, std::span<char> values) {
  for (std::size_t at = 0; at + sizeof value <= values.size(); at += sizeof value)
    std::memcpy(values.data() + at, &value, sizeof value);
}

}  // namespace

void fill_values(DataType type, double value, std::span<char> values) {
  const auto whole = static_cast<std::int64_t>(value);
  switch (size_of(type)) {
    case 1:
      return fill_with(static_cast<std::uint8_t>(whole), values);
    case 2:
      if (type != DataType::fp16 && type != DataType::bf16)
        fill_with(static_cast<std::uint16_t>(whole), values);
      return;
    case 4:
      if (type == DataType::fp32) return fill_with(static_cast<float>(value), values);
      if (type != DataType::bytes) fill_with(static_cast<std::uint32_t>(whole), values);
      return;
    default:
      type == DataType::fp64 ? fill_with(value, values) : fill_with(whole, values);
  }
}

void make_usual(const ModelSpec& model, char* slot) {
  const SlotLayout layout = slot_layout(model);
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const TensorSpec& input = model.inputs[i];
    const Sizes sizes = is_open(input) ? Sizes(input.usual) : Sizes(input.shape);
    const auto values = begin_item(input, sizes, {slot + layout.inputs[i], bytes_of(input)});
    if (input.usual_value != 0) fill_values(input.type, input.usual_value, values);
  }
}

std::vector<std::int64_t> whole_shape(const TensorSpec& tensor, Sizes sizes, std::int64_t rows) {
  std::vector<std::int64_t> whole(sizes.begin(), sizes.end());
  if (tensor.batch_axis != kNoBatchAxis) whole.insert(whole.begin() + tensor.batch_axis, rows);
  return whole;
}

std::size_t parts_of_row(const TensorSpec& tensor, Sizes sizes) {
  std::size_t parts = 1;
  for (int i = 0; i < tensor.batch_axis; ++i)
    parts *= static_cast<std::size_t>(sizes[static_cast<std::size_t>(i)]);
  return parts;
}

void copy_item(const ItemPlace& place, const CopyRun& copy) {
  const std::size_t rank = place.sizes.size();
  const auto axis = static_cast<std::size_t>(std::max(place.tensor.batch_axis, 0));
  // A run is what lies together in both: from size `first` on, behind which nothing is padded.
  std::size_t first = rank, run = size_of(place.tensor.type), padded_run = run;
  while (first > axis) {
    --first;
    run *= static_cast<std::size_t>(place.sizes[first]);
    padded_run *= static_cast<std::size_t>(place.padded[first]);
    if (place.sizes[first] != place.padded[first]) break;
  }
  std::size_t runs = 1;
  for (std::size_t i = 0; i < first; ++i) runs *= static_cast<std::size_t>(place.sizes[i]);
  if (run == 0) return;
  for (std::size_t at = 0; at < runs; ++at) {
    // The index of this run in the whole: sizes before it, the row among them.
    std::size_t whole = 0, scale = 1, rest = at;
    for (std::size_t i = first; i-- > 0;) {
      if (i + 1 == axis) whole += scale * place.row, scale *= place.rows;
      whole += scale * (rest % static_cast<std::size_t>(place.sizes[i]));
      rest /= static_cast<std::size_t>(place.sizes[i]);
      scale *= static_cast<std::size_t>(place.padded[i]);
    }
    if (axis == 0) whole += scale * place.row;
    copy(whole * padded_run, at * run, run);
  }
}

}  // namespace partita::serve
