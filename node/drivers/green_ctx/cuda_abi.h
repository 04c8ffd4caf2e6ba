// The C interface of CUDA's driver library (libcuda.so.1) as far as Partita calls it: our own
// declarations of a published binary interface. Names of functions (cuda_library.cc), layouts and
// numbers are CUDA's; cuda_abi_test.cc compares all of it with <cuda.h> where there is one.
// Handles are opaque. Plain data, no ownership.
#pragma once

#include <cstddef>
#include <cstdint>

namespace partita::drivers::green_ctx::abi {

enum class Return : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  stub_library = 34,
  newer_driver = 36,
  device_unavailable = 46,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  ecc_uncorrectable = 214,
  invalid_ptx = 218,
  nvlink_uncorrectable = 220,
  jit_compiler_not_found = 221,
  unsupported_ptx_version = 222,
  jit_compilation_disabled = 223,
  contained = 226,
  operating_system = 304,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  context_is_destroyed = 709,
  assertion = 710,
  hardware_stack_error = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719,
  tensor_memory_leak = 721,
  not_permitted = 800,
  not_supported = 801,
  system_not_ready = 802,
  system_driver_mismatch = 803,
  compat_not_supported = 804,
  mps_connection_failed = 805,
  mps_rpc_failure = 806,
  mps_server_not_ready = 807,
  mps_max_clients = 808,
  mps_max_connections = 809,
  mps_client_terminated = 810,
  external_device = 911,
  invalid_cluster_size = 912,
  invalid_resource_type = 914,
  invalid_resource_configuration = 915,
  unknown = 999,
};

struct ContextTag;
struct GreenContextTag;
struct StreamTag;
struct EventTag;
struct LibraryTag;
struct KernelTag;
struct FunctionTag;
struct GraphTag;
struct GraphNodeTag;
struct GraphExecTag;
struct ResourceDescTag;
using Context = ContextTag*;
using GreenContext = GreenContextTag*;
using Stream = StreamTag*;
using Event = EventTag*;
using Library = LibraryTag*;
using Kernel = KernelTag*;      // of a library, of no context
using Function = FunctionTag*;  // a kernel in a context; a Kernel may be passed for one to launch
using Graph = GraphTag*;
using GraphNode = GraphNodeTag*;
using GraphExec = GraphExecTag*;
using ResourceDesc = ResourceDescTag*;
using Device = int;
using DevicePointer = unsigned long long;

// What Partita asks the loader for: the interface of CUDA 12.5, the first with
// cuGreenCtxStreamCreate.
inline constexpr int kVersion = 12050;
inline constexpr std::uint64_t kLegacyStream = 1;   // flag of cuGetProcAddress
inline constexpr int kMultiprocessorCount = 16;     // attribute of a device
inline constexpr int kComputeCapabilityMajor = 75;  // likewise
inline constexpr unsigned kStreamNonBlocking = 1;   // flag of cuStreamCreate
inline constexpr unsigned kEventDisableTiming = 2;  // flag of cuEventCreate
inline constexpr unsigned kHostPortable = 1;        // flags of cuMemHostAlloc
inline constexpr unsigned kHostDeviceMap = 2;
inline constexpr unsigned kGreenDefaultStream = 1;    // flag of cuGreenCtxCreate
inline constexpr unsigned kIgnoreSmCoscheduling = 1;  // flag of cuDevSmResourceSplitByCount
inline constexpr int kMaxDynamicShared = 8;           // attribute of a kernel, bytes
inline constexpr std::uint32_t kPlainShared = 48 << 10;  // what it is at first
inline constexpr int kResourceTypeSm = 1;             // CUdevResourceType

// Outcome of looking a symbol up.
enum class SymbolStatus : int { found = 0, not_found = 1, version_too_old = 2 };

struct Uuid {
  char bytes[16];
};
static_assert(sizeof(Uuid) == 16);

struct SmResource {
  unsigned count;
  unsigned min_partition;  // SMs
  unsigned alignment;      // SMs that are scheduled together
};

// Of the device, of a split, or of a context; made by the library alone.
struct Resource {
  int type;
  unsigned char internal[92];
  union {
    SmResource sm;
    unsigned char room[48];
  };
};
static_assert(sizeof(Resource) == 144 && offsetof(Resource, sm) == 96);

struct KernelNodeParams {
  Function function;  // where it is set, `kernel` and `context` are ignored
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z;
  unsigned shared_bytes;
  void** arguments;
  void** extra;
  Kernel kernel;
  Context context;  // that the kernel runs in
};
static_assert(sizeof(KernelNodeParams) == 72 && offsetof(KernelNodeParams, kernel) == 56 &&
              offsetof(KernelNodeParams, context) == 64);

}  // namespace partita::drivers::green_ctx::abi
