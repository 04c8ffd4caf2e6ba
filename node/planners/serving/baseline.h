// What the baselines of other systems have in common: one GPU model, one process per instance, the
// rule execution:F that their papers plan by, and at the end a check of what none of them knows:
// anti_affinity, min_replicas and the number of GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planners/serving/finish.h"
#include "planners/serving/planner.h"

namespace partita::planners::serving {

// Plans of more GPUs are refused.
inline constexpr int kMaxBaselineGpus = 100'000;

// Rates within this share of each other are equal: sums of throughputs are rounded.
inline constexpr double kRateRounding = 1e-12;

struct Baseline {
  std::string name;  // in the planners' table
  double own = 0.5;  // F of its own rule, execution:F
};
plan::SloRule own_rule(const Baseline& baseline);

// Why it cannot plan at all: no GPU, another kind of rule, services without a point that meets it
// on one of the plain profiles. Empty when it can.
std::vector<plan::Reason> cannot_plan(const Baseline& baseline,
                                      const plan::ServingProblem& problem);

// The problem as a baseline sees it: the first GPU model with its plain profiles, one process.
plan::ServingProblem as_baseline(const plan::ServingProblem& problem);

// The rule's limit on the execution latency of a service; it must be below.
Millis latency_limit(const plan::ServingProblem& problem, const plan::Service& service);

// "service S: rate: ..." for what a system that gives a service one share of one GPU cannot serve.
plan::Reason beyond_one_gpu(const plan::Service& service, double most, const std::string& system);

Outcome too_many_gpus_for(const std::string& system);

// The plan of these GPUs, with their indices and objective; refused where it breaks what the
// baseline knows nothing of.
Outcome finish_baseline(std::vector<plan::PlannedGpu> gpus, const plan::ServingProblem& problem,
                        const Baseline& baseline, const Stopwatch& watch);

// Instances on GPUs in the order in which they come, each on the first GPU that has a legal start
// free.
class FirstFit {
 public:
  explicit FirstFit(const hw::GpuModel& gpu) : gpu_(gpu), first_open_(gpu.profiles.size()) {}
  void put(int profile, plan::PlannedInstance instance);  // its profile and start are set here
  std::size_t gpus() const { return gpus_.size(); }
  std::vector<plan::PlannedGpu> take() &&;

 private:
  struct Gpu {
    std::vector<plan::PlannedInstance> instances;
    std::uint32_t taken = 0;  // memory slices
    int gpcs = 0;
    std::vector<int> count;  // per profile
  };
  bool fits(Gpu& gpu, int profile, plan::PlannedInstance& instance) const;

  const hw::GpuModel& gpu_;
  std::vector<Gpu> gpus_;
  std::vector<std::size_t> first_open_;  // per profile: those before have no room for it
};

}  // namespace partita::planners::serving
