// A telemetry log: JSON lines, one Sample each, as `partita observe --record` writes them and
// `partita energy attribute`, `thermal forecast` and `observe --replay` read them. Reading checks
// what physics allows (activities in [0, 1], temperatures and watts in range, times that grow, an
// energy counter that does not fall unless it was reset) and names FILE:LINE.
// Other tools' records (DCGM's exporter text and CSV) are read into the same values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hw/telemetry/sample.h"

namespace partita::telemetry {

using Log = std::vector<Sample>;

// The line, with its newline. parse(write_line(s)) == s, bit for bit.
std::string write_line(const Sample& sample);
// The last line where it has no end and is only half of one: the disk was full, or whoever wrote it
// died. Empty: there is none.
std::string_view torn_end(std::string_view text);
// A sentence about it; empty where there is none.
std::string torn_note(std::string_view text, const std::string& name);
// The whole log but a torn end; `name` is what refusals call it.
Result<Log> read_log(std::string_view text, const std::string& name);

}  // namespace partita::telemetry
