#include "drivers/green_ctx/cuda_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

namespace partita::drivers::green_ctx {
namespace {

using abi::Return;
using GetProcAddress = Return (*)(const char* name, void** function, int version,
                                  std::uint64_t flags, abi::SymbolStatus* status);

ErrorCode code_of(Return code) {
  switch (code) {
    case Return::invalid_value:
    case Return::invalid_handle:
    case Return::launch_out_of_resources:
    case Return::invalid_cluster_size:
    case Return::invalid_resource_type:
    case Return::invalid_resource_configuration:
      return ErrorCode::invalid_argument;
    case Return::out_of_memory:
      return ErrorCode::limit;
    case Return::no_device:
    case Return::invalid_device:
    case Return::not_found:
      return ErrorCode::not_found;
    case Return::not_supported:
    case Return::no_binary_for_gpu:
      return ErrorCode::not_supported;
    // After any of these nothing works in this process until the context is made anew.
    case Return::deinitialized:
    case Return::invalid_context:
    case Return::ecc_uncorrectable:
    case Return::nvlink_uncorrectable:
    case Return::contained:
    case Return::illegal_address:
    case Return::launch_timeout:
    case Return::context_is_destroyed:
    case Return::assertion:
    case Return::hardware_stack_error:
    case Return::illegal_instruction:
    case Return::misaligned_address:
    case Return::invalid_address_space:
    case Return::invalid_pc:
    case Return::launch_failed:
    case Return::tensor_memory_leak:
    case Return::mps_rpc_failure:
    case Return::mps_client_terminated:
    case Return::external_device:
      return ErrorCode::lost;
    default:
      return ErrorCode::environment;
  }
}

// What to say where CUDA's own words do not help.
const char* sentence(Return code) {
  switch (code) {
    case Return::out_of_memory:
      return "the GPU's memory is full";
    case Return::no_device:
      return "CUDA shows no GPU; is one there, and does CUDA_VISIBLE_DEVICES let it be seen?";
    case Return::stub_library:
      return "this libcuda is the stub for linking; the driver's own is needed";
    case Return::system_driver_mismatch:
      return "libcuda and the kernel driver are of different versions; reload the driver";
    case Return::system_not_ready:
      return "the system is not ready for CUDA; does the fabric manager run?";
    case Return::device_unavailable:
      return "the GPU is busy: another process has it for itself";
    case Return::invalid_context:
    case Return::context_is_destroyed:
      return "the primary context is gone; somebody in this process reset the GPU";
    case Return::mps_connection_failed:
    case Return::mps_server_not_ready:
      return "MPS is on, but its control daemon does not answer";
    default:
      return nullptr;
  }
}

}  // namespace

Error CudaLibrary::error(Return code, std::string call) const {
  const char* name = nullptr;
  const char* text = sentence(code);
  if (api_.error_name) api_.error_name(code, &name);
  if (!text && api_.error_string) api_.error_string(code, &text);
  const int number = static_cast<int>(code);
  std::string message =
      fmt::format("{}{} {}", name ? name : "CUDA code", name ? ", code" : "", number);
  if (text) message = fmt::format("{} ({})", text, message);
  return {code_of(code), std::move(message), std::move(call)};
}

namespace {

// Looks functions up; the first that is missing is remembered.
struct Finder {
  GetProcAddress get;
  const char* missing = nullptr;

  template <class Function>
  void operator()(Function& function, const char* name) {
    void* symbol = nullptr;
    auto status = abi::SymbolStatus::not_found;
    const Return code = get(name, &symbol, abi::kVersion, abi::kLegacyStream, &status);
    if (code != Return::success || status != abi::SymbolStatus::found || !symbol) {
      if (!missing) missing = name;
      return;
    }
    function = reinterpret_cast<Function>(symbol);
  }
};

void find_devices(Finder& find, CudaApi& api) {
  find(api.error_name, "cuGetErrorName");
  find(api.error_string, "cuGetErrorString");
  find(api.init, "cuInit");
  find(api.driver_version, "cuDriverGetVersion");
  find(api.device_count, "cuDeviceGetCount");
  find(api.device, "cuDeviceGet");
  find(api.device_name, "cuDeviceGetName");
  find(api.device_uuid, "cuDeviceGetUuid");
  find(api.device_attribute, "cuDeviceGetAttribute");
  find(api.retain_primary, "cuDevicePrimaryCtxRetain");
  find(api.release_primary, "cuDevicePrimaryCtxRelease");
  find(api.push_context, "cuCtxPushCurrent");
  find(api.pop_context, "cuCtxPopCurrent");
  find(api.device_resource, "cuDeviceGetDevResource");
  find(api.split, "cuDevSmResourceSplitByCount");
  find(api.describe, "cuDevResourceGenerateDesc");
  find(api.create_green, "cuGreenCtxCreate");
  find(api.destroy_green, "cuGreenCtxDestroy");
  find(api.context_of_green, "cuCtxFromGreenCtx");
  find(api.green_resource, "cuGreenCtxGetDevResource");
  find(api.create_green_stream, "cuGreenCtxStreamCreate");
}

void find_work(Finder& find, CudaApi& api) {
  find(api.create_stream, "cuStreamCreate");
  find(api.destroy_stream, "cuStreamDestroy");
  find(api.query_stream, "cuStreamQuery");
  find(api.synchronise_stream, "cuStreamSynchronize");
  find(api.wait_event, "cuStreamWaitEvent");
  find(api.create_event, "cuEventCreate");
  find(api.destroy_event, "cuEventDestroy");
  find(api.record_event, "cuEventRecord");
  find(api.query_event, "cuEventQuery");
  find(api.synchronise_event, "cuEventSynchronize");
  find(api.load_library, "cuLibraryLoadData");
  find(api.unload_library, "cuLibraryUnload");
  find(api.library_kernel, "cuLibraryGetKernel");
  find(api.kernel_function, "cuKernelGetFunction");
  find(api.load_function, "cuFuncLoad");
  find(api.launch, "cuLaunchKernel");
  find(api.memory_info, "cuMemGetInfo");
  find(api.allocate, "cuMemAlloc");
  find(api.free, "cuMemFree");
  find(api.set_bytes, "cuMemsetD8");
  find(api.copy_to_host, "cuMemcpyDtoH");
  find(api.allocate_host, "cuMemHostAlloc");
  find(api.free_host, "cuMemFreeHost");
  find(api.host_pointer, "cuMemHostGetDevicePointer");
  find(api.create_graph, "cuGraphCreate");
  find(api.destroy_graph, "cuGraphDestroy");
  find(api.add_kernel_node, "cuGraphAddKernelNode");
  find(api.kernel_node_params, "cuGraphKernelNodeGetParams");
  find(api.instantiate, "cuGraphInstantiateWithFlags");
  find(api.launch_graph, "cuGraphLaunch");
  find(api.destroy_exec, "cuGraphExecDestroy");
}

}  // namespace

Result<void> CudaLibrary::bind(const std::string& file) {
  constexpr std::string_view kNeeds =
      "lanes need the interface of CUDA 12.5 (driver R555 or later)";
  Finder find{reinterpret_cast<GetProcAddress>(dlsym(handle_, "cuGetProcAddress_v2"))};
  if (!find.get)
    return environment_error(
        file, fmt::format("the driver is too old: it has no cuGetProcAddress_v2; {}", kNeeds));
  find_devices(find, api_);
  find_work(find, api_);
  if (!find.missing) return {};
  int version = 0;
  const bool known = api_.driver_version && api_.driver_version(&version) == Return::success;
  return environment_error(
      file,
      fmt::format(
          "the driver is too old: it has no {}{}; {}", find.missing,
          known ? fmt::format(" and is of CUDA {}.{}", version / 1000, version % 1000 / 10) : "",
          kNeeds));
}

Result<std::shared_ptr<const CudaLibrary>> CudaLibrary::open(const std::string& file) {
  // Once loaded it stays: threads of its own may run on after the last context is gone.
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return environment_error(
        file, fmt::format("NVIDIA's CUDA driver library cannot be loaded; is the driver installed? "
                          "({})",
                          reason ? reason : "no reason given"));
  }
  const std::shared_ptr<CudaLibrary> library(new CudaLibrary(handle));
  TRY(library->bind(file));
  TRY(library->checked(library->api_.init(0), "cuInit(0)"));
  return std::shared_ptr<const CudaLibrary>(library);
}

CudaLibrary::~CudaLibrary() { dlclose(handle_); }

}  // namespace partita::drivers::green_ctx
