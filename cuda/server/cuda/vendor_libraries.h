// NVIDIA's libraries, loaded with dlopen at the first call of one of their functions: cuSOLVER,
// cuDNN, and of cuBLAS what is not one of the session's products. One handle of each; the context
// that is current then stays current.
#pragma once

#include <memory>

#include "server/cuda/driver_abi.h"
#include "server/library_calls.h"

namespace partita::remote::cuda {

class DnnGraphs;

class VendorLibraries {
 public:
  VendorLibraries();
  ~VendorLibraries();
  VendorLibraries(const VendorLibraries&) = delete;
  VendorLibraries& operator=(const VendorLibraries&) = delete;

  // Calls the function with its stream. kNotSupported where the library or the function is not
  // installed; what the library itself says stands in the answer.
  server::Answered<server::LibraryAnswer> call(const server::CallWork& work, abi::Stream stream);
  // Makes the handle of the function's library, which takes more than may be done in a capture.
  server::Answered<void> prepare(const server::CallWork& work);
  // The context is lost: nothing is given back.
  void leave();

 private:
  class Library;
  class Arguments;
  server::Answered<Library*> library(server::VendorLibrary which);

  std::unique_ptr<Library> libraries_[3];  // by VendorLibrary
  std::unique_ptr<DnnGraphs> graphs_;      // of cuDNN; they end first
};

}  // namespace partita::remote::cuda
