// Tensors of text for ONNX Runtime, which keeps them in objects of its own: made of rows of
// BYTES (serve/wire/texts.h), and read into such.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "serve/wire/tensor.h"
#include "serve/worker/ort_library.h"

namespace partita::serve {

// One row per item, each a tensor of one item. bad_input for rows that hold no text.
Result<OrtOwned<ort::Value>> text_value(const OrtLibrary& library, const TensorSpec& tensor,
                                        std::span<const std::span<const char>> rows);

// A value of as many elements as the rows hold. The rows for which there was more text than room:
// they hold empty texts.
Result<std::vector<std::size_t>> read_text_value(const OrtLibrary& library, const ort::Value& value,
                                                 const TensorSpec& tensor,
                                                 std::span<const std::span<char>> rows);

}  // namespace partita::serve
