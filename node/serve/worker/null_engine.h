// The engine without a model, for measurements and tests: touches the ends of the inputs, copies
// the first input into the first output as far as it goes and zeros the other outputs. It can take
// a fixed time, to the microsecond: it sleeps and spins for the end. With state (spec.sequences)
// the first output begins with a hash of all first inputs of the sequence so far (FNV-0 over each
// byte plus 1, eight bytes), then the process that says so, as far as there is room.
#pragma once

#include <cstdint>

#include "serve/worker/engine.h"

namespace partita::serve {

struct NullTimes {
  std::int64_t batch_ns = 0, item_ns = 0;  // a batch of n takes batch_ns + n x item_ns
};

// `spec` must have passed check_model and be of tensors.
EnginePointer null_engine(ModelSpec spec, NullTimes times);

// "x:FP32:3,224,224" or "x:INT64": a tensor of one item; BYTES without room for text yet.
Result<TensorSpec> parse_tensor_spec(const std::string& flag, const std::string& text);

}  // namespace partita::serve
