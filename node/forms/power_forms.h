// Forms of the vocabulary of power: response tables as CSV, plans and schedules as documents.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "forms/vocabulary.h"
#include "plan/power.h"

namespace partita::forms {

// Response table, CSV with the columns model, clock_mhz, units, batch, p95_ms, max_rps, power_w
// (docs/formats.md). Rows whose model is `-` are the board without work: clock_mhz 0 at rest, else
// all units clocked; their other figures are 0. The first line may be a comment, `# ...`, which is
// the source; `# modelled ...` says that nobody measured it. Refused with FILE:LINE what is no
// table of a GPU: clocks without an idle row, holes in the grid, units that the GPU has not, and
// what physics denies: power that falls with the clock or lies below that of the idle board,
// latency that grows with the clock or falls with the batch, seconds given as milliseconds.
struct TableOf {
  std::string gpu;
  std::vector<int> units_in;
};
Result<plan::ResponseTable> parse_power_table(const std::string& file, std::string_view text,
                                              const TableOf& gpu);
std::string power_table_csv(const plan::ResponseTable& table);

// Kind PowerPlan.
std::string power_plan_json(const plan::PowerPlan& plan);
Result<plan::PowerPlan> parse_power_plan(const std::string& file, std::string_view text);
DocumentKind power_plan_kind();

}  // namespace partita::forms
