// Engine: what executes batches in a worker. One thread calls it. A batch's items lie in slots
// (slot_layout(spec()) says where in each); inputs are in place, outputs are to be written there.
// Slots may hold anything: an engine trusts sizes, never contents.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/wire/frames.h"
#include "serve/wire/tensor.h"
#include "serve/worker/sequence_states.h"

namespace partita::serve {

class Engine {
 public:
  virtual ~Engine() = default;
  virtual const ModelSpec& spec() const = 0;
  // 1 .. spec().max_batch items. An Error is why the whole batch failed; the engine lives on.
  virtual Result<void> run(std::span<char* const> slots) = 0;
  // Of the last run() that went well: the items that have no answer all the same, and why.
  struct Fault {
    std::size_t item = 0;
    std::string message;
  };
  const std::vector<Fault>& faults() const { return faults_; }
  // Of the last run(): values of inputs with open sizes, and of padding beside them.
  struct Filling {
    std::uint64_t values = 0, padding = 0;
  };
  const Filling& filling() const { return filling_; }
  // Of the last run() of a set of models, which may have loaded some.
  virtual const SetTally* set_tally() const { return nullptr; }
  // Of a model with state: what it keeps, between runs. Else null.
  virtual SequenceStates* states() { return nullptr; }

 protected:
  // Outputs of these items are more text than there is room for.
  void too_long(const std::vector<std::size_t>& items, const TensorSpec& output);
  std::vector<Fault> faults_;
  Filling filling_;
};

using EnginePointer = std::unique_ptr<Engine>;

}  // namespace partita::serve
