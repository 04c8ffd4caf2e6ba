#include "server/cuda/blas_library.h"

#include <dlfcn.h>

#include <bit>

namespace partita::remote::cuda {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::unique_ptr<BlasLibrary> BlasLibrary::open() {
  for (const char* name : {"libcublas.so.13", "libcublas.so.12"}) {
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);  // for as long as the process
    if (library == nullptr) continue;
    Api api{};
    if (find(library, "cublasCreate_v2", api.cublasCreate_v2) &&
        find(library, "cublasDestroy_v2", api.cublasDestroy_v2) &&
        find(library, "cublasSetStream_v2", api.cublasSetStream_v2) &&
        find(library, "cublasSetPointerMode_v2", api.cublasSetPointerMode_v2) &&
        find(library, "cublasGemmStridedBatchedEx", api.cublasGemmStridedBatchedEx) &&
        find(library, "cublasGemmBatchedEx", api.cublasGemmBatchedEx))
      return std::unique_ptr<BlasLibrary>(new BlasLibrary(api));
  }
  return nullptr;
}

BlasLibrary::~BlasLibrary() {
  if (handle_ != nullptr) api_.cublasDestroy_v2(handle_);
}

int BlasLibrary::prepare() { return handle_ != nullptr ? 0 : api_.cublasCreate_v2(&handle_); }

int BlasLibrary::multiply(const Gemm& op, abi::Stream stream) {
  constexpr int kHost = 0, kDevice = 1, kSingle = 68, kDouble = 70, kUsualAlgorithm = -1;
  const auto number = [](std::uint64_t size) { return static_cast<int>(size); };
  const auto stride = [](std::uint64_t size) { return static_cast<long long>(size); };
  const auto at = [](DevicePointer place) { return reinterpret_cast<void*>(place.value); };
  const auto list = [](DevicePointer place) { return reinterpret_cast<void**>(place.value); };
  if (const int status = prepare(); status != 0) return status;
  const bool on_device = op.alpha_at.value != 0;
  if (const int status = api_.cublasSetPointerMode_v2(handle_, on_device ? kDevice : kHost);
      status != 0)
    return status;
  if (const int status = api_.cublasSetStream_v2(handle_, stream); status != 0) return status;
  const double alpha = std::bit_cast<double>(op.alpha), beta = std::bit_cast<double>(op.beta);
  const float alpha_single = static_cast<float>(alpha), beta_single = static_cast<float>(beta);
  const bool twice = op.out == kFloat64;
  const void* const by = on_device ? at(op.alpha_at)
                         : twice   ? static_cast<const void*>(&alpha)
                                   : &alpha_single;
  const void* const plus = on_device ? at(op.beta_at)
                           : twice   ? static_cast<const void*>(&beta)
                                     : &beta_single;
  const int turned_a = (op.form & kTransposedA) != 0 ? 1 : 0,
            turned_b = (op.form & kTransposedB) != 0 ? 1 : 0, in = static_cast<int>(op.in),
            out = static_cast<int>(op.out), sums = twice ? kDouble : kSingle;
  if ((op.form & kByPointers) != 0)
    return api_.cublasGemmBatchedEx(handle_, turned_a, turned_b, number(op.m), number(op.n),
                                    number(op.k), by, list(op.a), in, number(op.a_step), list(op.b),
                                    in, number(op.b_step), plus, list(op.c), out, number(op.c_step),
                                    number(op.batch), sums, kUsualAlgorithm);
  return api_.cublasGemmStridedBatchedEx(
      handle_, turned_a, turned_b, number(op.m), number(op.n), number(op.k), by, at(op.a), in,
      number(op.a_step), stride(op.a_stride), at(op.b), in, number(op.b_step), stride(op.b_stride),
      plus, at(op.c), out, number(op.c_step), stride(op.c_stride), number(op.batch), sums,
      kUsualAlgorithm);
}

}  // namespace partita::remote::cuda
