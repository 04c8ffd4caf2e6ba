#include "drivers/nvml_mig/nvml_library.h"

#include <dlfcn.h>

#include <initializer_list>
#include <utility>

namespace partita::drivers::nvml_mig {
namespace {

using abi::Return;

ErrorCode code_of(Return code) {
  switch (code) {
    case Return::driver_not_loaded:
    case Return::library_not_found:
    case Return::lib_rm_version_mismatch:
      return ErrorCode::no_driver;
    case Return::no_permission:
      return ErrorCode::denied;
    case Return::not_found:
    case Return::gpu_not_found:
      return ErrorCode::not_found;
    case Return::not_supported:
    case Return::function_not_found:
      return ErrorCode::not_supported;
    case Return::invalid_argument:
      return ErrorCode::invalid_argument;
    case Return::insufficient_resources:
      return ErrorCode::no_room;
    case Return::in_use:
      return ErrorCode::in_use;
    case Return::reset_required:
      return ErrorCode::reset_required;
    case Return::gpu_is_lost:
      return ErrorCode::lost;
    case Return::timeout:
      return ErrorCode::timeout;
    default:
      return ErrorCode::environment;
  }
}

// What to say where NVML's own words do not help.
const char* sentence(Return code) {
  switch (code) {
    case Return::driver_not_loaded:
      return "NVIDIA's kernel driver is not loaded";
    case Return::lib_rm_version_mismatch:
      return "libnvidia-ml and the kernel driver are of different versions; reload the driver";
    case Return::library_not_found:
      return "a library of NVIDIA's driver is missing";
    case Return::function_not_found:
      return "the installed driver is too old for this call";
    case Return::no_permission:
      return "missing rights; MIG, clocks and power limits are changed as root";
    case Return::insufficient_resources:
      return "the placement or the capacity is taken";
    case Return::in_use:
      return "a process or a compute instance holds it";
    case Return::gpu_is_lost:
      return "the GPU fell off the bus";
    case Return::reset_required:
      return "takes effect after a reset of the GPU";
    default:
      return nullptr;
  }
}

}  // namespace

Error NvmlLibrary::error(Return code, std::string call) const {
  std::string message;
  if (const char* known = sentence(code)) {
    message = known;
  } else if (const char* text = api_.error_string ? api_.error_string(code) : nullptr) {
    message = text;
  }
  message += (message.empty() ? "NVML code " : " (NVML code ") +
             std::to_string(static_cast<unsigned>(code)) + (message.empty() ? "" : ")");
  return {code_of(code), std::move(message), std::move(call)};
}

// The first of the names that the library has.
template <class Function>
void NvmlLibrary::find(Function& function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* symbol = dlsym(handle_, name)) {
      function = reinterpret_cast<Function>(symbol);
      return;
    }
  }
}

void NvmlLibrary::bind_power() {
  find(api_.field_values, {"nvmlDeviceGetFieldValues"});
  find(api_.power, {"nvmlDeviceGetPowerUsage"});
  find(api_.energy, {"nvmlDeviceGetTotalEnergyConsumption"});
  find(api_.temperature, {"nvmlDeviceGetTemperature"});
  find(api_.clock, {"nvmlDeviceGetClockInfo"});
  find(api_.throttle_reasons,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  find(api_.enforced_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  find(api_.limit, {"nvmlDeviceGetPowerManagementLimit"});
  find(api_.default_limit, {"nvmlDeviceGetPowerManagementDefaultLimit"});
  find(api_.limit_range, {"nvmlDeviceGetPowerManagementLimitConstraints"});
  find(api_.memory_clocks, {"nvmlDeviceGetSupportedMemoryClocks"});
  find(api_.graphics_clocks, {"nvmlDeviceGetSupportedGraphicsClocks"});
  find(api_.set_limit, {"nvmlDeviceSetPowerManagementLimit"});
  find(api_.lock_clocks, {"nvmlDeviceSetGpuLockedClocks"});
  find(api_.unlock_clocks, {"nvmlDeviceResetGpuLockedClocks"});
  find(api_.gpm_support, {"nvmlGpmQueryDeviceSupport"});
  find(api_.gpm_alloc, {"nvmlGpmSampleAlloc"});
  find(api_.gpm_free, {"nvmlGpmSampleFree"});
  find(api_.gpm_sample, {"nvmlGpmSampleGet"});
  find(api_.gpm_mig_sample, {"nvmlGpmMigSampleGet"});
  find(api_.gpm_metrics, {"nvmlGpmMetricsGet"});
}

void NvmlLibrary::bind_health() {
  find(api_.event_set_create, {"nvmlEventSetCreate"});
  find(api_.event_set_free, {"nvmlEventSetFree"});
  find(api_.event_wait, {"nvmlEventSetWait_v2"});
  find(api_.event_wait_v1, {"nvmlEventSetWait"});
  find(api_.register_events, {"nvmlDeviceRegisterEvents"});
  find(api_.event_types, {"nvmlDeviceGetSupportedEventTypes"});
  find(api_.ecc_errors, {"nvmlDeviceGetTotalEccErrors"});
  find(api_.remapped_rows, {"nvmlDeviceGetRemappedRows"});
}

void NvmlLibrary::bind() {
  bind_power();
  bind_health();
  find(api_.shutdown, {"nvmlShutdown"});
  find(api_.init_with_flags, {"nvmlInitWithFlags"});
  find(api_.init, {"nvmlInit_v2", "nvmlInit"});
  find(api_.error_string, {"nvmlErrorString"});
  find(api_.driver_version, {"nvmlSystemGetDriverVersion"});
  find(api_.process_name, {"nvmlSystemGetProcessName"});
  find(api_.gpu_count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  find(api_.gpu_by_index, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  find(api_.name, {"nvmlDeviceGetName"});
  find(api_.uuid, {"nvmlDeviceGetUUID"});
  find(api_.pci_info,
       {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"});
  find(api_.memory_info, {"nvmlDeviceGetMemoryInfo"});
  find(api_.compute_processes,
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  find(api_.graphics_processes,
       {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"});
  find(api_.mig_mode, {"nvmlDeviceGetMigMode"});
  find(api_.set_mig_mode, {"nvmlDeviceSetMigMode"});
  find(api_.profile_info, {"nvmlDeviceGetGpuInstanceProfileInfo"});
  find(api_.profile_info_v, {"nvmlDeviceGetGpuInstanceProfileInfoV"});
  find(api_.placements, {"nvmlDeviceGetGpuInstancePossiblePlacements_v2",
                         "nvmlDeviceGetGpuInstancePossiblePlacements"});
  find(api_.remaining, {"nvmlDeviceGetGpuInstanceRemainingCapacity"});
  find(api_.create_instance, {"nvmlDeviceCreateGpuInstanceWithPlacement"});
  find(api_.destroy_instance, {"nvmlGpuInstanceDestroy"});
  find(api_.instances, {"nvmlDeviceGetGpuInstances"});
  find(api_.instance_by_id, {"nvmlDeviceGetGpuInstanceById"});
  find(api_.instance_info, {"nvmlGpuInstanceGetInfo"});
  find(api_.compute_profile, {"nvmlGpuInstanceGetComputeInstanceProfileInfo"});
  find(api_.create_compute, {"nvmlGpuInstanceCreateComputeInstance"});
  find(api_.destroy_compute, {"nvmlComputeInstanceDestroy"});
  find(api_.computes, {"nvmlGpuInstanceGetComputeInstances"});
  find(api_.compute_by_id, {"nvmlGpuInstanceGetComputeInstanceById"});
  find(api_.compute_info, {"nvmlComputeInstanceGetInfo_v2", "nvmlComputeInstanceGetInfo"});
  find(api_.mig_device_limit, {"nvmlDeviceGetMaxMigDeviceCount"});
  find(api_.mig_device, {"nvmlDeviceGetMigDeviceHandleByIndex"});
  find(api_.gpu_instance_id, {"nvmlDeviceGetGpuInstanceId"});
  find(api_.compute_instance_id, {"nvmlDeviceGetComputeInstanceId"});
}

Result<std::unique_ptr<NvmlLibrary>> NvmlLibrary::open(const std::string& file) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return failed({ErrorCode::no_driver,
                   "NVIDIA's management library cannot be loaded; is the driver installed? (" +
                       std::string(reason ? reason : "no reason given") + ")",
                   file});
  }
  std::unique_ptr<NvmlLibrary> library(new NvmlLibrary(handle));
  library->bind();
  const NvmlApi& api = library->api_;
  TRY(api.init_with_flags
          ? library->call("nvmlInitWithFlags", api.init_with_flags, abi::kInitNoGpus)
          : library->call("nvmlInit", api.init));
  library->initialised_ = true;
  return library;
}

NvmlLibrary::~NvmlLibrary() {
  if (initialised_ && api_.shutdown) api_.shutdown();
  dlclose(handle_);
}

}  // namespace partita::drivers::nvml_mig
