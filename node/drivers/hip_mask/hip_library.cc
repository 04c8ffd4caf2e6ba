#include "drivers/hip_mask/hip_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "device/vendor_fault.h"

namespace partita::drivers::hip_mask {
namespace {

using abi::Status;

constexpr const char* kAllIsLost =
    "a kernel failed, and with it everything of this process on the GPU";
constexpr device::VendorFault<Status> kFaults[] = {
    {Status::invalid_value, ErrorCode::invalid_argument},
    {Status::invalid_configuration, ErrorCode::invalid_argument},
    {Status::invalid_device_function, ErrorCode::invalid_argument},
    {Status::invalid_handle, ErrorCode::invalid_argument},
    {Status::out_of_memory, ErrorCode::limit, "out of memory or of hardware queues"},
    {Status::launch_out_of_resources, ErrorCode::limit},
    {Status::invalid_device, ErrorCode::not_found},
    {Status::not_found, ErrorCode::not_found},
    {Status::not_ready, ErrorCode::in_use},
    {Status::not_supported, ErrorCode::not_supported},
    {Status::ecc_not_correctable, ErrorCode::lost},
    {Status::illegal_address, ErrorCode::lost, kAllIsLost},
    {Status::launch_timeout, ErrorCode::lost},
    {Status::context_is_destroyed, ErrorCode::lost},
    {Status::assert_failed, ErrorCode::lost},
    {Status::launch_failure, ErrorCode::lost, kAllIsLost},
    {Status::no_device, ErrorCode::environment,
     "HIP finds no AMD GPU; is the driver amdgpu loaded, and may this user open /dev/kfd "
     "(groups render and video)?"},
    {Status::insufficient_driver, ErrorCode::environment,
     "the kernel driver amdgpu is too old for this HIP runtime"},
    {Status::no_binary_for_gpu, ErrorCode::environment,
     "this HIP runtime makes no code for this GPU"},
};

bool bind_compiler(const SharedLibrary& library, abi::CompilerApi& api) {
  const auto find = [&](auto& function, const char* name) {
    function = library.find(name);
    return function != nullptr;
  };
  return find(api.create, "hiprtcCreateProgram") && find(api.compile, "hiprtcCompileProgram") &&
         find(api.log_size, "hiprtcGetProgramLogSize") && find(api.log, "hiprtcGetProgramLog") &&
         find(api.code_size, "hiprtcGetCodeSize") && find(api.code, "hiprtcGetCode") &&
         find(api.destroy, "hiprtcDestroyProgram");
}

}  // namespace

Error HipLibrary::error(Status status, std::string call) const {
  const auto fault = device::fault_of(kFaults, status);
  const char* words = fault.words;
  if (words == nullptr && api_.error_string) words = api_.error_string(status);
  return {fault.code, device::coded(words, "HIP", status), std::move(call)};
}

// The name of a function that the library lacks; null when it has all.
const char* HipLibrary::bind() {
  const char* missing = nullptr;
  const auto need = [&](auto& function, const char* name) {
    function = library_.find(name);
    if (function == nullptr && missing == nullptr) missing = name;
  };
  need(api_.get_device_count, "hipGetDeviceCount");
  need(api_.set_device, "hipSetDevice");
  need(api_.get_attribute, "hipDeviceGetAttribute");
  need(api_.get_name, "hipDeviceGetName");
  need(api_.compute_capability, "hipDeviceComputeCapability");
  need(api_.error_string, "hipGetErrorString");
  need(api_.create_stream, "hipExtStreamCreateWithCUMask");
  api_.get_mask = library_.find("hipExtStreamGetCUMask");  // younger; else nothing is read back
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
  need(api_.copy, "hipMemcpyAsync");
  need(api_.memory_info, "hipMemGetInfo");
  return missing;
}

Result<std::shared_ptr<HipLibrary>> HipLibrary::open(const std::string& file) {
  const std::vector<std::string> installed = {"libamdhip64.so", "libamdhip64.so.7",
                                              "libamdhip64.so.6", "libamdhip64.so.5",
                                              "/opt/rocm/lib/libamdhip64.so"};
  auto loaded = SharedLibrary::open(file.empty() ? installed : std::vector{file}, true);
  const std::string call = fmt::format("dlopen({})", file.empty() ? "libamdhip64.so" : file);
  if (!loaded)
    return environment_error(
        call,
        fmt::format("AMD's HIP runtime cannot be loaded; is ROCm installed? ({})", loaded.error()));
  std::shared_ptr<HipLibrary> library(new HipLibrary(*std::move(loaded)));
  if (const char* missing = library->bind())
    return environment_error(
        call, fmt::format("AMD's HIP runtime has no {}; HIP 5 or later is needed", missing));
  return library;
}

Result<const abi::CompilerApi*> HipLibrary::compiler() {
  const std::lock_guard lock(mutex_);
  if (compiler_.destroy || bind_compiler(library_, compiler_)) return &compiler_;
  Dl_info loaded{};  // it lies beside libamdhip64
  std::string folder;
  if (dladdr(reinterpret_cast<void*>(api_.set_device), &loaded) != 0 && loaded.dli_fname)
    folder = std::string(loaded.dli_fname, std::string_view(loaded.dli_fname).rfind('/') + 1);
  for (const char* name : {"libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5"}) {
    const auto library = SharedLibrary::open({folder + name, name}, true);
    if (library && bind_compiler(*library, compiler_)) return &compiler_;
  }
  compiler_ = {};
  return environment_error("dlopen(libhiprtc.so)",
                           "AMD's run-time compiler cannot be loaded; it comes with ROCm's HIP");
}

Result<std::string> HipLibrary::compile(const std::string& source, const char* name) {
  const abi::CompilerApi& api = *TRY(compiler());
  abi::Program program = nullptr;
  if (const int made = api.create(&program, source.c_str(), name, 0, nullptr, nullptr); made != 0)
    return environment_error("hiprtcCreateProgram()", fmt::format("hiprtc code {}", made));
  int status = api.compile(program, 0, nullptr);
  std::string log, code;
  std::size_t size = 0;
  if (status != 0 && api.log_size(program, &size) == 0 && size > 1) {
    log.resize(size);
    if (api.log(program, log.data()) != 0) log.clear();
    log.resize(std::min(log.find('\0'), std::size_t{400}));
  }
  if (status == 0) status = api.code_size(program, &size);
  if (status == 0) {
    code.resize(size);
    status = api.code(program, code.data());
  }
  (void)api.destroy(&program);
  if (status == 0) return code;
  return environment_error(
      "hiprtcCompileProgram()",
      fmt::format("{} does not compile (hiprtc code {}) {}", name, status, log));
}

}  // namespace partita::drivers::hip_mask
