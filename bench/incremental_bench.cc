// Incremental planning after a tenth of the services (at least one) changed their rate by up to
// 30 % either way: instances to be created against planning from scratch with the GPUs matched to
// what runs, and CPU time. Prints the table of docs/results/incremental.md, then times.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <ctime>

#include "base/check.h"
#include "base/rng.h"
#include "planners/serving/exact.h"
#include "planners/serving/incremental.h"
#include "planners/serving/incremental_repack.h"
#include "serving_problems.h"
#include "verify/serving.h"

namespace partita {
namespace {

using planners::serving::IncrementalOutcome;

// Another rate for a tenth of the services.
plan::ServingProblem changed(plan::ServingProblem problem, std::uint64_t seed) {
  Rng rng(seed);
  const std::size_t count = std::max<std::size_t>(1, problem.services.size() / 10);
  for (std::size_t n = 0; n < count; ++n) {
    plan::Service& service = problem.services[rng.below(problem.services.size())];
    service.rate = (0.7 + 0.6 * rng.uniform()) * service.rate;
  }
  return problem;
}

double cpu_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

IncrementalOutcome plan_again(const plan::ServingProblem& problem,
                              const plan::ServingPlan& current) {
  planners::serving::IncrementalOptions options;
  options.base.cpu_ms = cpu_ms;
  IncrementalOutcome result = planners::serving::incremental(problem, current, options);
  CHECK(result.outcome.plan && verify::verify(problem, *result.outcome.plan).empty());
  return result;
}

// Instances that planning from scratch creates when its GPUs are matched to those that run.
int from_scratch(const plan::ServingProblem& problem, const plan::ServingPlan& current) {
  using planners::serving::best_points;
  using planners::serving::make_fleet;
  using planners::serving::make_site;
  using planners::serving::matched;
  using planners::serving::plan_exact;
  using planners::serving::PointTable;
  using planners::serving::Site;
  const std::vector<PointTable> tables{best_points(problem, problem.fleet[0])};
  const auto fleet = make_fleet(problem, tables);
  const Site site = make_site(problem, tables, *fleet, {current});
  return matched(site, plan_exact(problem, {}).plan->gpus).creations();
}

struct Case {
  std::string name;
  plan::ServingProblem problem;
  int changes;  // how many different ones
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (int s = 1; s <= 6; ++s) result.push_back({"S" + std::to_string(s), scenario(s, 1), 20});
  result.push_back({"S6 x 2", scenario(6, 2), 10});
  result.push_back({"S5 x 10", scenario(5, 10), 5});
  result.push_back({"random 100", random_problem(100, 1000), 5});
  result.push_back({"random 1,000", random_problem(1000, 2000), 2});
  return result;
}

void print_table() {
  fmt::print(
      "| services | GPUs | instances | created from scratch | created | ratio | bound | proven | "
      "laziest: GPUs | created | CPU ms |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Case& c : cases()) {
    const plan::ServingPlan current = *planners::serving::plan_exact(c.problem, {}).plan;
    double gpus = 0, scratch = 0, ours = 0, bound = 0, lazy_gpus = 0, lazy = 0, ms = 0, most = 0;
    int proven = 0;
    std::size_t instances = 0;
    for (const plan::PlannedGpu& gpu : current.gpus) instances += gpu.instances.size();
    for (int seed = 1; seed <= c.changes; ++seed) {
      const plan::ServingProblem problem = changed(c.problem, static_cast<std::uint64_t>(seed));
      const IncrementalOutcome result = plan_again(problem, current);
      scratch += from_scratch(problem, current);
      gpus += result.curve.front().gpus;
      ours += result.curve.front().moves;
      bound += result.curve.front().lower_bound;
      proven += result.curve.front().proven() ? 1 : 0;
      lazy_gpus += result.curve.back().gpus;
      lazy += result.curve.back().moves;
      ms += result.outcome.plan->stats.planning_ms;
      most = std::max(most, result.outcome.plan->stats.planning_ms);
    }
    const double n = c.changes;
    fmt::print("| {} | {:.1f} | {} | {:.1f} | {:.1f} | {:.2f} | {:.1f} | {}/{} | {:.1f} | {:.1f} | "
               "{:.1f} (max {:.0f}) |\n",
               c.name, gpus / n, instances, scratch / n, ours / n,
               scratch > 0 ? ours / scratch : 1.0, bound / n, proven, c.changes, lazy_gpus / n,
               lazy / n, ms / n, most);
  }
}

void add_times() {
  for (const Case& c : cases()) {
    const plan::ServingPlan current = *planners::serving::plan_exact(c.problem, {}).plan;
    const plan::ServingProblem problem = changed(c.problem, 1);
    benchmark::RegisterBenchmark(c.name.c_str(), [problem, current](benchmark::State& state) {
      for (auto _ : state) {
        const IncrementalOutcome result = plan_again(problem, current);
        state.counters["moves"] = result.curve.front().moves;
      }
    })->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  partita::print_table();
  partita::add_times();
  benchmark::RunSpecifiedBenchmarks();
}
