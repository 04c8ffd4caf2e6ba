#include "interop/geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "device/recognise.h"

namespace partita::interop {
namespace {

std::string words(std::string_view rule, double have, double need) {
  return fmt::format("{} {} are needed, there are {}", need, rule, have);
}

hw::PlacedProfile placed(const Slot& slot) { return {slot.profile, *slot.start}; }

void sort_slots(GpuGeometry& gpu) {
  std::ranges::sort(gpu.slots, {}, [](const Slot& s) { return std::pair(s.start, s.profile); });
}

Result<void> check(const std::string& file, const GpuGeometry& gpu) {
  std::vector<hw::PlacedProfile> places;
  for (const Slot& slot : gpu.slots) places.push_back(placed(slot));
  const std::string fault = layout_fault(*gpu.board.model, places);
  if (fault.empty()) return {};
  return bad_input(file, fmt::format("GPU {} is no {} that can exist: {}", gpu.board.index,
                                     gpu.board.model->name, fault));
}

// The UUID, or empty when a reader made it up from the place: "gpu" is not hexadecimal.
std::string real_uuid(const std::string& uuid) {
  const bool made_up = uuid.starts_with("GPU-gpu") || uuid.starts_with("MIG-gpu");
  return made_up ? std::string{} : uuid;
}

std::map<std::string, std::set<std::string>> apart_of(const plan::ServingPlan& plan) {
  std::map<std::string, std::set<std::string>> apart;
  for (const plan::PlannedService& one : plan.services) {
    if (one.spread) apart[one.name].insert(one.name);
    for (const std::string& other : one.avoid)
      apart[one.name].insert(other), apart[other].insert(one.name);
  }
  return apart;
}

// GPUs by index, each index once.
Result<Geometry> ordered(const std::string& file, Geometry geometry) {
  std::ranges::stable_sort(geometry.gpus, {}, [](const GpuGeometry& g) { return g.board.index; });
  for (std::size_t i = 1; i < geometry.gpus.size(); ++i)
    if (geometry.gpus[i].board.index == geometry.gpus[i - 1].board.index)
      return bad_input(file, fmt::format("GPU {} is listed twice", geometry.gpus[i].board.index));
  return geometry;
}

Result<Slot> slot_of(const GpuGeometry& gpu, const device::Instance& instance) {
  const auto refuse = [&](std::string_view why) {
    return bad_input("", fmt::format("GPU {}: {} at {} {}", gpu.board.index, instance.profile,
                                     instance.start, why));
  };
  const int profile = gpu.board.model->profile_index(instance.profile);
  if (profile < 0) return refuse(fmt::format("is not a profile of {}", gpu.board.model->name));
  if (instance.compute.empty())
    return refuse("has no compute instance: finish its creation or destroy it first");
  if (instance.compute.size() > 1)
    return refuse(fmt::format("is split into {} compute instances; only whole ones can be stated",
                              instance.compute.size()));
  if (!instance.whole())
    return refuse(fmt::format("has {} of its {} compute slices in use; only all can be stated",
                              instance.compute.front().gpcs, instance.gpcs));
  Slot slot{.profile = profile, .start = instance.start};
  // An instance without UUID does not exist yet, so its other ids mean nothing.
  slot.uuid = real_uuid(instance.uuid());
  if (!slot.uuid.empty()) {
    slot.gi_id = instance.gi_id;
    slot.ci_id = instance.compute.front().ci_id;
  }
  return slot;
}

const hw::GpuModel* model_of(const device::GpuState& gpu, const hw::Catalogue& catalogue) {
  const hw::GpuModel* named = gpu.model.empty() ? nullptr : catalogue.find(gpu.model);
  return named ? named : device::recognise(catalogue, gpu);
}

// Instances of services are found by UUID, so one that does not exist yet gets a name of its place.
std::string place_name(const Board& board, const Slot& slot) {
  return fmt::format("MIG-gpu{}-start{}", board.index, *slot.start);
}

// An id for an instance that has none: its start, or the next one that is free.
int free_id(std::set<int>& taken, int id) {
  while (!taken.insert(id).second) ++id;
  return id;
}

device::Instance instance_of(const GpuGeometry& gpu, const Slot& slot, std::set<int>& ids) {
  CHECK(slot.start);
  const hw::MigProfile& profile = gpu.profile_of(slot);
  const bool named = !slot.uuid.empty() || slot.service.empty();
  return {{profile.name, *slot.start},
          profile.profile_id,
          profile.gpcs,
          profile.size,
          slot.gi_id ? *slot.gi_id : free_id(ids, *slot.start),
          {{.ci_id = slot.ci_id.value_or(0),
            .gpcs = profile.gpcs,
            .uuid = named ? slot.uuid : place_name(gpu.board, slot)}},
          {}};
}

}  // namespace

Result<Geometry> from_plan(const std::string& file, const plan::ServingPlan& plan,
                           const hw::Catalogue& catalogue) {
  if (plan::shares_gpus(plan))
    return bad_input(file, "it shares whole GPUs under MPS, and only MIG instances can be stated");
  Geometry geometry{.gpus = {}, .apart = apart_of(plan)};
  for (const plan::PlannedGpu& planned : plan.gpus) {
    const Result<const hw::GpuModel*> model = catalogue.get(planned.model);
    if (!model) return bad_input(file, model.error().message);
    GpuGeometry gpu{.board = {.index = planned.index, .model = *model}, .slots = {}};
    for (const plan::PlannedInstance& instance : planned.instances) {
      const int profile = (*model)->profile_index(instance.profile);
      if (profile < 0)
        return bad_input(file, fmt::format("GPU {}: {} is not a profile of {}", planned.index,
                                           instance.profile, (*model)->name));
      if (instance.group > 1)
        gpu.mig_enabled = false;
      else
        gpu.slots.push_back({.profile = profile,
                             .start = instance.start,
                             .service = instance.service,
                             .batch = instance.batch,
                             .processes = instance.processes,
                             .engine = instance.engine.configuration});
    }
    sort_slots(gpu);
    TRY(check(file, gpu));
    geometry.gpus.push_back(std::move(gpu));
  }
  return ordered(file, std::move(geometry));
}

Result<Geometry> from_state(const std::string& file, const device::StateDocument& document,
                            const hw::Catalogue& catalogue) {
  Geometry geometry;
  for (const device::GpuState& state : document.state.gpus) {
    if (state.lost)
      return bad_input(
          file, fmt::format("GPU {} fell off the bus: what is on it is unknown", state.index));
    const hw::GpuModel* model = model_of(state, catalogue);
    if (!model && state.mig_enabled)
      return bad_input(file, fmt::format("GPU {} has MIG on and is in no catalogue", state.index));
    if (!model || model->profiles.empty()) continue;
    GpuGeometry gpu{
        {state.index, model, real_uuid(state.uuid), state.pci_device_id}, state.mig_enabled, {}};
    for (const device::Instance& instance : state.instances) {
      Result<Slot> slot = slot_of(gpu, instance);
      if (!slot) return bad_input(file, slot.error().message);
      if (const auto who = document.occupants.find(instance.uuid());
          who != document.occupants.end()) {
        slot->service = who->second.service;
        slot->batch = who->second.batch;
        slot->processes = who->second.processes;
      }
      gpu.slots.push_back(*std::move(slot));
    }
    sort_slots(gpu);
    TRY(check(file, gpu));
    geometry.gpus.push_back(std::move(gpu));
  }
  return ordered(file, std::move(geometry));
}

std::vector<Board> boards_of(const device::NodeState& node, const hw::Catalogue& catalogue) {
  std::vector<Board> boards;
  for (const device::GpuState& gpu : node.gpus) {
    const hw::GpuModel* model = model_of(gpu, catalogue);
    if (model && !model->profiles.empty())
      boards.push_back({gpu.index, model, real_uuid(gpu.uuid), gpu.pci_device_id});
  }
  std::ranges::stable_sort(boards, {}, &Board::index);
  return boards;
}

std::vector<Board> boards_of(const hw::GpuModel& model, int count) {
  std::vector<Board> boards;
  for (int i = 0; i < count; ++i) boards.push_back({.index = i, .model = &model});
  return boards;
}

Result<Geometry> on_node(const std::string& file, Geometry geometry, const Geometry& node) {
  std::map<int, const GpuGeometry*> by_index;
  for (const GpuGeometry& gpu : node.gpus) by_index.emplace(gpu.board.index, &gpu);
  for (GpuGeometry& gpu : geometry.gpus) {
    const auto found = by_index.find(gpu.board.index);
    if (found == by_index.end())
      return bad_input(file, fmt::format("the node has no GPU {}", gpu.board.index));
    const GpuGeometry& there = *found->second;
    if (there.board.model->name != gpu.board.model->name)
      return bad_input(file, fmt::format("GPU {} is {}, and {} is wanted there", gpu.board.index,
                                         there.board.model->name, gpu.board.model->name));
    gpu.board = there.board;
    for (Slot& slot : gpu.slots) {
      const auto same = std::ranges::find_if(there.slots, [&](const Slot& s) {
        return s.profile == slot.profile && s.start == slot.start;
      });
      if (same == there.slots.end()) continue;
      slot.uuid = same->uuid;
      slot.gi_id = same->gi_id;
      slot.ci_id = same->ci_id;
    }
  }
  return geometry;
}

Geometry overlaid(Geometry node, const Geometry& wanted) {
  for (GpuGeometry& gpu : node.gpus)
    for (const GpuGeometry& other : wanted.gpus)
      if (other.board.index == gpu.board.index) gpu = other;
  return node;
}

device::StateDocument to_state(const Geometry& geometry) {
  device::StateDocument document;
  for (const GpuGeometry& gpu : geometry.gpus) {
    const hw::GpuModel& model = *gpu.board.model;
    device::GpuState state{.index = gpu.board.index,
                           .uuid = gpu.board.uuid,
                           .name = model.nvml_names.empty() ? "" : model.nvml_names.front(),
                           .model = model.name,
                           .pci_device_id = gpu.board.pci_device_id,
                           .memory = model.total_memory.value_or(Mib{}),
                           .mig_capable = true,
                           .mig_enabled = gpu.mig_enabled,
                           .mig_pending = gpu.mig_enabled,
                           .instances = {},
                           .holders = {}};
    std::set<int> ids;
    for (const Slot& slot : gpu.slots)
      if (slot.gi_id) ids.insert(*slot.gi_id);
    for (const Slot& slot : gpu.slots) {
      state.instances.push_back(instance_of(gpu, slot, ids));
      if (!slot.service.empty())
        document.occupants[state.instances.back().uuid()] = {slot.service, slot.batch,
                                                             slot.processes};
    }
    document.state.gpus.push_back(std::move(state));
  }
  return document;
}

std::vector<int> counts_of(const GpuGeometry& gpu) {
  std::vector<int> counts(gpu.board.model->profiles.size());
  for (const Slot& slot : gpu.slots) ++counts[static_cast<std::size_t>(slot.profile)];
  return counts;
}

std::string layout_fault(const hw::GpuModel& model, const std::vector<hw::PlacedProfile>& places) {
  const std::vector<hw::Conflict> conflicts = hw::conflicts(model, places);
  if (conflicts.empty()) return "";
  const hw::Conflict& conflict = conflicts.front();
  const auto named = [&](int i) {
    const hw::PlacedProfile& place = places[static_cast<std::size_t>(i)];
    return fmt::format("{} at {}", model.profiles[static_cast<std::size_t>(place.profile)].name,
                       place.start);
  };
  if (conflict.constraint == "illegal_start")
    return fmt::format("{} cannot start there, the nearest legal start is {}",
                       named(conflict.first), conflict.need);
  if (conflict.constraint == "memory_slices")
    return fmt::format("{} and {} share {} memory slices", named(conflict.first),
                       named(conflict.second), conflict.need);
  if (conflict.constraint == "max_instances")
    return words(fmt::format("instances like {}", named(conflict.first)), conflict.have,
                 conflict.need);
  if (conflict.constraint == "media_engines")
    return words("media engines of one kind", conflict.have, conflict.need);
  CHECK(conflict.constraint == "compute_slices");
  return words("compute slices", conflict.have, conflict.need);
}

std::string counts_text(const hw::GpuModel& model, const std::vector<int>& counts) {
  std::string text;
  for (std::size_t k = counts.size(); k-- > 0;) {
    if (counts[k] == 0) continue;
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", counts[k], model.profiles[k].name);
  }
  return text.empty() ? "no instances" : text;
}

}  // namespace partita::interop
