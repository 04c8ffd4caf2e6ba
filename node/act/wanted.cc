#include "act/wanted.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "hw/layout.h"

namespace partita::actuate {
namespace {

// A state as wanted; `segment_of` tells what runs on an instance.
template <class SegmentOf>
Wanted wanted_state(const device::NodeState& state, SegmentOf segment_of,
                    const std::set<std::string>& elsewhere = {}) {
  Wanted wanted;
  for (const device::GpuState& gpu : state.gpus) {
    if (gpu.lost || gpu.model.empty() || elsewhere.contains(gpu.uuid)) continue;
    WantedGpu& one = wanted.gpus.emplace_back(WantedGpu{gpu.model, gpu.uuid, {}});
    for (const device::Instance& instance : gpu.instances) {
      if (!instance.whole()) continue;
      one.instances.push_back({instance, segment_of(instance.uuid())});
    }
  }
  return wanted;
}

Wanted wanted_by(const plan::ServingPlan& plan) {
  Wanted wanted;
  int groups = 0, left = 0;  // GPUs that the last group still lacks
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    WantedGpu& one = wanted.gpus.emplace_back(WantedGpu{gpu.model, "", {}, gpu.index});
    for (const plan::PlannedInstance& planned : gpu.instances) {
      if (planned.group > 1) {
        if (left == 0) ++groups, left = planned.group;
        --left;
        one.group = groups - 1;
      }
      one.instances.push_back({planned,
                               {planned.service, planned.batch, planned.processes,
                                planned.throughput.value * planned.group, planned.held,
                                planned.prefill_units, planned.decode_units, planned.engine}});
    }
  }
  wanted.services.assign(plan.services.begin(), plan.services.end());
  std::ranges::sort(wanted.services, {}, &plan::Terms::name);
  return wanted;
}

bool group_is_sound(const Wanted& wanted, std::size_t g, const hw::GpuModel& model) {
  const WantedGpu& gpu = wanted.gpus[g];
  if (!gpu.is_whole()) return true;
  if (gpu.instances.size() != 1) return false;
  const int profile = model.profile_index(gpu.instances.front().profile);
  if (profile < 0 || model.profiles[static_cast<std::size_t>(profile)].size < model.memory_slices)
    return false;
  const WantedGpu& first = *std::ranges::find(wanted.gpus, gpu.group, &WantedGpu::group);
  return first.model == gpu.model && first.instances == gpu.instances;
}

}  // namespace

bool is_there(const device::NodeState& state, const std::string& device) {
  const std::vector<std::string> whole = whole_gpus(device);
  if (!whole.empty())
    return std::ranges::all_of(whole, [&](const std::string& uuid) {
      const device::GpuState* gpu = state.find(uuid);
      return gpu != nullptr && !gpu->lost && !gpu->mig_enabled;
    });
  return std::ranges::any_of(state.gpus, [&](const device::GpuState& gpu) {
    return std::ranges::any_of(gpu.instances, [&](const device::Instance& one) {
      return std::ranges::count(one.compute, device, &device::ComputeInstance::uuid) > 0;
    });
  });
}

Wanted wanted_of(const plan::Judged<plan::ServingPlan>& plan) { return wanted_by(*plan); }

Result<void> check_places(const plan::ServingPlan& plan, const hw::Catalogue& catalogue) {
  if (plan::shares_gpus(plan))
    return bad_input("plan", "it shares whole GPUs under MPS, and only MIG instances can be made");
  return check_wanted(wanted_by(plan), catalogue);
}

Wanted wanted_of(const device::NodeState& state, const Assignment& assignment) {
  std::map<std::string, Segment> segments;
  for (const AssignedSegment& one : assignment.segments) segments[one.device] = one;
  Wanted wanted;
  std::set<std::string> grouped;
  int groups = 0;
  for (const AssignedSegment& one : assignment.segments) {
    const std::vector<std::string> gpus = whole_gpus(one.device);
    const bool there = is_there(state, one.device);
    for (const std::string& uuid : gpus) {
      const device::GpuState* gpu = state.find(uuid);
      if (gpu == nullptr || gpu->lost || gpu->mig_enabled) continue;
      grouped.insert(uuid);
      WantedGpu& whole = wanted.gpus.emplace_back(WantedGpu{gpu->model, uuid, {}, -1, groups});
      if (there) whole.instances = {{one, one}};
    }
    if (!gpus.empty()) ++groups;
  }
  device::NodeState own = state;  // what is lent is its owner's, and goes with the lease
  for (device::GpuState& gpu : own.gpus)
    std::erase_if(gpu.instances, std::mem_fn(&device::Instance::lent));
  const Wanted rest = wanted_state(
      own,
      [&](const std::string& uuid) {
        const auto found = segments.find(uuid);
        return found == segments.end() ? Segment{} : found->second;
      },
      grouped);
  wanted.gpus.insert(wanted.gpus.end(), rest.gpus.begin(), rest.gpus.end());
  wanted.services = assignment.services;
  return wanted;
}

Wanted wanted_of(const device::StateDocument& document) {
  return wanted_state(document.state, [&](const std::string& uuid) {
    const auto found = document.occupants.find(uuid);
    if (found == document.occupants.end()) return Segment{};
    const device::Occupant& occupant = found->second;
    return Segment{occupant.service, occupant.batch, occupant.processes, 0};
  });
}

Result<void> check_wanted(const Wanted& wanted, const hw::Catalogue& catalogue) {
  for (std::size_t g = 0; g < wanted.gpus.size(); ++g) {
    const WantedGpu& gpu = wanted.gpus[g];
    const hw::GpuModel* model = TRY(catalogue.get(gpu.model));
    if (!group_is_sound(wanted, g, *model))
      return bad_input(fmt::format("gpu {}", g),
                       "the GPUs of a group are of one model and have the same segment on all of "
                       "each");
    std::vector<hw::PlacedProfile> placed;
    for (const WantedInstance& instance : gpu.instances) {
      const int profile = model->profile_index(instance.profile);
      if (profile < 0) {
        return bad_input(fmt::format("gpu {}", g),
                         fmt::format("{} has no profile {}", gpu.model, instance.profile));
      }
      placed.push_back({profile, instance.start});
    }
    const auto conflicts = hw::conflicts(*model, placed);
    if (conflicts.empty()) continue;
    const int first = conflicts.front().first;
    return bad_input(
        fmt::format("gpu {}", g),
        fmt::format("{} cannot be cut like this: {}{}", gpu.model, conflicts.front().constraint,
                    first < 0 ? std::string{}
                              : fmt::format(" ({} at start {})",
                                            gpu.instances[static_cast<std::size_t>(first)].profile,
                                            gpu.instances[static_cast<std::size_t>(first)].start)));
  }
  return {};
}

}  // namespace partita::actuate
