// Traces of traffic, as people and public data sets have them: CSV with a time per request, or with
// a column per minute. The values are plan/traffic.h; the keys of the services file that name them
// are read with it (serving_forms.h).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "forms/vocabulary.h"

namespace partita::forms {

inline constexpr std::size_t kMaxTraceTimes = 5'000'000;
inline constexpr double kMaxTraceSpan = 1e9;  // seconds
inline constexpr double kMaxPerMinute = 1e12;

// Which rows of a trace are meant: those that have this text in a column that holds no figures. Not
// `required`: a file that tells no rows apart, or has one only, is taken as a whole.
struct TraceRows {
  std::string name;
  bool required = false;
};

// Times: a column `at_s`, `time_s`, `time` or `timestamp`, in any case, of seconds or of dates
// (2023-11-16 18:17:03.98), ascending; a column `service` tells rows apart. Counts: a row per
// function with the columns 1, 2, 3, ... for its minutes. Other columns are left alone. Bad input,
// with FILE:LINE: anything else, fewer than two times, times that are all equal, no request at all.
Result<plan::TrafficTrace> parse_traffic_trace(const std::string& file, std::string_view text,
                                               const TraceRows& rows);

}  // namespace partita::forms
