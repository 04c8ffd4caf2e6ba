// MIG: compute instances, and MIG devices, which are compute instances seen as GPUs.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "drivers/sim/figures.h"
#include "library.h"

namespace partita::nvml_sim {
namespace {

// Compute slices by enumerator, which is also the profile id; 0: no plain profile.
constexpr std::array<int, abi::kComputeInstanceProfiles> kGpcs = {1, 2, 3, 4, 7, 8, 6, 0, 0};

unsigned number(int value) { return static_cast<unsigned>(value); }

// Compute slices of the profile with this id in the instance; nothing when it has no such profile:
// all of the instance, one or two of its slices, and of seven also three or four.
std::optional<int> gpcs_of(const hw::MigProfile& instance, unsigned id) {
  const int gpcs = id < kGpcs.size() ? kGpcs[id] : 0;
  const bool offered = gpcs == instance.gpcs || (gpcs < instance.gpcs && gpcs <= 2) ||
                       (instance.gpcs == 7 && (gpcs == 3 || gpcs == 4));
  return gpcs > 0 && offered ? std::optional(gpcs) : std::nullopt;
}

unsigned id_of(int gpcs) {
  return number(static_cast<int>(std::ranges::find(kGpcs, gpcs) - kGpcs.begin()));
}

// As many as fit next to each other, or into what is free of the instance.
unsigned room_for(const hw::MigProfile& profile, const SimInstance& instance, int gpcs) {
  unsigned room = 0;
  for (int start = 0; start + gpcs <= profile.gpcs;) {
    const bool free = std::ranges::none_of(instance.compute, [&](const SimComputeInstance& other) {
      return start < other.start + other.gpcs && other.start < start + gpcs;
    });
    room += free;
    start += free ? gpcs : 1;
  }
  return room;
}

using ProfileUse = std::function<Return(const Target&, int gpcs)>;

// Runs `use` with the compute slices of a profile: not_supported when the instance lacks it,
// invalid_argument when there is none.
Return with_enum(GpuInstance instance, bool arguments, unsigned nvml_enum, const ProfileUse& use) {
  return on_gpu_instance(instance, arguments, [&](const Target& target) {
    if (nvml_enum >= abi::kComputeInstanceProfiles) return Return::invalid_argument;
    const std::optional<int> gpcs = gpcs_of(target.profile(), nvml_enum);
    return gpcs ? use(target, *gpcs) : Return::not_supported;
  });
}

// ... by the id of a profile: not_supported when the instance lacks it.
Return with_id(GpuInstance instance, bool arguments, unsigned id, const ProfileUse& use) {
  return on_gpu_instance(instance, arguments, [&](const Target& target) {
    const std::optional<int> gpcs = gpcs_of(target.profile(), id);
    return gpcs ? use(target, *gpcs) : Return::not_supported;
  });
}

template <class Info>
void fill(const Target& target, int gpcs, Info& info) {
  const hw::MigProfile& profile = target.profile();
  info.id = id_of(gpcs);
  info.slices = number(gpcs);
  info.max_instances = number(profile.gpcs / gpcs);
  info.multiprocessors = multiprocessors(*target.gpu.model, profile, gpcs);
  info.copy_engines = number(profile.engines.copy);
  info.decoders = number(profile.engines.decode);
  info.encoders = number(profile.engines.encode);
  info.jpegs = number(profile.engines.jpeg);
  info.optical_flows = number(profile.engines.optical_flow);
}

std::string name_of(const hw::MigProfile& profile, int gpcs) {
  return "MIG " + (gpcs == profile.gpcs ? "" : std::to_string(gpcs) + "c.") + profile.name;
}

Return create(GpuInstance handle, unsigned id, bool arguments, const abi::Place* place,
              ComputeInstance* out) {
  std::optional<Entity> parent;
  int slices = 0;
  const Return ready =
      with_id(handle, arguments && given(out), id, [&](const Target& target, int gpcs) {
        parent = entity_of(target.index, *target.instance);
        slices = gpcs;
        return place != nullptr && place->size != number(gpcs) ? Return::invalid_argument
                                                               : Return::success;
      });
  if (ready != Return::success) return ready;
  return change("create_compute", [&](Machine& machine) -> Result<std::int64_t> {
    const auto start = place ? std::optional(static_cast<int>(place->start)) : std::nullopt;
    TRY(still_there(machine, *parent));
    const auto made = TRY(machine.create_compute(parent->gpu, parent->gi_id, slices, start));
    const SimInstance& instance = *machine.find(parent->gpu)->find(parent->gi_id);
    const auto at = std::ranges::find(instance.compute, made.value, &SimComputeInstance::ci_id);
    *out = compute_handle(parent->gpu, instance, *at);
    return made.duration_ns;
  });
}

// Writes all of the struct, or what its first version has.
Return info_of(ComputeInstance compute, abi::ComputeInstanceInfo* info, bool with_place) {
  return on_compute_instance(compute, given(info), [&](const Target& target) {
    info->device = device_handle(target.index);
    info->gpu_instance = instance_handle(target.index, *target.instance);
    info->id = number(target.compute->ci_id);
    info->profile_id = id_of(target.compute->gpcs);
    if (with_place) info->place = {number(target.compute->start), number(target.compute->gpcs)};
    return Return::success;
  });
}

}  // namespace

extern "C" {

Return nvmlGpuInstanceGetComputeInstanceProfileInfo(GpuInstance instance, unsigned nvml_enum,
                                                    unsigned engines,
                                                    abi::ComputeInstanceProfile* info) {
  return with_enum(instance, engines == 0 && given(info), nvml_enum,
                   [&](const Target& target, int gpcs) {
                     fill(target, gpcs, *info);
                     return Return::success;
                   });
}

Return nvmlGpuInstanceGetComputeInstanceProfileInfoV(GpuInstance instance, unsigned nvml_enum,
                                                     unsigned engines,
                                                     abi::ComputeInstanceProfileV2* info) {
  const auto use = [&](const Target& target, int gpcs) {
    const std::string name = name_of(target.profile(), gpcs);
    const unsigned version = info->version;
    if (version == abi::version_word<abi::ComputeInstanceProfileV2>(2)) {
      fill(target, gpcs, *info);
      return put(name, info->name, sizeof info->name);
    }
    if (version == abi::version_word<abi::ComputeInstanceProfileV3>(3)) {
      auto& v3 = *reinterpret_cast<abi::ComputeInstanceProfileV3*>(info);
      fill(target, gpcs, v3);
      v3.capabilities = 0;
      return put(name, v3.name, sizeof v3.name);
    }
    return Return::argument_version_mismatch;
  };
  return with_enum(instance, engines == 0 && given(info), nvml_enum, use);
}

Return nvmlGpuInstanceGetComputeInstancePossiblePlacements(GpuInstance instance, unsigned id,
                                                           abi::Place* places, unsigned* count) {
  return with_id(instance, given(count), id, [&](const Target& target, int gpcs) {
    *count = number(target.profile().gpcs - gpcs + 1);
    for (unsigned start = 0; places != nullptr && start < *count; ++start)
      places[start] = {start, number(gpcs)};
    return Return::success;
  });
}

Return nvmlGpuInstanceGetComputeInstanceRemainingCapacity(GpuInstance instance, unsigned id,
                                                          unsigned* count) {
  return with_id(instance, given(count), id, [&](const Target& target, int gpcs) {
    return answer(count, room_for(target.profile(), *target.instance, gpcs));
  });
}

Return nvmlGpuInstanceCreateComputeInstance(GpuInstance instance, unsigned id,
                                            ComputeInstance* out) {
  return create(instance, id, true, nullptr, out);
}
Return nvmlGpuInstanceCreateComputeInstanceWithPlacement(GpuInstance instance, unsigned id,
                                                         const abi::Place* place,
                                                         ComputeInstance* out) {
  return create(instance, id, given(place), place, out);
}

Return nvmlComputeInstanceDestroy(ComputeInstance compute) {
  std::optional<Entity> entity;
  const Return ready = on_compute_instance(compute, given(compute), [&](const Target& target) {
    entity = entity_of(target.index, *target.instance, *target.compute);
    return Return::success;
  });
  if (ready != Return::success) return ready;
  return change("destroy_compute", [&](Machine& machine) -> Result<std::int64_t> {
    TRY(still_there(machine, *entity));
    const auto gone = TRY(machine.destroy_compute(entity->gpu, entity->gi_id, entity->ci_id));
    Library::here().handles.forget(*entity);
    entity->kind = Entity::Kind::mig_device;
    Library::here().handles.forget(*entity);
    return gone.duration_ns;
  });
}

// The room is what the profile allows at most; the count only goes out.
Return nvmlGpuInstanceGetComputeInstances(GpuInstance instance, unsigned id, ComputeInstance* out,
                                          unsigned* count) {
  return with_id(instance, given(count) && given(out), id, [&](const Target& target, int gpcs) {
    unsigned found = 0;
    for (const SimComputeInstance& compute : target.instance->compute)
      if (compute.gpcs == gpcs)
        out[found++] = compute_handle(target.index, *target.instance, compute);
    return answer(count, found);
  });
}

Return nvmlGpuInstanceGetComputeInstanceById(GpuInstance instance, unsigned ci_id,
                                             ComputeInstance* out) {
  return on_gpu_instance(instance, given(out), [&](const Target& target) {
    for (const SimComputeInstance& compute : target.instance->compute)
      if (number(compute.ci_id) == ci_id)
        return answer(out, compute_handle(target.index, *target.instance, compute));
    return Return::not_found;
  });
}

Return nvmlComputeInstanceGetInfo(ComputeInstance compute, abi::ComputeInstanceInfo* info) {
  return info_of(compute, info, false);
}
Return nvmlComputeInstanceGetInfo_v2(ComputeInstance compute, abi::ComputeInstanceInfo* info) {
  return info_of(compute, info, true);
}

Return nvmlDeviceIsMigDeviceHandle(Device device, unsigned* is) {
  return on_any_device(device, given(is), [&](const Target& target) {
    return answer(is, target.compute != nullptr ? 1 : 0);
  });
}

Return nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  return on_gpu(device, given(count), [&](const Target& target) {
    return answer(count, target.gpu.mig ? target.gpu.model->compute_slices : 0);
  });
}

Return nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device* out) {
  return on_mig_gpu(device, given(out), [&](const Target& target) {
    if (index >= number(target.gpu.model->compute_slices)) return Return::invalid_argument;
    unsigned before = 0;
    for (const SimInstance& instance : target.gpu.instances)
      for (const SimComputeInstance& compute : instance.compute)
        if (before++ == index)
          return answer(out, mig_device_handle(target.index, instance, compute));
    return Return::not_found;
  });
}

Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device device, Device* parent) {
  return on_mig_device(device, given(parent), [&](const Target& target) {
    return answer(parent, device_handle(target.index));
  });
}

Return nvmlDeviceGetGpuInstanceId(Device device, unsigned* id) {
  return on_mig_device(device, given(id),
                       [&](const Target& target) { return answer(id, target.instance->gi_id); });
}
Return nvmlDeviceGetComputeInstanceId(Device device, unsigned* id) {
  return on_mig_device(device, given(id),
                       [&](const Target& target) { return answer(id, target.compute->ci_id); });
}

Return nvmlDeviceGetAttributes(Device device, abi::DeviceAttributes* attributes) {
  return nvmlDeviceGetAttributes_v2(device, attributes);
}
Return nvmlDeviceGetAttributes_v2(Device device, abi::DeviceAttributes* attributes) {
  return on_mig_device(device, given(attributes), [&](const Target& target) {
    const hw::GpuModel& model = *target.gpu.model;
    const hw::MigProfile& profile = target.profile();
    *attributes = {.multiprocessors = multiprocessors(model, profile, target.compute->gpcs),
                   .copy_engines = number(profile.engines.copy),
                   .decoders = number(profile.engines.decode),
                   .encoders = number(profile.engines.encode),
                   .jpegs = number(profile.engines.jpeg),
                   .optical_flows = number(profile.engines.optical_flow),
                   .gpu_instance_slices = number(profile.gpcs),
                   .compute_instance_slices = number(target.compute->gpcs),
                   .memory_mib = memory_mib(model, profile)};
    return Return::success;
  });
}

}  // extern "C"

}  // namespace partita::nvml_sim
