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
struct GraphNodeTag;
struct ArrayTag;

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
using GraphNode = GraphNodeTag*;
using Array = ArrayTag*;
using TextureNumber = unsigned long long;  // of textures and surfaces
using Condition = unsigned long long;

inline constexpr int kPinned = 1, kLocationDevice = 1, kReadWrite = 3;
inline constexpr unsigned kMemoryDevice = 2, kMemoryArray = 3;
inline constexpr int kResourceArray = 0, kResourceLine = 2, kResourceRows = 3;
inline constexpr unsigned kReadAsInteger = 1, kNormalizedPlaces = 2;
inline constexpr int kConditionalNode = 13;
inline constexpr unsigned kAssignDefault = 1, kSetDependencies = 1;
inline constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2;
inline constexpr unsigned kExternalEvent = 1;  // of records and waits: as a node of a capture
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
struct Copy3D {
  struct End {
    std::size_t x, y, z, level;
    unsigned type;
    void* host;
    DevicePointer device;
    Array array;
    void* reserved;
    std::size_t pitch, height;
  };
  End from, to;
  std::size_t width, height, depth;
};
static_assert(sizeof(Copy3D) == 200);
struct ArrayDescription {
  std::size_t width, height, depth;
  int format;
  unsigned channels, flags;
};
struct Resource {
  int type;
  union {
    Array array;
    struct {
      DevicePointer at;
      int format;
      unsigned channels;
      std::size_t bytes;
    } line;
    struct {
      DevicePointer at;
      int format;
      unsigned channels;
      std::size_t width, height, pitch;
    } rows;
    int reserved[32];
  } of;
  unsigned flags;
};
static_assert(sizeof(Resource) == 144);
struct Sampling {
  int beyond[3], filter;
  unsigned flags, anisotropy;
  int mipmap_filter;
  float bias, least, most, border[4];
  int reserved[12];
};
static_assert(sizeof(Sampling) == 104);
// A node of a graph, of which only conditional ones are added by their description.
struct NodeParameters {
  int type, reserved[3];
  union {
    struct {
      Condition condition;
      int kind;
      unsigned size;
      Graph* bodies;  // the library's: so many
      Context context;
    } conditional;
    long long bytes[29];
  } of;
  long long reserved_behind;
};
static_assert(sizeof(NodeParameters) == 256);

}  // namespace partita::remote::cuda::abi
