// What the pictures of task graphs share: the lanes and threads of a run and what ran on them.
// Internal to the forms.
#pragma once

#include <string>
#include <vector>

#include "forms/vocabulary.h"
#include "plan/graph.h"

namespace partita::forms {

// A lane or a thread.
struct GraphRow {
  int lane = -1;           // or none
  int thread = -1;         // or none
  hw::UnitMask mask;       // of the lane's first kernel
  std::vector<int> tasks;  // by their begin
};

// Lanes first, each by number.
std::vector<GraphRow> rows_of(const GraphRun& run);

// "lane 3", "thread 0"
std::string row_name(const GraphRow& row);
// "lane 3, 19 CUs", "thread 0"
std::string place_text(const GraphRun& run, const GraphTaskRun& task);
std::string ns_text(std::int64_t ns);  // "12.3 us"

}  // namespace partita::forms
