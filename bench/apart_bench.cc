// 300 random problems of 2 to 20 services of the published scenarios that must keep apart in mixed
// ways, rates x0.1..6: GPUs and slices against their bounds, CPU time, and whatever was refused.
// Arguments: rule (execution:0.45), first and last problem, services (0: 2 to 20); prints a line for every open gap.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string>

#include "base/check.h"
#include "base/rng.h"
#include "base/source_text.h"
#include "forms/serving_forms.h"
#include "hw/catalogue.h"
#include "planners/serving/exact.h"
#include "profile/published.h"
#include "verify/serving.h"

namespace partita {
namespace {

std::vector<plan::Service> scenario_services() {
  std::vector<plan::Service> all;
  for (int s = 1; s <= 6; ++s) {
    const std::string name = fmt::format("data/scenarios/s{}.yaml", s);
    const auto services = forms::parse_services(name, source_text(name));
    all.insert(all.end(), services->begin(), services->end());
  }
  return all;
}

plan::ServingProblem apart_problem(int number, const std::string& rule, int wanted) {
  static const std::vector<plan::Service> all = scenario_services();
  Rng rng(static_cast<std::uint64_t>(number) + 1000);
  plan::ServingProblem problem;
  problem.rule = *plan::parse_slo_rule(rule);
  plan::FleetEntry entry;
  entry.gpu = *hw::builtin_catalogue().find("A100-80GB");
  entry.profiles = profile::published_profiles();
  problem.fleet.push_back(entry);
  const int drawn = 2 + static_cast<int>(rng.below(19));
  const int services = wanted > 0 ? wanted : drawn;
  const double largest = 0.1 * std::pow(60, rng.uniform());
  for (int s = 0; s < services; ++s) {
    plan::Service service = all[rng.below(all.size())];
    service.name = fmt::format("{}-{}", service.model, s);
    service.rate = (0.1 + (largest - 0.1) * rng.uniform()) * service.rate;
    problem.services.push_back(service);
  }
  const double lists = rng.uniform(), spread = rng.uniform();
  for (plan::Service& service : problem.services) {
    if (rng.uniform() < spread) service.spread = true;
    else if (rng.uniform() < lists)
      for (std::uint64_t n = 1 + rng.below(3); n > 0; --n) {
        const auto& other = problem.services[rng.below(problem.services.size())];
        if (other.name != service.name) service.avoid.push_back(other.name);
      }
  }
  return problem;
}

double cpu_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int run(const std::string& rule, int first, int last, int services) {
  int optimal = 0, gpu_proven = 0, refused = 0, worst_gap = 0, count = 0;
  double sum = 0, most = 0;
  std::vector<double> times;
  for (int number = first; number < last; ++number, ++count) {
    const plan::ServingProblem problem = apart_problem(number, rule, services);
    planners::serving::Options options;
    options.cpu_ms = cpu_ms;
    const auto outcome = planners::serving::plan_exact(problem, options);
    if (!outcome.plan) {
      ++refused;
      fmt::print("{}: refused: {}\n", number, to_string(outcome.refusals[0]));
      continue;
    }
    CHECK(verify::verify(problem, *outcome.plan).empty());
    const plan::Objective& o = outcome.plan->objective;
    const double ms = outcome.plan->stats.planning_ms;
    times.push_back(ms);
    sum += ms;
    most = std::max(most, ms);
    optimal += o.optimal ? 1 : 0;
    gpu_proven += o.gpus == o.lower_bound_gpus ? 1 : 0;
    worst_gap = std::max(worst_gap, o.gpus - o.lower_bound_gpus);
    if (!o.optimal || ms > 1000)
      fmt::print("{}: {} services, GPUs {} (bound {}), GPCs {} (bound {}), {:.0f} ms, {} nodes\n",
                 number, problem.services.size(), o.gpus, o.lower_bound_gpus, o.gpcs,
                 o.lower_bound_gpcs, ms, outcome.plan->stats.nodes);
    std::fflush(stdout);
  }
  std::sort(times.begin(), times.end());
  fmt::print("{} problems: {} refused, {} optimal, {} with the fewest GPUs proven, largest gap {}; "
             "{:.0f} ms on average, median {:.0f}, most {:.0f}\n",
             count, refused, optimal, gpu_proven, worst_gap, sum / count,
             times.empty() ? 0 : times[times.size() / 2], most);
  return refused;
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  const std::string rule = argc > 1 ? argv[1] : "execution:0.45";
  const int first = argc > 2 ? std::stoi(argv[2]) : 0;
  const int last = argc > 3 ? std::stoi(argv[3]) : 300;
  const int services = argc > 4 ? std::stoi(argv[4]) : 0;
  return partita::run(rule, first, last, services);
}
