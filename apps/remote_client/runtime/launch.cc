// Device code registered before main(), launches, attributes and occupancy of kernels, libraries.

#include <vector>

#include "abi.h"

namespace partita::remote::shim {
namespace {

using client::Kernel;
using client::kInvalidValue;
using client::kOk;
using client::Module;

struct Configuration {
  Dim3 grid, block;
  std::size_t shared_bytes;
  void* stream;
};
thread_local std::vector<Configuration> configurations;  // of <<<...>>>, until the launch

constexpr Status kInvalidKernelImage = 98;  // cudaErrorInvalidDeviceFunction

Status launch(const void* function, const Configuration& with, void** arguments, bool cooperative) {
  Kernel* kernel = session().kernels.modules().kernel_of(function);
  if (kernel == nullptr) return kInvalidKernelImage;
  return session().kernels.launch(*kernel,
                                  {.grid = {with.grid.x, with.grid.y, with.grid.z},
                                   .block = {with.block.x, with.block.y, with.block.z},
                                   .shared_bytes = with.shared_bytes,
                                   .stream = number_of(with.stream),
                                   .cooperative = cooperative},
                                  arguments);
}

// A launch through a handle that __cudaGetKernel gave, on whatever device: nvcc's code asks once.
Status launch_kernel(Kernel* kernel, const Configuration& with, void** arguments) {
  if (kernel != nullptr) kernel = session().kernels.modules().here(kernel);
  if (kernel == nullptr) return kInvalidKernelImage;
  return session().kernels.launch(*kernel,
                                  {.grid = {with.grid.x, with.grid.y, with.grid.z},
                                   .block = {with.block.x, with.block.y, with.block.z},
                                   .shared_bytes = with.shared_bytes,
                                   .stream = number_of(with.stream)},
                                  arguments);
}

Module* module_of(void** handle) { return reinterpret_cast<Module*>(handle); }

Status attributes(FunctionAttributes* into, const void* function) {
  if (into == nullptr) return kInvalidValue;
  Kernel* kernel = session().kernels.modules().kernel_of(function);
  if (kernel == nullptr) return kInvalidKernelImage;
  const auto known = session().kernels.attributes_of(*kernel);
  if (!known) return known.error();
  *into = {};
  into->shared_bytes = known->shared_bytes;
  into->const_bytes = known->const_bytes;
  into->local_bytes = known->local_bytes;
  into->max_threads = static_cast<int>(known->max_threads);
  into->registers = static_cast<int>(known->registers);
  into->ptx_version = static_cast<int>(known->ptx_version);
  into->binary_version = static_cast<int>(known->binary_version);
  into->max_dynamic_shared = static_cast<int>(known->max_dynamic_shared);
  into->carveout = -1;
  return kOk;
}

Status occupancy(int* blocks, const void* function, int threads, std::size_t shared) {
  Kernel* kernel = session().kernels.modules().kernel_of(function);
  if (kernel == nullptr) return kInvalidKernelImage;
  return give(session().kernels.blocks_per_unit(*kernel, threads, shared), blocks);
}

Status load_library(void** library, const void* code) {
  if (library == nullptr || code == nullptr) return kInvalidValue;
  Module* module = session().kernels.modules().add_loaded(code);
  if (const Status status = session().kernels.load(*module); status != kOk) return status;
  *library = module;
  return kOk;
}

}  // namespace

// --- registration ------------------------------------------------------------------------------

CUDA_EXPORT void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(session().kernels.modules().add_registered(wrapper));
}
CUDA_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
CUDA_EXPORT void __cudaUnregisterFatBinary(void** handle) {
  if (handle != nullptr) session().kernels.unload(*module_of(handle));
}
// Called before the program first touches a managed variable of the module.
CUDA_EXPORT char __cudaInitModule(void** handle) {
  client::Module& module = *module_of(handle);
  const Status status = guarded([&] {
    for (const auto& [shared, name] : session().kernels.modules().managed_of(module)) {
      const auto address = session().managed.share_variable(module, name);
      if (!address) return address.error();
      *shared = *address;
    }
    return kOk;
  });
  return status == kOk ? 1 : 0;
}
CUDA_EXPORT void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name,
                                        int, void*, void*, void*, void*, int*) {
  session().kernels.modules().add_kernel(*module_of(handle), host, name);
}
CUDA_EXPORT void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int,
                                   std::size_t bytes, int, int) {
  session().kernels.modules().add_variable(*module_of(handle), host, name, bytes);
}
CUDA_EXPORT void __cudaRegisterManagedVar(void** handle, void** shared, char*, const char* name,
                                          int, std::size_t bytes, int, int) {
  session().kernels.modules().add_managed(*module_of(handle), shared, name, bytes);
}

// --- launches ----------------------------------------------------------------------------------

CUDA_EXPORT Status __cudaPushCallConfiguration(Dim3 grid, Dim3 block, std::size_t shared_bytes,
                                               void* stream) {
  try {
    configurations.push_back({grid, block, shared_bytes, stream});
    return kOk;
  } catch (const std::bad_alloc&) {
    return remember(client::kMemoryAllocation);
  }
}
CUDA_EXPORT Status __cudaPopCallConfiguration(Dim3* grid, Dim3* block, std::size_t* shared_bytes,
                                              void* stream) {
  if (configurations.empty()) return remember(client::kMissingConfiguration);
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  std::memcpy(stream, &last.stream, sizeof last.stream);
  return kOk;
}
CUDA_EXPORT Status __cudaGetKernel(void** kernel, const void* host) {
  *kernel = session().kernels.modules().kernel_of(host);
  return *kernel == nullptr ? remember(kInvalidKernelImage) : kOk;
}
CUDA_EXPORT Status __cudaLaunchKernel(void* kernel, Dim3 grid, Dim3 block, void** arguments,
                                      std::size_t shared_bytes, void* stream) {
  return guarded_launch([&] {
    return launch_kernel(static_cast<Kernel*>(kernel), {grid, block, shared_bytes, stream},
                         arguments);
  });
}
CUDA_EXPORT Status __cudaLaunchKernel_ptsz(void* kernel, Dim3 grid, Dim3 block, void** arguments,
                                           std::size_t shared_bytes, void* stream) {
  return __cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, own_default(stream));
}
CUDA_EXPORT Status cudaLaunchKernel(const void* function, Dim3 grid, Dim3 block, void** arguments,
                                    std::size_t shared_bytes, void* stream) {
  return guarded_launch([&] {
    return launch(function, {grid, block, shared_bytes, stream}, arguments, false);
  });
}
CUDA_EXPORT Status cudaLaunchKernel_ptsz(const void* function, Dim3 grid, Dim3 block,
                                         void** arguments, std::size_t shared_bytes, void* stream) {
  return cudaLaunchKernel(function, grid, block, arguments, shared_bytes, own_default(stream));
}
CUDA_EXPORT Status cudaLaunchCooperativeKernel(const void* function, Dim3 grid, Dim3 block,
                                               void** arguments, std::size_t shared_bytes,
                                               void* stream) {
  return guarded_launch([&] {
    return launch(function, {grid, block, shared_bytes, stream}, arguments, true);
  });
}
CUDA_EXPORT Status cudaLaunchCooperativeKernel_ptsz(const void* function, Dim3 grid, Dim3 block,
                                                    void** arguments, std::size_t shared_bytes,
                                                    void* stream) {
  return cudaLaunchCooperativeKernel(function, grid, block, arguments, shared_bytes,
                                     own_default(stream));
}
CUDA_EXPORT Status cudaLaunchKernelExC(const LaunchConfig* config, const void* function,
                                       void** arguments) {
  if (config == nullptr) return remember(kInvalidValue);
  bool cooperative = false;
  if (const Status status = read(config->attributes, config->count, cooperative); status != kOk)
    return session().launched(status);
  return guarded_launch([&] {
    return launch(function, {config->grid, config->block, config->shared_bytes, config->stream},
                  arguments, cooperative);
  });
}
CUDA_EXPORT Status cudaLaunchKernelExC_ptsz(const LaunchConfig* config, const void* function,
                                            void** arguments) {
  if (config == nullptr) return remember(kInvalidValue);
  LaunchConfig own = *config;
  own.stream = own_default(own.stream);
  return cudaLaunchKernelExC(&own, function, arguments);
}

// --- what is known of kernels ------------------------------------------------------------------

CUDA_EXPORT Status cudaFuncGetAttributes(FunctionAttributes* into, const void* function) {
  return guarded([&] { return attributes(into, function); });
}
CUDA_EXPORT Status cudaFuncSetAttribute(const void* function, int attribute, int value) {
  return guarded([&] {
    Kernel* kernel = session().kernels.modules().kernel_of(function);
    if (kernel == nullptr) return kInvalidKernelImage;
    constexpr int kMaxDynamicShared = 8, kCarveout = 9;
    if (attribute != kMaxDynamicShared && attribute != kCarveout) return kInvalidValue;
    return session().kernels.set_attribute(*kernel, static_cast<std::uint32_t>(attribute), value);
  });
}
CUDA_EXPORT Status cudaKernelSetAttributeForDevice(void* kernel, int attribute, int value, int) {
  return cudaFuncSetAttribute(kernel, attribute, value);
}
CUDA_EXPORT Status cudaFuncSetCacheConfig(const void*, int) { return kOk; }
CUDA_EXPORT Status cudaFuncSetSharedMemConfig(const void*, int) { return kOk; }
CUDA_EXPORT Status cudaFuncGetName(const char** name, const void* function) {
  return guarded([&] {
    const Kernel* kernel = session().kernels.modules().kernel_of(function);
    if (kernel == nullptr) return kInvalidKernelImage;
    return hand_out(kernel->name.c_str(), name);
  });
}
CUDA_EXPORT Status cudaFuncGetParamInfo(const void* function, std::size_t index,
                                        std::size_t* offset, std::size_t* size) {
  return guarded([&] {
    Kernel* kernel = session().kernels.modules().kernel_of(function);
    if (kernel == nullptr) return kInvalidKernelImage;
    const auto layout = session().kernels.layout_of(*kernel);
    if (!layout) return layout.error();
    if (index >= (*layout)->parameters.size() || offset == nullptr) return kInvalidValue;
    *offset = (*layout)->parameters[index].offset;
    if (size != nullptr) *size = (*layout)->parameters[index].size;
    return kOk;
  });
}
GUARDED(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
        (int* blocks, const void* function, int threads, std::size_t shared),
        occupancy(blocks, function, threads, shared))
GUARDED(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (int* blocks, const void* function, int threads, std::size_t shared, unsigned),
        occupancy(blocks, function, threads, shared))
CUDA_EXPORT Status cudaGetFuncBySymbol(void** function, const void* symbol) {
  return __cudaGetKernel(function, symbol);
}
CUDA_EXPORT Status cudaGetKernel(void** kernel, const void* symbol) {
  return __cudaGetKernel(kernel, symbol);
}

// --- libraries ---------------------------------------------------------------------------------

GUARDED(cudaLibraryLoadData,
        (void** library, const void* code, void*, void**, unsigned, void*, void**, unsigned),
        load_library(library, code))
CUDA_EXPORT Status cudaLibraryGetKernel(void** kernel, void* library, const char* name) {
  return guarded([&] {
    if (kernel == nullptr || library == nullptr || name == nullptr) return kInvalidValue;
    *kernel = session().kernels.modules().kernel_named(*static_cast<Module*>(library), name);
    return *kernel == nullptr ? client::kNotFound : kOk;
  });
}
CUDA_EXPORT Status cudaLibraryGetGlobal(void** address, std::size_t* bytes, void* library,
                                        const char* name) {
  return guarded([&] {
    if (library == nullptr || name == nullptr) return kInvalidValue;
    const auto block = session().kernels.symbol(*static_cast<Module*>(library), name);
    if (!block) return block.error();
    if (address != nullptr) *address = handle_of(block->address);
    if (bytes != nullptr) *bytes = block->bytes;
    return kOk;
  });
}
CUDA_EXPORT Status cudaLibraryUnload(void* library) {
  return guarded([&] {
    return library == nullptr ? kInvalidValue
                              : session().kernels.unload(*static_cast<Module*>(library));
  });
}

}  // namespace partita::remote::shim
