// The NodeDriver door on NVIDIA's management library. What changes hands while it is read is read
// again, a few times at most. Owns the loaded library and keeps it initialised; remembers nothing
// of the device.
#pragma once

#include <memory>
#include <string>

#include "device/node_driver.h"
#include "hw/catalogue.h"

namespace partita::drivers::nvml_mig {

// Loads `library` (a path, or a name that the loader looks up). `catalogue`, which must outlive the
// driver, gives instances their catalogue names. no_driver when the library or the kernel driver is
// missing.
Result<std::unique_ptr<device::NodeDriver>> open_nvml(
    const hw::Catalogue& catalogue, const std::string& library = "libnvidia-ml.so.1");

}  // namespace partita::drivers::nvml_mig
