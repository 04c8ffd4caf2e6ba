// Put before NVIDIA's NVRTC and nvJitLink in programs that compile or link at run time: where they
// ask for machine code of the device they get the PTX of the same compilation, or of the same link
// where it optimises (-lto), which is what servers take.
#include <dlfcn.h>

#include <cstddef>
#include <cstring>
#include <vector>

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

// The names of nvJitLink's functions end with the version of its header.
namespace {

int create(const char* function, void** linker, unsigned count, const char** options) {
  std::vector<const char*> all(options, options + count);
  for (unsigned i = 0; i < count; ++i)
    if (std::strcmp(options[i], "-lto") == 0) all.push_back("-ptx");
  return behind(function, linker, static_cast<unsigned>(all.size()), all.data());
}

}  // namespace

#define IN_FRONT(version)                                                                          \
  extern "C" __attribute__((visibility("default"))) int __nvJitLinkCreate_##version(              \
      void** linker, unsigned count, const char** options) {                                      \
    return create("__nvJitLinkCreate_" #version, linker, count, options);                         \
  }                                                                                               \
  extern "C" __attribute__((visibility("default"))) int __nvJitLinkGetLinkedCubinSize_##version(  \
      void* linker, std::size_t* bytes) {                                                         \
    const int status = behind("__nvJitLinkGetLinkedPtxSize_" #version, linker, bytes);            \
    return status == 0 ? 0 : behind("__nvJitLinkGetLinkedCubinSize_" #version, linker, bytes);    \
  }                                                                                               \
  extern "C" __attribute__((visibility("default"))) int __nvJitLinkGetLinkedCubin_##version(      \
      void* linker, void* code) {                                                                 \
    const int status = behind("__nvJitLinkGetLinkedPtx_" #version, linker,                        \
                              static_cast<char*>(code));                                          \
    return status == 0 ? 0 : behind("__nvJitLinkGetLinkedCubin_" #version, linker, code);         \
  }
IN_FRONT(12_0)
IN_FRONT(12_1)
IN_FRONT(12_2)
IN_FRONT(12_3)
IN_FRONT(12_4)
IN_FRONT(12_5)
IN_FRONT(12_6)
IN_FRONT(12_7)
IN_FRONT(12_8)
IN_FRONT(12_9)
IN_FRONT(13_0)
IN_FRONT(13_1)
#undef IN_FRONT
