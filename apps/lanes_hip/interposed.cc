// HIP's functions that take a stream, or wait: each puts its work where the stream is (router.h)
// and goes on with HIP's own. They are declared here by the sizes of their parameters, whose values
// are handed on as they are: words in registers and on the stack, which dim3 and structures are
// not.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "real.h"

namespace {

using partita::lanes_hip::Launch;
using partita::lanes_hip::real;
using partita::lanes_hip::router;
using partita::lanes_hip::router_if_any;
namespace abi = partita::lanes_hip::abi;

using Word = std::uintptr_t;
using Stream = abi::Stream;
constexpr int kNotSupported = static_cast<int>(abi::Status::not_supported);

struct Dim3 {
  unsigned x, y, z;
  std::uint64_t all() const { return std::uint64_t{x} * y * z; }
};
struct Pitched {
  void* at;
  std::size_t pitch, width, height;
};
struct Extent {
  std::size_t width, height, depth;
};

// How a function deals with its stream.
constexpr int kAt = 0, kHome = 1, kWaits = 2;
template <int kHow>
Word place(Word stream, bool of_thread = false) {
  auto* const there = router_if_any();
  if (there == nullptr) return stream;
  if (kHow == kWaits) there->client_waits();
  const auto named = stream == 0 && of_thread ? partita::lanes_hip::kThreadStream
                                              : reinterpret_cast<Stream>(stream);
  const Stream on = there->work(named, kHow == kHome);
  return on == named ? stream : reinterpret_cast<Word>(on);
}

template <class... Words>
int go_on(int (*function)(Words...), Words... words) {
  return function != nullptr ? function(words...) : kNotSupported;
}

Stream thread_stream(Stream stream) {
  return stream == nullptr ? partita::lanes_hip::kThreadStream : stream;
}

// ---- kernels ----

struct Kernel {
  const void* function = nullptr;
  bool of_module = false;
  Dim3 grid{}, block{};
  std::size_t shared = 0;
  bool together = false;
};

// Work-groups of it that a unit holds at the same time; 0 where HIP does not say.
std::uint64_t per_unit(const Kernel& kernel) {
  const auto occupancy = real<int(int*, const void*, int, std::size_t)>(
      kernel.of_module ? "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"
                       : "hipOccupancyMaxActiveBlocksPerMultiprocessor");
  int groups = 0;
  const int threads = static_cast<int>(kernel.block.all());
  if (occupancy == nullptr || occupancy(&groups, kernel.function, threads, kernel.shared) != 0)
    return 0;
  return static_cast<std::uint64_t>(groups);
}

Stream lane_of(const Kernel& kernel, Stream stream) {
  auto& there = router();
  const std::string name = partita::lanes_hip::kernel_name(kernel.function, kernel.of_module);
  Launch launch{.stream = stream, .name = name};
  const auto& [grid, block] = std::tie(kernel.grid, kernel.block);
  if (there.by_shape())
    launch.shape =
        fmt::format("{}x{}x{} {}x{}x{}", grid.x, grid.y, grid.z, block.x, block.y, block.z);
  if (kernel.together) launch.together = grid.all(), launch.per_unit = per_unit(kernel);
  return there.launch(launch);
}

// Grids in threads, as the functions of hip_ext.h take them.
Dim3 in_groups(const Dim3& threads, const Dim3& block) {
  const auto groups = [](unsigned all, unsigned one) {
    return one == 0 ? 0 : (all + one - 1) / one;
  };
  return {groups(threads.x, block.x), groups(threads.y, block.y), groups(threads.z, block.z)};
}

// What <<< >>> of older compilers gives one piece after another.
struct Configured {
  Dim3 grid, block;
  std::size_t shared;
  Stream stream;
  struct Argument {
    std::vector<char> bytes;
    std::size_t offset;
  };
  std::vector<Argument> arguments;
};
thread_local std::vector<Configured> configured;

// hipLaunchParams, hipLaunchConfig_t and HIP_LAUNCH_CONFIG, as far as they are alike in HIP 5 to 7.
struct OneOfSeveral {
  const void* function;
  Dim3 grid, block;
  void** arguments;
  std::size_t shared;
  Stream stream;
};
struct Configuration {
  Dim3 grid, block;
  std::size_t shared;
  Stream stream;
  const void* attributes;
  unsigned attribute_count;
};

template <class... Params>
int launch_configured(const char* name, const Configuration* given, Kernel kernel, Params... rest) {
  const auto function = real<int(const Configuration*, const void*, Params...)>(name);
  if (function == nullptr) return kNotSupported;
  Configuration config = *given;
  kernel.grid = config.grid, kernel.block = config.block;
  kernel.shared = static_cast<std::uint32_t>(config.shared);  // of which one kind has no more
  kernel.together = config.attribute_count > 0;
  config.stream = lane_of(kernel, config.stream);
  return function(&config, kernel.function, rest...);
}

int each_at_home(const char* name, OneOfSeveral* all, int count, unsigned flags) {
  for (int i = 0; i < count && router_if_any() != nullptr; ++i)
    (void)router().work(all[i].stream, true);
  return go_on(real<int(OneOfSeveral*, int, unsigned)>(name), all, count, flags);
}

int launch_plain(const char* name, Kernel kernel, void** arguments, Stream stream) {
  const auto function = real<int(const void*, Dim3, Dim3, void**, std::size_t, Stream)>(name);
  return go_on(function, kernel.function, kernel.grid, kernel.block, arguments, kernel.shared,
               lane_of(kernel, stream));
}

int launch_together(const char* name, Kernel kernel, void** arguments, Stream stream) {
  const auto function = real<int(const void*, Dim3, Dim3, void**, unsigned, Stream)>(name);
  kernel.together = true;
  return go_on(function, kernel.function, kernel.grid, kernel.block, arguments,
               static_cast<unsigned>(kernel.shared), lane_of(kernel, stream));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// ---- what takes a stream: the function, its parameters, which of them is the stream ----

#define P1 Word a
#define P2 P1, Word b
#define P3 P2, Word c
#define P4 P3, Word d
#define P5 P4, Word e
#define P6 P5, Word f
#define P7 P6, Word g
#define P8 P7, Word h
#define P9 P8, Word i
#define A1 a
#define A2 A1, b
#define A3 A2, c
#define A4 A3, d
#define A5 A4, e
#define A6 A5, f
#define A7 A6, g
#define A8 A7, h
#define A9 A8, i
#define ON(how, thread, name, n, stream)             \
  int name(P##n) {                                   \
    static auto* const hip = real<int(P##n)>(#name); \
    stream = place<how>(stream, thread);             \
    return go_on(hip, A##n);                         \
  }
// Also the one of programs whose default stream is each thread's own.
#define ON_BOTH(how, name, n, stream) \
  ON(how, false, name, n, stream) ON(how, true, name##_spt, n, stream)
#define AT(name, n, stream) ON(kAt, false, name, n, stream)

ON_BOTH(kAt, hipStreamQuery, 1, a)
ON_BOTH(kWaits, hipStreamSynchronize, 1, a)
ON_BOTH(kAt, hipStreamWaitEvent, 3, a)
ON_BOTH(kAt, hipStreamAddCallback, 4, a)
ON_BOTH(kAt, hipLaunchHostFunc, 3, a)
ON_BOTH(kAt, hipEventRecord, 2, b)
AT(hipEventRecordWithFlags, 3, b)
AT(hipStreamWaitValue32, 5, a)
AT(hipStreamWaitValue64, 5, a)
AT(hipStreamWriteValue32, 4, a)
AT(hipStreamWriteValue64, 4, a)
AT(hipStreamBatchMemOp, 4, a)
AT(hipSignalExternalSemaphoresAsync, 4, d)
AT(hipWaitExternalSemaphoresAsync, 4, d)
ON(kHome, false, hipStreamAttachMemAsync, 4, a)
AT(hipMallocAsync, 3, c)
AT(hipFreeAsync, 2, b)
AT(hipMallocFromPoolAsync, 4, d)
AT(hipMemPrefetchAsync, 4, d)
AT(hipMemPrefetchAsync_v2, 5, e)
ON(kWaits, false, hipMemcpyWithStream, 5, e)
ON_BOTH(kAt, hipMemcpyAsync, 5, e)
AT(hipMemcpyHtoDAsync, 4, d)
AT(hipMemcpyDtoHAsync, 4, d)
AT(hipMemcpyDtoDAsync, 4, d)
AT(hipMemcpyAtoHAsync, 5, e)
AT(hipMemcpyHtoAAsync, 5, e)
ON_BOTH(kAt, hipMemcpyToSymbolAsync, 6, f)
ON_BOTH(kAt, hipMemcpyFromSymbolAsync, 6, f)
AT(hipMemcpyParam2DAsync, 2, b)
ON_BOTH(kAt, hipMemcpy2DAsync, 8, h)
ON_BOTH(kAt, hipMemcpy2DToArrayAsync, 9, i)
ON_BOTH(kAt, hipMemcpy2DFromArrayAsync, 9, i)
ON_BOTH(kAt, hipMemcpy3DAsync, 2, b)
AT(hipDrvMemcpy3DAsync, 2, b)
AT(hipMemcpyPeerAsync, 6, f)
AT(hipMemcpy3DPeerAsync, 2, b)
AT(hipMemcpyBatchAsync, 9, i)
AT(hipMemcpy3DBatchAsync, 5, e)
ON_BOTH(kAt, hipMemsetAsync, 4, d)
AT(hipMemsetD8Async, 4, d)
AT(hipMemsetD16Async, 4, d)
AT(hipMemsetD32Async, 4, d)
ON_BOTH(kAt, hipMemset2DAsync, 6, f)
AT(hipMemsetD2D8Async, 6, f)
AT(hipMemsetD2D16Async, 6, f)
AT(hipMemsetD2D32Async, 6, f)
AT(hipMemMapArrayAsync, 3, c)
AT(hipGraphicsMapResources, 3, c)
AT(hipGraphicsUnmapResources, 3, c)
ON_BOTH(kHome, hipGraphLaunch, 2, b)
ON(kHome, false, hipGraphUpload, 2, b)

int hipMemset3DAsync(Pitched to, int value, Extent extent, Stream stream) {
  stream = reinterpret_cast<Stream>(place<kAt>(reinterpret_cast<Word>(stream)));
  return go_on(real<int(Pitched, int, Extent, Stream)>("hipMemset3DAsync"), to, value, extent,
               stream);
}
int hipMemset3DAsync_spt(Pitched to, int value, Extent extent, Stream stream) {
  stream = reinterpret_cast<Stream>(place<kAt>(reinterpret_cast<Word>(stream), true));
  return go_on(real<int(Pitched, int, Extent, Stream)>("hipMemset3DAsync_spt"), to, value, extent,
               stream);
}

// ---- what waits for the device without naming a stream ----

#define WAITS(name, n)                                        \
  int name(P##n) {                                            \
    static auto* const hip = real<int(P##n)>(#name);          \
    if (auto* there = router_if_any()) there->client_waits(); \
    return go_on(hip, A##n);                                  \
  }
#define P0 void
#define A0
int hipDeviceSynchronize() {
  if (auto* there = router_if_any()) there->client_waits();
  return go_on(real<int()>("hipDeviceSynchronize"));
}
int hipCtxSynchronize() {
  if (auto* there = router_if_any()) there->client_waits();
  return go_on(real<int()>("hipCtxSynchronize"));
}
WAITS(hipEventSynchronize, 1)
WAITS(hipMemcpy, 4)
WAITS(hipMemcpy_spt, 4)
WAITS(hipMemcpyDtoH, 3)
WAITS(hipMemcpyFromSymbol, 5)
WAITS(hipMemcpyFromSymbol_spt, 5)
WAITS(hipMemcpy2D, 7)
WAITS(hipMemcpy2D_spt, 7)

// ---- streams and captures ----

int hipStreamDestroy(Stream stream) {
  if (auto* there = router_if_any()) there->destroyed(stream);
  return go_on(real<int(Stream)>("hipStreamDestroy"), stream);
}

#define BEGINS(name, n)                                     \
  int name(P##n) {                                          \
    router().capture_begins();                              \
    const int status = go_on(real<int(P##n)>(#name), A##n); \
    if (status != 0) router().capture_ends();               \
    return status;                                          \
  }
BEGINS(hipStreamBeginCapture, 2)
BEGINS(hipStreamBeginCapture_spt, 2)
BEGINS(hipStreamBeginCaptureToGraph, 6)
#define ENDS(name)                                                             \
  int name(Stream stream, void** graph) {                                      \
    const int status = go_on(real<int(Stream, void**)>(#name), stream, graph); \
    router().capture_ends();                                                   \
    return status;                                                             \
  }
ENDS(hipStreamEndCapture)
ENDS(hipStreamEndCapture_spt)

// ---- names ----

void __hipRegisterFunction(void** modules, const void* host, char* device, const char* name,
                           unsigned limit, void* thread, void* block, void* threads, void* grid,
                           int* size) {
  partita::lanes_hip::name_kernel(host, name);
  const auto hip = real<void(void**, const void*, char*, const char*, unsigned, void*, void*, void*,
                             void*, int*)>("__hipRegisterFunction");
  if (hip) hip(modules, host, device, name, limit, thread, block, threads, grid, size);
}
int hipModuleGetFunction(abi::Function* function, abi::Module module, const char* name) {
  const int status =
      go_on(real<int(abi::Function*, abi::Module, const char*)>("hipModuleGetFunction"), function,
            module, name);
  if (status == 0) partita::lanes_hip::name_kernel(*function, name);
  return status;
}
int hipGetProcAddress(const char* name, void** function, int version, std::uint64_t flags,
                      void* found) {
  const int status =
      go_on(real<int(const char*, void**, int, std::uint64_t, void*)>("hipGetProcAddress"), name,
            function, version, flags, found);
  void* const ours = status == 0 ? partita::lanes_hip::our_function(name) : nullptr;
  if (ours) *function = ours;
  return status;
}

// ---- kernels ----

int hipLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                    std::size_t shared, Stream stream) {
  return launch_plain("hipLaunchKernel", {function, false, grid, block, shared}, arguments, stream);
}
int hipLaunchKernel_spt(const void* function, Dim3 grid, Dim3 block, void** arguments,
                        std::size_t shared, Stream stream) {
  return launch_plain("hipLaunchKernel_spt", {function, false, grid, block, shared}, arguments,
                      thread_stream(stream));
}
int hipLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                               unsigned shared, Stream stream) {
  return launch_together("hipLaunchCooperativeKernel", {function, false, grid, block, shared},
                         arguments, stream);
}
int hipLaunchCooperativeKernel_spt(const void* function, Dim3 grid, Dim3 block, void** arguments,
                                   unsigned shared, Stream stream) {
  return launch_together("hipLaunchCooperativeKernel_spt", {function, false, grid, block, shared},
                         arguments, thread_stream(stream));
}
int hipExtLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                       std::size_t shared, Stream stream, abi::Event start, abi::Event stop,
                       int flags) {
  stream = lane_of({function, false, grid, block, shared}, stream);
  return go_on(
      real<int(const void*, Dim3, Dim3, void**, std::size_t, Stream, abi::Event, abi::Event, int)>(
          "hipExtLaunchKernel"),
      function, grid, block, arguments, shared, stream, start, stop, flags);
}

// NOLINTBEGIN(readability-function-size): the signatures are HIP's
int hipModuleLaunchKernel(abi::Function function, unsigned x, unsigned y, unsigned z, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, Stream stream,
                          void** arguments, void** extra) {
  stream = lane_of({function, true, {x, y, z}, {bx, by, bz}, shared}, stream);
  return go_on(real<int(abi::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, Stream, void**, void**)>("hipModuleLaunchKernel"),
               function, x, y, z, bx, by, bz, shared, stream, arguments, extra);
}
int hipModuleLaunchCooperativeKernel(abi::Function function, unsigned x, unsigned y, unsigned z,
                                     unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                     Stream stream, void** arguments) {
  stream = lane_of({function, true, {x, y, z}, {bx, by, bz}, shared, true}, stream);
  return go_on(real<int(abi::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, Stream, void**)>("hipModuleLaunchCooperativeKernel"),
               function, x, y, z, bx, by, bz, shared, stream, arguments);
}
int hipExtModuleLaunchKernel(abi::Function function, unsigned x, unsigned y, unsigned z,
                             unsigned bx, unsigned by, unsigned bz, std::size_t shared,
                             Stream stream, void** arguments, void** extra, abi::Event start,
                             abi::Event stop, unsigned flags) {
  const Dim3 block{bx, by, bz};
  stream = lane_of({function, true, in_groups({x, y, z}, block), block, shared}, stream);
  return go_on(real<int(abi::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        std::size_t, Stream, void**, void**, abi::Event, abi::Event, unsigned)>(
                   "hipExtModuleLaunchKernel"),
               function, x, y, z, bx, by, bz, shared, stream, arguments, extra, start, stop, flags);
}
int hipHccModuleLaunchKernel(abi::Function function, unsigned x, unsigned y, unsigned z,
                             unsigned bx, unsigned by, unsigned bz, std::size_t shared,
                             Stream stream, void** arguments, void** extra, abi::Event start,
                             abi::Event stop) {
  const Dim3 block{bx, by, bz};
  stream = lane_of({function, true, in_groups({x, y, z}, block), block, shared}, stream);
  return go_on(real<int(abi::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        std::size_t, Stream, void**, void**, abi::Event, abi::Event)>(
                   "hipHccModuleLaunchKernel"),
               function, x, y, z, bx, by, bz, shared, stream, arguments, extra, start, stop);
}
// NOLINTEND(readability-function-size)

int hipLaunchKernelExC(const Configuration* config, const void* function, void** arguments) {
  return launch_configured("hipLaunchKernelExC", config, {.function = function}, arguments);
}
int hipDrvLaunchKernelEx(const Configuration* config, const void* function, void** arguments,
                         void** extra) {
  return launch_configured("hipDrvLaunchKernelEx", config,
                           {.function = function, .of_module = true}, arguments, extra);
}
int hipLaunchCooperativeKernelMultiDevice(OneOfSeveral* all, int count, unsigned flags) {
  return each_at_home("hipLaunchCooperativeKernelMultiDevice", all, count, flags);
}
int hipExtLaunchMultiKernelMultiDevice(OneOfSeveral* all, int count, unsigned flags) {
  return each_at_home("hipExtLaunchMultiKernelMultiDevice", all, count, flags);
}

// Which kernel it is comes last, and HIP wants the stream first: given to it all at once.
int hipConfigureCall(Dim3 grid, Dim3 block, std::size_t shared, Stream stream) {
  configured.push_back({grid, block, shared, stream, {}});
  return 0;
}
int hipSetupArgument(const void* argument, std::size_t bytes, std::size_t offset) {
  if (configured.empty()) return static_cast<int>(abi::Status::invalid_configuration);
  const char* const from = static_cast<const char*>(argument);
  configured.back().arguments.push_back({{from, from + bytes}, offset});
  return 0;
}
int hipLaunchByPtr(const void* function) {
  if (configured.empty()) return static_cast<int>(abi::Status::invalid_configuration);
  const Configured call = std::move(configured.back());
  configured.pop_back();
  const Stream stream = lane_of({function, false, call.grid, call.block, call.shared}, call.stream);
  int status = go_on(real<int(Dim3, Dim3, std::size_t, Stream)>("hipConfigureCall"), call.grid,
                     call.block, call.shared, stream);
  for (const auto& [bytes, offset] : call.arguments)
    if (status == 0)
      status = go_on(real<int(const void*, std::size_t, std::size_t)>("hipSetupArgument"),
                     static_cast<const void*>(bytes.data()), bytes.size(), offset);
  return status == 0 ? go_on(real<int(const void*)>("hipLaunchByPtr"), function) : status;
}

}  // extern "C"
#pragma GCC visibility pop
