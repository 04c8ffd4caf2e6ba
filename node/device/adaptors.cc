// FaultScript, and FaultyDriver and LimitedDriver of adaptors.h.
#include "device/adaptors.h"

#include <algorithm>
#include <utility>

namespace partita::device {

// ---- faults ----

// The first fault of the script that the call meets, or null.
const Fault* FaultScript::fault_of(std::string_view method) {
  const std::lock_guard lock(mutex_);
  const int any = ++calls_[""], same = ++calls_[std::string(method)];
  const auto met = std::ranges::find_if(faults_, [&](const Fault& fault) {
    return fault.method.empty() ? fault.call == any : fault.method == method && fault.call == same;
  });
  return met == faults_.end() ? nullptr : &*met;
}

FaultyDriver::FaultyDriver(NodeDriver& inner, Clock& clock, std::vector<Fault> script,
                           std::function<void()> on_death)
    : inner_(inner), script_(clock, std::move(script), std::move(on_death)) {}

template <class Run>
auto FaultyDriver::changed(const Call& call, Run run) -> decltype(run()) {
  return script_.change(
      name_of(call.method), [&] { return to_string(call); }, std::move(run));
}

Result<DriverInfo> FaultyDriver::info() { return inner_.info(); }
Result<GpuState> FaultyDriver::read(int gpu) { return inner_.read(gpu); }
Result<std::vector<ProfileInfo>> FaultyDriver::profiles(int gpu) { return inner_.profiles(gpu); }
Result<ModeChange> FaultyDriver::set_mig_mode(int gpu, bool enabled) {
  return changed({Method::set_mig_mode, {gpu, enabled}},
                 [&] { return inner_.set_mig_mode(gpu, enabled); });
}
Result<int> FaultyDriver::create_instance(int gpu, const Placement& at) {
  return changed({Method::create_instance, {gpu, at.nvml_enum, at.start}},
                 [&] { return inner_.create_instance(gpu, at); });
}
Result<void> FaultyDriver::destroy_instance(int gpu, int gi_id) {
  return changed({Method::destroy_instance, {gpu, gi_id}},
                 [&] { return inner_.destroy_instance(gpu, gi_id); });
}
Result<ComputeInstance> FaultyDriver::create_compute(int gpu, int gi_id) {
  return changed({Method::create_compute, {gpu, gi_id}},
                 [&] { return inner_.create_compute(gpu, gi_id); });
}
Result<void> FaultyDriver::destroy_compute(int gpu, int gi_id, int ci_id) {
  return changed({Method::destroy_compute, {gpu, gi_id, ci_id}},
                 [&] { return inner_.destroy_compute(gpu, gi_id, ci_id); });
}

Result<telemetry::GpuSample> FaultyDriver::telemetry(int gpu) { return inner_.telemetry(gpu); }
Result<PowerState> FaultyDriver::power_settings(int gpu) { return inner_.power_settings(gpu); }
Result<void> FaultyDriver::set_power_settings(int gpu, const PowerSettings& settings) {
  return changed(power_call(gpu, settings),
                 [&] { return inner_.set_power_settings(gpu, settings); });
}

// ---- limits ----

LimitedDriver::LimitedDriver(NodeDriver& inner, Limits limits)
    : inner_(inner), limits_(std::move(limits)) {}

Result<void> LimitedDriver::allowed(const Call& call, int gpu) const {
  const auto denied = [&](const char* why) {
    return failed({ErrorCode::denied, why, to_string(call)});
  };
  if (limits_.read_only) return denied("this driver only reads");
  if (limits_.gpus && std::ranges::find(*limits_.gpus, gpu) == limits_.gpus->end())
    return denied("this GPU is not among those that may be changed");
  return {};
}

Result<DriverInfo> LimitedDriver::info() { return inner_.info(); }
Result<GpuState> LimitedDriver::read(int gpu) { return inner_.read(gpu); }
Result<std::vector<ProfileInfo>> LimitedDriver::profiles(int gpu) { return inner_.profiles(gpu); }
Result<ModeChange> LimitedDriver::set_mig_mode(int gpu, bool enabled) {
  TRY(allowed({Method::set_mig_mode, {gpu, enabled}}, gpu));
  return inner_.set_mig_mode(gpu, enabled);
}
Result<int> LimitedDriver::create_instance(int gpu, const Placement& at) {
  TRY(allowed({Method::create_instance, {gpu, at.nvml_enum, at.start}}, gpu));
  return inner_.create_instance(gpu, at);
}
Result<void> LimitedDriver::destroy_instance(int gpu, int gi_id) {
  TRY(allowed({Method::destroy_instance, {gpu, gi_id}}, gpu));
  return inner_.destroy_instance(gpu, gi_id);
}
Result<ComputeInstance> LimitedDriver::create_compute(int gpu, int gi_id) {
  TRY(allowed({Method::create_compute, {gpu, gi_id}}, gpu));
  return inner_.create_compute(gpu, gi_id);
}
Result<void> LimitedDriver::destroy_compute(int gpu, int gi_id, int ci_id) {
  TRY(allowed({Method::destroy_compute, {gpu, gi_id, ci_id}}, gpu));
  return inner_.destroy_compute(gpu, gi_id, ci_id);
}
Result<telemetry::GpuSample> LimitedDriver::telemetry(int gpu) { return inner_.telemetry(gpu); }
Result<PowerState> LimitedDriver::power_settings(int gpu) { return inner_.power_settings(gpu); }
Result<void> LimitedDriver::set_power_settings(int gpu, const PowerSettings& settings) {
  TRY(allowed(power_call(gpu, settings), gpu));
  return inner_.set_power_settings(gpu, settings);
}

}  // namespace partita::device
