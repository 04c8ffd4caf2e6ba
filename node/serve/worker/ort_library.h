// ONNX Runtime, loaded at run time: where it lies, its table of functions, its errors as ours, and
// its objects owned. The library stays loaded until the process ends (its threads may outlive a
// session).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "serve/worker/ort_api.h"

namespace partita::serve {

// Where to look for it: PARTITA_ONNXRUNTIME alone where that is set; else what an installation or
// tools/get_onnxruntime put beside the program at `program`, then the system's library path.
std::vector<std::string> onnxruntime_places(const std::string& program);

// The file of a model: `path` itself, or where that is a folder of a repository, VERSION/`file` in
// it: of this version, or where none is said of the highest number. not_found otherwise.
struct ModelFile {
  std::string path, version;
};
Result<ModelFile> model_file_of(const std::string& path, const std::string& version,
                                const std::string& file = "model.onnx");

class OrtLibrary {
 public:
  // The first of `places` that can be loaded. ErrorCode::environment with how to get it where none
  // can, or where it is too old.
  static Result<OrtLibrary> load(const std::vector<std::string>& places);

  template <class Function>
  Function* call(ort::Slot slot) const {
    return reinterpret_cast<Function*>(const_cast<void*>(table_[static_cast<std::size_t>(slot)]));
  }
  // A status as a Result; consumes it.
  Result<void> check(ort::Status* status, const std::string& context = "onnxruntime") const;
  // Calls a function that says how it went.
  template <class Function, class... Arguments>
  Result<void> ask(ort::Slot slot, Arguments&&... arguments) const {
    return check(call<Function>(slot)(std::forward<Arguments>(arguments)...));
  }

  bool takes_text() const { return takes_text_; }  // tensors of strings
  const std::string& version() const { return version_; }
  const std::string& path() const { return path_; }  // of the file that was loaded

 private:
  OrtLibrary() = default;
  const void* const* table_ = nullptr;
  std::string version_, path_;
  bool takes_text_ = false;
};

// An object of the library that is released through a slot.
template <class What>
struct OrtRelease {
  ort::Release<What>* release = nullptr;
  void operator()(What* what) const { release(what); }
};
template <class What>
using OrtOwned = std::unique_ptr<What, OrtRelease<What>>;

}  // namespace partita::serve
