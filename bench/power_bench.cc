// Power: 15 minutes of seven policies simulated, settings chosen, schedules over a known trace, and
// plans of fleets with their gaps, on modelled tables of an MI50 and the SWIM traces.
#include <benchmark/benchmark.h>

#include <cmath>

#include "base/check.h"
#include "base/rng.h"
#include "base/source_text.h"
#include "decide/power.h"
#include "planners/power/fleet.h"
#include "planners/power/policies.h"
#include "planners/power/schedule.h"
#include "planners/power/testing/published_mi50.h"
#include "verify/power.h"

namespace partita {
namespace {

plan::PowerProblem alone(const char* name) {
  plan::PowerProblem problem;
  problem.table = power::published_mi50(1);
  problem.gating = plan::Gating::unit;
  for (const plan::PowerPoint& point : problem.table.find(name)->points)
    if (point.batch == 1) problem.services = {{name, name, {1}, point.p95 * 2, 95}};
  CHECK(decide::to_most(problem).has_value());
  return problem;
}

plan::PowerTrace swim(const plan::PowerProblem& problem, double bin) {
  MemoryFiles files;
  files.content["t.csv"] = source_text("data/published/swim/fb09-0.csv");
  const auto trace = decide::load_power_trace(files, {"t.csv", {900}, {bin}}, problem.services);
  CHECK(trace.has_value());
  return *trace;
}

// One policy, one model, 15 minutes with polls of 0.5 s.
void fifteen_minutes(benchmark::State& state) {
  const plan::PowerProblem problem = alone(power::kPublishedModels[state.range(0)]);
  decide::PowerComparison how;
  how.policies = {"exact"};
  how.known = false;
  how.run.trace = swim(problem, 10);
  long requests = 0;
  for (auto _ : state) {
    const auto outcomes = decide::compare_power(problem, how);
    CHECK(outcomes.has_value());
    requests = outcomes->front().run.services[0].requests;
  }
  state.counters["requests"] = static_cast<double>(requests);
  state.SetLabel(power::kPublishedModels[state.range(0)]);
}
BENCHMARK(fifteen_minutes)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);

// The optimum over 1,800 steps that are known beforehand.
void schedule(benchmark::State& state) {
  const plan::PowerProblem problem = alone("vgg");
  const plan::PowerTrace trace = swim(problem, 0.5);
  const auto chooser = power::Chooser::make(problem, *power::policy_named("exact", problem.gating));
  for (auto _ : state)
    benchmark::DoNotOptimize(power::plan_schedule(*chooser, trace, {{0.5}, {0.1}}));
}
BENCHMARK(schedule)->Unit(benchmark::kMillisecond);

// 100 services on 50 GPUs: per cent of load, gating, units in steps of five; the proven gap.
void fleet(benchmark::State& state) {
  plan::PowerProblem problem;
  problem.table = power::published_mi50(5);
  problem.gpus = 50;
  problem.gating = static_cast<plan::Gating>(state.range(1));
  Rng rng(static_cast<std::uint64_t>(state.range(2)));
  for (int s = 0; s < 100; ++s) {
    const plan::ModelResponse& model = problem.table.models[rng.below(9)];
    const plan::PowerPoint& whole = model.points[model.points.size() - 4];
    const double load = static_cast<double>(state.range(0)) / 100 * 50 / 100 * 2;
    const double times[] = {2, 3, 4, 6};
    problem.services.push_back({"s" + std::to_string(s), model.model,
                                whole.max_rate * (load * rng.uniform()),
                                whole.p95 * times[rng.below(4)], 95});
  }
  plan::PowerPlan plan;
  for (auto _ : state) {
    const power::FleetOutcome outcome = power::plan_fleet(problem, {});
    CHECK(outcome.plan.has_value());
    plan = *outcome.plan;
  }
  CHECK(verify::verify(problem, plan).empty());
  state.counters["gap_percent"] = 100 * (plan.power / plan.bound - 1);
  state.counters["gpus"] = static_cast<double>(plan.gpus.size());
}
BENCHMARK(fleet)
    ->ArgsProduct({{5, 10, 20}, {0, 2}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace partita
