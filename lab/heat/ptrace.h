// HotSpot's power traces (.ptrace): a line with the names of blocks, then a line of watts per
// sample, between blanks or tabs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::thermal {

inline constexpr double kMostBlockWatts = 1e5;

struct PowerTrace {
  std::string file;  // for messages
  int header_line = 1;
  std::vector<std::string> names;         // in the file's order
  std::vector<std::vector<double>> rows;  // watts, in the order of `names`; at least one
};

// Refused with FILE:LINE: rows of another length than the header, what is no number, negative
// watts.
Result<PowerTrace> read_ptrace(const std::string& file, std::string_view text);

// Where in the trace the blocks of a floorplan stand: entry i is the column of blocks[i].
// `layers` are the names of the blocks that dissipate, per layer: the columns of a stack stand
// layer after layer. Refused: missing blocks, unknown names.
Result<std::vector<int>> trace_columns(const PowerTrace& trace,
                                       const std::vector<std::vector<std::string>>& layers);

// A row of the trace in the order of the blocks, and the mean of all rows.
std::vector<double> watts_of(const std::vector<double>& row, const std::vector<int>& columns);
std::vector<double> mean_watts(const PowerTrace& trace, const std::vector<int>& columns);

}  // namespace partita::thermal
