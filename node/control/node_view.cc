#include "control/node_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "act/change.h"
#include "base/unicode.h"

namespace partita::control {
namespace {

// Names come from a driver and may hold any byte.
device::NodeState printable_state(device::NodeState state) {
  const auto clean = [](std::string& text) { text = utf8(printable(text)); };
  for (device::GpuState& gpu : state.gpus) {
    clean(gpu.name);
    for (device::Holder& one : gpu.holders) clean(one.name);
    for (device::Instance& instance : gpu.instances)
      for (device::Holder& one : instance.holders) clean(one.name);
  }
  return state;
}

// Why a GPU cannot serve; empty when it can.
std::string fault_of(const World& world, const device::GpuState& gpu) {
  if (gpu.lost) return fmt::format("gpu {} fell off the bus", gpu.index);
  if (gpu.model.empty())
    return fmt::format("gpu {} is a {}, which the catalogue does not know", gpu.index, gpu.name);
  if (world.entry_of(gpu.model) == nullptr)
    return fmt::format("gpu {} is a {}, for which there are no profiles", gpu.index, gpu.model);
  if (!gpu.mig_capable) return fmt::format("gpu {} cannot be cut into instances", gpu.index);
  // A mode that was stored and is not in force was set where nobody could reset the GPU.
  if (!gpu.mig_enabled && gpu.mig_pending)
    return fmt::format("gpu {} needs a reset before MIG is on (nvidia-smi --gpu-reset -i {})",
                       gpu.index, gpu.index);
  if (!world.settings.allow_reset && actuate::needs_reset(gpu, world.catalogue))
    return fmt::format(
        "gpu {} needs a reset before MIG is on (nvidia-smi -i {} -mig 1, nvidia-smi --gpu-reset -i "
        "{}, or policy.allow_reset)",
        gpu.index, gpu.index, gpu.index);
  return {};
}

}  // namespace

bool GpuUse::is_usable(const std::string& uuid) const {
  return std::ranges::count(usable, uuid, &Gpu::uuid) > 0;
}

GpuUse gpus_for_services(const World& world, const device::NodeState& state,
                         const std::vector<OutGpu>& out) {
  GpuUse use;
  const std::map<int, int> domains = nvlink_domains(world.nvlink, state);
  for (const device::GpuState& gpu : state.gpus) {
    const auto domain = domains.find(gpu.index);
    const GpuUse::Gpu one{gpu.index, gpu.uuid, gpu.model,
                          domain == domains.end() ? 0 : domain->second};
    if (std::ranges::count(world.settings.batch.gpus, gpu.index) > 0) {
      if (!gpu.lost) use.batch.push_back(one);
      continue;
    }
    std::string fault = fault_of(world, gpu);
    const auto found = std::ranges::find(out, gpu.uuid, &OutGpu::uuid);
    if (fault.empty() && found != out.end()) fault = found->why;
    if (fault.empty())
      use.usable.push_back(one);
    else
      use.not_used[gpu.uuid.empty() ? fmt::format("gpu {}", gpu.index) : gpu.uuid] = fault;
  }
  return use;
}

void NodeView::read(const Seen& seen, std::int64_t now_ms) {
  known = seen.state && seen.assignment && seen.journal;
  if (!known) {
    const Error& error = !seen.state        ? seen.state.error()
                         : !seen.assignment ? seen.assignment.error()
                                            : seen.journal.error();
    blind = "the node cannot be read, so nothing is changed: " + to_string(error);
    return;
  }
  blind.clear();
  read_ms = now_ms;
  if (!(raw == *seen.state)) {
    raw = *seen.state;
    state = printable_state(*seen.state);
  }
  assignment = *seen.assignment;
  journal = *seen.journal;
}

GpuUse NodeView::spared() const {
  GpuUse spared = use;
  std::erase_if(spared.usable, [&](const GpuUse::Gpu& gpu) { return lent.contains(gpu.uuid); });
  return spared;
}

bool NodeView::is_ours(const device::Instance& instance) const {
  return std::ranges::count(journal.owned, instance.uuid()) > 0 ||
         std::ranges::count(assignment.segments, instance.uuid(),
                            &actuate::AssignedSegment::device) > 0;
}

bool NodeView::has_lent(const std::string& gpu_uuid) const {
  const device::GpuState* gpu = state.find(gpu_uuid);
  return gpu != nullptr && std::ranges::any_of(gpu->instances, &device::Instance::lent);
}

std::vector<std::string> NodeView::what_is_lent() const {
  std::vector<std::string> all;
  for (const device::GpuState& gpu : state.gpus)
    for (const device::Instance& one : gpu.instances)
      if (one.lent())
        all.push_back(fmt::format("{} at {} of {}", one.profile, one.start, gpu.uuid));
  return all;
}

bool NodeView::has(const actuate::AssignedSegment& segment) const {
  const device::GpuState* gpu = state.find(segment.gpu_uuid);
  return gpu != nullptr && !gpu->lost && actuate::is_there(state, segment.device);
}

}  // namespace partita::control
