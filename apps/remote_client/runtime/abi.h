// The binary interface of the CUDA runtime as programs see it: own declarations of the public types
// that cross the border, and what every function of the shim does around its body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "client/session.h"

#ifndef PARTITA_CUDART
#define PARTITA_CUDART 13
#endif

#define CUDA_EXPORT extern "C" __attribute__((visibility("default")))

namespace partita::remote::shim {

namespace client = partita::remote::client;
using client::session;
using client::Status;

struct Dim3 {
  unsigned x, y, z;
};
struct Pitched {  // cudaPitchedPtr
  void* memory;
  std::size_t pitch, width, height;
};
struct Place3 {  // cudaPos, cudaExtent
  std::size_t x, y, z;
};
struct Copy3 {  // cudaMemcpy3DParms
  void* from_array;
  Place3 from_place;
  Pitched from;
  void* to_array;
  Place3 to_place;
  Pitched to;
  Place3 extent;
  int kind;
};
static_assert(sizeof(Copy3) == 160);

struct ChannelDesc {  // cudaChannelFormatDesc
  int x, y, z, w;     // bits
  int kind;           // signed, unsigned, float
};
static_assert(sizeof(ChannelDesc) == 20);

struct KernelNode {  // cudaKernelNodeParams
  void* function;
  Dim3 grid, block;
  unsigned shared_bytes;
  void** parameters;
  void** extra;
};
static_assert(sizeof(KernelNode) == 56 && offsetof(KernelNode, parameters) == 40);
struct MemsetNode {  // cudaMemsetParams
  void* to;
  std::size_t pitch;
  unsigned value, element;
  std::size_t width, height;
};
static_assert(sizeof(MemsetNode) == 40);
struct HostNode {  // cudaHostNodeParams
  void (*function)(void*);
  void* data;
};

struct MemoryNode {    // cudaMemAllocNodeParams
  char pool[88];       // properties, all of them the one pool's here
  const void* access;  // of other devices
  std::size_t accesses, bytes;
  void* memory;
};
static_assert(sizeof(MemoryNode) == 120);
struct BranchNode {  // cudaConditionalNodeParams
  unsigned long long condition;
  int kind;  // if, while, switch
  unsigned bodies;
  void** graphs;
};
struct AnyNode {  // cudaGraphNodeParams
  int type, reserved[3];
  union {
    long long words[29];
    KernelNode kernel;
    struct {
      int flags[4];
      Copy3 copy;
    } copy;
    MemsetNode set;
    HostNode host;
    void* child;
    void* event;
    MemoryNode memory;
    void* freed;
    BranchNode branch;
  };
  long long reserved_too;
};
static_assert(sizeof(AnyNode) == 256);

struct LaunchAttribute {  // cudaLaunchAttribute
  int id;
  char padding[4];
  union {
    int number;
    char bytes[64];
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);
struct LaunchConfig {  // cudaLaunchConfig_t
  Dim3 grid, block;
  std::size_t shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
static_assert(sizeof(LaunchConfig) == 56);

struct FunctionAttributes {  // cudaFuncAttributes
  std::size_t shared_bytes, const_bytes, local_bytes;
  int max_threads, registers, ptx_version, binary_version, cache_mode, max_dynamic_shared, carveout;
  int cluster_must_be_set, cluster_width, cluster_height, cluster_depth, cluster_policy,
      non_portable;
  int reserved[16];
};
static_assert(sizeof(FunctionAttributes) == 144);

struct PointerAttributes {  // cudaPointerAttributes
  int type, device;
  void* device_pointer;
  void* host_pointer;
#if PARTITA_CUDART >= 13
  long reserved[8];
#endif
};
static_assert(sizeof(PointerAttributes) == (PARTITA_CUDART >= 13 ? 88 : 24));

// The error of the calling thread that cudaGetLastError tells.
Status& last_error();

// The program sees this error, or asks what it means.
inline Status asked_about(Status status) {
  if (status != client::kOk) client::session().core.note_asked();
  return status;
}

inline Status remember(Status status) {
  if (status != client::kOk) last_error() = status;
  return status;
}

// Runs a function's body; what the library throws becomes a status.
template <class Body>
Status guarded(Body&& body) noexcept {
  try {
    session().stats().calls.fetch_add(1, std::memory_order_relaxed);
    return remember(body());
  } catch (const std::bad_alloc&) {
    return remember(client::kMemoryAllocation);
  } catch (...) {
    return remember(client::kUnknown);
  }
}

template <class Body>
Status guarded_launch(Body&& body) noexcept {
  return session().launched(guarded(static_cast<Body&&>(body)));
}

// Whether a launch with these is cooperative; refused where one asks for what is not there.
Status read(const LaunchAttribute* attributes, unsigned count, bool& cooperative);

// Prints once per name which function is missing.
Status unsupported(const char* function);

inline std::uint64_t number_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}
inline void* handle_of(std::uint64_t number) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
}
// A stream of the functions for programs with a default stream per thread.
inline void* own_default(void* stream) {
  return stream == nullptr ? handle_of(client::kPerThreadStream) : stream;
}

// What is launched in the stream goes into a graph: nothing comes of it now that a function could
// answer, or needs to go on.
inline bool is_captured(const void* stream) {
  const auto state = session().captures.state_of(number_of(stream));
  return state && state->status != 0;
}
// The same where a function cannot be captured: nothing comes of the capture.
inline bool spoils_capture(const void* stream) {
  return session().captures.spoil(number_of(stream));
}

// What the memory has, and the time between two events, where the program wants them.
Status tell_memory(std::size_t* free, std::size_t* total);
Status tell_elapsed(float* ms, void* from, void* to);

// Stores a value where the program wants it.
template <class T, class Into>
Status hand_out(const T& value, Into* into) {
  if (into == nullptr) return client::kInvalidValue;
  *into = static_cast<Into>(value);
  return client::kOk;
}

// Stores what was got where the program wants it.
template <class T, class Into>
Status give(const client::Got<T>& got, Into* into) {
  if (!got) return got.error();
  if (into == nullptr) return client::kInvalidValue;
  if constexpr (std::is_pointer_v<Into>) {
    *into = static_cast<Into>(handle_of(static_cast<std::uint64_t>(*got)));
  } else {
    *into = static_cast<Into>(*got);
  }
  return client::kOk;
}

}  // namespace partita::remote::shim

// A function of the program that is one guarded answer; it may have commas.
#define GUARDED(name, parameters, ...)                       \
  CUDA_EXPORT Status name parameters {                       \
    return guarded([&]() -> Status { return __VA_ARGS__; }); \
  }
// Functions with a stream come twice: NAME, and NAME_ptsz (or _ptds) for programs that have a
// default stream per thread. `parameters` and `body` see the stream as `stream`.
#define STREAM_FUNCTION(name, suffix, parameters, body)                        \
  CUDA_EXPORT Status name parameters { return guarded([&]() -> Status body); } \
  CUDA_EXPORT Status name##suffix parameters {                                 \
    stream = own_default(stream);                                              \
    return guarded([&]() -> Status body);                                      \
  }
// Those in the default stream: NAME and NAME_ptds.
#define DEFAULT_FUNCTION(name, parameters, body) \
  CUDA_EXPORT Status name parameters {           \
    void* const stream = nullptr;                \
    return guarded([&]() -> Status body);        \
  }                                              \
  CUDA_EXPORT Status name##_ptds parameters {    \
    void* const stream = own_default(nullptr);   \
    return guarded([&]() -> Status body);        \
  }
// Those in the default stream that wait, and behind them those of a stream that need not: NAME,
// NAME_ptds, NAMEAsync, NAMEAsync_ptsz. The answer sees `stream` and `later`.
#define EITHER_FUNCTION(name, parameters, ...)                                          \
  DEFAULT_FUNCTION(name, parameters, {                                                  \
    [[maybe_unused]] constexpr bool later = false;                                      \
    return __VA_ARGS__;                                                                 \
  })                                                                                    \
  STREAM_FUNCTION(name##Async, _ptsz, (WITHOUT_PARENTHESES parameters, void* stream), { \
    [[maybe_unused]] constexpr bool later = true;                                       \
    return __VA_ARGS__;                                                                 \
  })
#define WITHOUT_PARENTHESES(...) __VA_ARGS__
