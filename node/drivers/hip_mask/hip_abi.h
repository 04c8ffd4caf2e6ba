// The C interface of AMD's HIP runtime (libamdhip64.so) and of its run-time compiler (hiprtc) as
// far as this driver calls them: our own declarations of a published binary interface. Only
// functions, numbers and opaque handles that HIP 5, 6 and 7 have alike are used; hipDeviceProp_t,
// which changed between them, is not. hip_abi_test.cc compares with AMD's header where there is
// one. Plain data, no ownership.
#pragma once

#include <cstddef>
#include <cstdint>

namespace partita::drivers::hip_mask::abi {

enum class Status : int {  // hipError_t
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  invalid_configuration = 9,
  insufficient_driver = 35,
  invalid_device_function = 98,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  ecc_not_correctable = 214,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  context_is_destroyed = 709,
  assert_failed = 710,
  launch_failure = 719,
  not_supported = 801,
  unknown = 999,
};

enum class Attribute : int {  // hipDeviceAttribute_t
  multiprocessor_count = 63,  // CUs; WGPs, each two CUs, where work-groups run on whole WGPs
  pci_bus = 67,
  pci_device = 68,
  pci_domain = 69,
  physical_multiprocessor_count = 10015,  // the same, where the other leaves some out
  number_of_xccs = 10018,                 // HIP 6.4 and later
};

enum class CopyKind : int { to_device = 1, to_host = 2 };  // hipMemcpyKind

struct StreamTag;
struct EventTag;
struct ModuleTag;
struct FunctionTag;
struct ProgramTag;
using Stream = StreamTag*;
using Event = EventTag*;
using Module = ModuleTag*;
using Function = FunctionTag*;
using Program = ProgramTag*;  // of hiprtc

inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kHostMapped = 2;
inline constexpr unsigned kHostCoherent = 0x40000000;

// The functions of libamdhip64, each called hip... as its comment says.
struct HipApi {
  Status (*get_device_count)(int* count) = nullptr;
  Status (*set_device)(int device) = nullptr;
  Status (*get_attribute)(int* value, Attribute, int device) = nullptr;  // DeviceGetAttribute
  Status (*get_name)(char* name, int length, int device) = nullptr;      // DeviceGetName
  // DeviceComputeCapability: of gfx906 9 and 0, of gfx1100 11 and 0
  Status (*compute_capability)(int* major, int* minor, int device) = nullptr;
  const char* (*error_string)(Status) = nullptr;  // GetErrorString
  // ExtStreamCreateWithCUMask, ExtStreamGetCUMask: `words` of 32 bits
  Status (*create_stream)(Stream*, std::uint32_t words, const std::uint32_t* mask) = nullptr;
  Status (*get_mask)(Stream, std::uint32_t words, std::uint32_t* mask) = nullptr;
  Status (*destroy_stream)(Stream) = nullptr;
  Status (*synchronise_stream)(Stream) = nullptr;
  Status (*query_stream)(Stream) = nullptr;                       // not_ready while it works
  Status (*wait_event)(Stream, Event, unsigned flags) = nullptr;  // StreamWaitEvent
  Status (*create_event)(Event*, unsigned flags) = nullptr;       // EventCreateWithFlags
  Status (*record_event)(Event, Stream) = nullptr;
  Status (*query_event)(Event) = nullptr;  // not_ready until it is finished
  Status (*destroy_event)(Event) = nullptr;
  Status (*load_module)(Module*, const void* image) = nullptr;  // ModuleLoadData
  Status (*unload_module)(Module) = nullptr;
  Status (*get_function)(Function*, Module, const char* name) = nullptr;
  // ModuleLaunchKernel: three sizes of the grid in blocks, three of a block in threads
  Status (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned shared_bytes, Stream, void** arguments, void** extra) = nullptr;
  Status (*host_malloc)(void**, std::size_t bytes, unsigned flags) = nullptr;
  Status (*host_free)(void*) = nullptr;
  Status (*device_malloc)(void**, std::size_t bytes) = nullptr;            // hipMalloc
  Status (*device_free)(void*) = nullptr;                                  // hipFree
  // hipMemcpyAsync
  Status (*copy)(void* to, const void* from, std::size_t bytes, CopyKind, Stream) = nullptr;
  Status (*memory_info)(std::size_t* free, std::size_t* total) = nullptr;  // MemGetInfo
};

// hiprtcResult is 0 for success, as hipError_t.
struct CompilerApi {
  int (*create)(Program*, const char* source, const char* name, int headers, const char** texts,
                const char** names) = nullptr;
  int (*compile)(Program, int options, const char** texts) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*code_size)(Program, std::size_t*) = nullptr;
  int (*code)(Program, char*) = nullptr;
  int (*destroy)(Program*) = nullptr;
};

}  // namespace partita::drivers::hip_mask::abi
