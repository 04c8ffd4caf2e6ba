// Samples of a node: telemetry of every GPU at one time. A GPU that fell off the bus is left out;
// it is in the next sample again when it is back. Refers to the driver, which must outlive it.
#pragma once

#include "base/result.h"
#include "device/node_driver.h"
#include "hw/telemetry/log.h"

namespace partita::observe {

// The first GPU that answers with another error than lost ends it.
Result<telemetry::Sample> take_sample(device::NodeDriver& driver, Seconds at);

}  // namespace partita::observe
