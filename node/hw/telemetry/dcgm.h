// What NVIDIA's DCGM records, read into samples: on Ampere it is the only way to the activity of
// instances. Values that DCGM does not have ("N/A", its blanks) are left out. Shares above 1, which
// DCGM reports of MIG instances, are 1: the instance cannot be busier. A refusal names FILE:LINE.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "hw/telemetry/log.h"

namespace partita::telemetry {

// The text of DCGM's exporter, one scrape or several whose lines have time stamps (milliseconds);
// lines without one are of time `at`. Metrics of other names are passed over. On a GPU with MIG the
// exporter writes the board's values once per instance (GPU_I_ID): the first counts.
Result<Log> read_dcgm_text(std::string_view text, const std::string& name, Seconds at);

// Rows of `dcgmi dmon`, as it prints them or separated by commas: a header "#Entity GRACT POWER
// ...", a line of units, then rows "GPU 0 0.93 241.3"; "GPU-I 7" is instance 7 of the GPU above it.
// They have no times: a GPU that comes again begins the next sample, `interval` after the last.
struct DmonTimes {
  Seconds start{0}, interval{1};
};
Result<Log> read_dcgm_dmon(std::string_view text, const std::string& name, DmonTimes times);

}  // namespace partita::telemetry
