// CPU time of the serving planners on S1..S6, S5 with its services x10, and random problems of
// 1,000 and 10,000 services, planned from the shipped laws. ParvaGPU's planner runs beside the
// exact one: quote the ratio.
#include <benchmark/benchmark.h>

#include "base/check.h"
#include "planners/serving/planner.h"
#include "serving_problems.h"

namespace partita {
namespace {

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
  partita::add("random1000", partita::random_problem(1000, 5000));
  partita::add("random10000", partita::random_problem(10'000, 5000));
  benchmark::RunSpecifiedBenchmarks();
}
