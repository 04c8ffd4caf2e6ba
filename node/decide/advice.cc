#include "decide/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "planners/serving/token_points.h"

namespace partita::decide {
namespace {

// Whether an instance of this size can hold the point at all.
bool has_room(const hw::GpuModel& gpu, const profile::ProfilePoint& point) {
  return std::ranges::any_of(gpu.profiles, [&](const hw::MigProfile& shape) {
    return shape.gpcs == point.gpcs &&
           !(point.memory && shape.memory && *point.memory > *shape.memory);
  });
}

// Compute slices of every service in the plan.
std::map<std::string_view, int> gpcs_by_service(const plan::ServingProblem& problem,
                                                const plan::ServingPlan& plan) {
  std::map<std::string_view, std::map<std::string_view, int>> sizes;  // model, profile
  for (const plan::FleetEntry& entry : problem.fleet)
    for (const hw::MigProfile& shape : entry.gpu.profiles)
      sizes[entry.gpu.name][shape.name] = shape.gpcs;
  std::map<std::string_view, int> gpcs;
  for (const plan::PlannedGpu& gpu : plan.gpus)
    for (const plan::PlannedInstance& instance : gpu.instances)
      gpcs[instance.service] += sizes[gpu.model][instance.profile];
  return gpcs;
}

// A promise of a service that may be worth advice, before anything is planned again.
struct PromiseToEase {
  std::size_t service = 0;  // its place in the problem
  plan::Eased eased = plan::Eased::slo;
  Millis slo, fastest, least;
};

// Language models may have any of three eased; what all wait for is a request alone.
std::vector<PromiseToEase> eased_of_tokens(const plan::ServingProblem& problem, std::size_t s) {
  const plan::Service& service = problem.services[s];
  const planners::serving::AloneTimes alone = planners::serving::alone_times(problem, service);
  const Millis whole = alone.ttft + (plan::mean_of(*service.tokens).out - 1) * alone.tpot;
  std::vector<PromiseToEase> found;
  const Millis ttft = service.tokens->ttft, tpot = service.tokens->tpot;
  if (ttft.value > 0) found.push_back({s, plan::Eased::ttft, ttft, alone.ttft, alone.ttft});
  if (service.slo.value > 0) found.push_back({s, plan::Eased::slo, service.slo, whole, whole});
  const Millis promised = service.slo.value > 0 ? service.slo : ttft.value > 0 ? ttft : tpot;
  const Millis fastest = service.slo.value > 0 ? whole : ttft.value > 0 ? alone.ttft : alone.tpot;
  found.push_back({s, plan::Eased::percentile, promised, fastest, fastest});
  return found;
}

// What its SLO is near to; none where it is not.
std::vector<PromiseToEase> eased_of(const plan::ServingProblem& problem, std::size_t s) {
  const plan::Service& service = problem.services[s];
  if (service.tokens) return eased_of_tokens(problem, s);
  const std::optional<Millis> fastest = fastest_batch(problem, service.model);
  if (!fastest) return {};
  const bool execution = problem.rule.kind == plan::SloRule::Kind::execution;
  const Millis least = execution ? *fastest / problem.rule.fraction : *fastest;
  if (service.slo >= kTightSlo * least) return {};
  return {{s, plan::Eased::slo, service.slo, *fastest, least}};
}

// Of the largest services.
std::vector<PromiseToEase> promises_to_ease(const plan::ServingProblem& problem,
                                            const plan::ServingPlan& plan) {
  const auto gpcs = gpcs_by_service(problem, plan);
  int all = 0;
  for (const auto& [service, slices] : gpcs) all += slices;
  std::vector<std::pair<int, std::vector<PromiseToEase>>> found;
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    const auto slices = gpcs.find(problem.services[s].name);
    if (slices == gpcs.end() || slices->second < kLargeShare * all) continue;
    if (auto eased = eased_of(problem, s); !eased.empty())
      found.emplace_back(slices->second, std::move(eased));
  }
  std::ranges::stable_sort(found, std::ranges::greater{},
                           [](const auto& one) { return one.first; });
  if (found.size() > kMaxAdvised) found.resize(kMaxAdvised);
  std::vector<PromiseToEase> largest;
  for (auto& [slices, eased] : found) largest.insert(largest.end(), eased.begin(), eased.end());
  return largest;
}

// A plan is better with fewer GPUs that cost no more.
bool saves(const plan::Objective& objective, const plan::Objective& present) {
  return objective.gpus < present.gpus && objective.cost <= present.cost;
}

// What to try, the hardest first; GPUs are open.
std::vector<plan::SloOption> to_try(const plan::Service& service, const PromiseToEase& candidate) {
  std::vector<plan::SloOption> options;
  if (candidate.eased == plan::Eased::percentile)
    for (const double percentile : lower_percentiles(service.percentile))
      options.push_back({candidate.slo, 0, percentile});
  else
    for (const Millis slo : rounder_slos(candidate.slo)) options.push_back({slo});
  return options;
}

// From the easiest promise down, until one saves nothing; the hardest first.
std::vector<plan::SloOption> tried(const Planner& planner, plan::ServingProblem problem,
                                   const PromiseToEase& candidate, const plan::Objective& present,
                                   const PlanOptions& options) {
  plan::Service& service = problem.services[candidate.service];
  std::vector<plan::SloOption> left = to_try(service, candidate), found;
  for (; !left.empty(); left.pop_back()) {
    plan::SloOption option = left.back();
    if (candidate.eased == plan::Eased::percentile)
      service.percentile = option.percentile;
    else
      (candidate.eased == plan::Eased::ttft ? service.tokens->ttft : service.slo) = option.slo;
    if (options.watch.progress)
      options.watch.progress(fmt::format("advice: {} with {}", service.name,
                                         option.percentile > 0
                                             ? fmt::format("p{:g}", option.percentile)
                                             : fmt::format("{:g} ms", option.slo.value)));
    const auto made = make_plan(planner, problem, options);
    if (!made || !made->plan || !saves((*made->plan)->objective, present)) break;
    option.gpus = (*made->plan)->objective.gpus;
    found.push_back(option);
  }
  std::ranges::reverse(found);
  return found;
}

// The first, and the first of those with the fewest GPUs.
std::vector<plan::SloOption> worth_saying(const std::vector<plan::SloOption>& tried) {
  if (tried.empty()) return {};
  const auto fewest = std::ranges::min_element(tried, {}, &plan::SloOption::gpus);
  std::vector<plan::SloOption> said{tried.front()};
  if (fewest->gpus < said.front().gpus) said.push_back(*fewest);
  return said;
}

}  // namespace

std::optional<Millis> fastest_batch(const plan::ServingProblem& problem, const std::string& model) {
  std::optional<Millis> fastest;
  for (const plan::FleetEntry& entry : problem.fleet) {
    const auto profile = entry.profiles.find(model);
    if (profile == entry.profiles.end()) continue;
    for (const profile::ProfilePoint& point : profile->second.points) {
      if (point.processes > problem.max_processes || (fastest && *fastest <= point.latency))
        continue;
      if (has_room(entry.gpu, point)) fastest = point.latency;
    }
  }
  return fastest;
}

std::vector<Millis> rounder_slos(Millis slo) {
  constexpr double kSteps[] = {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8};
  std::vector<Millis> slos;
  for (int exponent = static_cast<int>(std::floor(std::log10(slo.value)));; ++exponent) {
    const double decade = std::pow(10, std::abs(exponent));
    for (const double step : kSteps) {
      const Millis round{exponent < 0 ? step / decade : step * decade};
      if (round <= slo * (1 + 1e-9)) continue;
      slos.push_back(round);
      if (round >= kMostRelaxed * slo * (1 - 1e-9)) return slos;
    }
  }
}

std::vector<double> lower_percentiles(double percentile) {
  constexpr double kMoreLate[] = {2, 5}, kLowest = 50;
  std::vector<double> found;
  for (const double more : kMoreLate) {
    const double lower = std::round((100 - more * (100 - percentile)) * 1e6) / 1e6;
    if (lower >= kLowest) found.push_back(lower);
  }
  return found;
}

std::vector<plan::SloAdvice> advise(const Planner& planner, const plan::ServingProblem& problem,
                                    const plan::ServingPlan& plan, const PlanOptions& options) {
  std::vector<plan::SloAdvice> advice;
  if (plan.objective.gpus < 2 || problem.services.size() > kMaxServicesForAdvice) return advice;
  PlanOptions limited = options;
  limited.node_budget = std::min(options.node_budget, kAdviceNodes);
  planners::serving::TokenOracle tokens;  // of all tries
  if (!limited.planners_tokens) limited.planners_tokens = &tokens;
  for (const PromiseToEase& candidate : promises_to_ease(problem, plan)) {
    auto said = worth_saying(tried(planner, problem, candidate, plan.objective, limited));
    if (said.empty()) continue;
    const plan::Service& service = problem.services[candidate.service];
    const bool percentile = candidate.eased == plan::Eased::percentile;
    advice.push_back({service.name, candidate.slo, candidate.fastest, candidate.least,
                      plan.objective.gpus, std::move(said), candidate.eased,
                      percentile ? service.percentile : 0, service.tokens.has_value()});
  }
  return advice;
}

}  // namespace partita::decide
