// A call of the door as data: what adaptors count, refuse and record, and what errors name.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "device/node_driver.h"

namespace partita::device {

enum class Method {
  info,
  read,
  profiles,
  telemetry,
  power_settings,
  set_mig_mode,
  create_instance,
  destroy_instance,
  create_compute,
  destroy_compute,
  set_power_settings
};
inline constexpr std::array kMethods{Method::info,
                                     Method::read,
                                     Method::profiles,
                                     Method::telemetry,
                                     Method::power_settings,
                                     Method::set_mig_mode,
                                     Method::create_instance,
                                     Method::destroy_instance,
                                     Method::create_compute,
                                     Method::destroy_compute,
                                     Method::set_power_settings};

// As the door names them: "create_instance" with "gpu", "nvml_enum", "start".
std::string_view name_of(Method method);
std::vector<std::string_view> argument_names(Method method);
// Whether the call changes something.
bool changes(Method method);

struct Call {
  Method method = Method::info;
  std::vector<int> arguments = {};  // as many as it has names; a flag is 0 or 1
  bool operator==(const Call&) const = default;
};

// What a call answered; monostate where it answers nothing but that it is done.
using Answer = std::variant<Error, std::monostate, DriverInfo, GpuState, std::vector<ProfileInfo>,
                            ModeChange, int, ComputeInstance, telemetry::GpuSample, PowerState>;

// The call of set_power_settings: watts in milliwatts, what is empty as -1.
Call power_call(int gpu, const PowerSettings& settings);

// "create_instance(gpu 0, nvml_enum 2, start 4)"
std::string to_string(const Call& call);

// What a call came to: an error says which call that was, then which of the vendor's.
template <class T>
Result<T> in_call(Result<T> result, const std::string& call) {
  if (result) return result;
  std::string& context = result.error().context;
  context = context.empty() ? call : call + ": " + context;
  return result;
}

}  // namespace partita::device
