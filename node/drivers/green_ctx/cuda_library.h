// CudaLibrary: libcuda loaded with dlopen and initialised. Every function is asked for through
// cuGetProcAddress_v2 in the version that abi::kVersion names, so a later driver's other forms do
// not matter. Owns the loader's handle; what was made through it must be gone before it.
// Thread rule: as CUDA, any thread.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/shared_library.h"
#include "drivers/green_ctx/cuda_abi.h"

namespace partita::drivers::green_ctx {

// Looks functions up through cuGetProcAddress_v2; the first that is missing is remembered.
struct CudaFinder {
  abi::Return (*get)(const char* name, void** function, int version, std::uint64_t flags,
                     abi::SymbolStatus* status);
  const char* missing = nullptr;
  SharedLibrary::Symbol operator()(const char* name);
};

// The functions that are called; none is null once the library is open.
struct CudaApi {
  using Return = abi::Return;
  CudaFinder find;
  Return (*error_name)(Return, const char**) = find("cuGetErrorName");
  Return (*error_string)(Return, const char**) = find("cuGetErrorString");
  Return (*init)(unsigned flags) = find("cuInit");
  Return (*driver_version)(int*) = find("cuDriverGetVersion");
  Return (*device_count)(int*) = find("cuDeviceGetCount");
  Return (*device)(abi::Device*, int ordinal) = find("cuDeviceGet");
  Return (*device_name)(char*, int length, abi::Device) = find("cuDeviceGetName");
  Return (*device_uuid)(abi::Uuid*, abi::Device) = find("cuDeviceGetUuid");
  Return (*device_attribute)(int*, int attribute, abi::Device) = find("cuDeviceGetAttribute");

  Return (*retain_primary)(abi::Context*, abi::Device) = find("cuDevicePrimaryCtxRetain");
  Return (*release_primary)(abi::Device) = find("cuDevicePrimaryCtxRelease");
  Return (*push_context)(abi::Context) = find("cuCtxPushCurrent");
  Return (*pop_context)(abi::Context*) = find("cuCtxPopCurrent");

  Return (*device_resource)(abi::Device, abi::Resource*, int type) = find("cuDeviceGetDevResource");
  Return (*split)(abi::Resource* groups, unsigned* count, const abi::Resource* of,
                  abi::Resource* rest, unsigned flags,
                  unsigned least) = find("cuDevSmResourceSplitByCount");
  Return (*describe)(abi::ResourceDesc*, abi::Resource*,
                     unsigned count) = find("cuDevResourceGenerateDesc");
  Return (*create_green)(abi::GreenContext*, abi::ResourceDesc, abi::Device,
                         unsigned flags) = find("cuGreenCtxCreate");
  Return (*destroy_green)(abi::GreenContext) = find("cuGreenCtxDestroy");
  Return (*context_of_green)(abi::Context*, abi::GreenContext) = find("cuCtxFromGreenCtx");
  Return (*green_resource)(abi::GreenContext, abi::Resource*,
                           int type) = find("cuGreenCtxGetDevResource");
  Return (*create_green_stream)(abi::Stream*, abi::GreenContext, unsigned flags,
                                int priority) = find("cuGreenCtxStreamCreate");

  Return (*create_stream)(abi::Stream*, unsigned flags) = find("cuStreamCreate");
  Return (*destroy_stream)(abi::Stream) = find("cuStreamDestroy");
  Return (*query_stream)(abi::Stream) = find("cuStreamQuery");
  Return (*synchronise_stream)(abi::Stream) = find("cuStreamSynchronize");
  Return (*wait_event)(abi::Stream, abi::Event, unsigned flags) = find("cuStreamWaitEvent");
  Return (*create_event)(abi::Event*, unsigned flags) = find("cuEventCreate");
  Return (*destroy_event)(abi::Event) = find("cuEventDestroy");
  Return (*record_event)(abi::Event, abi::Stream) = find("cuEventRecord");
  Return (*query_event)(abi::Event) = find("cuEventQuery");
  Return (*synchronise_event)(abi::Event) = find("cuEventSynchronize");

  Return (*load_library)(abi::Library*, const void* image, int* options, void** option_values,
                         unsigned count, int* library_options, void** library_option_values,
                         unsigned library_count) = find("cuLibraryLoadData");
  Return (*unload_library)(abi::Library) = find("cuLibraryUnload");
  Return (*library_kernel)(abi::Kernel*, abi::Library,
                           const char* name) = find("cuLibraryGetKernel");
  Return (*kernel_function)(abi::Function*, abi::Kernel) = find("cuKernelGetFunction");
  Return (*load_function)(abi::Function) = find("cuFuncLoad");
  Return (*set_kernel_attribute)(int attribute, int value, abi::Kernel,
                                 abi::Device) = find("cuKernelSetAttribute");
  Return (*launch)(abi::Function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   abi::Stream, void** arguments, void** extra) = find("cuLaunchKernel");

  Return (*memory_info)(std::size_t* free, std::size_t* total) = find("cuMemGetInfo");
  Return (*allocate)(abi::DevicePointer*, std::size_t bytes) = find("cuMemAlloc");
  Return (*free)(abi::DevicePointer) = find("cuMemFree");
  Return (*set_bytes)(abi::DevicePointer, unsigned char, std::size_t bytes) = find("cuMemsetD8");
  Return (*copy_to_host)(void*, abi::DevicePointer, std::size_t bytes) = find("cuMemcpyDtoH");
  Return (*copy_in)(abi::DevicePointer, const void*, std::size_t bytes,
                    abi::Stream) = find("cuMemcpyHtoDAsync");
  Return (*copy_out)(void*, abi::DevicePointer, std::size_t bytes,
                     abi::Stream) = find("cuMemcpyDtoHAsync");
  Return (*allocate_host)(void**, std::size_t bytes, unsigned flags) = find("cuMemHostAlloc");
  Return (*free_host)(void*) = find("cuMemFreeHost");
  Return (*host_pointer)(abi::DevicePointer*, void*,
                         unsigned flags) = find("cuMemHostGetDevicePointer");

  Return (*create_graph)(abi::Graph*, unsigned flags) = find("cuGraphCreate");
  Return (*destroy_graph)(abi::Graph) = find("cuGraphDestroy");
  Return (*add_kernel_node)(abi::GraphNode*, abi::Graph, const abi::GraphNode* after,
                            std::size_t count,
                            const abi::KernelNodeParams*) = find("cuGraphAddKernelNode");
  Return (*kernel_node_params)(abi::GraphNode,
                               abi::KernelNodeParams*) = find("cuGraphKernelNodeGetParams");
  Return (*instantiate)(abi::GraphExec*, abi::Graph,
                        unsigned long long flags) = find("cuGraphInstantiateWithFlags");
  Return (*launch_graph)(abi::GraphExec, abi::Stream) = find("cuGraphLaunch");
  Return (*destroy_exec)(abi::GraphExec) = find("cuGraphExecDestroy");
};

class CudaLibrary {
 public:
  // Loads `file` (a path, or a name for the loader's search) and initialises CUDA. environment when
  // there is no such library, it is older than CUDA 12.5, or it does not start.
  static Result<std::shared_ptr<const CudaLibrary>> open(const std::string& file);

  const CudaApi& api() const { return api_; }

  // What a return code of a call means; `call` (name and arguments) becomes the context.
  Error error(abi::Return code, std::string call) const;

  // Anything but success is an Error.
  Result<void> checked(abi::Return code, const std::string& call) const {
    if (code == abi::Return::success) return {};
    return failed(error(code, call));
  }

 private:
  explicit CudaLibrary(SharedLibrary library) : library_(std::move(library)) {}
  Result<void> check(const std::string& file) const;  // that it has all functions

  const SharedLibrary library_;
  const CudaApi api_{{library_.find("cuGetProcAddress_v2")}};
};

}  // namespace partita::drivers::green_ctx
