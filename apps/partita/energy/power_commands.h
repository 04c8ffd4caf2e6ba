// The subcommands of `partita power`, and the flags that several of them have.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "context.h"
#include "decide/power.h"

namespace partita::cli {

Command add_power_table(CLI::App& power);
Command add_power_plan(CLI::App& power);
Command add_power_verify(CLI::App& power);
Command add_power_simulate(CLI::App& power);
// Those that set clocks and limits of real GPUs.
Command add_power_set(CLI::App& power);
Command add_power_restore(CLI::App& power);
Command add_power_run(CLI::App& power);

// --services, --table, --gpu, --gating, --promise, --cap.
struct PowerFlags {
  decide::PowerFiles files;
  std::string gating = "none", promise = "queueing";
  double cap = 0;  // W; 0: none
};
void add_power_flags(CLI::App& command, PowerFlags& flags);
Result<plan::PowerProblem> load_power(Context& context, const PowerFlags& flags);

}  // namespace partita::cli
