// Whether the columns of a profile agree. While `processes` processes run batches of `batch` back
// to back, latency = batch x processes / throughput: every measurement says the same thing twice,
// so a wrong unit shows. Pure; knows no file, only lines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profile/workload_profile.h"

namespace partita::profile {

// A row that says otherwise by more than this factor is an error.
inline constexpr double kContradiction = 3;
// By more than this one, and by more than a millisecond: worth a warning.
inline constexpr double kDoubt = 1.5;
// Every row with several processes is off by their number, within this: an error too, from so many
// rows on. Two processes alone would stay below kContradiction.
inline constexpr double kOffByProcesses = 0.15;
inline constexpr std::size_t kOffByProcessesRows = 3;

// A row that ran, with its line.
struct LinedPoint {
  int line = 0;
  std::string_view model;
  ProfilePoint point;
};

// How a form writes a point: its column names and units.
struct RowUnits {
  std::string_view throughput, latency;  // column names
  double latency_unit_ms = 1;
  bool throughput_per_process = false;
};

struct Contradiction {
  int line = 0;
  std::string message;  // what the row says, what it implies, the unit probably meant
};

// The first row that contradicts itself, explained by what explains most of the rows that do.
std::optional<Contradiction> contradiction(const std::vector<LinedPoint>& rows,
                                           const RowUnits& units);

// latency x throughput / (batch x processes): 1 when the columns agree.
double agreement(const ProfilePoint& point);

// Sentences about models whose columns differ by more than kDoubt, one each with its worst point.
std::vector<std::string> doubts(const ProfileTable& table);

}  // namespace partita::profile
