// cuBLAS, loaded with dlopen where it is installed: matrix products of sessions. One handle each,
// made at the first product.
#pragma once

#include <memory>

#include "server/cuda/driver_abi.h"
#include "wire/operations.h"

namespace partita::remote::cuda {

class BlasLibrary {
 public:
  // Null: none is installed.
  static std::unique_ptr<BlasLibrary> open();
  BlasLibrary(const BlasLibrary&) = delete;
  BlasLibrary& operator=(const BlasLibrary&) = delete;
  // The context that was current at the first product is current.
  ~BlasLibrary();

  // Makes its handle; cublasStatus_t. In a capture it must be there already.
  int prepare();
  // On the stream; cublasStatus_t. Both factors lie in the same memory, of the host or the device.
  int multiply(const Gemm& op, abi::Stream stream);

 private:
  struct Api {
    int (*cublasCreate_v2)(void**);
    int (*cublasDestroy_v2)(void*);
    int (*cublasSetStream_v2)(void*, abi::Stream);
    int (*cublasSetPointerMode_v2)(void*, int);
    int (*cublasGemmStridedBatchedEx)(void*, int, int, int, int, int, const void*, const void*, int,
                                      int, long long, const void*, int, int, long long, const void*,
                                      void*, int, int, long long, int, int, int);
    int (*cublasGemmBatchedEx)(void*, int, int, int, int, int, const void*, const void* const*, int,
                               int, const void* const*, int, int, const void*, void* const*, int,
                               int, int, int, int);
  };
  explicit BlasLibrary(const Api& api) : api_(api) {}

  const Api api_;
  void* handle_ = nullptr;
};

}  // namespace partita::remote::cuda
