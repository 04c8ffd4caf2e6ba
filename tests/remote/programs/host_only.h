// The host's half of a program without a CUDA compiler: kernels are names whose code stands in a
// PTX file, which becomes a fat binary of one PTX member; names and variables are registered as
// compiled programs do. For cuda_minimal.h.
#pragma once

#include <tuple>
#include <utility>

#ifndef PARTITA_PROGRAM_PTX
#error "PARTITA_PROGRAM_PTX names the PTX of the kernels"
#endif

namespace programs {

struct Entry {
  const void* host;
  const char* name;
  size_t bytes;  // 0: a kernel
  int constant;
};
extern "C" {
extern const Entry __start_program_entries[] __attribute__((weak));
extern const Entry __stop_program_entries[] __attribute__((weak));
extern char program_fatbin_segment[];
}

// {magic, version, bytes of this header, bytes of the rest}, then one member: PTX as it is, sm_70.
asm(R"(
    .pushsection .nv_fatbin, "a"
    .balign 8
program_fatbin:
    .long 0xBA55ED50
    .short 1, 16
    .quad program_fatbin_end - program_fatbin_member
program_fatbin_member:
    .short 1, 0x101
    .long 64
    .quad program_fatbin_end - program_fatbin_text
    .long 0, 0
    .short 0, 6
    .long 70
    .quad 0
    .quad 0x11
    .quad 0
    .quad 0
program_fatbin_text:
    .incbin ")" PARTITA_PROGRAM_PTX R"("
    .byte 0
    .balign 8, 0
program_fatbin_end:
    .popsection
    .pushsection .nvFatBinSegment, "aw"
    .balign 8
    .globl program_fatbin_segment
program_fatbin_segment:
    .long 0x466243B1, 1
    .quad program_fatbin
    .quad 0
    .popsection
)");

class Registration {
 public:
  Registration() : handle_(__cudaRegisterFatBinary(program_fatbin_segment)) {
    for (const Entry* entry = __start_program_entries; entry != __stop_program_entries; ++entry) {
      char* const host = const_cast<char*>(static_cast<const char*>(entry->host));
      char* const name = const_cast<char*>(entry->name);
      if (entry->bytes == 0) {
        __cudaRegisterFunction(handle_, host, name, name, -1, nullptr, nullptr, nullptr, nullptr,
                               nullptr);
      } else {
        __cudaRegisterVar(handle_, host, name, name, 0, entry->bytes, entry->constant, 0);
      }
    }
    __cudaRegisterFatBinaryEnd(handle_);
  }
  ~Registration() { __cudaUnregisterFatBinary(handle_); }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  void** handle_;
};
static const Registration registration;

template <class Function>
struct Launcher;
template <class... Parameters>
struct Launcher<void(Parameters...)> {
  template <class... Arguments>
  static void launch(const void* kernel, dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                     Arguments... arguments) {
    if (__cudaPushCallConfiguration(grid, block, shared, stream) != 0) return;
    if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) != cudaSuccess) return;
    std::tuple<Parameters...> values(static_cast<Parameters>(arguments)...);
    std::apply(
        [&](auto&... value) {
          void* addresses[] = {static_cast<void*>(&value)..., nullptr};
          cudaLaunchKernel(kernel, grid, block, addresses, shared, stream);
        },
        values);
  }
};

}  // namespace programs

#define PROGRAM_ENTRY(host, name, bytes, constant)                                                \
  __attribute__((section("program_entries"), used)) static const programs::Entry name##_entry = { \
      host, #name, bytes, constant}
// The body is a template that nobody calls: checked, not compiled.
#define KERNEL(name, parameters)             \
  void name parameters;                      \
  static const char name##_handle = 0;       \
  PROGRAM_ENTRY(&name##_handle, name, 0, 0); \
  template <class>                           \
  void name##_on_device parameters
#define LAUNCH(kernel, grid, block, shared, stream, ...)                                    \
  programs::Launcher<decltype(kernel)>::launch(&kernel##_handle, (grid), (block), (shared), \
                                               (stream)__VA_OPT__(, ) __VA_ARGS__)
#define KERNEL_ADDRESS(name) static_cast<const void*>(&name##_handle)
#define DEVICE_VARIABLE(type, name, dimensions) \
  extern type name dimensions;                  \
  PROGRAM_ENTRY(&name, name, sizeof(name), 0);  \
  type name dimensions
#define CONSTANT_VARIABLE(type, name, dimensions) \
  extern type name dimensions;                    \
  PROGRAM_ENTRY(&name, name, sizeof(name), 1);    \
  type name dimensions
#define DYNAMIC_SHARED(type, name) static type name[1]
#define SHARED(type, name, dimensions) static type name dimensions
#define HOST_DEVICE
#define DEVICE static inline
