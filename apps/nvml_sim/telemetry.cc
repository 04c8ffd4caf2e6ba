// What a GPU does: memory, clocks, power, temperatures, errors. Power, heat and clocks are those of
// the simulated machine (drivers/sim/power_model.h); the machine runs no kernels.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "drivers/sim/figures.h"
#include "library.h"

namespace partita::nvml_sim {
namespace {

constexpr unsigned long long kBytesPerMib = 1ULL << 20;
constexpr unsigned kClockSm = 1, kClockMemory = 2, kClockVideo = 3, kClocks = 4;
constexpr unsigned kThresholds = 8;
constexpr unsigned kPState0 = 0;
constexpr unsigned long long kThrottleKnown = 0x1FF;
constexpr unsigned kFieldEcc = 1, kFieldEccPending = 2;
constexpr unsigned kFieldRemapped = 142, kFieldRowsPending = 144, kFieldRemappedLast = 145;

struct Bytes {
  unsigned long long total = 0, reserved = 0;
};
// Of the GPU: what no instance can have is reserved. Of a MIG device: all of its instance.
Bytes memory_of(const Target& target) {
  const hw::GpuModel& model = *target.gpu.model;
  if (target.compute != nullptr) return {memory_mib(model, target.profile()) * kBytesPerMib, 0};
  const unsigned long long total = total_mib(model);
  unsigned long long most = 0;
  for (const hw::MigProfile& profile : model.profiles)
    most = std::max(most, memory_mib(model, profile));
  return {total * kBytesPerMib, most > 0 && most < total ? (total - most) * kBytesPerMib : 0};
}

using drivers::sim::PowerReading;
using drivers::sim::reading_of;
using drivers::sim::SimPower;

unsigned long long rounded(double value) {
  return static_cast<unsigned long long>(std::max(0.0, std::floor(value)));
}

unsigned limit_mw(const Target& target, const SimPower& power) {
  const unsigned usual = figures_of(*target.gpu.model).limit_w;
  return static_cast<unsigned>(
      rounded(power.settings.limit.value_or(Watts{1.0 * usual}).value * 1000));
}

// What the board does at this moment, as a whole number.
template <class Answer>
Return moment(Device device, Answer* out,
              const std::function<double(const SimPower&, const PowerReading&)>& of) {
  return on_power(device, given(out), [&](const Target& target, const SimPower& power) {
    const Figures& figures = figures_of(*target.gpu.model);
    if (figures.limit_w == 0) return Return::not_supported;
    return answer(out, rounded(of(power, reading_of(power, figures))));
  });
}

// One number of the figures, times `unit`.
Return figure(Device device, unsigned* out, unsigned Figures::*which, unsigned unit = 1) {
  return on_gpu(device, given(out), [&](const Target& target) {
    return answer(out, figures_of(*target.gpu.model).*which * unit);
  });
}

Return number(Device device, unsigned* out, unsigned value) {
  return on_gpu(device, given(out), [&](const Target&) { return answer(out, value); });
}

Return number(Device device, unsigned long long* out, unsigned long long value) {
  return on_gpu(device, given(out), [&](const Target&) { return answer(out, value); });
}

Return not_there(Device device, bool arguments) {
  return on_gpu(device, arguments, [](const Target&) { return Return::not_supported; });
}

Return highest_clock(Device device, unsigned clock, unsigned* out) {
  if (clock >= kClocks) return on_gpu(device, false, [](const Target&) { return Return::unknown; });
  if (clock == kClockMemory) return figure(device, out, &Figures::memory);
  return figure(device, out, &Figures::sm_max);
}

Return present_clock(Device device, unsigned clock, unsigned* out) {
  if (clock >= kClocks || clock == kClockMemory) return highest_clock(device, clock, out);
  return moment(device, out, [](const SimPower&, const PowerReading& now) { return now.sm_mhz; });
}

// Not told of a GPU in MIG mode, nor of MIG devices; else nothing runs.
Return engine_use(Device device, unsigned* percent, unsigned* period_us) {
  return on_gpu(device, given(percent, period_us), [&](const Target& target) {
    if (target.gpu.mig) return Return::not_supported;
    *percent = 0;
    return answer(period_us, 167'000);
  });
}

// Milliwatts, millijoules or degrees of a field that moves.
std::optional<double> moving(const Target& target, const SimPower& power, unsigned field) {
  const Figures& figures = figures_of(*target.gpu.model);
  constexpr unsigned kLeastLimit = 187, kMostLimit = 188, kDefaultLimit = 189, kLimit = 190;
  switch (field) {
    case abi::kFieldMemoryTemperature:
      return power.memory_c;
    case abi::kFieldEnergy:
      return power.energy_j * 1000;
    case abi::kFieldPowerAverage:
      return power.average_w * 1000;
    case abi::kFieldPowerInstant:
      return reading_of(power, figures).watts * 1000;
    case kLeastLimit:
      return figures.low_w * 1000.0;
    case kMostLimit:
    case kDefaultLimit:
      return figures.limit_w * 1000.0;
    case kLimit:
      return limit_mw(target, power);
    default:
      return std::nullopt;
  }
}

void fill(const Target& target, const SimPower& power, abi::FieldValue& value) {
  value.time_us = Library::here().clock.now_ns() / 1000;
  value.latency_us = 0;
  value.result = Return::success;
  value.value_type = static_cast<unsigned>(abi::ValueType::word);
  value.value.huge = 0;
  if (const auto now = moving(target, power, value.field)) {
    if (value.field == abi::kFieldEnergy) {
      value.value_type = static_cast<unsigned>(abi::ValueType::huge);
      value.value.huge = rounded(*now);
    } else {
      value.value.word = static_cast<unsigned>(rounded(*now));
    }
  } else if (value.field == kFieldEcc || value.field == kFieldEccPending) {
    value.value.word = 1;
  } else if (value.field == abi::kFieldRecoveryAction) {
    value.value.word = static_cast<unsigned>(target.gpu.health.recovery);
  } else if (value.field == kFieldRowsPending) {
    value.value.word = target.gpu.health.rows_pending ? 1 : 0;
  } else if (value.field == kFieldRemappedLast) {
    value.value.word = target.gpu.health.rows_failed ? 1 : 0;
  } else if (value.field < kFieldRemapped || value.field > kFieldRemappedLast) {
    value.result = Return::not_supported;
  }
}

}  // namespace

extern "C" {

Return nvmlDeviceGetMemoryInfo(Device device, abi::Memory* memory) {
  return on_device(device, given(memory), [&](const Target& target) {
    const Bytes bytes = memory_of(target);
    *memory = {bytes.total, bytes.total - bytes.reserved, bytes.reserved};
    return Return::success;
  });
}

Return nvmlDeviceGetMemoryInfo_v2(Device device, abi::MemoryV2* memory) {
  return on_device(device, given(memory), [&](const Target& target) {
    if (memory->version != abi::version_word<abi::MemoryV2>(2))
      return Return::argument_version_mismatch;
    const Bytes bytes = memory_of(target);
    *memory = {memory->version, bytes.total, bytes.reserved, bytes.total - bytes.reserved, 0};
    return Return::success;
  });
}

// A MIG device has its slices' share of the window, less a MiB, as nvidia-smi shows it.
Return nvmlDeviceGetBAR1MemoryInfo(Device device, abi::Bar1Memory* memory) {
  return on_device(device, given(memory), [&](const Target& target) {
    const hw::GpuModel& model = *target.gpu.model;
    unsigned long long total = kBytesPerMib;  // a power of two that the memory fits into
    while (total < total_mib(model) * kBytesPerMib) total *= 2;
    if (target.compute != nullptr) {
      const auto slices = static_cast<unsigned long long>(target.profile().size);
      total = total * slices / static_cast<unsigned>(model.memory_slices) - kBytesPerMib;
    }
    *memory = {total, total, 0};
    return Return::success;
  });
}

Return nvmlDeviceGetUtilizationRates(Device device, abi::Utilization* use) {
  return on_power(device, given(use), [&](const Target& target, const SimPower& power) {
    if (target.gpu.mig) return Return::not_supported;
    const PowerReading now = reading_of(power, figures_of(*target.gpu.model));
    const auto& load = power.loads.front();  // without MIG all run outside instances
    const telemetry::Activity activity = drivers::sim::activity_of(load, now.activities.front());
    *use = {static_cast<unsigned>(rounded(100 * *activity.graphics_engine)),
            static_cast<unsigned>(rounded(100 * *activity.dram))};
    return Return::success;
  });
}
Return nvmlDeviceGetEncoderUtilization(Device device, unsigned* percent, unsigned* period_us) {
  return engine_use(device, percent, period_us);
}
Return nvmlDeviceGetDecoderUtilization(Device device, unsigned* percent, unsigned* period_us) {
  return engine_use(device, percent, period_us);
}
Return nvmlDeviceGetJpgUtilization(Device device, unsigned* percent, unsigned* period_us) {
  return engine_use(device, percent, period_us);
}
Return nvmlDeviceGetOfaUtilization(Device device, unsigned* percent, unsigned* period_us) {
  return engine_use(device, percent, period_us);
}
Return nvmlDeviceGetProcessUtilization(Device device, abi::ProcessSample*, unsigned* count,
                                       unsigned long long) {
  return on_gpu(device, given(count), [&](const Target& target) {
    if (target.gpu.mig) return Return::not_supported;
    *count = 0;
    return Return::not_found;  // no process made use of it
  });
}

Return nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned* celsius) {
  return moment(device, sensor == 0 ? celsius : nullptr,
                [](const SimPower& power, const PowerReading&) { return power.chip_c; });
}
Return nvmlDeviceGetTemperatureV(Device device, abi::Temperature* temperature) {
  return on_power(device, given(temperature), [&](const Target&, const SimPower& power) {
    if (temperature->version != abi::version_word<abi::Temperature>(1))
      return Return::argument_version_mismatch;
    if (temperature->sensor != 0) return Return::invalid_argument;
    return answer(&temperature->celsius, rounded(power.chip_c));
  });
}
Return nvmlDeviceGetTemperatureThreshold(Device device, unsigned threshold, unsigned* celsius) {
  // Shutdown, slowdown, memory, GPU; the acoustic ones are of boards with fans.
  constexpr unsigned kCelsius[] = {92, 89, 95, 85};
  if (threshold < std::size(kCelsius)) return number(device, celsius, kCelsius[threshold]);
  return not_there(device, threshold < kThresholds && given(celsius));
}

// Passive boards.
Return nvmlDeviceGetFanSpeed(Device device, unsigned* percent) {
  return not_there(device, given(percent));
}
Return nvmlDeviceGetFanSpeed_v2(Device device, unsigned, unsigned* percent) {
  return not_there(device, given(percent));
}
Return nvmlDeviceGetNumFans(Device device, unsigned* fans) { return number(device, fans, 0); }

Return nvmlDeviceGetClockInfo(Device device, unsigned clock, unsigned* mhz) {
  return present_clock(device, clock, mhz);
}
Return nvmlDeviceGetMaxClockInfo(Device device, unsigned clock, unsigned* mhz) {
  return highest_clock(device, clock, mhz);
}
Return nvmlDeviceGetApplicationsClock(Device device, unsigned clock, unsigned* mhz) {
  return highest_clock(device, clock, mhz);
}
Return nvmlDeviceGetDefaultApplicationsClock(Device device, unsigned clock, unsigned* mhz) {
  return highest_clock(device, clock, mhz);
}
Return nvmlDeviceGetMaxCustomerBoostClock(Device device, unsigned clock, unsigned* mhz) {
  return highest_clock(device, clock, mhz);
}
Return nvmlDeviceGetClock(Device device, unsigned clock, unsigned which, unsigned* mhz) {
  if (which == 0) return present_clock(device, clock, mhz);
  return highest_clock(device, which < 4 ? clock : kClocks, mhz);
}
Return nvmlDeviceGetSupportedMemoryClocks(Device device, unsigned* count, unsigned* mhz) {
  return on_gpu(device, given(count), [&](const Target& target) {
    return put_list(std::vector{figures_of(*target.gpu.model).memory}, count, mhz);
  });
}
Return nvmlDeviceGetSupportedGraphicsClocks(Device device, unsigned memory, unsigned* count,
                                            unsigned* mhz) {
  return on_gpu(device, given(count), [&](const Target& target) {
    const Figures& figures = figures_of(*target.gpu.model);
    if (memory != figures.memory) return Return::not_found;
    std::vector<unsigned> clocks;
    for (unsigned clock = figures.sm_max; clock >= figures.sm_idle && clock >= 15; clock -= 15)
      clocks.push_back(clock);
    return put_list(clocks, count, mhz);
  });
}

Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* reasons) {
  return moment(device, reasons,
                [](const SimPower&, const PowerReading& now) { return 1.0 * now.reasons; });
}
Return nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long* reasons) {
  return moment(device, reasons,
                [](const SimPower&, const PowerReading& now) { return 1.0 * now.reasons; });
}
Return nvmlDeviceGetSupportedClocksThrottleReasons(Device device, unsigned long long* reasons) {
  return number(device, reasons, kThrottleKnown);
}
Return nvmlDeviceGetSupportedClocksEventReasons(Device device, unsigned long long* reasons) {
  return number(device, reasons, kThrottleKnown);
}

Return nvmlDeviceGetPowerUsage(Device device, unsigned* milliwatts) {
  return moment(device, milliwatts,
                [](const SimPower&, const PowerReading& now) { return now.watts * 1000; });
}
Return nvmlDeviceGetPowerManagementMode(Device device, unsigned* on) {
  return number(device, on, 1);
}
Return nvmlDeviceGetPowerManagementLimit(Device device, unsigned* milliwatts) {
  return on_power(device, given(milliwatts), [&](const Target& target, const SimPower& power) {
    if (figures_of(*target.gpu.model).limit_w == 0) return Return::not_supported;
    return answer(milliwatts, limit_mw(target, power));
  });
}
Return nvmlDeviceGetPowerManagementLimitConstraints(Device device, unsigned* low, unsigned* high) {
  return on_gpu(device, given(low, high), [&](const Target& target) {
    const Figures& figures = figures_of(*target.gpu.model);
    *low = figures.low_w * 1000;
    return answer(high, figures.limit_w * 1000);
  });
}
Return nvmlDeviceGetPowerManagementDefaultLimit(Device device, unsigned* milliwatts) {
  return figure(device, milliwatts, &Figures::limit_w, 1000);
}
Return nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* milliwatts) {
  return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}
Return nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* millijoules) {
  return moment(device, millijoules,
                [](const SimPower& power, const PowerReading&) { return power.energy_j * 1000; });
}

Return nvmlDeviceSetPowerManagementLimit(Device device, unsigned milliwatts) {
  return set_power(device, [&](device::PowerSettings& settings) {
    settings.limit = Watts{milliwatts / 1000.0};
  });
}
Return nvmlDeviceSetGpuLockedClocks(Device device, unsigned low, unsigned high) {
  return set_power(device, [&](device::PowerSettings& settings) {
    settings.clocks = {Mhz{1.0 * low}, Mhz{1.0 * high}};
  });
}
Return nvmlDeviceResetGpuLockedClocks(Device device) {
  return set_power(device, [](device::PowerSettings& settings) { settings.clocks.reset(); });
}
Return nvmlDeviceGetPerformanceState(Device device, unsigned* state) {
  return number(device, state, kPState0);
}
Return nvmlDeviceGetPowerState(Device device, unsigned* state) {
  return number(device, state, kPState0);
}

Return nvmlDeviceGetPersistenceMode(Device device, unsigned* on) { return number(device, on, 1); }
Return nvmlDeviceGetComputeMode(Device device, unsigned* mode) { return number(device, mode, 0); }
Return nvmlDeviceGetDisplayMode(Device device, unsigned* on) { return number(device, on, 0); }
Return nvmlDeviceGetDisplayActive(Device device, unsigned* on) { return number(device, on, 0); }
Return nvmlDeviceGetAccountingMode(Device device, unsigned* on) { return number(device, on, 0); }

Return nvmlDeviceGetEccMode(Device device, unsigned* current, unsigned* pending) {
  return on_gpu(device, given(current, pending), [&](const Target&) {
    *current = 1;
    return answer(pending, 1);
  });
}
Return nvmlDeviceGetDefaultEccMode(Device device, unsigned* on) { return number(device, on, 1); }
Return nvmlDeviceGetTotalEccErrors(Device device, unsigned kind, unsigned,
                                   unsigned long long* errors) {
  return on_gpu(device, given(errors), [&](const Target& target) {
    return answer(errors,
                  kind == abi::kUncorrectedErrors ? target.gpu.health.uncorrected_errors : 0);
  });
}
Return nvmlDeviceGetMemoryErrorCounter(Device device, unsigned, unsigned, unsigned,
                                       unsigned long long* errors) {
  return number(device, errors, 0);
}
Return nvmlDeviceGetRetiredPages(Device device, unsigned, unsigned* count, unsigned long long*) {
  return not_there(device, given(count));  // boards that remap rows retire no pages
}
Return nvmlDeviceGetRetiredPagesPendingStatus(Device device, unsigned* pending) {
  return not_there(device, given(pending));
}
Return nvmlDeviceGetRemappedRows(Device device, unsigned* corrected, unsigned* uncorrected,
                                 unsigned* pending, unsigned* failed_) {
  return on_gpu(device, given(corrected, uncorrected, pending, failed_), [&](const Target& target) {
    *corrected = *uncorrected = 0;
    *pending = target.gpu.health.rows_pending ? 1 : 0;
    *failed_ = target.gpu.health.rows_failed ? 1 : 0;
    return Return::success;
  });
}

Return nvmlDeviceGetViolationStatus(Device device, unsigned, abi::ViolationTime* time) {
  return on_gpu(device, given(time), [&](const Target&) {
    *time = {static_cast<unsigned long long>(Library::here().clock.now_ns()) / 1000, 0};
    return Return::success;
  });
}

Return nvmlDeviceGetFieldValues(Device device, int count, abi::FieldValue* values) {
  return on_power(device, count > 0 && given(values),
                  [&](const Target& target, const SimPower& power) {
                    for (int i = 0; i < count; ++i) fill(target, power, values[i]);
                    return Return::success;
                  });
}

}  // extern "C"

}  // namespace partita::nvml_sim
