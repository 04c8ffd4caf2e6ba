// Tensors of text (BYTES): in a slot and in the binary form an element is its length in four bytes,
// little-endian, then its bytes, one element behind the other. How long a row is, its elements say;
// TensorSpec::text_bytes says how much it may be. Elements are bytes, of any value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

inline constexpr std::size_t kTextLengthBytes = 4;

// What of a row is used: of BYTES its elements, of open sizes the values, else all of it. Nothing
// where they run over the end: whoever wrote them is not to be trusted.
std::optional<std::span<const char>> used_part(const TensorSpec& tensor, std::span<const char> row);

// Calls element(text) for each of the elements in the used part of a row.
void each_text(std::span<const char> used, const std::function<void(std::string_view)>& element);

// Writes elements of BYTES into rows, one after the other. Rows outlive it.
class TextRows {
 public:
  TextRows(const TensorSpec& tensor, std::span<const std::span<char>> rows);
  // Empty, or why it does not go in; it holds what was written before.
  std::string put(std::string_view text);
  bool full() const { return row_ == rows_.size(); }

 private:
  std::span<const std::span<char>> rows_;
  std::int64_t in_row_ = 0, left_ = 0;  // elements
  std::size_t room_ = 0, row_ = 0, at_ = 0;
};

// The elements of all rows in the binary form, into the rows. bad_input without a context says what
// is wrong.
Result<void> spread_texts(std::string_view bytes, const TensorSpec& tensor,
                          std::span<const std::span<char>> rows);

// The same of elements that are in order already, one after the other as next() gives them. A row
// that is offered more than its room becomes empty texts: these rows, ascending. bad_input where
// next() gives nothing too soon.
using NextText = std::function<std::optional<std::string_view>()>;
Result<std::vector<std::size_t>> fill_texts(const NextText& next, const TensorSpec& tensor,
                                            std::span<const std::span<char>> rows);
// fill_texts() of the binary form; bad_input where something is left over, too.
Result<std::vector<std::size_t>> fill_texts(std::string_view bytes, const TensorSpec& tensor,
                                            std::span<const std::span<char>> rows);

}  // namespace partita::serve
