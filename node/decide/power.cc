#include "decide/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "decide/input.h"
#include "decide/kernel_inputs.h"
#include "decide/reasons.h"
#include "forms/power_forms.h"
#include "forms/serving_forms.h"
#include "forms/traffic_forms.h"
#include "planners/power/fleet.h"
#include "planners/power/policies.h"
#include "planners/power/schedule.h"
#include "verify/judge.h"

namespace partita::decide {
namespace {

constexpr double kMostBins = 1'000'000;

// Whether a plan for Poisson arrivals is on the safe side.
bool as_even_as_poisson(const plan::Arrivals& arrivals) {
  const auto* const gamma = std::get_if<plan::GammaArrivals>(&arrivals);
  return plan::is_poisson(arrivals) || std::holds_alternative<plan::EvenArrivals>(arrivals) ||
         (gamma != nullptr && gamma->cv <= 1);
}

Result<plan::Terms> power_service(const PowerFiles& names, const plan::Service& service) {
  const std::string where = fmt::format("{}:{}", names.services, service.line);
  if (names.promise == plan::PowerPromise::queueing &&
      !as_even_as_poisson(service.traffic.arrivals))
    return bad_input(where, fmt::format("service {} declares arrivals ({}); power is planned for "
                                        "Poisson arrivals only",
                                        service.name, plan::to_string(service.traffic.arrivals)));
  if (names.promise && (plan::adds_up(service) || service.pipeline))
    return bad_input(where, fmt::format("service {} is of kind llm, a pipeline or has 'models', "
                                        "which are not planned for with power",
                                        service.name));
  if (service.min_replicas > 1 || service.spread || !service.avoid.empty())
    return bad_input(where, "min_replicas and anti_affinity are not planned for with power");
  if (!(service.rate.value > 0))
    return bad_input(where, "power is planned for a rate: give rate_rps, and a trace by --trace");
  return plan::Terms{service.name, service.model, plan::planning_rate(service), service.slo,
                     service.percentile};
}

// What there is for the policies other than exact, on one GPU.
Result<Made<plan::PowerPlan>> by_policy(plan::PowerProblem problem, const power::Policy& policy) {
  problem.gating = policy.gating;
  const auto chooser = power::Chooser::make(problem, policy);
  if (!chooser) {
    if (chooser.error().code != ErrorCode::infeasible) return failed(chooser.error());
    return Made<plan::PowerPlan>{{}, {{plan::kNotFound, "plan", 0, 0, chooser.error().message}}, 0};
  }
  std::vector<Rps> rates;
  for (const plan::Terms& service : problem.services) rates.push_back(service.rate);
  const auto setting = chooser->choose(rates);
  if (!setting)
    return Made<plan::PowerPlan>{
        {}, {{plan::kNotFound, "plan", 0, 0, "the policy's settings do not carry the rates"}}, 0};
  const plan::Setting chosen = power::to_setting(problem.table, policy.gating, *setting);
  plan::PowerGpu gpu{chosen.clock,
                     *chosen.cap,
                     power::power_at(problem.table, policy.gating, *setting, rates),
                     {}};
  for (std::size_t s = 0; s < rates.size(); ++s)
    gpu.shares.push_back({problem.services[s].name, chosen.units[s], chosen.batches[s], rates[s]});
  plan::PowerPlan plan{policy.name, policy.gating, problem.promise, {gpu}, 0,
                       gpu.power,   {0},           false,           ""};
  const std::string who = fmt::format("policy '{}' made a plan", policy.name);
  return make_and_judge(who, problem, std::optional(std::move(plan)), {});
}

Result<plan::PowerSchedule> judged_schedule(const power::Chooser& chooser,
                                            const plan::PowerTrace& trace,
                                            const plan::TransitionCost& cost) {
  auto schedule = TRY(power::plan_schedule(chooser, trace, cost));
  const auto verdict = verify::judge(chooser.problem(), trace, cost, std::move(schedule));
  if (!verdict)
    return failed(
        refused_by_judge(fmt::format("policy '{}' made a schedule", chooser.policy().name),
                         verdict.error().violations));
  return **verdict;
}

}  // namespace

Result<plan::ResponseTable> load_power_table(Files& files, const PowerFiles& names) {
  const hw::Topology topology = TRY(load_topology(names.gpu));
  const std::string text = TRY(read_input(files, "--table", names.table));
  return forms::parse_power_table(names.table, text, {topology.name, topology.units_in});
}

Result<plan::ResponseTable> load_slice_table(Files& files, const std::string& file,
                                             const hw::GpuModel& gpu) {
  const std::string text = TRY(read_input(files, "power_tables", file));
  return forms::parse_power_table(file, text, {gpu.name, {gpu.compute_slices}});
}

Result<plan::PowerProblem> load_power_problem(Files& files, const PowerFiles& names) {
  plan::PowerProblem problem;
  problem.table = TRY(load_power_table(files, names));
  const std::string text = TRY(read_input(files, "--services", names.services));
  const auto file = TRY(forms::parse_services_file(names.services, text));
  const auto& services = file.services;
  if (names.promise && file.survive > 0)
    return bad_input(names.services, "the loss of a GPU (survive) is not planned for with power");
  if (services.size() > plan::kMaxPowerServices)
    return bad_input(names.services, fmt::format("{} services, at most {} are planned for power",
                                                 services.size(), plan::kMaxPowerServices));
  for (const plan::Service& service : services) {
    auto one = TRY(power_service(names, service));
    problem.services.push_back(std::move(one));
  }
  return problem;
}

Result<plan::PowerTrace> load_power_trace(Files& files, const PowerTraceFile& named,
                                          const std::vector<plan::Terms>& services) {
  const auto recorded =
      TRY(read_input(files, "--trace", named.file, forms::parse_traffic_trace, forms::TraceRows{}));
  if (recorded.times_s.empty())
    return bad_input("--trace " + named.file, "a trace with a time per request is needed");
  const double count = std::round(named.duration / named.bin);
  if (!(count >= 1 && count <= kMostBins))
    return bad_input("--bin", fmt::format("{:g} s cut into bins of {:g} s: give 1 to {:g} bins",
                                          named.duration.value, named.bin.value, kMostBins));
  const double first = recorded.times_s.front();
  const double span = (recorded.times_s.back() - first) * (1 + 1e-9);
  if (!(span > 0)) return bad_input("--trace " + named.file, "all requests come at one time");
  std::vector<double> bins(static_cast<std::size_t>(count));
  for (const double time : recorded.times_s)
    ++bins[std::min(bins.size() - 1, static_cast<std::size_t>((time - first) / span * count))];
  const double most = *std::ranges::max_element(bins);
  plan::PowerTrace trace{named.bin, {}};
  for (const double bin : bins) {
    trace.rates.emplace_back();
    for (const plan::Terms& service : services)
      trace.rates.back().push_back(service.rate * (bin / most));
  }
  return trace;
}

plan::PowerTrace steady_trace(Seconds duration, const std::vector<plan::Terms>& services) {
  plan::PowerTrace trace{duration, {{}}};
  for (const plan::Terms& service : services) trace.rates[0].push_back(service.rate);
  return trace;
}

Result<Made<plan::PowerPlan>> make_power_plan(const plan::PowerProblem& problem,
                                              const std::string& policy) {
  const auto named = TRY(power::policy_named(policy, problem.gating));
  if (!named.exact) {
    if (problem.gpus != 1)
      return bad_input("--gpus",
                       fmt::format("policy '{}' sets one GPU; 'exact' plans fleets", policy));
    return by_policy(problem, named);
  }
  power::FleetOutcome outcome = power::plan_fleet(problem, {});
  return make_and_judge("policy 'exact' made a plan", problem, std::move(outcome.plan),
                        std::move(outcome.refusals));
}

Result<void> to_most(plan::PowerProblem& problem) {
  const auto baseline = power::policy_named("baseline", plan::Gating::none);
  for (plan::Terms& service : problem.services) {
    plan::PowerProblem alone = problem;
    alone.services = {service};
    alone.services[0].rate = {1e-9};
    alone.cap.reset();
    const auto chooser = TRY(power::Chooser::make(alone, *baseline));
    service.rate = chooser.most().options[0]->capacity;
  }
  return {};
}

Result<std::vector<PowerOutcome>> compare_power(const plan::PowerProblem& problem,
                                                const PowerComparison& how) {
  std::vector<PowerOutcome> outcomes;
  for (const std::string& name : how.policies) {
    const auto policy = TRY(power::policy_named(name, problem.gating));
    plan::PowerProblem own = problem;
    own.gating = policy.gating;
    power::ControlOptions control = how.control;
    control.policy = name;
    const auto controller = TRY(power::make_controller(own, control));
    sim::PowerRunOptions run = how.run;
    run.poll = control.poll;
    const auto decide = [&](const plan::Observation& seen) { return controller->decide(seen); };
    PowerOutcome outcome{name, policy.gating,
                         sim::simulate_power(own, policy.gating, controller->start(), decide, run)};
    if (how.known) {
      const auto chooser = TRY(power::Chooser::make(own, policy));
      auto schedule = judged_schedule(chooser, run.trace, run.cost);
      if (schedule) {
        outcome.known = *std::move(schedule);
      } else if (schedule.error().code == ErrorCode::infeasible) {
        outcome.known_refusal = schedule.error().message;
      } else {
        return failed(schedule.error());
      }
    }
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

}  // namespace partita::decide
