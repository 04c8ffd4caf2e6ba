// CPU time of the serving planners on S1..S6, S5 with its services x10, and random problems of
// 1,000 and 10,000 services, planned from the shipped laws. ParvaGPU's planner runs beside the
// exact one: quote the ratio.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/source_text.h"
#include "hw/catalogue.h"
#include "forms/serving_forms.h"
#include "planners/serving/planner.h"
#include "profile/law.h"

namespace partita {
namespace {

plan::ServingProblem empty_problem() {
  const std::string name = "data/profiles/a100-80gb.json";
  const auto laws = profile::parse_laws(name, source_text(name));
  plan::ServingProblem problem;
  plan::FleetEntry entry;
  entry.gpu = *hw::builtin_catalogue().find("A100-80GB");
  entry.profiles = *profile::table_from_laws(*laws, entry.gpu);
  problem.fleet.push_back(entry);
  problem.rule = {plan::SloRule::Kind::execution, 0.45};
  return problem;
}

plan::ServingProblem scenario(int number, int copies) {
  const std::string name = "data/scenarios/s" + std::to_string(number) + ".yaml";
  plan::ServingProblem problem = empty_problem();
  const auto services = *forms::parse_services(name, source_text(name));
  for (int copy = 0; copy < copies; ++copy)
    for (plan::Service service : services) {
      service.name += "-" + std::to_string(copy);
      problem.services.push_back(service);
    }
  return problem;
}

plan::ServingProblem random_problem(int services) {
  plan::ServingProblem problem = empty_problem();
  std::vector<std::string> models;
  for (const auto& [name, profile] : problem.fleet[0].profiles) models.push_back(name);
  Rng rng(1);
  for (int s = 0; s < services; ++s) {
    plan::Service service;
    service.model = models[rng.below(models.size())];
    service.name = service.model + "-" + std::to_string(s);
    const bool slow = service.model == "bert";
    service.rate = Rps{1 + 5000 * rng.uniform() / (slow ? 5 : 1)};
    service.slo = Millis{(50 + 400 * rng.uniform()) * (slow ? 15 : 1)};
    problem.services.push_back(service);
  }
  return problem;
}

const planners::serving::Planner& planner(const std::string& name) {
  for (const auto& candidate : planners::serving::planners())
    if (candidate.name == name) return candidate;
  CHECK(false);
}

void run(benchmark::State& state, const std::string& name, const plan::ServingProblem& problem) {
  for (auto _ : state) {
    const auto outcome = planner(name).plan(problem, {});
    CHECK(outcome.plan);
    state.counters["gpus"] = outcome.plan->objective.gpus;
    state.counters["bound"] = outcome.plan->objective.lower_bound_gpus;
    state.counters["optimal"] = outcome.plan->objective.optimal;
  }
}

void add(const std::string& label, const plan::ServingProblem& problem) {
  for (const std::string name : {"exact", "parvagpu"})
    benchmark::RegisterBenchmark((label + "/" + name).c_str(), [name,
                                                                problem](benchmark::State& s) {
      run(s, name, problem);
    })->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int s = 1; s <= 6; ++s) partita::add("S" + std::to_string(s), partita::scenario(s, 1));
  partita::add("S5x10", partita::scenario(5, 10));
  partita::add("random1000", partita::random_problem(1000));
  partita::add("random10000", partita::random_problem(10'000));
  benchmark::RunSpecifiedBenchmarks();
}
