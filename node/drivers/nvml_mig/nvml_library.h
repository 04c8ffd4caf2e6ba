// NvmlLibrary: libnvidia-ml loaded with dlopen and initialised for as long as this object lives.
// Owns the loader's handle and one reference of NVML's own count. Functions that the library has in
// no version are null; calling one through call() is not_supported.
// Thread rule: as NVML, any thread.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include "base/result.h"
#include "drivers/nvml_mig/nvml_functions.h"

namespace partita::drivers::nvml_mig {

// The functions that the driver calls, each the newest version that the library has.
struct NvmlApi {
  decltype(&abi::nvmlShutdown) shutdown = nullptr;
  decltype(&abi::nvmlInitWithFlags) init_with_flags = nullptr;
  decltype(&abi::nvmlInit_v2) init = nullptr;
  decltype(&abi::nvmlErrorString) error_string = nullptr;
  decltype(&abi::nvmlSystemGetDriverVersion) driver_version = nullptr;
  decltype(&abi::nvmlSystemGetProcessName) process_name = nullptr;
  decltype(&abi::nvmlDeviceGetCount_v2) gpu_count = nullptr;
  decltype(&abi::nvmlDeviceGetHandleByIndex_v2) gpu_by_index = nullptr;
  decltype(&abi::nvmlDeviceGetName) name = nullptr;
  decltype(&abi::nvmlDeviceGetUUID) uuid = nullptr;
  decltype(&abi::nvmlDeviceGetPciInfo_v3) pci_info = nullptr;
  decltype(&abi::nvmlDeviceGetMemoryInfo) memory_info = nullptr;
  // v2 and v3 share their layout; v1 cannot tell instances apart and is not used.
  decltype(&abi::nvmlDeviceGetComputeRunningProcesses_v3) compute_processes = nullptr;
  decltype(&abi::nvmlDeviceGetGraphicsRunningProcesses_v3) graphics_processes = nullptr;

  decltype(&abi::nvmlDeviceGetMigMode) mig_mode = nullptr;
  decltype(&abi::nvmlDeviceSetMigMode) set_mig_mode = nullptr;
  decltype(&abi::nvmlDeviceGetGpuInstanceProfileInfo) profile_info = nullptr;
  decltype(&abi::nvmlDeviceGetGpuInstanceProfileInfoV) profile_info_v = nullptr;
  decltype(&abi::nvmlDeviceGetGpuInstancePossiblePlacements_v2) placements = nullptr;
  decltype(&abi::nvmlDeviceGetGpuInstanceRemainingCapacity) remaining = nullptr;
  decltype(&abi::nvmlDeviceCreateGpuInstanceWithPlacement) create_instance = nullptr;
  decltype(&abi::nvmlGpuInstanceDestroy) destroy_instance = nullptr;
  decltype(&abi::nvmlDeviceGetGpuInstances) instances = nullptr;
  decltype(&abi::nvmlDeviceGetGpuInstanceById) instance_by_id = nullptr;
  decltype(&abi::nvmlGpuInstanceGetInfo) instance_info = nullptr;
  decltype(&abi::nvmlGpuInstanceGetComputeInstanceProfileInfo) compute_profile = nullptr;
  decltype(&abi::nvmlGpuInstanceCreateComputeInstance) create_compute = nullptr;
  decltype(&abi::nvmlComputeInstanceDestroy) destroy_compute = nullptr;
  decltype(&abi::nvmlGpuInstanceGetComputeInstances) computes = nullptr;
  decltype(&abi::nvmlGpuInstanceGetComputeInstanceById) compute_by_id = nullptr;
  decltype(&abi::nvmlComputeInstanceGetInfo_v2) compute_info = nullptr;
  decltype(&abi::nvmlDeviceGetMaxMigDeviceCount) mig_device_limit = nullptr;
  decltype(&abi::nvmlDeviceGetMigDeviceHandleByIndex) mig_device = nullptr;
  decltype(&abi::nvmlDeviceGetGpuInstanceId) gpu_instance_id = nullptr;
  decltype(&abi::nvmlDeviceGetComputeInstanceId) compute_instance_id = nullptr;

  decltype(&abi::nvmlDeviceGetFieldValues) field_values = nullptr;
  decltype(&abi::nvmlDeviceGetPowerUsage) power = nullptr;
  decltype(&abi::nvmlDeviceGetTotalEnergyConsumption) energy = nullptr;
  decltype(&abi::nvmlDeviceGetTemperature) temperature = nullptr;
  decltype(&abi::nvmlDeviceGetClockInfo) clock = nullptr;
  decltype(&abi::nvmlDeviceGetCurrentClocksEventReasons) throttle_reasons = nullptr;
  decltype(&abi::nvmlDeviceGetEnforcedPowerLimit) enforced_limit = nullptr;
  decltype(&abi::nvmlDeviceGetPowerManagementLimit) limit = nullptr;
  decltype(&abi::nvmlDeviceGetPowerManagementDefaultLimit) default_limit = nullptr;
  decltype(&abi::nvmlDeviceGetPowerManagementLimitConstraints) limit_range = nullptr;
  decltype(&abi::nvmlDeviceGetSupportedMemoryClocks) memory_clocks = nullptr;
  decltype(&abi::nvmlDeviceGetSupportedGraphicsClocks) graphics_clocks = nullptr;
  decltype(&abi::nvmlDeviceSetPowerManagementLimit) set_limit = nullptr;
  decltype(&abi::nvmlDeviceSetGpuLockedClocks) lock_clocks = nullptr;
  decltype(&abi::nvmlDeviceResetGpuLockedClocks) unlock_clocks = nullptr;
  decltype(&abi::nvmlGpmQueryDeviceSupport) gpm_support = nullptr;
  decltype(&abi::nvmlGpmSampleAlloc) gpm_alloc = nullptr;
  decltype(&abi::nvmlGpmSampleFree) gpm_free = nullptr;
  decltype(&abi::nvmlGpmSampleGet) gpm_sample = nullptr;
  decltype(&abi::nvmlGpmMigSampleGet) gpm_mig_sample = nullptr;
  decltype(&abi::nvmlGpmMetricsGet) gpm_metrics = nullptr;

  decltype(&abi::nvmlEventSetCreate) event_set_create = nullptr;
  decltype(&abi::nvmlEventSetFree) event_set_free = nullptr;
  decltype(&abi::nvmlEventSetWait_v2) event_wait = nullptr;
  decltype(&abi::nvmlEventSetWait) event_wait_v1 = nullptr;  // does not tell instances
  decltype(&abi::nvmlDeviceRegisterEvents) register_events = nullptr;
  decltype(&abi::nvmlDeviceGetSupportedEventTypes) event_types = nullptr;
  decltype(&abi::nvmlDeviceGetTotalEccErrors) ecc_errors = nullptr;
  decltype(&abi::nvmlDeviceGetRemappedRows) remapped_rows = nullptr;
};

class NvmlLibrary {
 public:
  // Loads `file` (a path, or a name for the loader's search) and initialises NVML. no_driver when
  // there is no such library, no kernel driver, or none that fits the library.
  static Result<std::unique_ptr<NvmlLibrary>> open(const std::string& file);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const NvmlApi& api() const { return api_; }

  // What a return code of a call means; `call` (name and arguments) becomes the context.
  Error error(abi::Return code, std::string call) const;

  // Calls `function`, which may be null; anything but success is an Error.
  template <class Function, class... Arguments>
  Result<void> call(const std::string& what, Function function, Arguments... arguments) const {
    const abi::Return code =
        function == nullptr ? abi::Return::function_not_found : function(arguments...);
    if (code == abi::Return::success) return {};
    return failed(error(code, what));
  }

 private:
  explicit NvmlLibrary(void* handle) : handle_(handle) {}
  void bind();
  void bind_power();
  void bind_health();
  template <class Function>
  void find(Function& function, std::initializer_list<const char*> names);

  void* handle_;
  NvmlApi api_;
  bool initialised_ = false;
};

}  // namespace partita::drivers::nvml_mig
