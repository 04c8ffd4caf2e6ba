// NvmlLibrary: libnvidia-ml loaded with dlopen and initialised for as long as this object lives.
// Owns the loader's handle and one reference of NVML's own count. Functions that the library has in
// no version are null; calling one through call() is not_supported.
// Thread rule: as NVML, any thread.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/shared_library.h"
#include "drivers/nvml_mig/nvml_functions.h"

namespace partita::drivers::nvml_mig {

// The functions that the driver calls, each the newest version that the library has.
#define NVML_FUNCTION(member, name, ...) \
  decltype(&abi::name) member = library.find(#name __VA_OPT__(, ) __VA_ARGS__)
struct NvmlBoards {
  const SharedLibrary& library;
  NVML_FUNCTION(shutdown, nvmlShutdown);
  NVML_FUNCTION(init_with_flags, nvmlInitWithFlags);
  NVML_FUNCTION(init, nvmlInit_v2, "nvmlInit");
  NVML_FUNCTION(error_string, nvmlErrorString);
  NVML_FUNCTION(driver_version, nvmlSystemGetDriverVersion);
  NVML_FUNCTION(process_name, nvmlSystemGetProcessName);
  NVML_FUNCTION(gpu_count, nvmlDeviceGetCount_v2, "nvmlDeviceGetCount");
  NVML_FUNCTION(gpu_by_index, nvmlDeviceGetHandleByIndex_v2, "nvmlDeviceGetHandleByIndex");
  NVML_FUNCTION(name, nvmlDeviceGetName);
  NVML_FUNCTION(uuid, nvmlDeviceGetUUID);
  NVML_FUNCTION(pci_info, nvmlDeviceGetPciInfo_v3, "nvmlDeviceGetPciInfo_v2",
                "nvmlDeviceGetPciInfo");
  NVML_FUNCTION(memory_info, nvmlDeviceGetMemoryInfo);
  NVML_FUNCTION(nvlink_state, nvmlDeviceGetNvLinkState);
  NVML_FUNCTION(nvlink_remote, nvmlDeviceGetNvLinkRemotePciInfo_v2);
  // v2 and v3 share their layout; v1 cannot tell instances apart and is not used.
  NVML_FUNCTION(compute_processes, nvmlDeviceGetComputeRunningProcesses_v3,
                "nvmlDeviceGetComputeRunningProcesses_v2");
  NVML_FUNCTION(graphics_processes, nvmlDeviceGetGraphicsRunningProcesses_v3,
                "nvmlDeviceGetGraphicsRunningProcesses_v2");
};
struct NvmlInstances {
  const SharedLibrary& library;
  NVML_FUNCTION(mig_mode, nvmlDeviceGetMigMode);
  NVML_FUNCTION(set_mig_mode, nvmlDeviceSetMigMode);
  NVML_FUNCTION(profile_info, nvmlDeviceGetGpuInstanceProfileInfo);
  NVML_FUNCTION(profile_info_v, nvmlDeviceGetGpuInstanceProfileInfoV);
  NVML_FUNCTION(placements, nvmlDeviceGetGpuInstancePossiblePlacements_v2,
                "nvmlDeviceGetGpuInstancePossiblePlacements");
  NVML_FUNCTION(remaining, nvmlDeviceGetGpuInstanceRemainingCapacity);
  NVML_FUNCTION(create_instance, nvmlDeviceCreateGpuInstanceWithPlacement);
  NVML_FUNCTION(destroy_instance, nvmlGpuInstanceDestroy);
  NVML_FUNCTION(instances, nvmlDeviceGetGpuInstances);
  NVML_FUNCTION(instance_by_id, nvmlDeviceGetGpuInstanceById);
  NVML_FUNCTION(instance_info, nvmlGpuInstanceGetInfo);
  NVML_FUNCTION(compute_profile, nvmlGpuInstanceGetComputeInstanceProfileInfo);
  NVML_FUNCTION(create_compute, nvmlGpuInstanceCreateComputeInstance);
  NVML_FUNCTION(destroy_compute, nvmlComputeInstanceDestroy);
  NVML_FUNCTION(computes, nvmlGpuInstanceGetComputeInstances);
  NVML_FUNCTION(compute_by_id, nvmlGpuInstanceGetComputeInstanceById);
  NVML_FUNCTION(compute_info, nvmlComputeInstanceGetInfo_v2, "nvmlComputeInstanceGetInfo");
  NVML_FUNCTION(mig_device_limit, nvmlDeviceGetMaxMigDeviceCount);
  NVML_FUNCTION(mig_device, nvmlDeviceGetMigDeviceHandleByIndex);
  NVML_FUNCTION(gpu_instance_id, nvmlDeviceGetGpuInstanceId);
  NVML_FUNCTION(compute_instance_id, nvmlDeviceGetComputeInstanceId);
};
struct NvmlPower {
  const SharedLibrary& library;
  NVML_FUNCTION(field_values, nvmlDeviceGetFieldValues);
  NVML_FUNCTION(power, nvmlDeviceGetPowerUsage);
  NVML_FUNCTION(energy, nvmlDeviceGetTotalEnergyConsumption);
  NVML_FUNCTION(temperature, nvmlDeviceGetTemperature);
  NVML_FUNCTION(clock, nvmlDeviceGetClockInfo);
  NVML_FUNCTION(throttle_reasons, nvmlDeviceGetCurrentClocksEventReasons,
                "nvmlDeviceGetCurrentClocksThrottleReasons");
  NVML_FUNCTION(enforced_limit, nvmlDeviceGetEnforcedPowerLimit);
  NVML_FUNCTION(limit, nvmlDeviceGetPowerManagementLimit);
  NVML_FUNCTION(default_limit, nvmlDeviceGetPowerManagementDefaultLimit);
  NVML_FUNCTION(limit_range, nvmlDeviceGetPowerManagementLimitConstraints);
  NVML_FUNCTION(memory_clocks, nvmlDeviceGetSupportedMemoryClocks);
  NVML_FUNCTION(graphics_clocks, nvmlDeviceGetSupportedGraphicsClocks);
  NVML_FUNCTION(set_limit, nvmlDeviceSetPowerManagementLimit);
  NVML_FUNCTION(lock_clocks, nvmlDeviceSetGpuLockedClocks);
  NVML_FUNCTION(unlock_clocks, nvmlDeviceResetGpuLockedClocks);
  NVML_FUNCTION(gpm_support, nvmlGpmQueryDeviceSupport);
  NVML_FUNCTION(gpm_alloc, nvmlGpmSampleAlloc);
  NVML_FUNCTION(gpm_free, nvmlGpmSampleFree);
  NVML_FUNCTION(gpm_sample, nvmlGpmSampleGet);
  NVML_FUNCTION(gpm_mig_sample, nvmlGpmMigSampleGet);
  NVML_FUNCTION(gpm_metrics, nvmlGpmMetricsGet);
};
struct NvmlEvents {
  const SharedLibrary& library;
  NVML_FUNCTION(event_set_create, nvmlEventSetCreate);
  NVML_FUNCTION(event_set_free, nvmlEventSetFree);
  NVML_FUNCTION(event_wait, nvmlEventSetWait_v2);
  NVML_FUNCTION(event_wait_v1, nvmlEventSetWait);  // does not tell instances
  NVML_FUNCTION(register_events, nvmlDeviceRegisterEvents);
  NVML_FUNCTION(event_types, nvmlDeviceGetSupportedEventTypes);
  NVML_FUNCTION(ecc_errors, nvmlDeviceGetTotalEccErrors);
  NVML_FUNCTION(remapped_rows, nvmlDeviceGetRemappedRows);
};
#undef NVML_FUNCTION
struct NvmlApi : NvmlBoards, NvmlInstances, NvmlPower, NvmlEvents {
  explicit NvmlApi(const SharedLibrary& in)
      : NvmlBoards{in}, NvmlInstances{in}, NvmlPower{in}, NvmlEvents{in} {}
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
  explicit NvmlLibrary(SharedLibrary library) : library_(std::move(library)) {}

  const SharedLibrary library_;
  const NvmlApi api_{library_};
  bool initialised_ = false;
};

}  // namespace partita::drivers::nvml_mig
