#include "decide/comparison.h"

#include <algorithm>
#include <utility>

#include "base/split.h"
#include "decide/serving_inputs.h"

namespace partita::decide {
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

Result<Standing> stand(plan::ServingProblem problem, const Contestant& contestant,
                       const CompareOptions& options, const Watch& watch) {
  problem.rule = contestant.rule;
  auto made = TRY(make_plan(*contestant.planner, problem, {options.node_budget, watch}));
  Standing standing{contestant, std::move(made), {}, {}, {}};
  if (!standing.made.plan) return standing;
  const plan::ServingPlan& plan = **standing.made.plan;
  for (const auto kind : {sim::BatchingKind::paced, sim::BatchingKind::full}) {
    sim::ServingReport report = TRY(traffic(problem, plan, options, kind));
    (kind == sim::BatchingKind::paced ? standing.paced : standing.full) = std::move(report);
  }
  if (contestant.rule.kind == plan::SloRule::Kind::execution) {
    standing.unfillable = unfillable_batches(plan);
  }
  return standing;
}

}  // namespace

std::string usual_contestants(const plan::ServingProblem& problem) {
  const bool only_exact = std::ranges::any_of(problem.services, plan::adds_up);
  return only_exact ? "exact" : "exact,parvagpu,parvagpu-single,parvagpu-unoptimized";
}

Result<std::vector<Contestant>> parse_contestants(const std::string& flag, const std::string& text,
                                                  const std::optional<plan::SloRule>& asked) {
  std::vector<Contestant> contestants;
  for (const std::string& part : split(text, ',')) {
    const std::size_t at = part.find('@');
    const Planner* planner = TRY(find_planner(flag, part.substr(0, at)));
    Contestant contestant{planner, rule_for(*planner, asked)};
    if (at != std::string::npos) {
      contestant.rule = TRY(load_rule(flag, part.substr(at + 1)));
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

Result<std::vector<Standing>> compare(const plan::ServingProblem& problem,
                                      const std::vector<Contestant>& contestants,
                                      const CompareOptions& options, const Watch& watch) {
  std::vector<Standing> standings;
  for (const Contestant& contestant : contestants) {
    Standing standing = TRY(stand(problem, contestant, options, watch));
    standings.push_back(std::move(standing));
  }
  return standings;
}

}  // namespace partita::decide
