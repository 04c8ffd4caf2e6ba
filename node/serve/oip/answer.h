// What the Open Inference Protocol v2 answers over HTTP, as JSON text. Tensors in binary form are
// not in the text: they follow it. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "serve/oip/bind.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

inline constexpr std::string_view kServerName = "partita";
inline constexpr std::string_view kServerVersion = "0.1.0";
// Of Triton's extensions those that every door has.
inline constexpr std::string_view kServerExtensions[] = {
    "model_configuration", "model_repository", "sequence", "statistics", "system_shared_memory"};

// The JSON of an answer. Of outputs that do not go as JSON only the sizes are said; the bytes of
// binary ones follow the text in the order of request.outputs, part after part.
std::string infer_answer(const ModelSpec& model, std::string_view id, const BoundRequest& request,
                         std::span<const AnsweredOutput> answered);
bool has_binary(const BoundRequest& request);

// `versions`: all that are served, ascending.
std::string model_metadata(const ModelSpec& model, std::span<const std::string> versions);
std::string server_metadata();
std::string error_answer(std::string_view message);  // {"error":"..."}

}  // namespace partita::serve
