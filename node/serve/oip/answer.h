// What the Open Inference Protocol v2 answers over HTTP, as JSON text. Tensors in binary form are
// not in the text: they follow it. Pure.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/oip/bind.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

inline constexpr std::string_view kModelVersion = "1";
inline constexpr std::string_view kServerName = "partita";
inline constexpr std::string_view kServerVersion = "0.1.0";

// One item's tensor in the model's outputs, its used part (texts.h).
using OutputRow = std::function<std::span<const char>(int item, int tensor)>;

// The JSON of an answer. Of outputs that do not go as JSON only the sizes of rows are looked at;
// the bytes of binary ones follow the text in the order of request.outputs, row after row.
std::string infer_answer(const ModelSpec& model, std::string_view id, const BoundRequest& request,
                         const OutputRow& row);
bool has_binary(const BoundRequest& request);

std::string model_metadata(const ModelSpec& model);
std::string server_metadata();
std::string error_answer(std::string_view message);  // {"error":"..."}

}  // namespace partita::serve
