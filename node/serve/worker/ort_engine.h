// The engine that runs an ONNX model with ONNX Runtime. A batch of one runs where it lies in its
// slot; larger ones are gathered into one tensor per input and scattered back (0.1 % of a ResNet).
// Of a batch whose items have different sizes, or differ in what they share, those that are alike
// run together, one group after the other. With buckets, open sizes are padded with zeros up to
// the next one first, given or learned: right where an input masks the padding, which zeros do in
// most models.
#pragma once

#include "serve/worker/engine.h"
#include "serve/worker/ort_library.h"
#include "serve/worker/shapes.h"

namespace partita::serve {

struct OrtOptions {
  std::string model_file = {};
  std::string name = {};  // of the model
  std::string version = "1";
  int max_batch = 1;  // 0: a request at a time, whatever its first size is
  int threads = 1;
  bool spin = false;  // threads wait busily for work: only where the CPUs are theirs alone
  bool gpu = true;    // use the CUDA or TensorRT provider where one lies beside the library
  ChosenShapes shapes = {};
  ChosenAxes axes = {};
  ChosenValues values = {};
  std::vector<std::int64_t> buckets = {};
  int learned_buckets = 0;  // of each open size, learned from what comes; 0: none
  std::int64_t usual = 0;   // of open sizes of which nobody says more; 0: what runs
  // Inputs that are fed with what an output gave in the step before of the same sequence.
  std::map<std::string, std::string> states = {};
  bool cache = false;                   // its answers may be kept for whoever asks the same again
  std::size_t text_bytes = kTextBytes;  // of an item in each tensor of BYTES
  std::size_t open_bytes = kOpenBytes;  // of an item in each tensor with open sizes
};

// Loads the model and runs it on zeros and ones, which tells the outputs' shapes and where rows
// lie. A model that cannot run rows together has max_batch 1; one whose outputs are not made of
// rows takes a request at a time. bad_input for tensors that cannot be served, environment for
// what ONNX Runtime refuses.
Result<EnginePointer> ort_engine(const OrtLibrary& library, const OrtOptions& options);

}  // namespace partita::serve
