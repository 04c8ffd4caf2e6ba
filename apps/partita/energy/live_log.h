// A telemetry log taken now, for commands that else read one from a file.
#pragma once

#include "context.h"
#include "node/devices.h"
#include "hw/telemetry/log.h"

namespace partita::cli {

// Samples of this node every `interval` for `duration`, or until a signal asks to stop; times are
// seconds since the first. The first reading of all, whose activities are of before, is left out.
Result<telemetry::Log> take_log(Context& context, const DeviceFlags& device, Seconds duration,
                                Seconds interval);

}  // namespace partita::cli
