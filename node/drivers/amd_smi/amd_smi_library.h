// AmdSmiLibrary: libamd_smi loaded with dlopen and initialised for as long as this object lives.
// Owns the loader's handle. Functions that the library lacks are null; call() then answers
// not_supported. Thread rule: one call at a time.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "drivers/amd_smi/amd_smi_abi.h"

namespace partita::drivers::amd_smi {

struct AmdSmiApi {
  decltype(&abi::amdsmi_init) init = nullptr;
  decltype(&abi::amdsmi_shut_down) shut_down = nullptr;
  decltype(&abi::amdsmi_get_lib_version) version = nullptr;
  decltype(&abi::amdsmi_status_code_to_string) status_text = nullptr;
  decltype(&abi::amdsmi_get_socket_handles) sockets = nullptr;
  decltype(&abi::amdsmi_get_processor_handles) processors = nullptr;
  decltype(&abi::amdsmi_get_processor_type) type = nullptr;
  decltype(&abi::amdsmi_get_gpu_device_uuid) uuid = nullptr;
  decltype(&abi::amdsmi_get_gpu_asic_info) asic = nullptr;
  decltype(&abi::amdsmi_get_gpu_driver_info) driver = nullptr;
  decltype(&abi::amdsmi_get_gpu_memory_total) memory = nullptr;
  decltype(&abi::amdsmi_get_power_info) power = nullptr;
  decltype(&abi::amdsmi_get_energy_count) energy = nullptr;
  decltype(&abi::amdsmi_get_temp_metric) temperature = nullptr;
  decltype(&abi::amdsmi_get_clock_info) clock = nullptr;
  decltype(&abi::amdsmi_get_gpu_activity) activity = nullptr;
  decltype(&abi::amdsmi_get_violation_status) violations = nullptr;
  decltype(&abi::amdsmi_get_power_cap_info) cap = nullptr;
  decltype(&abi::amdsmi_set_power_cap) set_cap = nullptr;
  decltype(&abi::amdsmi_get_clk_freq) frequencies = nullptr;
  decltype(&abi::amdsmi_set_gpu_clk_limit) limit_clock = nullptr;
  decltype(&abi::amdsmi_set_gpu_perf_level) performance = nullptr;
};

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
  explicit AmdSmiLibrary(void* handle) : handle_(handle) {}
  void bind();
  Result<void> initialise();
  Result<void> check_version(const std::string& file);

  void* handle_;
  AmdSmiApi api_;
  std::string version_;
  bool initialised_ = false;
};

}  // namespace partita::drivers::amd_smi
