#include "drivers/hip_mask/hip_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string_view>
#include <vector>

namespace partita::drivers::hip_mask {
namespace {

using abi::Status;

ErrorCode code_of(Status status) {
  switch (status) {
    case Status::invalid_value:
    case Status::invalid_configuration:
    case Status::invalid_device_function:
    case Status::invalid_handle:
      return ErrorCode::invalid_argument;
    case Status::out_of_memory:
    case Status::launch_out_of_resources:
      return ErrorCode::limit;
    case Status::invalid_device:
    case Status::not_found:
      return ErrorCode::not_found;
    case Status::not_ready:
      return ErrorCode::in_use;
    case Status::not_supported:
      return ErrorCode::not_supported;
    case Status::ecc_not_correctable:
    case Status::illegal_address:
    case Status::launch_timeout:
    case Status::context_is_destroyed:
    case Status::assert_failed:
    case Status::launch_failure:
      return ErrorCode::lost;
    default:
      return ErrorCode::environment;
  }
}

// What to say where HIP's own words do not help.
const char* sentence(Status status) {
  switch (status) {
    case Status::no_device:
      return "HIP finds no AMD GPU; is the driver amdgpu loaded, and may this user open /dev/kfd "
             "(groups render and video)?";
    case Status::insufficient_driver:
      return "the kernel driver amdgpu is too old for this HIP runtime";
    case Status::out_of_memory:
      return "out of memory or of hardware queues";
    case Status::no_binary_for_gpu:
      return "this HIP runtime makes no code for this GPU";
    case Status::illegal_address:
    case Status::launch_failure:
      return "a kernel failed, and with it everything of this process on the GPU";
    default:
      return nullptr;
  }
}

template <class Function>
bool find(void* handle, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

bool bind_compiler(void* handle, abi::CompilerApi& api) {
  return find(handle, api.create, "hiprtcCreateProgram") &&
         find(handle, api.compile, "hiprtcCompileProgram") &&
         find(handle, api.log_size, "hiprtcGetProgramLogSize") &&
         find(handle, api.log, "hiprtcGetProgramLog") &&
         find(handle, api.code_size, "hiprtcGetCodeSize") &&
         find(handle, api.code, "hiprtcGetCode") &&
         find(handle, api.destroy, "hiprtcDestroyProgram");
}

}  // namespace

Error HipLibrary::error(Status status, std::string call) const {
  std::string message;
  if (const char* known = sentence(status)) {
    message = known;
  } else if (const char* text = api_.error_string ? api_.error_string(status) : nullptr) {
    message = text;
  }
  const int code = static_cast<int>(status);
  message = message.empty() ? fmt::format("HIP code {}", code)
                            : fmt::format("{} (HIP code {})", message, code);
  return {code_of(status), std::move(message), std::move(call)};
}

// The name of a function that the library lacks; null when it has all.
const char* HipLibrary::bind() {
  const char* missing = nullptr;
  const auto need = [&](auto& function, const char* name) {
    if (!find(handle_, function, name) && !missing) missing = name;
  };
  need(api_.get_device_count, "hipGetDeviceCount");
  need(api_.set_device, "hipSetDevice");
  need(api_.get_attribute, "hipDeviceGetAttribute");
  need(api_.get_name, "hipDeviceGetName");
  need(api_.compute_capability, "hipDeviceComputeCapability");
  need(api_.error_string, "hipGetErrorString");
  need(api_.create_stream, "hipExtStreamCreateWithCUMask");
  find(handle_, api_.get_mask,
       "hipExtStreamGetCUMask");  // younger; without it nothing is read back
  need(api_.destroy_stream, "hipStreamDestroy");
  need(api_.synchronise_stream, "hipStreamSynchronize");
  need(api_.query_stream, "hipStreamQuery");
  need(api_.wait_event, "hipStreamWaitEvent");
  need(api_.create_event, "hipEventCreateWithFlags");
  need(api_.record_event, "hipEventRecord");
  need(api_.query_event, "hipEventQuery");
  need(api_.destroy_event, "hipEventDestroy");
  need(api_.load_module, "hipModuleLoadData");
  need(api_.unload_module, "hipModuleUnload");
  need(api_.get_function, "hipModuleGetFunction");
  need(api_.launch, "hipModuleLaunchKernel");
  need(api_.host_malloc, "hipHostMalloc");
  need(api_.host_free, "hipHostFree");
  need(api_.device_malloc, "hipMalloc");
  need(api_.device_free, "hipFree");
  need(api_.memory_info, "hipMemGetInfo");
  return missing;
}

Result<std::shared_ptr<HipLibrary>> HipLibrary::open(const std::string& file) {
  const std::vector<std::string> installed = {"libamdhip64.so", "libamdhip64.so.7",
                                              "libamdhip64.so.6", "libamdhip64.so.5",
                                              "/opt/rocm/lib/libamdhip64.so"};
  void* handle = nullptr;
  std::string reason;  // of the first
  for (const std::string& name : file.empty() ? installed : std::vector{file}) {
    handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle) break;
    const char* said = dlerror();
    if (reason.empty()) reason = said ? said : "no reason given";
  }
  const std::string call = fmt::format("dlopen({})", file.empty() ? "libamdhip64.so" : file);
  if (!handle)
    return environment_error(
        call, fmt::format("AMD's HIP runtime cannot be loaded; is ROCm installed? ({})", reason));
  std::shared_ptr<HipLibrary> library(new HipLibrary(handle));
  if (const char* missing = library->bind())
    return environment_error(
        call, fmt::format("AMD's HIP runtime has no {}; HIP 5 or later is needed", missing));
  return library;
}

Result<const abi::CompilerApi*> HipLibrary::compiler() {
  const std::lock_guard lock(mutex_);
  if (compiler_.destroy || bind_compiler(handle_, compiler_)) return &compiler_;
  Dl_info loaded{};  // it lies beside libamdhip64
  std::string folder;
  if (dladdr(reinterpret_cast<void*>(api_.set_device), &loaded) != 0 && loaded.dli_fname)
    folder = std::string(loaded.dli_fname, std::string_view(loaded.dli_fname).rfind('/') + 1);
  for (const char* name : {"libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5"}) {
    void* handle = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle && bind_compiler(handle, compiler_)) return &compiler_;
  }
  compiler_ = {};
  return environment_error("dlopen(libhiprtc.so)",
                           "AMD's run-time compiler cannot be loaded; it comes with ROCm's HIP");
}

}  // namespace partita::drivers::hip_mask
