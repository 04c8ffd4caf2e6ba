// Entry points of the driver's interface: those of the libcuda.so.1 beside this library.
#include <dlfcn.h>

#include "abi.h"

namespace partita::remote::shim {
namespace {

using client::kOk;

Status entry_point(const char* symbol, void** function, unsigned version, unsigned long long flags,
                   int* found) {
  using GetProc = int (*)(const char*, void**, int, std::uint64_t, int*);
  static const GetProc get = [] {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return library == nullptr ? nullptr
                              : reinterpret_cast<GetProc>(::dlsym(library, "cuGetProcAddress_v2"));
  }();
  if (symbol == nullptr || function == nullptr) return client::kInvalidValue;
  *function = nullptr;
  int result = 1;  // not found
  if (get != nullptr) get(symbol, function, static_cast<int>(version), flags, &result);
  if (found != nullptr) {
    *found = result;
    return kOk;
  }
  return *function == nullptr ? client::kNotFound : kOk;
}

}  // namespace

GUARDED(cudaGetDriverEntryPointByVersion,
        (const char* symbol, void** function, unsigned version, unsigned long long flags,
         int* found),
        entry_point(symbol, function, version, flags, found))
CUDA_EXPORT Status cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function,
                                                         unsigned version, unsigned long long flags,
                                                         int* found) {
  constexpr unsigned long long kPerThread = 2;
  return cudaGetDriverEntryPointByVersion(symbol, function, version, flags | kPerThread, found);
}
CUDA_EXPORT Status cudaGetDriverEntryPoint(const char* symbol, void** function,
                                           unsigned long long flags, int* found) {
  constexpr unsigned kVersion = PARTITA_CUDART * 1000;
  return guarded([&] { return entry_point(symbol, function, kVersion, flags, found); });
}

}  // namespace partita::remote::shim
