// Engine: what executes batches in a worker. One thread calls it. A batch's items lie in slots
// (slot_layout(spec()) says where in each); inputs are in place, outputs are to be written there.
// Slots may hold anything: an engine trusts sizes, never contents.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

class Engine {
 public:
  virtual ~Engine() = default;
  virtual const ModelSpec& spec() const = 0;
  // 1 .. spec().max_batch items. An Error is why the whole batch failed; the engine lives on.
  virtual Result<void> run(std::span<char* const> slots) = 0;
};

using EnginePointer = std::unique_ptr<Engine>;

}  // namespace partita::serve
