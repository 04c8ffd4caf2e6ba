#include "kernel_policies.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "planners/mask/joint_plan.h"
#include "planners/mask/masks.h"
#include "planners/mask/right_size.h"
#include "verify/kernels.h"

namespace partita::cli {
namespace {

namespace mask = planners::mask;
using hw::UnitMask;
using mask::Policy;
using Units = std::vector<std::vector<int>>;  // per worker and kernel

// Masks that stay: that many units for each worker in turn, away from those before it where there
// is room.
std::vector<UnitMask> masks_in_turn(const hw::Topology& topology, const std::vector<int>& units,
                                    Policy policy) {
  std::vector<UnitMask> masks;
  mask::Busy busy(static_cast<std::size_t>(topology.units()));
  for (const int wanted : units) {
    masks.push_back(mask::allocate(topology, busy, {wanted, policy, topology.units()}).mask);
    for (std::size_t unit = 0; unit < busy.size(); ++unit) busy[unit] += masks.back()[unit];
  }
  return masks;
}

sim::MaskPolicy fixed(std::vector<UnitMask> masks) {
  return [masks = std::move(masks)](std::size_t worker, std::size_t, const std::vector<int>&) {
    return masks[worker];
  };
}

// Masks made when a kernel starts, given what runs.
sim::MaskPolicy live(const hw::Topology& topology, Units units, Policy policy, int overlap_limit) {
  return [&topology, units = std::move(units), policy, overlap_limit](
             std::size_t worker, std::size_t kernel,
             const std::vector<int>& running) -> std::optional<UnitMask> {
    const mask::Grant grant =
        mask::allocate(topology, running, {units[worker][kernel], policy, overlap_limit});
    if (grant.granted == 0) return std::nullopt;
    return grant.mask;
  };
}

Units least_units(const PolicyInputs& inputs) {
  Units units;
  for (const profile::ModelKernels& worker : inputs.workers)
    units.push_back(mask::least_units(worker, inputs.tolerance));
  return units;
}

Units critical_units(const PolicyInputs& inputs) {
  Units units;
  for (const profile::ModelKernels& worker : inputs.workers)
    units.push_back(mask::critical_exact(worker, inputs.tolerance).units);
  return units;
}

Units planned_units(const PolicyInputs& inputs) {
  if (!inputs.plan_units.empty()) return inputs.plan_units;
  plan::KernelProblem problem;
  problem.total_units = inputs.topology.units();
  problem.switches = inputs.switches;
  for (const profile::ModelKernels& model : inputs.workers) {
    plan::KernelTimes times{inputs.configs, {}};
    for (const profile::KernelProfile& kernel : model.kernels)
      for (const int units : inputs.configs) times.time.push_back(kernel.on(units));
    problem.workers.push_back({model.model, std::move(times)});
  }
  const plan::KernelPlan plan = mask::plan_jointly(problem).plan;
  CHECK(verify::verify(problem, plan).empty());
  Units units;
  for (const plan::Grouping& one : plan.workers) {
    units.emplace_back();
    for (const std::uint8_t option : one.option) units.back().push_back(inputs.configs[option]);
  }
  return units;
}

// Per number of units one mask per worker, those of a number away from each other.
sim::MaskPolicy preallocated(const hw::Topology& topology, Units units) {
  std::map<int, std::vector<UnitMask>> masks;
  for (const std::vector<int>& worker : units)
    for (const int count : worker)
      if (!masks.contains(count))
        masks[count] =
            masks_in_turn(topology, std::vector<int>(units.size(), count), Policy::conserved);
  return [units = std::move(units), masks = std::move(masks)](
             std::size_t worker, std::size_t kernel, const std::vector<int>&) {
    return masks.at(units[worker][kernel])[worker];
  };
}

std::vector<int> equal_shares(const PolicyInputs& inputs) {
  const auto workers = static_cast<int>(inputs.workers.size());
  std::vector<int> shares;
  for (int w = 0; w < workers; ++w)
    shares.push_back(std::max(
        1, inputs.topology.units() / workers + (w < inputs.topology.units() % workers ? 1 : 0)));
  return shares;
}

std::vector<int> knees(const PolicyInputs& inputs) {
  std::vector<int> knees;
  for (const profile::ModelKernels& worker : inputs.workers)
    knees.push_back(mask::knee(worker, inputs.tolerance));
  return knees;
}

}  // namespace

const std::vector<std::string>& kernel_policy_words() {
  static const std::vector<std::string> kWords{"mps",     "static",   "model",    "krisp-o",
                                               "krisp-i", "isolated", "critical", "eclip"};
  return kWords;
}

sim::MaskPolicy kernel_policy(const std::string& name, const PolicyInputs& inputs) {
  const hw::Topology& topology = inputs.topology;
  const int all = topology.units();
  if (name == "mps")
    return fixed(
        masks_in_turn(topology, std::vector<int>(inputs.workers.size(), all), Policy::packed));
  if (name == "static") return fixed(masks_in_turn(topology, equal_shares(inputs), Policy::fair));
  if (name == "model") return fixed(masks_in_turn(topology, knees(inputs), Policy::conserved));
  if (name == "krisp-o") return live(topology, least_units(inputs), Policy::conserved, all);
  if (name == "krisp-i") return live(topology, least_units(inputs), Policy::conserved, 0);
  if (name == "isolated") return live(topology, least_units(inputs), Policy::balanced, 0);
  if (name == "critical") return live(topology, critical_units(inputs), Policy::conserved, all);
  CHECK(name == "eclip");
  return preallocated(topology, planned_units(inputs));
}

}  // namespace partita::cli
