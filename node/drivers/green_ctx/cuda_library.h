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

// The functions that are called; none is null once the library is open.
struct CudaApi {
  using Return = abi::Return;
  Return (*error_name)(Return, const char**);
  Return (*error_string)(Return, const char**);
  Return (*init)(unsigned flags);
  Return (*driver_version)(int*);
  Return (*device_count)(int*);
  Return (*device)(abi::Device*, int ordinal);
  Return (*device_name)(char*, int length, abi::Device);
  Return (*device_uuid)(abi::Uuid*, abi::Device);
  Return (*device_attribute)(int*, int attribute, abi::Device);

  Return (*retain_primary)(abi::Context*, abi::Device);
  Return (*release_primary)(abi::Device);
  Return (*push_context)(abi::Context);
  Return (*pop_context)(abi::Context*);

  Return (*device_resource)(abi::Device, abi::Resource*, int type);
  Return (*split)(abi::Resource* groups, unsigned* count, const abi::Resource* of,
                  abi::Resource* rest, unsigned flags, unsigned least);
  Return (*describe)(abi::ResourceDesc*, abi::Resource*, unsigned count);
  Return (*create_green)(abi::GreenContext*, abi::ResourceDesc, abi::Device, unsigned flags);
  Return (*destroy_green)(abi::GreenContext);
  Return (*context_of_green)(abi::Context*, abi::GreenContext);
  Return (*green_resource)(abi::GreenContext, abi::Resource*, int type);
  Return (*create_green_stream)(abi::Stream*, abi::GreenContext, unsigned flags, int priority);

  Return (*create_stream)(abi::Stream*, unsigned flags);
  Return (*destroy_stream)(abi::Stream);
  Return (*query_stream)(abi::Stream);
  Return (*synchronise_stream)(abi::Stream);
  Return (*wait_event)(abi::Stream, abi::Event, unsigned flags);
  Return (*create_event)(abi::Event*, unsigned flags);
  Return (*destroy_event)(abi::Event);
  Return (*record_event)(abi::Event, abi::Stream);
  Return (*query_event)(abi::Event);
  Return (*synchronise_event)(abi::Event);

  Return (*load_library)(abi::Library*, const void* image, int* options, void** option_values,
                         unsigned count, int* library_options, void** library_option_values,
                         unsigned library_count);
  Return (*unload_library)(abi::Library);
  Return (*library_kernel)(abi::Kernel*, abi::Library, const char* name);
  Return (*kernel_function)(abi::Function*, abi::Kernel);
  Return (*load_function)(abi::Function);
  Return (*set_kernel_attribute)(int attribute, int value, abi::Kernel, abi::Device);
  Return (*launch)(abi::Function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   abi::Stream, void** arguments, void** extra);

  Return (*memory_info)(std::size_t* free, std::size_t* total);
  Return (*allocate)(abi::DevicePointer*, std::size_t bytes);
  Return (*free)(abi::DevicePointer);
  Return (*set_bytes)(abi::DevicePointer, unsigned char, std::size_t bytes);
  Return (*copy_to_host)(void*, abi::DevicePointer, std::size_t bytes);
  Return (*copy_in)(abi::DevicePointer, const void*, std::size_t bytes, abi::Stream);
  Return (*copy_out)(void*, abi::DevicePointer, std::size_t bytes, abi::Stream);
  Return (*allocate_host)(void**, std::size_t bytes, unsigned flags);
  Return (*free_host)(void*);
  Return (*host_pointer)(abi::DevicePointer*, void*, unsigned flags);

  Return (*create_graph)(abi::Graph*, unsigned flags);
  Return (*destroy_graph)(abi::Graph);
  Return (*add_kernel_node)(abi::GraphNode*, abi::Graph, const abi::GraphNode* after,
                            std::size_t count, const abi::KernelNodeParams*);
  Return (*kernel_node_params)(abi::GraphNode, abi::KernelNodeParams*);
  Return (*instantiate)(abi::GraphExec*, abi::Graph, unsigned long long flags);
  Return (*launch_graph)(abi::GraphExec, abi::Stream);
  Return (*destroy_exec)(abi::GraphExec);
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
  Result<void> bind(const std::string& file);

  const SharedLibrary library_;
  CudaApi api_ = {};
};

}  // namespace partita::drivers::green_ctx
