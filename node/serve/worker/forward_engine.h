// The engine that forwards a ready batch as one request to another server on the same device:
// Triton or whoever speaks the Open Inference Protocol v2 with its binary extension. That server's
// own batching should be off. Tensors go from slots to the socket without a copy of ours.
#pragma once

#include "serve/worker/engine.h"
#include "serve/worker/http_client.h"
#include "serve/worker/shapes.h"

namespace partita::serve {

struct ForwardOptions {
  Url url;           // .../v2/models/NAME[/versions/V], or the server alone
  std::string name;  // the model's name there when the URL does not say it
  int max_batch = 1;
  std::int64_t timeout_ns = 60'000'000'000;
  ChosenShapes shapes = {};
  std::size_t text_bytes = kTextBytes;  // of an item in each tensor of BYTES
};

// Asks the server for the model's metadata.
Result<EnginePointer> forward_engine(const ForwardOptions& options);

}  // namespace partita::serve
