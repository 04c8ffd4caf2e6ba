// What ONNX Runtime makes, owned, and what a session says of its tensors.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "serve/wire/items.h"
#include "serve/worker/ort_library.h"
#include "serve/worker/shapes.h"

namespace partita::serve {

// Lives as long as the library.
class OrtObjects {
 public:
  explicit OrtObjects(const OrtLibrary& library) : library_(library) {}

  template <class What>
  OrtOwned<What> own(What* what, ort::Slot release) const {
    return {what, {library_.call<ort::Release<What>>(release)}};
  }
  const OrtLibrary& library() const { return library_; }

  // A value of `rows` items of these sizes on memory of ours.
  Result<OrtOwned<ort::Value>> tensor(const ort::MemoryInfo& memory, const TensorSpec& spec,
                                      Sizes sizes, std::size_t rows, char* data) const;
  // bad_input for data types that cannot be served.
  Result<WholeTensor> described(std::string name, const ort::TensorInfo* info) const;
  // What came out.
  Result<WholeTensor> described(std::string name, const ort::Value& value) const;

 private:
  const OrtLibrary& library_;
};

// Of a session.
Result<std::vector<WholeTensor>> model_inputs(const OrtObjects& objects,
                                              const ort::Session& session);
Result<std::vector<WholeTensor>> model_outputs(const OrtObjects& objects,
                                               const ort::Session& session);

}  // namespace partita::serve
