// A joint plan made again when a tenant comes or goes, on the kernels that REEF published of an
// MI50: exact, by another way to the least. Per tenant a programme over kernels, switches and
// summed units gives the least time for every sum; every combination of those sums is tried.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/source_text.h"
#include "base/test_rounds.h"
#include "decide/kernel_inputs.h"
#include "decide/kernel_planning.h"

namespace partita {
namespace {

using plan::KernelProblem;
using plan::KernelTimes;

const std::vector<std::string> kModels{"alexnet", "bert",     "densenet",  "inception", "mobilenet",
                                       "resnet",  "resnet18", "resnet152", "vgg"};
constexpr double kNever = std::numeric_limits<double>::infinity();

struct Choice {
  double mean_units = 0, time = 0;
};

// The least time for each sum of units, in `switches` changes; what others beat in both is left
// out.
std::vector<Choice> choices_of(const KernelTimes& times, int switches) {
  const int step = times.units.front(), kernels = times.kernels();
  const int most = kernels * times.units.back() / step + 1;
  const auto options = times.units.size(),
             states = options * static_cast<std::size_t>(switches + 1);
  // Of option o after s switches, by the sum of units in steps.
  std::vector<std::vector<double>> now(states), next;
  for (auto& row : now) row.assign(static_cast<std::size_t>(most), kNever);
  for (int k = 0; k < kernels; ++k) {
    next.assign(states, std::vector<double>(static_cast<std::size_t>(most), kNever));
    for (std::size_t o = 0; o < options; ++o) {
      const double time = times.time[static_cast<std::size_t>(k) * options + o];
      const auto units = static_cast<std::size_t>(times.units[o] / step);
      if (k == 0) next[o][units] = time;
      for (std::size_t from = 0; k > 0 && from < states; ++from) {
        const std::size_t to = from - from % options + o + (from % options == o ? 0 : options);
        for (std::size_t sum = 0; to < states && sum + units < next[to].size(); ++sum)
          next[to][sum + units] = std::min(next[to][sum + units], now[from][sum] + time);
      }
    }
    now.swap(next);
  }
  std::vector<Choice> kept;
  for (std::size_t sum = 0; sum < now[0].size(); ++sum) {
    double time = kNever;
    for (const auto& row : now) time = std::min(time, row[sum]);
    if (time < (kept.empty() ? kNever : kept.back().time))
      kept.push_back({static_cast<double>(sum) * step / kernels, time});
  }
  return kept;
}

double least(const KernelProblem& problem) {
  std::vector<std::vector<Choice>> choices;
  for (const plan::KernelWorker& worker : problem.workers)
    choices.push_back(choices_of(worker.times, problem.switches));
  // With the sums of those chosen so far, and what they do to each other.
  const std::function<double(std::size_t, Choice, double)> rest = [&](std::size_t worker,
                                                                      Choice sums, double so_far) {
    double best = kNever;
    for (const Choice& one : choices[worker]) {
      const double all =
          so_far + one.time +
          (one.time * sums.mean_units + one.mean_units * sums.time) / problem.total_units;
      const Choice more{sums.mean_units + one.mean_units, sums.time + one.time};
      best = std::min(best, worker + 1 == choices.size() ? all : rest(worker + 1, more, all));
    }
    return best;
  };
  return rest(0, {}, 0);
}

// The models' first kernels.
KernelProblem problem_of(const std::vector<std::string>& names, std::size_t kernels) {
  MemoryFiles files;
  std::string workers;
  for (const std::string& name : names) {
    files.content["reef/" + name + ".csv"] = source_text("data/published/reef/" + name + ".csv");
    workers += (workers.empty() ? "" : ",") + name;
  }
  const hw::Topology topology = *hw::topology_named("MI50");
  auto models = decide::load_kernels(files, {.workers = workers, .profiles = "reef"}, topology);
  EXPECT_TRUE(models) << to_string(models.error());
  for (profile::ModelKernels& model : *models)
    model.kernels.resize(std::min(model.kernels.size(), kernels));
  const auto configs = *decide::load_configs("", topology, 1);
  const auto problem = decide::kernel_problem(topology, *models, configs, 14);
  EXPECT_TRUE(problem) << to_string(problem.error());
  return *problem;
}

TEST(Replanning, IsExactWhateverTenantsThereAre) {
  const hw::Topology topology = *hw::topology_named("MI50");
  Rng rng(9);
  // All kernels of two tenants; of more as many as every combination can be tried of.
  constexpr std::size_t kKernels[] = {400, 60, 12, 8, 5};
  for (int round = 0; round < test_rounds(3); ++round) {
    std::vector<std::string> there = kModels;
    for (std::size_t i = 0; i < there.size(); ++i)
      std::swap(there[i], there[i + rng.below(there.size() - i)]);
    for (std::size_t tenants = 2; tenants <= 6; ++tenants) {
      const KernelProblem problem =
          problem_of({there.begin(), there.begin() + static_cast<std::ptrdiff_t>(tenants)},
                     kKernels[tenants - 2]);
      const auto planned = decide::plan_kernels(problem, topology, 1);
      ASSERT_TRUE(planned) << to_string(planned.error());
      const double best = least(problem);
      EXPECT_TRUE((*planned)->plan.optimal);
      EXPECT_NEAR((*planned)->plan.objective, best, 1e-9 * best) << tenants << " tenants";
    }
  }
}

}  // namespace
}  // namespace partita
