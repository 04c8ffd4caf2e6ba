#include "device/adapted_driver.h"

#include <utility>

#include "base/check.h"

namespace partita::device {

template <class Run>
auto AdaptedDriver::with(const Call& call, Run run) -> std::invoke_result_t<Run, NodeDriver&> {
  using T = typename std::invoke_result_t<Run, NodeDriver&>::value_type;
  const Make make = [&](NodeDriver& driver) -> Result<Answer> {
    if constexpr (std::is_void_v<T>) {
      TRY(run(driver));
      return std::monostate{};
    } else {
      return TRY(run(driver));
    }
  };
  Answer answer = TRY(on_call(call, make));
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    T* const value = std::get_if<T>(&answer);
    CHECK(value);
    return std::move(*value);
  }
}

Result<DriverInfo> AdaptedDriver::info() {
  return with({Method::info}, [](NodeDriver& to) { return to.info(); });
}
Result<GpuState> AdaptedDriver::read(int gpu) {
  return with({Method::read, {gpu}}, [=](NodeDriver& to) { return to.read(gpu); });
}
Result<std::vector<ProfileInfo>> AdaptedDriver::profiles(int gpu) {
  return with({Method::profiles, {gpu}}, [=](NodeDriver& to) { return to.profiles(gpu); });
}
Result<ModeChange> AdaptedDriver::set_mig_mode(int gpu, bool enabled) {
  return with({Method::set_mig_mode, {gpu, enabled}},
              [=](NodeDriver& to) { return to.set_mig_mode(gpu, enabled); });
}
Result<int> AdaptedDriver::create_instance(int gpu, const Placement& at) {
  return with({Method::create_instance, {gpu, at.nvml_enum, at.start}},
              [&](NodeDriver& to) { return to.create_instance(gpu, at); });
}
Result<void> AdaptedDriver::destroy_instance(int gpu, int gi_id) {
  return with({Method::destroy_instance, {gpu, gi_id}},
              [=](NodeDriver& to) { return to.destroy_instance(gpu, gi_id); });
}
Result<ComputeInstance> AdaptedDriver::create_compute(int gpu, int gi_id) {
  return with({Method::create_compute, {gpu, gi_id}},
              [=](NodeDriver& to) { return to.create_compute(gpu, gi_id); });
}
Result<void> AdaptedDriver::destroy_compute(int gpu, int gi_id, int ci_id) {
  return with({Method::destroy_compute, {gpu, gi_id, ci_id}},
              [=](NodeDriver& to) { return to.destroy_compute(gpu, gi_id, ci_id); });
}
Result<telemetry::GpuSample> AdaptedDriver::telemetry(int gpu) {
  return with({Method::telemetry, {gpu}}, [=](NodeDriver& to) { return to.telemetry(gpu); });
}
Result<PowerState> AdaptedDriver::power_settings(int gpu) {
  return with({Method::power_settings, {gpu}},
              [=](NodeDriver& to) { return to.power_settings(gpu); });
}
Result<void> AdaptedDriver::set_power_settings(int gpu, const PowerSettings& settings) {
  return with(power_call(gpu, settings),
              [&](NodeDriver& to) { return to.set_power_settings(gpu, settings); });
}

}  // namespace partita::device
