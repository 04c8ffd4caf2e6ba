// What became of a batch, for people: a table of planned against real end times as FAR's Table 3
// has it, what was not as planned, and a line of progress while it runs. Pure.
#pragma once

#include <string>
#include <vector>

#include "act/batch/run_report.h"
#include "act/batch/script.h"

namespace partita::carry {

// The table, in the order of the planned ends, then what to know about it.
std::string run_text(const exec::Script& script, const exec::RunReport& report,
                     const exec::RunNames& names);

// "3 of 9 tasks, 12.3 s of 28.4 s: lavaMD 2g.12gb@0, lu 1g.6gb@3"
std::string progress_text(const exec::Script& script, const exec::RunReport& report,
                          exec::Nanos now);

// One line for each task and reconfiguration that went wrong between two looks at a run.
std::vector<std::string> news(const exec::Script& script, const exec::RunReport& before,
                              const exec::RunReport& now);

}  // namespace partita::carry
