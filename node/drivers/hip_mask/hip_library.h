// HipLibrary: libamdhip64 loaded with dlopen, and hiprtc, which compiles kernels, on demand. Never
// unloaded: AMD's runtime does not survive that. Shared by a driver and the kernels it runs.
// Thread rule: any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/shared_library.h"
#include "drivers/hip_mask/hip_abi.h"

namespace partita::drivers::hip_mask {

class HipLibrary {
 public:
  // Loads `file`, or where it is empty libamdhip64.so, .so.7, .so.6 or .so.5, or that of /opt/rocm.
  // environment when none is there, or one without masked streams.
  static Result<std::shared_ptr<HipLibrary>> open(const std::string& file);

  const abi::HipApi& api() const { return api_; }
  // hiprtc: of libamdhip64 itself, or libhiprtc.so beside it or installed. environment without it.
  Result<const abi::CompilerApi*> compiler();

  // Code for the thread's device from HIP's source; environment with the compiler's words.
  Result<std::string> compile(const std::string& source, const char* name);

  // What a function answered as an error of ours; `call` is the call with its arguments.
  Error error(abi::Status, std::string call) const;
  // Calls a function.
  template <class... Parameters, class... Arguments>
  Result<void> call(std::string_view name, abi::Status (*function)(Parameters...),
                    Arguments... arguments) const {
    const abi::Status status = function(arguments...);
    if (status == abi::Status::success) return {};
    return failed(error(status, std::string(name) + "()"));
  }

 private:
  explicit HipLibrary(SharedLibrary library) : library_(std::move(library)) {}
  const char* bind();

  const SharedLibrary library_;
  abi::HipApi api_;
  std::mutex mutex_;  // of compiler_ until it is found
  abi::CompilerApi compiler_;
};

}  // namespace partita::drivers::hip_mask
