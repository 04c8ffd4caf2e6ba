#include "act/wanted.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "hw/layout.h"

namespace partita::actuate {
namespace {

// A state as wanted; `segment_of` tells what runs on an instance.
template <class SegmentOf>
Wanted wanted_state(const device::NodeState& state, SegmentOf segment_of) {
  Wanted wanted;
  for (const device::GpuState& gpu : state.gpus) {
    if (gpu.lost || gpu.model.empty()) continue;
    WantedGpu& one = wanted.gpus.emplace_back(WantedGpu{gpu.model, gpu.uuid, {}});
    for (const device::Instance& instance : gpu.instances) {
      if (!instance.whole()) continue;
      one.instances.push_back({instance.profile, instance.start, segment_of(instance.uuid())});
    }
  }
  return wanted;
}

Wanted wanted_by(const plan::ServingPlan& plan) {
  Wanted wanted;
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    WantedGpu& one = wanted.gpus.emplace_back(WantedGpu{gpu.model, "", {}, gpu.index});
    for (const plan::PlannedInstance& planned : gpu.instances) {
      one.instances.push_back(
          {planned.profile,
           planned.start,
           {planned.service, planned.batch, planned.processes, planned.throughput.value}});
    }
  }
  wanted.services.assign(plan.services.begin(), plan.services.end());
  std::ranges::sort(wanted.services, {}, &plan::Terms::name);
  return wanted;
}

}  // namespace

Wanted wanted_of(const plan::Judged<plan::ServingPlan>& plan) { return wanted_by(*plan); }

Result<void> check_places(const plan::ServingPlan& plan, const hw::Catalogue& catalogue) {
  if (plan::shares_gpus(plan))
    return bad_input("plan", "it shares whole GPUs under MPS, and only MIG instances can be made");
  for (const plan::PlannedGpu& gpu : plan.gpus)
    for (const plan::PlannedInstance& one : gpu.instances)
      if (one.group > 1)
        return bad_input("plan", fmt::format("service {} is on groups of {} GPUs, and only MIG "
                                             "instances can be made",
                                             one.service, one.group));
  return check_wanted(wanted_by(plan), catalogue);
}

Wanted wanted_of(const device::NodeState& state, const Assignment& assignment) {
  std::map<std::string, Segment> segments;
  for (const AssignedSegment& one : assignment.segments) {
    segments[one.device] = {one.service, one.batch, one.processes, one.throughput_rps};
  }
  Wanted wanted = wanted_state(state, [&](const std::string& uuid) {
    const auto found = segments.find(uuid);
    return found == segments.end() ? Segment{} : found->second;
  });
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
    const Result<const hw::GpuModel*> model = catalogue.get(gpu.model);
    if (!model) return failed(model.error());
    std::vector<hw::PlacedProfile> placed;
    for (const WantedInstance& instance : gpu.instances) {
      const int profile = (*model)->profile_index(instance.profile);
      if (profile < 0) {
        return bad_input(fmt::format("gpu {}", g),
                         fmt::format("{} has no profile {}", gpu.model, instance.profile));
      }
      placed.push_back({profile, instance.start});
    }
    const auto conflicts = hw::conflicts(**model, placed);
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
