// How many joules boards took between the samples of a telemetry log. The energy counter of a board
// says it exactly, also between readings that repeat themselves; where it moves in steps longer
// than an interval, power says how a step is spread. Where there is none, or it was reset, power is
// integrated, readings joined by straight lines: those of the moment where they come quicker than
// kQuick, else means over the last second, which belong to the middle of that second.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hw/telemetry/log.h"

namespace partita::telemetry {

inline constexpr Seconds kAveragingWindow{1};  // of GpuSample::power_average

inline constexpr Seconds kQuick{0.5};  // between readings of the moment that tell all

enum class MeterSource { counter, power, nothing };
const char* to_string(MeterSource source);

// Between a sample that shows a board and the next that does. The joules of a board's intervals
// that the counter told add up to what it grew by.
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
std::vector<Board> measure(const Log& log, const MeasureOptions& options = {});

}  // namespace partita::telemetry
