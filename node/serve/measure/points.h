// Which points of a profile to measure, in which order, and which not: those that are there
// already, and those that nobody would plan with. Pure.
//
// A ladder is one instance size with one number of processes: batches ascending. It ends early
// when kFlatSteps larger batches in a row gave less than kGain more throughput than the best
// before (they only take longer), or when a batch did not run (a larger one needs more memory).
// With more processes a size is left out once some number of them reached less than kGain more
// than fewer did.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "profile/workload_profile.h"

namespace partita::serve {

inline constexpr double kGain = 0.02;
inline constexpr int kFlatSteps = 2;

struct MeasurePoint {
  int units = 0, processes = 0, batch = 0;
  auto operator<=>(const MeasurePoint&) const = default;
};

struct MeasureGrid {
  std::vector<int> units, processes, batches;  // ascending, not empty
};

// The next one, given what was measured (points) and what did not run (no_runs); nothing at the
// end. Sizes, then processes, then batches ascend.
std::optional<MeasurePoint> next_point(const MeasureGrid& grid,
                                       const profile::WorkloadProfile& measured);

// How many at most are still to come.
int points_left(const MeasureGrid& grid, const profile::WorkloadProfile& measured);

// Adds a point, or that it did not run; keeps the order that profiles have.
void add_point(profile::WorkloadProfile& profile, const profile::ProfilePoint& point);
void add_no_run(profile::WorkloadProfile& profile, const MeasurePoint& point);

// "1,2,4", "1..3", "1,2,4..": two dots alone go on doubling up to `most`. bad_input otherwise.
Result<std::vector<int>> parse_counts(const std::string& flag, const std::string& text, int most);

}  // namespace partita::serve
