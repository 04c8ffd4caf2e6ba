#include "decide/kernel_policies.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "base/check.h"
#include "decide/kernel_planning.h"
#include "planners/mask/lanes.h"
#include "planners/mask/masks.h"
#include "planners/mask/right_size.h"

namespace partita::decide {
namespace {

namespace mask = planners::mask;
using hw::UnitMask;
using mask::Policy;
using Units = std::vector<std::vector<int>>;  // per worker and kernel

// Masks that stay: that many units for each worker in turn, away from those before it where there
// is room.
std::vector<UnitMask> masks_in_turn(const PolicyInputs& inputs, const std::vector<int>& units,
                                    Policy policy) {
  const int all = inputs.topology.units();
  std::vector<UnitMask> masks;
  mask::Busy busy(static_cast<std::size_t>(all));
  for (const int wanted : units) {
    masks.push_back(
        mask::allocate_atoms(inputs.topology, inputs.atom, busy, {wanted, policy, all}).mask);
    for (std::size_t unit = 0; unit < busy.size(); ++unit) busy[unit] += masks.back()[unit];
  }
  return masks;
}

sim::MaskPolicy fixed(std::vector<UnitMask> masks) {
  return [masks = std::move(masks)](std::size_t worker, std::size_t, const std::vector<int>&) {
    return masks[worker];
  };
}

// All units for one kernel at a time; who waits is asked in the order of coming.
sim::MaskPolicy one_queue(const hw::Topology& topology) {
  return
      [all = hw::all_units(topology)](std::size_t, std::size_t, const std::vector<int>& running) {
        const bool idle = std::ranges::all_of(running, [](int kernels) { return kernels == 0; });
        return idle ? std::optional(all) : std::nullopt;
      };
}

// Masks made when a kernel starts, given what runs.
sim::MaskPolicy live(const PolicyInputs& inputs, Units units, Policy policy, int overlap_limit) {
  return [&topology = inputs.topology, atom = inputs.atom, units = std::move(units), policy,
          overlap_limit](std::size_t worker, std::size_t kernel,
                         const std::vector<int>& running) -> std::optional<UnitMask> {
    const mask::Grant grant = mask::allocate_atoms(topology, atom, running,
                                                   {units[worker][kernel], policy, overlap_limit});
    if (grant.granted == 0) return std::nullopt;
    return grant.mask;
  };
}

Units least_units(const PolicyInputs& inputs) {
  Units units;
  for (const profile::ModelKernels& worker : inputs.workers)
    units.push_back(mask::least_units(worker, inputs.tolerance, inputs.sizes));
  return units;
}

Units critical_units(const PolicyInputs& inputs) {
  Units units;
  for (const profile::ModelKernels& worker : inputs.workers)
    units.push_back(mask::critical_exact(worker, inputs.tolerance, inputs.sizes).units);
  return units;
}

Result<Units> planned_units(const PolicyInputs& inputs, std::optional<int> switches) {
  if (!inputs.plan_units.empty() && !switches) return inputs.plan_units;
  const auto problem = TRY(kernel_problem(inputs.topology, inputs.workers, inputs.configs,
                                          switches.value_or(inputs.switches)));
  const auto planned = TRY(plan_kernels(problem, inputs.topology, inputs.atom));
  return units_of_kernels(problem, planned->plan);
}

// On the lanes of the plan.
sim::MaskPolicy preallocated(const PolicyInputs& inputs, Units units) {
  const plan::Lanes lanes = mask::plan_lanes(inputs.topology, inputs.atom, units);
  std::map<std::pair<std::size_t, int>, UnitMask> masks;
  for (const plan::Lane& lane : lanes.all) masks[{lane.worker, lane.units}] = lane.mask;
  return [units = std::move(units), masks = std::move(masks)](
             std::size_t worker, std::size_t kernel, const std::vector<int>&) {
    return masks.at({worker, units[worker][kernel]});
  };
}

std::vector<int> equal_shares(const PolicyInputs& inputs) {
  const auto workers = static_cast<int>(inputs.workers.size());
  const int atoms = hw::in_atoms(inputs.topology, inputs.atom).units();
  std::vector<int> shares;
  for (int w = 0; w < workers; ++w)
    shares.push_back(inputs.atom * std::max(1, atoms / workers + (w < atoms % workers ? 1 : 0)));
  if (workers == 1) shares[0] = inputs.topology.units();
  return shares;
}

std::vector<int> knees(const PolicyInputs& inputs) {
  std::vector<int> knees;
  for (const profile::ModelKernels& worker : inputs.workers)
    knees.push_back(mask::knee(worker, inputs.tolerance, inputs.sizes));
  return knees;
}

}  // namespace

const std::vector<std::string>& kernel_policy_words() {
  static const std::vector<std::string> kWords{"default-stream", "mps",      "static",
                                               "model",          "krisp-o",  "krisp-i",
                                               "isolated",       "critical", "eclip"};
  return kWords;
}

std::optional<int> switches_of(const std::string& policy) {
  if (!policy.starts_with("eclip:")) return std::nullopt;
  const char* const begin = policy.data() + std::string_view("eclip:").size();
  const char* const end = policy.data() + policy.size();
  int switches = 0;
  const auto [rest, error] = std::from_chars(begin, end, switches);
  if (error != std::errc{} || rest != end || switches < 0 || switches > kMaxSwitches)
    return std::nullopt;
  return switches;
}

Result<sim::MaskPolicy> kernel_policy(const std::string& name, const PolicyInputs& inputs) {
  const int all = inputs.topology.units();
  const auto fixed_in_turn = [&](const std::vector<int>& units, Policy policy) {
    return fixed(masks_in_turn(inputs, units, policy));
  };
  if (name == "default-stream") return one_queue(inputs.topology);
  if (name == "mps")
    return fixed_in_turn(std::vector<int>(inputs.workers.size(), all), Policy::packed);
  if (name == "static") return fixed_in_turn(equal_shares(inputs), Policy::fair);
  if (name == "model") return fixed_in_turn(knees(inputs), Policy::conserved);
  if (name == "krisp-o") return live(inputs, least_units(inputs), Policy::conserved, all);
  if (name == "krisp-i") return live(inputs, least_units(inputs), Policy::conserved, 0);
  if (name == "isolated") return live(inputs, least_units(inputs), Policy::balanced, 0);
  if (name == "critical") return live(inputs, critical_units(inputs), Policy::conserved, all);
  CHECK(name == "eclip" || switches_of(name));
  auto units = TRY(planned_units(inputs, switches_of(name)));
  return preallocated(inputs, std::move(units));
}

}  // namespace partita::decide
