// AmdSmiLibrary: libamd_smi loaded with dlopen and initialised for as long as this object lives.
// Owns the loader's handle. Functions that the library lacks are null; call() then answers
// not_supported. Thread rule: one call at a time.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/shared_library.h"
#include "drivers/amd_smi/amd_smi_abi.h"

namespace partita::drivers::amd_smi {

#define AMD_FUNCTION(member, name, ...) \
  decltype(&abi::name) member = library.find(#name __VA_OPT__(, ) __VA_ARGS__)
struct AmdSmiApi {
  const SharedLibrary& library;
  AMD_FUNCTION(init, amdsmi_init);
  AMD_FUNCTION(shut_down, amdsmi_shut_down);
  AMD_FUNCTION(version, amdsmi_get_lib_version);
  AMD_FUNCTION(status_text, amdsmi_status_code_to_string);
  AMD_FUNCTION(sockets, amdsmi_get_socket_handles);
  AMD_FUNCTION(processors, amdsmi_get_processor_handles);
  AMD_FUNCTION(type, amdsmi_get_processor_type);
  AMD_FUNCTION(uuid, amdsmi_get_gpu_device_uuid);
  AMD_FUNCTION(asic, amdsmi_get_gpu_asic_info);
  AMD_FUNCTION(driver, amdsmi_get_gpu_driver_info);
  AMD_FUNCTION(memory, amdsmi_get_gpu_memory_total);
  AMD_FUNCTION(power, amdsmi_get_power_info);
  AMD_FUNCTION(energy, amdsmi_get_energy_count);
  AMD_FUNCTION(temperature, amdsmi_get_temp_metric);
  AMD_FUNCTION(clock, amdsmi_get_clock_info);
  AMD_FUNCTION(activity, amdsmi_get_gpu_activity);
  AMD_FUNCTION(violations, amdsmi_get_violation_status);
  AMD_FUNCTION(cap, amdsmi_get_power_cap_info);
  AMD_FUNCTION(set_cap, amdsmi_set_power_cap);
  AMD_FUNCTION(frequencies, amdsmi_get_clk_freq);
  AMD_FUNCTION(limit_clock, amdsmi_set_gpu_clk_limit);
  AMD_FUNCTION(performance, amdsmi_set_gpu_perf_level);
};
#undef AMD_FUNCTION

class AmdSmiLibrary {
 public:
  // Loads `file`, or where it is empty the library that ROCm 7 installs. no_driver when there is
  // none, when its version is not one that we know, or when AMD's kernel driver is missing.
  static Result<std::unique_ptr<AmdSmiLibrary>> open(const std::string& file);
  ~AmdSmiLibrary();
  AmdSmiLibrary(const AmdSmiLibrary&) = delete;
  AmdSmiLibrary& operator=(const AmdSmiLibrary&) = delete;

  const AmdSmiApi& api() const { return api_; }
  // "26.5.0"
  const std::string& version() const { return version_; }

  // What a status means; `call` becomes the context.
  Error error(abi::AmdStatus status, std::string call) const;

  // Calls `function`, which may be null; anything but success is an Error.
  template <class Function, class... Arguments>
  Result<void> call(const std::string& what, Function function, Arguments... arguments) const {
    const abi::AmdStatus status =
        function == nullptr ? abi::AmdStatus::no_symbol : function(arguments...);
    if (status == abi::AmdStatus::success) return {};
    return failed(error(status, what));
  }

 private:
  explicit AmdSmiLibrary(SharedLibrary library) : library_(std::move(library)) {}
  Result<void> initialise();
  Result<void> check_version();

  const SharedLibrary library_;
  const AmdSmiApi api_{library_};
  std::string version_;
  bool initialised_ = false;
};

}  // namespace partita::drivers::amd_smi
