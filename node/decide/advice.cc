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

// A service that may be worth advice, before anything is planned again.
struct TightService {
  std::size_t service = 0;  // its place in the problem
  int gpcs = 0;
  Millis slo, fastest, least;
  bool ttft = false;  // it is a language model's
};

// What its SLO is near to; none where it is not.
std::optional<TightService> tight(const plan::ServingProblem& problem,
                                  const plan::Service& service) {
  if (service.tokens) {
    if (service.tokens->ttft.value <= 0) return std::nullopt;
    const Millis alone = planners::serving::alone_times(problem, service).ttft;
    return TightService{0, 0, service.tokens->ttft, alone, alone, true};
  }
  const std::optional<Millis> fastest = fastest_batch(problem, service.model);
  if (!fastest) return std::nullopt;
  const bool execution = problem.rule.kind == plan::SloRule::Kind::execution;
  const Millis least = execution ? *fastest / problem.rule.fraction : *fastest;
  if (service.slo >= kTightSlo * least) return std::nullopt;
  return TightService{0, 0, service.slo, *fastest, least};
}

std::vector<TightService> tight_services(const plan::ServingProblem& problem,
                                         const plan::ServingPlan& plan) {
  const auto gpcs = gpcs_by_service(problem, plan);
  int all = 0;
  for (const auto& [service, slices] : gpcs) all += slices;
  std::vector<TightService> found;
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    const plan::Service& service = problem.services[s];
    const auto slices = gpcs.find(service.name);
    if (slices == gpcs.end() || slices->second < kLargeShare * all) continue;
    std::optional<TightService> one = tight(problem, service);
    if (!one) continue;
    one->service = s;
    one->gpcs = slices->second;
    found.push_back(*one);
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, &TightService::gpcs);
  if (found.size() > kMaxAdvised) found.resize(kMaxAdvised);
  return found;
}

// A plan is better with fewer GPUs that cost no more.
bool saves(const plan::Objective& objective, const plan::Objective& present) {
  return objective.gpus < present.gpus && objective.cost <= present.cost;
}

// From the longest SLO down, until one saves nothing; ascending.
std::vector<plan::SloOption> tried_slos(const Planner& planner, plan::ServingProblem problem,
                                        const TightService& candidate,
                                        const plan::Objective& present,
                                        const PlanOptions& options) {
  plan::Service& service = problem.services[candidate.service];
  const std::vector<Millis> slos = rounder_slos(candidate.slo);
  std::vector<plan::SloOption> found;
  for (auto slo = slos.rbegin(); slo != slos.rend(); ++slo) {
    (candidate.ttft ? service.tokens->ttft : service.slo) = *slo;
    if (options.watch.progress)
      options.watch.progress(fmt::format("advice: {} with {} of {:g} ms", service.name,
                                         candidate.ttft ? "a TTFT" : "an SLO", slo->value));
    const auto made = make_plan(planner, problem, options);
    if (!made || !made->plan || !saves((*made->plan)->objective, present)) break;
    found.push_back({*slo, (*made->plan)->objective.gpus});
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

std::vector<plan::SloAdvice> advise(const Planner& planner, const plan::ServingProblem& problem,
                                    const plan::ServingPlan& plan, const PlanOptions& options) {
  std::vector<plan::SloAdvice> advice;
  if (plan.objective.gpus < 2 || problem.services.size() > kMaxServicesForAdvice) return advice;
  PlanOptions limited = options;
  limited.node_budget = std::min(options.node_budget, kAdviceNodes);
  planners::serving::TokenOracle tokens;  // of all tries
  if (!limited.planners_tokens) limited.planners_tokens = &tokens;
  for (const TightService& candidate : tight_services(problem, plan)) {
    auto said = worth_saying(tried_slos(planner, problem, candidate, plan.objective, limited));
    if (said.empty()) continue;
    advice.push_back({problem.services[candidate.service].name, candidate.slo, candidate.fastest,
                      candidate.least, plan.objective.gpus, std::move(said), candidate.ttft});
  }
  return advice;
}

}  // namespace partita::decide
