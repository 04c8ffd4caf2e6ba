// The engine that runs an ONNX model with ONNX Runtime. A batch of one runs where it lies in its
// slot; larger ones are gathered into one tensor per input and scattered back (0.1 % of a ResNet).
#pragma once

#include "serve/worker/engine.h"
#include "serve/worker/ort_library.h"
#include "serve/worker/shapes.h"

namespace partita::serve {

struct OrtOptions {
  std::string model_file;
  std::string name;  // of the model
  int max_batch = 1;
  int threads = 1;
  bool spin = false;  // threads wait busily for work: only where the CPUs are theirs alone
  bool gpu = true;    // use the CUDA or TensorRT provider where one lies beside the library
  ChosenShapes shapes = {};
  std::size_t text_bytes = kTextBytes;  // of an item in each tensor of BYTES
};

// Loads the model and runs it once on zeros, which tells the outputs' shapes. bad_input for models
// that cannot be served in batches (shapes.h, too large), environment for what
// ONNX Runtime refuses.
Result<EnginePointer> ort_engine(const OrtLibrary& library, const OrtOptions& options);

}  // namespace partita::serve
