// A model's configuration as Triton has it: config.pbtxt, protobuf's text form of ModelConfig,
// beside the versions of a model in its repository. What the plan decides here (batching,
// instances, versions) is read and named; what cannot be served is refused by name. Pure; bounded.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/worker/shapes.h"

namespace partita::serve {

struct ModelConfig {
  std::optional<int> max_batch;     // max_batch_size; 0: a request at a time
  std::string file = "model.onnx";  // default_model_filename
  ChosenShapes shapes = {};         // dims of inputs; usual sizes are those of model_warmup
  std::map<std::string, std::string> states = {};  // input by output, of sequence_batching.state
  bool cache = false;                              // response_cache: its answers may be kept
  std::vector<std::string> left = {};              // what it says, and the plan decides
};
// bad_input at FILE:LINE.
Result<ModelConfig> parse_model_config(const std::string& file, std::string_view text);

}  // namespace partita::serve
