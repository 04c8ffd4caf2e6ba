// GPUs for random pipelines of published profiles: shares of the SLO as planned, equal, and
// proportional to each step's fastest batch; the last two with the same longer shares tried first,
// and with sums of exactly the SLO. Prints the table of docs/results.
#include <fmt/format.h>

#include <cstdio>
#include <ctime>

#include "base/rng.h"
#include "base/source_text.h"
#include "decide/pipelines.h"
#include "forms/pipeline_form.h"
#include "planners/serving/planner.h"
#include "profile/readers.h"

namespace partita {
namespace {

plan::ServingProblem random_problem(const plan::FleetEntry& fleet, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::string> models;
  for (const auto& [name, profile] : fleet.profiles) models.push_back(name);
  plan::ServingProblem problem;
  problem.fleet = {fleet};
  plan::Service pipeline{.name = "pipeline"};
  plan::PipelineTerms& graph = pipeline.pipeline.emplace();
  const std::size_t steps = 2 + rng.below(3);
  double fastest = 0;
  for (std::size_t s = 0; s < steps; ++s) {
    const std::size_t at = rng.below(models.size());
    const bool fans = s + 1 == steps && rng.below(2) == 0;
    graph.steps.push_back({models[at],
                           {{"x", "t" + std::to_string(s)}},
                           {{"y", "t" + std::to_string(s + 1)}},
                           fans ? 2.0 + static_cast<double>(rng.below(4)) : 1.0});
    double least = 1e9;
    for (const auto& point : fleet.profiles.at(models[at]).points)
      least = std::min(least, point.latency.value);
    fastest += least;
    models.erase(models.begin() + static_cast<std::ptrdiff_t>(at));
  }
  pipeline.slo = Millis{fastest * (4 + 12 * rng.uniform())};
  pipeline.rate = Rps{100 + 900 * rng.uniform()};
  problem.services = {pipeline};
  forms::add_members(problem.services);
  return problem;
}

double cpu_s() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string gpus_of(const plan::ServingProblem& problem, decide::Split split,
                    double most_stretch = decide::kStretches[0]) {
  const decide::PlanServices exact = [](const plan::ServingProblem& asked) {
    return planners::serving::planners().front().plan(asked, {});
  };
  const auto made = decide::plan_pipelines(problem, exact, split, most_stretch);
  if (!made) return "error " + to_string(made.error());
  if (!made->plan) return "-";
  const plan::Objective& objective = (*made->plan)->objective;
  return split == decide::Split::planned ? fmt::format("{} ({}) | {}", objective.gpus,
                                                       objective.gpcs, objective.lower_bound_gpus)
                                         : fmt::format("{} ({})", objective.gpus, objective.gpcs);
}

void print_table() {
  const auto table = profile::parse_native_csv(
      "a100-80gb.csv", source_text("data/published/parvagpu/a100-80gb.csv"));
  const plan::FleetEntry fleet{*hw::builtin_catalogue().find("A100-80GB"), *table, std::nullopt, 1};
  std::puts(
      "| seed | pipeline | req/s | SLO ms | planned | bound | equal | proportional | equal, sum | "
      "proportional, sum | CPU s |");
  std::puts("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const plan::ServingProblem problem = random_problem(fleet, seed);
    const plan::Service& pipeline = problem.services[0];
    const double begin = cpu_s();
    const std::string planned = gpus_of(problem, decide::Split::planned);
    const double took = cpu_s() - begin;
    const std::string equal = gpus_of(problem, decide::Split::equal);
    const std::string proportional = gpus_of(problem, decide::Split::proportional);
    const std::string equal_sum = gpus_of(problem, decide::Split::equal, 1);
    const std::string proportional_sum = gpus_of(problem, decide::Split::proportional, 1);
    fmt::print("| {} | {} | {:.0f} | {:.0f} | {} | {} | {} | {} | {} | {:.1f} |\n", seed,
               to_string(*pipeline.pipeline), pipeline.rate.value, pipeline.slo.value, planned,
               equal, proportional, equal_sum, proportional_sum, took);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace partita

int main() {
  partita::print_table();
  return 0;
}
