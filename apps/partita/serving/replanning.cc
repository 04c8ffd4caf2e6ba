#include "serving/replanning.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/table.h"
#include "flags.h"

namespace partita::cli {

using planners::serving::CurvePoint;

void add_replan_flags(CLI::App& command, ReplanFlags& flags) {
  auto* current = flag(command, "--current", flags.current);
  within(flag(command, "--max-moves", flags.max_moves), 0, 1e6)->needs(current);
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
  return fmt::format("\ninstances: {} kept, {} restarted, {} moved, {} created, {} removed\n{}",
                     c.kept, c.restarted, c.moved, c.created, c.removed,
                     table.rows.empty() ? "" : "\n" + to_string(table));
}

}  // namespace partita::cli
