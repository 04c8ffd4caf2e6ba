// Put before NVIDIA's NVRTC in programs that compile at run time: where they ask for machine code
// of the device they get the PTX of the same compilation, which is what servers take.
#include <dlfcn.h>

#include <cstddef>

namespace {

constexpr int kInternal = 11;  // NVRTC_ERROR_INTERNAL_ERROR

template <class... Arguments>
int behind(const char* function, Arguments... arguments) {
  auto* found = reinterpret_cast<int (*)(Arguments...)>(::dlsym(RTLD_NEXT, function));
  return found == nullptr ? kInternal : found(arguments...);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int nvrtcGetCUBINSize(void* program,
                                                                        std::size_t* bytes) {
  return behind("nvrtcGetPTXSize", program, bytes);
}
extern "C" __attribute__((visibility("default"))) int nvrtcGetCUBIN(void* program, char* code) {
  return behind("nvrtcGetPTX", program, code);
}
