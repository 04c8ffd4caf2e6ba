// The C interface of CUDA's driver library (libcuda.so.1) as far as the back end calls it: our own
// declarations of a published binary interface; driver_abi_test.cc compares them with <cuda.h>.
// Functions are looked up by the names that the library exports (with their _v2 where the header
// has it). Plain data, no ownership.
#pragma once

#include <cstddef>
#include <cstdint>

namespace partita::remote::cuda::abi {

// Named here, since others have such names outside.
struct ContextTag;
struct ModuleTag;
struct FunctionTag;
struct StreamTag;
struct EventTag;
struct GraphTag;
struct GraphExecTag;

using Return = int;  // CUresult; server/errors.h has the numbers
using Device = int;
using DevicePointer = unsigned long long;
using AllocationHandle = unsigned long long;
using Context = ContextTag*;
using Module = ModuleTag*;
using Function = FunctionTag*;
using Stream = StreamTag*;  // null: the legacy default stream
using Event = EventTag*;
using Graph = GraphTag*;
using GraphExec = GraphExecTag*;

inline constexpr int kPinned = 1, kLocationDevice = 1, kReadWrite = 3;
inline constexpr unsigned kMemoryDevice = 2;
inline constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2;
inline constexpr unsigned kHostPortable = 1, kHostMapped = 2;
inline constexpr unsigned kWaitEqual = 1;
inline constexpr int kCaptureThreadLocal = 1;
inline constexpr int kJitErrorLog = 5, kJitErrorLogBytes = 6;
inline constexpr int kMaxDynamicShared = 8;                           // CUfunction_attribute
inline constexpr std::uintptr_t kBufferPointer = 1, kBufferSize = 2;  // in `extra`, 0 ends it

struct Location {
  int type, id;
};
struct AllocationProperties {
  int type, handle_types;
  Location location;
  void* windows;
  struct {
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};
static_assert(sizeof(AllocationProperties) == 32);
struct AccessDescription {
  Location location;
  int flags;
};
struct Copy2D {
  std::size_t from_x, from_y;
  unsigned from_type;
  const void* from_host;
  DevicePointer from_device;
  void* from_array;
  std::size_t from_pitch;
  std::size_t to_x, to_y;
  unsigned to_type;
  void* to_host;
  DevicePointer to_device;
  void* to_array;
  std::size_t to_pitch;
  std::size_t width, height;
};
static_assert(sizeof(Copy2D) == 128);
struct Uuid {
  char bytes[16];
};

}  // namespace partita::remote::cuda::abi
