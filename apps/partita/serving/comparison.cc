#include "serving/comparison.h"

#include <fmt/format.h>

#include "flags.h"
#include "forms/comparison_forms.h"
#include "serving/inputs.h"
#include "serving/report.h"
#include "table.h"

namespace partita::cli {
namespace {

Result<sim::ServingReport> traffic(const plan::ServingProblem& problem,
                                   const plan::ServingPlan& plan, const CompareOptions& options,
                                   sim::BatchingKind batching) {
  sim::ServingOptions simulation;
  simulation.duration = options.duration;
  simulation.seed = options.seed;
  simulation.batching = batching;
  return sim::simulate(problem, plan, simulation);
}

Result<Standing> stand(Context& context, plan::ServingProblem problem, const Contestant& contestant,
                       const CompareOptions& options) {
  problem.rule = contestant.rule;
  Result<Outcome> outcome = make_plan(context, *contestant.planner, problem, options.node_budget);
  if (!outcome) return failed(outcome.error());
  Standing standing{contestant, std::move(outcome->plan), std::move(outcome->refusals), {}, {}, {}};
  if (!standing.plan) return standing;
  for (const auto kind : {sim::BatchingKind::paced, sim::BatchingKind::full}) {
    Result<sim::ServingReport> report = traffic(problem, *standing.plan, options, kind);
    if (!report) return failed(report.error());
    (kind == sim::BatchingKind::paced ? standing.paced : standing.full) = std::move(*report);
  }
  if (contestant.rule.kind == plan::SloRule::Kind::execution) {
    standing.unfillable = unfillable_batches(*standing.plan);
  }
  return standing;
}

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
  if (!standing.plan) return {name, rule, "none", "-", "-", "-", "-", "-", "-", "-", "-"};
  const plan::Objective& objective = standing.plan->objective;
  return {name,
          rule,
          fmt::format("{}", objective.gpus),
          fmt::format("{}", objective.gpcs),
          bound(objective),
          objective.optimal ? "yes" : "-",
          fmt::format("{:.3f}", standing.plan->stats.planning_ms),
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

using StatedWorst = forms::StatedStanding::Worst;

std::optional<StatedWorst> stated_worst(const sim::ServingReport& report) {
  const sim::ServiceReport* worst = worst_service(report);
  if (worst == nullptr) return std::nullopt;
  return StatedWorst{worst->name, worst->slo_attainment};
}

forms::StatedStanding stated(const Standing& standing) {
  forms::StatedStanding row{.planner = standing.contestant.planner->name,
                            .slo_rule = plan::to_string(standing.contestant.rule),
                            .feasible = standing.plan.has_value(),
                            .reasons = standing.refusals};
  if (!standing.plan) return row;
  const plan::Objective& objective = standing.plan->objective;
  row.gpus = objective.gpus;
  row.gpcs = objective.gpcs;
  row.lower_bound_gpus = objective.lower_bound_gpus;
  row.optimal = objective.optimal;
  row.planning_ms = standing.plan->stats.planning_ms;
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

Result<std::vector<Contestant>> parse_contestants(const std::string& flag, const std::string& text,
                                                  const plan::SloRule& default_rule) {
  std::vector<Contestant> contestants;
  for (const std::string& part : split(text, ',')) {
    const std::size_t at = part.find('@');
    const Result<const Planner*> planner = find_planner(flag, part.substr(0, at));
    if (!planner) return failed(planner.error());
    Contestant contestant{*planner, default_rule};
    if (at != std::string::npos) {
      const Result<plan::SloRule> rule = load_rule(flag, part.substr(at + 1));
      if (!rule) return failed(rule.error());
      contestant.rule = *rule;
    }
    contestants.push_back(contestant);
  }
  return contestants;
}

std::vector<Unfillable> unfillable_batches(const plan::ServingPlan& plan) {
  std::vector<Unfillable> worst;
  for (const plan::PlannedService& service : plan.services) {
    std::optional<Unfillable> found;
    for (const plan::PlannedGpu& gpu : plan.gpus) {
      for (const plan::PlannedInstance& instance : gpu.instances) {
        if (instance.service != service.name) continue;
        const Rps share = plan::share_of(service, instance);
        if (!(share.value > 0)) continue;
        const Millis fill{(instance.batch - 1) / share.value * 1e3};
        const Millis total = fill + instance.latency;
        if (total <= service.slo || (found && total <= found->fill + found->execution)) continue;
        found = {service.name, instance.batch, share, fill, instance.latency, service.slo};
      }
    }
    if (found) worst.push_back(*found);
  }
  return worst;
}

Result<std::vector<Standing>> compare(Context& context, const plan::ServingProblem& problem,
                                      const std::vector<Contestant>& contestants,
                                      const CompareOptions& options) {
  std::vector<Standing> standings;
  for (const Contestant& contestant : contestants) {
    Result<Standing> standing = stand(context, problem, contestant, options);
    if (!standing) return failed(standing.error());
    standings.push_back(std::move(*standing));
  }
  return standings;
}

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
  for (const Standing& standing : standings) {
    const std::string name = fmt::format("{} ({})", standing.contestant.planner->name,
                                         plan::to_string(standing.contestant.rule));
    if (!standing.plan) {
      text += fmt::format("\n{}\n", reasons_text(name + " has no plan:", standing.refusals));
    }
    if (standing.unfillable.empty()) continue;
    text += fmt::format("\n{} plans batches that miss the SLO by filling alone:\n", name);
    for (const Unfillable& item : standing.unfillable) text += unfillable_text(item);
  }
  return text;
}

std::string comparison_json(const std::vector<Standing>& standings, const CompareOptions& options) {
  forms::StatedComparison comparison{options.duration.value, options.seed, {}};
  for (const Standing& standing : standings) comparison.planners.push_back(stated(standing));
  return forms::comparison_json(comparison);
}

}  // namespace partita::cli
