// PrimaryContext: one GPU and its primary context, retained as long as this lives. Memory, events
// and kernels belong to the primary context; green contexts are that same context on fewer SMs.
// Calls that need a context have it current for as long as a Current lives; a green context never
// is. Thread rule: any thread.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "drivers/green_ctx/cuda_library.h"

namespace partita::drivers::green_ctx {

class PrimaryContext {
 public:
  // The GPU with this ordinal ("0", also what an empty text means) or UUID ("GPU-...", "MIG-...").
  // not_found when CUDA shows none such.
  static Result<std::shared_ptr<const PrimaryContext>> open(
      std::shared_ptr<const CudaLibrary> library, const std::string& gpu);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  const CudaApi& api() const { return library_->api(); }
  const CudaLibrary& library() const { return *library_; }
  abi::Device device() const { return device_; }
  abi::Context context() const { return context_; }

 private:
  PrimaryContext(std::shared_ptr<const CudaLibrary> library, abi::Device device)
      : library_(std::move(library)), device_(device) {}

  std::shared_ptr<const CudaLibrary> library_;
  abi::Device device_;
  abi::Context context_ = nullptr;
};

// The primary context is current to the calling thread while this lives. Where that fails, the
// calls inside fail in its place.
class Current {
 public:
  explicit Current(const PrimaryContext& gpu)
      : gpu_(gpu), pushed_(gpu.api().push_context(gpu.context()) == abi::Return::success) {}
  ~Current() {
    abi::Context popped = nullptr;
    if (pushed_) gpu_.api().pop_context(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const PrimaryContext& gpu_;
  const bool pushed_;
};

}  // namespace partita::drivers::green_ctx
