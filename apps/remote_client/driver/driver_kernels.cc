// libcuda: modules, libraries, kernels, launches, occupancy. A CUfunction and a CUkernel are the
// same object here, and so are a CUmodule and a CUlibrary.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "driver.h"

namespace partita::remote::shim {
namespace {

using client::Kernel;
using client::Module;

// Where a program wants to read what is wrong with its code.
struct ErrorLog {
  char* text = nullptr;
  std::size_t bytes = 0;
  void** written = nullptr;
};
ErrorLog log_of(unsigned count, const int* options, void** values) {
  constexpr int kText = 5, kBytes = 6;  // CU_JIT_ERROR_LOG_BUFFER, ..._SIZE_BYTES
  ErrorLog log;
  for (unsigned i = 0; options != nullptr && values != nullptr && i < count; ++i) {
    if (options[i] == kText) log.text = static_cast<char*>(values[i]);
    if (options[i] == kBytes) log.bytes = number_of(values[i]), log.written = &values[i];
  }
  if (log.text == nullptr || log.bytes == 0) return {};
  return log;
}

// With a log it waits for what the server says of the code.
Status load(void** module, const void* image, const ErrorLog& log = {}) {
  if (module == nullptr || image == nullptr) return kInvalidValue;
  if (const Status status = session().ready(); status != kOk) return status;
  Module* made = session().kernels.modules().add_loaded(image);
  Status status = session().kernels.load(*made);
  std::string problem = made->problem;
  if (status == kOk && log.text != nullptr) {
    status = session().kernels.confirm(*made);
    if (status != kOk) problem = session().core.refused_code();
  }
  if (log.text != nullptr) {
    const std::size_t length = std::min(problem.size(), log.bytes - 1);
    problem.copy(log.text, length);
    log.text[length] = '\0';
    *log.written = handle_of(length);
  }
  if (status == kOk) *module = made;
  return status;
}

Status load_file(void** module, const char* path) {
  constexpr Status kFileNotFound = 301;
  constexpr off_t kMost = off_t{512} << 20;
  if (path == nullptr) return kInvalidValue;
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  struct stat about {};
  if (file.get() < 0 || ::fstat(file.get(), &about) != 0 || about.st_size > kMost)
    return kFileNotFound;
  std::vector<char> bytes(static_cast<std::size_t>(about.st_size) + 64);  // zeros behind a text
  std::size_t have = 0;
  while (have < static_cast<std::size_t>(about.st_size)) {
    const ssize_t got =
        ::read(file.get(), bytes.data() + have, static_cast<std::size_t>(about.st_size) - have);
    if (got <= 0) return kFileNotFound;
    have += static_cast<std::size_t>(got);
  }
  return load(module, bytes.data());
}

Status find_kernel(void** function, void* module, const char* name) {
  if (function == nullptr || module == nullptr || name == nullptr) return kInvalidValue;
  *function = session().kernels.modules().kernel_named(*static_cast<Module*>(module), name);
  return *function == nullptr ? client::kNotFound : kOk;
}

Status find_global(DevicePtr* address, std::size_t* bytes, void* module, const char* name) {
  if (module == nullptr || name == nullptr) return kInvalidValue;
  const auto block = session().kernels.symbol(*static_cast<Module*>(module), name);
  if (!block) return block.error();
  if (address != nullptr) *address = block->address;
  if (bytes != nullptr) *bytes = block->bytes;
  return kOk;
}

// The parameter block of `extra`: pairs of a word and a value, ended by a null.
Bytes extra_block(void** extra) {
  const void* block = nullptr;
  std::size_t bytes = 0;
  for (; extra != nullptr && *extra != nullptr; extra += 2) {
    if (number_of(*extra) == 1) block = extra[1];
    if (number_of(*extra) == 2) std::memcpy(&bytes, extra[1], sizeof bytes);
  }
  return {static_cast<const std::byte*>(block), block == nullptr ? 0 : bytes};
}

Status launch(void* function, const client::LaunchShape& shape, void** parameters, void** extra) {
  if (function == nullptr) return session().launched(client::kInvalidHandle);
  return session().launched(session().kernels.launch(*static_cast<Kernel*>(function), shape,
                                                     parameters, extra_block(extra)));
}

Status attribute(int* value, int which, void* function) {
  enum Which {
    kMaxThreads,
    kShared,
    kConst,
    kLocal,
    kRegisters,
    kPtx,
    kBinary,
    kCacheMode,
    kMaxDynamic,
    kCarveout
  };
  if (value == nullptr || function == nullptr) return kInvalidValue;
  const auto known = session().kernels.attributes_of(*static_cast<Kernel*>(function));
  if (!known) return known.error();
  const std::uint32_t values[] = {
      known->max_threads,       known->shared_bytes, known->const_bytes,    known->local_bytes,
      known->registers,         known->ptx_version,  known->binary_version, 0,
      known->max_dynamic_shared};
  if (which == kCarveout) {
    *value = -1;
    return kOk;
  }
  if (which < 0 || which > kMaxDynamic) return kInvalidValue;
  *value = static_cast<int>(values[which]);
  return kOk;
}

Status set_attribute(void* function, int which, int value) {
  constexpr int kMaxDynamic = 8, kCarveout = 9;
  if (function == nullptr || (which != kMaxDynamic && which != kCarveout)) return kInvalidValue;
  return session().kernels.set_attribute(*static_cast<Kernel*>(function),
                                         static_cast<std::uint32_t>(which), value);
}

Status parameter(void* function, std::size_t index, std::size_t* offset, std::size_t* size) {
  if (function == nullptr || offset == nullptr) return kInvalidValue;
  const auto layout = session().kernels.layout_of(*static_cast<Kernel*>(function));
  if (!layout) return layout.error();
  if (index >= (*layout)->parameters.size()) return kInvalidValue;
  *offset = (*layout)->parameters[index].offset;
  if (size != nullptr) *size = (*layout)->parameters[index].size;
  return kOk;
}

using SharedOfBlock = std::size_t (*)(int);

// The block size with the most resident threads; of those the largest.
Status best_block(int* least_grid, int* block, void* function, SharedOfBlock shared_of,
                  std::size_t shared, int limit) {
  if (least_grid == nullptr || block == nullptr || function == nullptr) return kInvalidValue;
  auto& kernel = *static_cast<Kernel*>(function);
  const auto known = session().kernels.attributes_of(kernel);
  if (!known) return known.error();
  const int most = limit > 0 ? std::min(limit, static_cast<int>(known->max_threads))
                             : static_cast<int>(known->max_threads);
  constexpr int kWarp = 32;
  int best_threads = 0;
  for (int threads = most; threads > 0; threads = (threads - 1) / kWarp * kWarp) {
    const std::size_t bytes = shared_of != nullptr ? shared_of(threads) : shared;
    const int blocks = client::resident_blocks(session().device(), *known, threads, bytes);
    if (blocks * threads <= best_threads) continue;
    best_threads = blocks * threads;
    *block = threads;
    *least_grid = blocks * static_cast<int>(session().device().limit(client::Attribute::units, 1));
  }
  return best_threads > 0 ? kOk : kInvalidValue;
}

}  // namespace

GUARDED(cuModuleLoad, (void** module, const char* path), load_file(module, path))
GUARDED(cuModuleLoadData, (void** module, const void* image), load(module, image))
GUARDED(cuModuleLoadDataEx,
        (void** module, const void* image, unsigned count, const int* options, void** values),
        load(module, image, log_of(count, options, values)))
GUARDED(cuModuleLoadFatBinary, (void** module, const void* image), load(module, image))
CUDA_EXPORT Status cuModuleUnload(void* module) {
  return guarded([&] {
    return module == nullptr ? client::kInvalidHandle
                             : session().kernels.unload(*static_cast<Module*>(module));
  });
}
GUARDED(cuModuleGetFunction, (void** function, void* module, const char* name),
        find_kernel(function, module, name))
CUDA_EXPORT Status cuModuleGetGlobal_v2(DevicePtr* address, std::size_t* bytes, void* module,
                                        const char* name) {
  return guarded([&] { return find_global(address, bytes, module, name); });
}
CUDA_EXPORT Status cuModuleGetLoadingMode(int* mode) {
  constexpr int kLazy = 2;
  return hand_out(kLazy, mode);
}
CUDA_EXPORT Status cuLibraryLoadData(void** library, const void* code, const int* options,
                                     void** values, unsigned count, void*, void**, unsigned) {
  return guarded([&] { return load(library, code, log_of(count, options, values)); });
}
GUARDED(cuLibraryLoadFromFile,
        (void** library, const char* path, void*, void**, unsigned, void*, void**, unsigned),
        load_file(library, path))
CUDA_EXPORT Status cuLibraryUnload(void* library) { return cuModuleUnload(library); }
GUARDED(cuLibraryGetKernel, (void** kernel, void* library, const char* name),
        find_kernel(kernel, library, name))
CUDA_EXPORT Status cuLibraryGetModule(void** module, void* library) {
  return hand_out(library, module);
}
CUDA_EXPORT Status cuLibraryGetGlobal(DevicePtr* address, std::size_t* bytes, void* library,
                                      const char* name) {
  return guarded([&] { return find_global(address, bytes, library, name); });
}
CUDA_EXPORT Status cuKernelGetFunction(void** function, void* kernel) {
  return hand_out(kernel, function);
}
GUARDED(cuKernelGetAttribute, (int* value, int which, void* kernel, int),
        attribute(value, which, kernel))
GUARDED(cuKernelSetAttribute, (int which, int value, void* kernel, int),
        set_attribute(kernel, which, value))
GUARDED(cuKernelGetParamInfo,
        (void* kernel, std::size_t index, std::size_t* offset, std::size_t* size),
        parameter(kernel, index, offset, size))
GUARDED(cuFuncGetAttribute, (int* value, int which, void* function),
        attribute(value, which, function))
GUARDED(cuFuncSetAttribute, (void* function, int which, int value),
        set_attribute(function, which, value))
GUARDED(cuFuncGetParamInfo,
        (void* function, std::size_t index, std::size_t* offset, std::size_t* size),
        parameter(function, index, offset, size))
CUDA_EXPORT Status cuFuncGetName(const char** name, void* function) {
  if (name == nullptr || function == nullptr) return kInvalidValue;
  *name = static_cast<Kernel*>(function)->name.c_str();
  return kOk;
}
CUDA_EXPORT Status cuFuncGetModule(void** module, void* function) {
  if (module == nullptr || function == nullptr) return kInvalidValue;
  *module = static_cast<Kernel*>(function)->module;
  return kOk;
}
CUDA_EXPORT Status cuFuncSetCacheConfig(void*, int) { return kOk; }
CUDA_EXPORT Status cuFuncSetSharedMemConfig(void*, int) { return kOk; }

STREAM_FUNCTION(cuLaunchKernel, _ptsz,
                (void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                 unsigned bz, unsigned shared, void* stream, void** parameters, void** extra),
                {
                  return launch(function,
                                {.grid = {gx, gy, gz},
                                 .block = {bx, by, bz},
                                 .shared_bytes = shared,
                                 .stream = number_of(stream)},
                                parameters, extra);
                })
STREAM_FUNCTION(cuLaunchCooperativeKernel, _ptsz,
                (void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                 unsigned bz, unsigned shared, void* stream, void** parameters),
                {
                  return launch(function,
                                {.grid = {gx, gy, gz},
                                 .block = {bx, by, bz},
                                 .shared_bytes = shared,
                                 .stream = number_of(stream),
                                 .cooperative = true},
                                parameters, nullptr);
                })

CUDA_EXPORT Status cuLaunchKernelEx(const DriverLaunchConfig* config, void* function,
                                    void** parameters, void** extra) {
  if (config == nullptr) return kInvalidValue;
  bool cooperative = false;
  if (const Status status = read(config->attributes, config->count, cooperative); status != kOk)
    return session().launched(status);
  return guarded([&] {
    return launch(function,
                  {.grid = {config->grid_x, config->grid_y, config->grid_z},
                   .block = {config->block_x, config->block_y, config->block_z},
                   .shared_bytes = config->shared_bytes,
                   .stream = number_of(config->stream),
                   .cooperative = cooperative},
                  parameters, extra);
  });
}

CUDA_EXPORT Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function,
                                                               int threads, std::size_t shared) {
  return guarded([&] {
    if (function == nullptr) return kInvalidValue;
    return give(session().kernels.blocks_per_unit(*static_cast<Kernel*>(function), threads, shared),
                blocks);
  });
}
CUDA_EXPORT Status cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void* function,
                                                                        int threads,
                                                                        std::size_t shared,
                                                                        unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}
GUARDED(cuOccupancyMaxPotentialBlockSize,
        (int* least_grid, int* block, void* function, SharedOfBlock shared_of, std::size_t shared,
         int limit),
        best_block(least_grid, block, function, shared_of, shared, limit))
CUDA_EXPORT Status cuOccupancyMaxPotentialBlockSizeWithFlags(int* least_grid, int* block,
                                                             void* function,
                                                             SharedOfBlock shared_of,
                                                             std::size_t shared, int limit,
                                                             unsigned) {
  return cuOccupancyMaxPotentialBlockSize(least_grid, block, function, shared_of, shared, limit);
}

}  // namespace partita::remote::shim
