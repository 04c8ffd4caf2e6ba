// From tallies to reports: what was measured, in numbers and verdicts. Pure.
#pragma once

#include <string>
#include <vector>

#include "serve/load/load_report.h"
#include "serve/load/load_run.h"

namespace partita::serve {

// What was measured; `names` and `rates` of the services as they were run.
struct PlayedService {
  std::string name;
  double rate_rps = 0;  // 0: a trace's
  bool tokens = false;  // a language model
};
LoadReport report_of(const LoadOptions& options, const std::vector<PlayedService>& played,
                     const LoadOutcome& outcome);

// The generator's lateness is doubtful from here: 1 ms, or this share of the shortest SLO.
inline constexpr double kDoubtfulLateMs = 1, kDoubtfulLateShare = 0.05;

// The verdict on the one service of the report: valid when the 99th percentile of all offered
// requests is within the bound, whoever did not complete counting as later than that, and there
// were enough of them for long enough.
ServerScenario judged_server(ServerScenario asked, const LoadOutcome& outcome);

}  // namespace partita::serve
