// The NodeDriver door on AMD's management library: telemetry, power cap, clock range. GPUs are the
// library's processors, in the order of its sockets; in a partitioned mode every partition is one,
// and the first of a socket tells its power. Owns the loaded library; remembers nothing of the
// device. What concerns MIG answers not_supported: AMD GPUs have none.
#pragma once

#include <memory>
#include <string>

#include "device/node_driver.h"
#include "hw/catalogue.h"

namespace partita::drivers::amd_smi {

// Loads `library` (a path; empty: what ROCm 7 installs). `catalogue`, which must outlive the
// driver, gives boards their names. no_driver when the library is missing or of a version that is
// not known, or the kernel driver is missing.
Result<std::unique_ptr<device::NodeDriver>> open_amd_smi(const hw::Catalogue& catalogue,
                                                         const std::string& library = "");

}  // namespace partita::drivers::amd_smi
