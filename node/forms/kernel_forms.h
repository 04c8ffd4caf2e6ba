// Forms of the vocabulary of kernel plans: the document, written, read back, and as what the judge
// takes. Pictures are in kernel_picture.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "plan/kernels.h"
#include "profile/kernel_profile.h"

namespace partita::forms {

// What a document of kind KernelPlan says (docs/formats.md). What may be missing is not stated.
struct KernelGroup {
  int first = 0, kernels = 0, units = 0;
  bool operator==(const KernelGroup&) const = default;
};
struct StatedLane {
  int units = 0, kernels = 0;
  std::vector<int> units_per_cluster, units_per_die;
  std::string mask_hex;
  bool operator==(const StatedLane&) const = default;
};
struct StatedWorker {
  std::string name;
  std::optional<int> switches;
  std::optional<double> mean_units, alone_us, predicted_us;
  std::vector<KernelGroup> groups;
  std::vector<StatedLane> lanes;
  std::vector<int> units;  // of every kernel
  bool operator==(const StatedWorker&) const = default;
};
// The best with at most so many switches.
struct SwitchPoint {
  int max_switches = 0;
  double objective = 0;
  bool optimal = false;
  bool operator==(const SwitchPoint&) const = default;
};
struct StatedKernelPlan {
  std::string gpu;
  std::optional<int> total_units, atom, max_switches;
  plan::Overlap overlap = plan::Overlap::others;
  double switch_cost_us = 0;
  std::string problem_digest = {};
  std::optional<double> objective, bound;
  bool optimal = false;
  std::vector<StatedWorker> workers;
  std::vector<SwitchPoint> curve;
  bool operator==(const StatedKernelPlan&) const = default;
};

StatedKernelPlan stated_plan(const plan::KernelProblem& problem,
                             const plan::PlannedKernels& planned, const hw::Topology& topology);
std::string kernel_plan_json(const StatedKernelPlan& plan);

// Needs kind, gpu and of every worker name and units; the atom is the GPU's where none is stated.
// Refused with FILE:LINE: unknown GPUs, units that a mask cannot have, and what contradicts them:
// total_units, groups, units per cluster and die. Whether the plan is right is for the judge.
Result<StatedKernelPlan> parse_kernel_plan(const std::string& file, std::string_view text);
DocumentKind kernel_plan_kind();

// What the judge takes: the plan, and the problem that it solves if the kernels of its workers take
// what `models`, one per worker, say. What is not stated is counted. Refused: other numbers of
// workers or kernels, and masks that are none.
struct KernelClaim {
  hw::Topology topology;
  plan::KernelProblem problem;
  plan::PlannedKernels planned;
  std::vector<std::optional<double>> predicted;  // per worker, as stated
};
Result<KernelClaim> kernel_claim(const std::string& file, const StatedKernelPlan& plan,
                                 const std::vector<profile::ModelKernels>& models);

}  // namespace partita::forms
