#include "serving/replanning.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/table.h"
#include "flags.h"

namespace partita::cli {

using planners::serving::CurvePoint;

void add_replan_flags(CLI::App& command, ReplanFlags& flags) {
  auto* current =
      command
          .add_option("--current", flags.current,
                      "What runs now: a plan, or the state of a node as `partita status` writes it "
                      "(JSON). The new plan then needs the fewest GPUs, and among such plans "
                      "creates the fewest instances")
          ->type_name("FILE");
  within(command.add_option("--max-moves", flags.max_moves,
                            "Create at most this many instances, on more GPUs if necessary; refuse "
                            "(exit 1) when impossible"),
         0, 1e6)
      ->type_name("N")
      ->needs(current);
}

forms::PlanChanges changes_of(const decide::MadeAgain& outcome) {
  const planners::serving::Changes& c = outcome.changes;
  forms::PlanChanges changes{c.kept, c.restarted, c.moved, c.created, c.removed, {}};
  for (const CurvePoint& point : outcome.curve)
    changes.curve.push_back(
        {point.gpus, point.cost, point.moves, point.lower_bound, point.proven()});
  return changes;
}

std::string changes_text(const decide::MadeAgain& outcome) {
  const planners::serving::Changes& c = outcome.changes;
  Table table{{"GPUS", "TO CREATE", "AT LEAST", "PROVEN"}, {}};
  for (const CurvePoint& point : outcome.curve)
    table.rows.push_back({fmt::format("{}", point.gpus), fmt::format("{}", point.moves),
                          fmt::format("{}", point.lower_bound), point.proven() ? "yes" : "no"});
  return fmt::format("\ninstances: {} kept, {} restarted, {} moved, {} created, {} removed\n\n{}",
                     c.kept, c.restarted, c.moved, c.created, c.removed, to_string(table));
}

}  // namespace partita::cli
