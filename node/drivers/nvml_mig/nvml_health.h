// The HealthWatch door on NVML: XIDs and double-bit ECC errors as events, and at each look what can
// be read besides: uncorrected errors, rows to be remapped, what the driver recommends (R565 and
// later). Never waits: events are asked for with a timeout of zero. Has a reference of its own to
// the library, so it may live beside a driver, on its thread or another.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "device/health.h"

namespace partita::drivers::nvml_mig {

inline constexpr int kMaxEventsPerLook = 256;  // the rest is told at the next look

// no_driver as open_nvml. Without rights to events, or without events at all, it complains once and
// reads on.
Result<std::unique_ptr<device::HealthWatch>> watch_nvml(
    const std::string& library = "libnvidia-ml.so.1");

}  // namespace partita::drivers::nvml_mig
