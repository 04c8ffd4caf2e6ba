// How many joules boards took between the samples of a telemetry log. The energy counter of a board
// says it exactly, also between readings that repeat themselves; where it moves in steps longer
// than an interval, power says how a step is spread. Where there is none, or it was reset, power is
// integrated: a mean over the last second belongs to the middle of that second, so readings are
// taken half a window earlier and joined by straight lines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "telemetry/log.h"

namespace partita::energy {

inline constexpr Seconds kAveragingWindow{1};  // of GpuSample::power_average

enum class MeterSource { counter, power, nothing };

// Between a sample that shows a board and the next that does.
struct Interval {
  std::size_t sample = 0, gpu = 0;  // the later one: log[sample].gpus[gpu]
  Seconds from, length;
  double joules = 0;  // 0: nothing told
  MeterSource source = MeterSource::nothing;
  bool gap = false;  // longer than what the recording's rhythm explains: nobody watched
};

struct Board {
  std::string uuid, model;  // uuid may be empty: then its index tells it
  int index = 0;
  std::vector<Interval> intervals;
  Seconds counted, integrated, unmeasured, gaps;  // gaps may be counted as well
  int resets = 0;                                 // of the energy counter

  double joules() const;
};

struct MeasureOptions {
  std::optional<Seconds> longest;  // a longer interval is a gap; else kGapFactor x the median
};
inline constexpr double kGapFactor = 10;
inline constexpr Seconds kLeastGap{3};  // without `longest`

// In order of index, then uuid.
std::vector<Board> measure(const telemetry::Log& log, const MeasureOptions& options);

}  // namespace partita::energy
