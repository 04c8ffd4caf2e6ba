// What a model takes, as its metadata says (Open Inference Protocol v2), and requests for it: one
// item of random values in the binary form. Pure; the same stream gives the same bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "base/url.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

// The inputs in the answer to GET /v2/models/NAME; a dimension that is not fixed (-1) is 1. Refused
// with FILE:LINE: dimensions of 0, more than a request may hold.
Result<std::vector<TensorSpec>> parse_model_inputs(const std::string& file, std::string_view json);

struct RequestTarget {
  Url url;
  std::string model;
  std::string token = {};  // bearer; empty: none
};

// GET /v2/models/NAME.
std::string metadata_request(const RequestTarget& target);
// POST /v2/models/NAME/infer. Floating-point values are in [0, 1), whole ones 0 to 99, texts
// have 8 letters.
std::string infer_request(const RequestTarget& target, const std::vector<TensorSpec>& inputs,
                          Rng rng);

}  // namespace partita::serve
