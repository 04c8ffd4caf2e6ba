// `partita plan --day`: its flags, and what it does.
#pragma once

#include <string>

#include "context.h"
#include "decide/day.h"
#include "decide/gpu_costs.h"

namespace CLI {
class App;
}

namespace partita::cli {

struct DayFlags {
  bool day = false;
  std::string change_time = "5m";
  decide::TariffFiles tariff;
};

// Adds --day, --change-time and a tariff's.
void add_day_flags(CLI::App& command, DayFlags& flags);

struct DayRun {
  DayFlags flags;
  int max_gpus = 0;  // 0: as many as needed
  long node_budget = 0;
  Output output;
};

// Plans the problem's day and writes it.
Result<Exit> run_day(Context& context, const DayRun& run, const plan::ServingProblem& problem);

}  // namespace partita::cli
