#include "serving/planning.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "flags.h"

namespace partita::cli {

void add_node_budget(CLI::App& command, long& node_budget) {
  within(command.add_option("--node-budget", node_budget,
                            "Limit on the search nodes of a planner; when it is reached the plan "
                            "states the gap to the lower bound"),
         1, 1e12)
      ->type_name("N")
      ->default_str(fmt::format("{}", node_budget));
}

}  // namespace partita::cli
