// Tensors as JSON numbers, or strings, without a document in between: text straight into rows, rows
// straight into text. Rows are items in order, each holding one item's tensor, little-endian. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

// Reads an array, flat or nested, of exactly as many numbers as the rows hold. Strict JSON: NaN and
// Infinity are refused, numbers are checked against the type's range, BOOL is true or false.
// BYTES are strings. CHECKs for FP16 and BF16, which bind_request() refuses.
Result<void> decode_json_tensor(std::string_view text, const TensorSpec& tensor,
                                std::span<const std::span<char>> rows);

// Appends "[1,2.5,...]", flat; what is not finite becomes null, of BYTES what is no UTF-8 becomes
// U+FFFD. Shortest digits that read back the same. `row`: its used part (texts.h).
void append_json_row(std::string& out, DataType type, std::span<const char> row, bool first);

}  // namespace partita::serve
