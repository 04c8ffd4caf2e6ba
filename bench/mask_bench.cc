// Masks and joint plans: the time of one mask on a GPU with other kernels, and of ECLIP's problem
// solved exactly on invented profiles with as many kernels as the real models have; and of the
// whole policy asked again, plan, judge and lanes, on the kernels that REEF published.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/check.h"
#include "base/files.h"
#include "base/median.h"
#include "base/rng.h"
#include "base/source_text.h"
#include "decide/kernel_inputs.h"
#include "decide/kernel_policies.h"
#include "planners/mask/joint_plan.h"
#include "planners/mask/masks.h"

namespace partita::planners::mask {
namespace {

void one_mask(benchmark::State& state) {
  const hw::Topology topology = *hw::topology_named(state.range(1) == 0 ? "MI50" : "MI300X");
  Rng rng(1);
  std::vector<Busy> busy(64, Busy(static_cast<std::size_t>(topology.units())));
  for (Busy& one : busy)
    for (int& kernels : one) kernels = rng.below(2) == 0 ? static_cast<int>(rng.below(3)) : 0;
  const auto policy = static_cast<Policy>(state.range(0));
  std::size_t i = 0;
  for (auto _ : state) {
    const int units = 1 + static_cast<int>(i * 7 % static_cast<std::size_t>(topology.units()));
    benchmark::DoNotOptimize(allocate(topology, busy[i++ % 64], {units, policy, 4}));
  }
  state.SetLabel(std::string(to_string(policy)) + " on " + topology.name);
}
BENCHMARK(one_mask)->ArgsProduct({{0, 1, 2, 3, 4, 5}, {0, 1}});

// Kernels need anything from a few units to all of them, in runs of similar ones.
KernelTimes kernels(int count, int options, Rng& rng) {
  KernelTimes times;
  for (int o = 1; o <= options; ++o) times.units.push_back(60 * o / options);
  double knee = 30;
  for (int k = 0; k < count; ++k) {
    if (rng.below(5) == 0) knee = 2 + 58 * rng.uniform();
    const double work = 5 + 50 * rng.exponential();
    for (const int n : times.units)
      times.time.push_back(work * std::max(1.0, knee / n) * (1 + 0.02 * rng.uniform()));
  }
  return times;
}

plan::KernelProblem problem(int workers, int count, int options, plan::Overlap overlap) {
  Rng rng(42);
  plan::KernelProblem p;
  p.overlap = overlap;
  for (int w = 0; w < workers; ++w)
    p.workers.push_back({"w" + std::to_string(w), kernels(count, options, rng)});
  return p;
}

void joint_plan(benchmark::State& state) {
  const plan::KernelProblem p =
      problem(static_cast<int>(state.range(0)), 711, static_cast<int>(state.range(1)),
              state.range(2) == 0 ? plan::Overlap::others : plan::Overlap::literal);
  long programmes = 0;
  for (auto _ : state) {
    const JointPlan plan = plan_jointly(p);
    CHECK(plan.plan.optimal);
    programmes = plan.programmes;
  }
  state.counters["programmes"] = static_cast<double>(programmes);
}
BENCHMARK(joint_plan)
    ->ArgsProduct({{3}, {4}, {0, 1}})
    ->ArgsProduct({{8}, {16}, {0, 1}})
    ->ArgNames({"workers", "options", "literal"})
    ->Unit(benchmark::kMillisecond);

// Workers of one and the same model.
void replicas(benchmark::State& state) {
  plan::KernelProblem p = problem(1, 711, static_cast<int>(state.range(1)), plan::Overlap::others);
  p.workers.resize(static_cast<std::size_t>(state.range(0)), p.workers.front());
  for (auto _ : state) CHECK(plan_jointly(p).plan.optimal);
}
BENCHMARK(replicas)
    ->ArgsProduct({{8, 12, 32}, {4, 16}})
    ->ArgNames({"workers", "options"})
    ->Unit(benchmark::kMillisecond);

void curve(benchmark::State& state) {
  const plan::KernelProblem p = problem(3, 711, 4, plan::Overlap::others);
  for (auto _ : state) benchmark::DoNotOptimize(switch_curve(p));
}
BENCHMARK(curve)->Unit(benchmark::kMillisecond);

// A tenant goes and another comes, of so many: the policy eclip as a server asks it again each
// time.
void replan(benchmark::State& state) {
  const std::vector<std::string> names{"alexnet", "bert",     "densenet",  "inception", "mobilenet",
                                       "resnet",  "resnet18", "resnet152", "vgg"};
  MemoryFiles files;
  std::string all;
  for (const std::string& name : names) {
    files.content["reef/" + name + ".csv"] = source_text("data/published/reef/" + name + ".csv");
    all += (all.empty() ? "" : ",") + name;
  }
  const hw::Topology topology = *hw::topology_named("MI50");
  const auto models = *decide::load_kernels(files, {.workers = all, .profiles = "reef"}, topology);
  const auto configs = *decide::load_configs("", topology, 1);
  const auto tenants = static_cast<std::size_t>(state.range(0));
  std::vector<std::vector<double>> times(models.size());  // by who is there
  std::size_t first = 0;
  for (auto _ : state) {
    std::vector<profile::ModelKernels> workers;
    for (std::size_t i = 0; i < tenants; ++i)
      workers.push_back(models[(first + 2 * i) % models.size()]);
    const auto begin = std::chrono::steady_clock::now();
    const decide::PolicyInputs inputs{.topology = topology,
                                      .workers = workers,
                                      .sizes = {},
                                      .plan_units = {},
                                      .configs = configs};
    CHECK(decide::kernel_policy("eclip", inputs));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    times[first++ % models.size()].push_back(took.count());
  }
  std::vector<double> medians;
  for (auto& one : times)
    if (!one.empty()) medians.push_back(median(one));
  state.counters["median_ms"] = median(medians);
  state.counters["slowest_tenants_ms"] = *std::ranges::max_element(medians);
}
BENCHMARK(replan)->DenseRange(2, 6)->ArgName("tenants")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace partita::planners::mask
