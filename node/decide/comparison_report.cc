#include "decide/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "decide/reasons.h"
#include "decide/serving_report.h"
#include "decide/simulate.h"
#include "forms/comparison_forms.h"

namespace partita::decide {
namespace {

using StatedWorst = forms::StatedStanding::Worst;

std::string bound(const plan::Objective& objective) {
  return objective.lower_bound_gpus > 0 ? fmt::format("{}", objective.lower_bound_gpus) : "-";
}

std::string attainment(const sim::ServingReport& report) {
  const sim::ServiceReport* worst = worst_service(report);
  if (worst == nullptr) return "-";
  if (worst->slo_attainment == 1) return percent(1);
  return fmt::format("{} {}", percent(worst->slo_attainment), worst->name);
}

std::vector<std::string> row_of(const Standing& standing) {
  const std::string& name = standing.contestant.planner->name;
  const std::string rule = plan::to_string(standing.contestant.rule);
  if (!standing.made.plan) return {name, rule, "none", "-", "-", "-", "-", "-", "-", "-", "-"};
  const plan::Objective& objective = (*standing.made.plan)->objective;
  return {name,
          rule,
          fmt::format("{}", objective.gpus),
          fmt::format("{}", objective.gpcs),
          bound(objective),
          objective.optimal ? "yes" : "-",
          fmt::format("{:.3f}", (*standing.made.plan)->stats.planning_ms),
          percent(standing.paced.internal_slack),
          percent(standing.paced.external_fragmentation),
          attainment(standing.paced),
          attainment(standing.full)};
}

std::string unfillable_text(const Unfillable& item) {
  return fmt::format(
      "  {}: a batch of {} at {:.3g} req/s takes {:.2f} s to fill and {:.2f} s to run; SLO {:.2f} "
      "s\n",
      item.service, item.batch, item.share.value, item.fill.value / 1e3, item.execution.value / 1e3,
      item.slo.value / 1e3);
}

std::optional<StatedWorst> stated_worst(const sim::ServingReport& report) {
  const sim::ServiceReport* worst = worst_service(report);
  if (worst == nullptr) return std::nullopt;
  return StatedWorst{worst->name, worst->slo_attainment};
}

forms::StatedStanding stated(const Standing& standing) {
  forms::StatedStanding row{.planner = standing.contestant.planner->name,
                            .slo_rule = plan::to_string(standing.contestant.rule),
                            .feasible = standing.made.plan.has_value(),
                            .reasons = standing.made.refusals};
  if (!standing.made.plan) return row;
  const plan::Objective& objective = (*standing.made.plan)->objective;
  row.gpus = objective.gpus;
  row.gpcs = objective.gpcs;
  row.lower_bound_gpus = objective.lower_bound_gpus;
  row.optimal = objective.optimal;
  row.planning_ms = (*standing.made.plan)->stats.planning_ms;
  row.internal_slack = standing.paced.internal_slack;
  row.external_fragmentation = standing.paced.external_fragmentation;
  row.worst_paced = stated_worst(standing.paced);
  row.worst_full = stated_worst(standing.full);
  for (const Unfillable& item : standing.unfillable)
    row.unfillable.push_back({item.service, item.batch, item.share.value, item.fill.value,
                              item.execution.value, item.slo.value});
  return row;
}

}  // namespace

std::string comparison_text(const std::vector<Standing>& standings, const CompareOptions& options) {
  Table table{{"PLANNER", "SLO RULE", "GPUs", "GPCs", "BOUND", "OPTIMAL", "CPU ms", "SLACK",
               "FRAGMENTS", "WORST IN SLO, PACED", "WORST IN SLO, FULL BATCHES"},
              {}};
  for (const Standing& standing : standings) table.rows.push_back(row_of(standing));
  std::string text = to_string(table);
  text += fmt::format(
      "\nIn SLO: requests of the worst service that met its SLO in {:g} s of Poisson arrivals "
      "(seed "
      "{}).\nPaced: a batch starts when the pace allows. Full: a batch waits until it is full.\n",
      options.duration.value, options.seed);
  const auto shares = [](const Standing& standing) {
    return standing.made.plan && plan::shares_gpus(**standing.made.plan);
  };
  if (std::ranges::any_of(standings, shares)) {
    text += "Plans without MIG: ";
    text += plan::kSharesJudged;
    text += ".\n";
  }
  for (const Standing& standing : standings) {
    const std::string name = fmt::format("{} ({})", standing.contestant.planner->name,
                                         plan::to_string(standing.contestant.rule));
    if (!standing.made.plan) {
      text += fmt::format("\n{}\n", reasons_text(name + " has no plan:", standing.made.refusals));
    }
    if (standing.unfillable.empty()) continue;
    text += fmt::format("\n{} plans batches that take longer to fill than the SLO allows:\n", name);
    for (const Unfillable& item : standing.unfillable) text += unfillable_text(item);
  }
  return text;
}

std::string comparison_json(const std::vector<Standing>& standings, const CompareOptions& options) {
  forms::StatedComparison comparison{options.duration.value, options.seed, {}};
  for (const Standing& standing : standings) comparison.planners.push_back(stated(standing));
  return forms::comparison_json(comparison);
}

}  // namespace partita::decide
