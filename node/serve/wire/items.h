// Items of tensors with open sizes, and rows on any axis. In a slot such an item says its sizes in
// front of its values (head_bytes(), int64 each). Whoever wrote a slot is not to be trusted: sizes
// are checked where they are read. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "serve/wire/tensor.h"

namespace partita::serve {

using Sizes = std::span<const std::int64_t>;

// Bytes of an item of these sizes; nothing where they are not the tensor's, or beyond its room.
std::optional<std::size_t> bytes_of_item(const TensorSpec& tensor, Sizes sizes);

// Writes the sizes, which fit (a CHECK), and gives the place for the values. Of a tensor without
// open sizes the whole row.
std::span<char> begin_item(const TensorSpec& tensor, Sizes sizes, std::span<char> row);

// The sizes that lie in the row; nothing where they are not the tensor's. Empty sizes, where none
// are open.
std::optional<std::vector<std::int64_t>> sizes_in(const TensorSpec& tensor,
                                                  std::span<const char> row);

// Every element becomes `value`, as far as the type has it; zeros in 16-bit floats and text.
void fill_values(DataType type, double value, std::span<char> values);

// Makes the inputs of a zeroed slot usual ones: their sizes where they are open, their values.
void make_usual(const ModelSpec& model, char* slot);

// The shape of the whole tensor: `sizes` with the rows on the batch axis.
std::vector<std::int64_t> whole_shape(const TensorSpec& tensor, Sizes sizes, std::int64_t rows);

// How many parts of a row lie apart from each other in the whole tensor: the sizes before the
// batch axis. The whole tensor is part 0 of all rows, then part 1, and so on.
std::size_t parts_of_row(const TensorSpec& tensor, Sizes sizes);

// The values of rows, in the order in which they lie in the whole tensor.
template <class Byte>
std::vector<std::span<Byte>> in_order(std::size_t parts, std::span<const std::span<Byte>> rows) {
  std::vector<std::span<Byte>> pieces;
  pieces.reserve(parts * rows.size());
  for (std::size_t part = 0; part < parts; ++part)
    for (const std::span<Byte> row : rows)
      pieces.push_back(row.subspan(part * (row.size() / parts), row.size() / parts));
  return pieces;
}

// Where item `row` of `rows` lies in a whole tensor whose items have the sizes `padded`, run by
// run: copy(place in the whole, place in the item, bytes). No size is above its padded one.
struct ItemPlace {
  const TensorSpec& tensor;
  Sizes sizes, padded;
  std::size_t row = 0, rows = 1;
};
using CopyRun = std::function<void(std::size_t whole, std::size_t item, std::size_t bytes)>;
void copy_item(const ItemPlace& place, const CopyRun& copy);

}  // namespace partita::serve
