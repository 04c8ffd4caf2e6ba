#include "serving/replanning.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/document.h"
#include "device/node_forms.h"
#include "flags.h"
#include "progress.h"
#include "table.h"
#include "verify/serving.h"

namespace partita::cli {
namespace {

using planners::serving::CurvePoint;

plan::ServingPlan plan_of(const device::StateDocument& document) {
  plan::ServingPlan plan;
  for (const device::GpuState& gpu : document.state.gpus) {
    plan.gpus.push_back({gpu.index, gpu.lost ? "" : gpu.model, {}});
    for (const device::Instance& instance : gpu.instances) {
      const auto occupant = document.occupants.find(instance.uuid());
      if (!instance.whole() || occupant == document.occupants.end()) continue;
      const device::Occupant& runs = occupant->second;
      plan.gpus.back().instances.push_back({instance.profile, instance.start, runs.service,
                                            runs.batch, runs.processes, Rps{0}, Millis{0}});
    }
  }
  return plan;
}

}  // namespace

void add_replan_flags(CLI::App& command, ReplanFlags& flags) {
  auto* current =
      command
          .add_option("--current", flags.current,
                      "What runs now: a plan, or the state of a node as `partita status` writes it "
                      "(JSON). The new plan then needs the fewest GPUs, and among such plans "
                      "creates the fewest instances")
          ->type_name("FILE");
  within(command.add_option("--max-moves", flags.max_moves,
                            "Create at most so many instances, on more GPUs if need be; refuse "
                            "(exit 1) when that is impossible"),
         0, 1e6)
      ->type_name("N")
      ->needs(current);
}

Result<plan::ServingPlan> load_current(Context& context, const std::string& path,
                                       const hw::Catalogue& catalogue) {
  const Result<std::string> text = read_input(context, "--current", path);
  if (!text) return failed(text.error());
  const Result<Document> document = parse_document(path, *text);
  if (!document) return failed(document.error());
  const Node* kind = document->root.find("kind");
  if (kind == nullptr || kind->text != "NodeState") return forms::parse_plan(path, *text);
  const auto state = device::parse_state(path, *text, catalogue);
  if (!state) return failed(state.error());
  return plan_of(*state);
}

Result<IncrementalOutcome> make_plan_again(Context& context, const ReplanFlags& flags,
                                           const plan::ServingProblem& problem,
                                           const hw::Catalogue& catalogue, long node_budget) {
  const Result<plan::ServingPlan> current = load_current(context, flags.current, catalogue);
  if (!current) return failed(current.error());
  Progress progress(context);
  planners::serving::IncrementalOptions options;
  options.base.node_budget = node_budget;
  options.base.cpu_ms = [&context] { return static_cast<double>(context.clock.cpu_ns()) / 1e6; };
  options.base.progress = [&progress](const std::string& line) { progress.show(line); };
  if (flags.max_moves >= 0) options.max_moves = flags.max_moves;
  IncrementalOutcome result = planners::serving::incremental(problem, *current, options);
  if (!result.outcome.plan) return result;
  const auto violations = verify::verify(problem, *result.outcome.plan);
  if (violations.empty()) return result;
  return environment_error(
      "internal error", reasons_text("the incremental planner made a plan that the judge refuses; "
                                     "it is not shown. Please report this with the input files.",
                                     violations));
}

forms::PlanChanges changes_of(const IncrementalOutcome& outcome) {
  const planners::serving::Changes& c = outcome.changes;
  forms::PlanChanges changes{c.kept, c.restarted, c.moved, c.created, c.removed, {}};
  for (const CurvePoint& point : outcome.curve)
    changes.curve.push_back(
        {point.gpus, point.cost, point.moves, point.lower_bound, point.proven()});
  return changes;
}

std::string changes_text(const IncrementalOutcome& outcome) {
  const planners::serving::Changes& c = outcome.changes;
  Table table{{"GPUS", "TO CREATE", "AT LEAST", "PROVEN"}, {}};
  for (const CurvePoint& point : outcome.curve)
    table.rows.push_back({fmt::format("{}", point.gpus), fmt::format("{}", point.moves),
                          fmt::format("{}", point.lower_bound), point.proven() ? "yes" : "no"});
  return fmt::format(
      "\ninstances: {} kept, {} restarted, {} moved, {} created, {} removed\n\n{}", c.kept,
      c.restarted, c.moved, c.created, c.removed, to_string(table));
}

}  // namespace partita::cli
