// MIG: mode, profiles of GPU instances, GPU instances.
#include <algorithm>
#include <optional>
#include <vector>

#include "drivers/sim/figures.h"
#include "library.h"

namespace partita::nvml_sim {
namespace {

unsigned whole(int value) { return static_cast<unsigned>(value); }

// Runs `use` with the profile of this enumerator: not_supported when the board lacks it,
// invalid_argument when no board has it. Also while MIG is off, as the driver tells then too.
Return with_enum(Device device, bool arguments, unsigned nvml_enum,
                 const std::function<Return(const Target&, const hw::MigProfile&)>& use) {
  return on_board(device, arguments, [&](const Target& target) {
    if (nvml_enum >= abi::kGpuInstanceProfiles) return Return::invalid_argument;
    const auto& profiles = target.gpu.model->profiles;
    const auto at =
        std::ranges::find(profiles, static_cast<int>(nvml_enum), &hw::MigProfile::nvml_enum);
    return at == profiles.end() ? Return::not_supported : use(target, *at);
  });
}

// Index of the profile with this id; nothing when the board has none.
std::optional<int> profile_by_id(const SimGpu& gpu, unsigned id) {
  const auto& profiles = gpu.model->profiles;
  const auto at = std::ranges::find(profiles, static_cast<int>(id), &hw::MigProfile::profile_id);
  if (at == profiles.end()) return std::nullopt;
  return static_cast<int>(at - profiles.begin());
}

// The figures that all versions of the struct have.
template <class Info>
void fill(const hw::GpuModel& model, const hw::MigProfile& profile, Info& info) {
  info.id = whole(profile.profile_id);
  info.slices = whole(profile.gpcs);
  info.max_instances = whole(profile.max_instances);
  info.multiprocessors = multiprocessors(model, profile);
  info.copy_engines = whole(profile.engines.copy);
  info.decoders = whole(profile.engines.decode);
  info.encoders = whole(profile.engines.encode);
  info.jpegs = whole(profile.engines.jpeg);
  info.optical_flows = whole(profile.engines.optical_flow);
  info.memory_mib = memory_mib(model, profile);
}

// The struct of the version that it opens with; the third is told by its own layout.
Return fill_versioned(const hw::GpuModel& model, const hw::MigProfile& profile,
                      abi::GpuInstanceProfileV2* info) {
  const unsigned version = info->version;
  if (version == abi::version_word<abi::GpuInstanceProfileV2>(2)) {
    *info = {};
    info->version = version;
    fill(model, profile, *info);
    return put("MIG " + profile.name, info->name, sizeof info->name);
  }
  if (version == abi::version_word<abi::GpuInstanceProfileV3>(3)) {
    auto& v3 = *reinterpret_cast<abi::GpuInstanceProfileV3*>(info);
    v3 = {};
    v3.version = version;
    fill(model, profile, v3);
    return put("MIG " + profile.name, v3.name, sizeof v3.name);
  }
  return Return::argument_version_mismatch;
}

Return placements(Device device, unsigned id, abi::Place* places, unsigned* count) {
  return on_board(device, given(count), [&](const Target& target) {
    const std::optional<int> index = profile_by_id(target.gpu, id);
    if (!index) return Return::invalid_argument;
    const hw::MigProfile& profile = target.gpu.model->profiles[static_cast<std::size_t>(*index)];
    *count = whole(static_cast<int>(profile.starts.size()));
    for (std::size_t i = 0; places != nullptr && i < profile.starts.size(); ++i)
      places[i] = {whole(profile.starts[i]), whole(profile.size)};
    return Return::success;
  });
}

// Creates an instance at `place`, or where the driver likes.
Return create(Device device, unsigned id, bool arguments, const abi::Place* place,
              GpuInstance* out) {
  int gpu = -1;
  std::optional<int> profile;
  const Return ready = on_mig_gpu(device, arguments && given(out), [&](const Target& target) {
    gpu = target.index;
    profile = profile_by_id(target.gpu, id);
    if (!profile) return Return::invalid_argument;
    const int size = target.gpu.model->profiles[static_cast<std::size_t>(*profile)].size;
    return place != nullptr && place->size != whole(size) ? Return::invalid_argument
                                                          : Return::success;
  });
  if (ready != Return::success) return ready;
  return change("create_instance", [&](Machine& machine) -> Result<std::int64_t> {
    const auto start = place ? std::optional(static_cast<int>(place->start)) : std::nullopt;
    const auto made = TRY(machine.create_instance(gpu, *profile, start));
    *out = instance_handle(gpu, *machine.find(gpu)->find(made.value));
    return made.duration_ns;
  });
}

}  // namespace

extern "C" {

Return nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  return on_gpu(device, given(current, pending), [&](const Target& target) {
    if (target.gpu.model->profiles.empty()) return Return::not_supported;
    *current = target.gpu.mig ? 1 : 0;
    return answer(pending, target.gpu.mig_pending ? 1 : 0);
  });
}

Return nvmlDeviceSetMigMode(Device device, unsigned mode, Return* activation) {
  int gpu = -1;
  const Return ready = on_gpu(device, mode <= 1 && given(activation), [&](const Target& target) {
    gpu = target.index;
    return Return::success;
  });
  if (ready != Return::success) return ready;
  *activation = Return::success;
  const Return done = change("set_mig_mode", [&](Machine& machine) -> Result<std::int64_t> {
    TRY(machine.set_mig_mode(gpu, mode == 1));
    const SimGpu& now = *machine.find(gpu);
    if (now.mig != now.mig_pending) *activation = Return::reset_required;
    return 0;
  });
  // A mode that cannot come in force now is an answer of the activation, not of the call.
  if (done != Return::in_use) return done;
  *activation = done;
  return Return::success;
}

Return nvmlDeviceGetGpuInstanceProfileInfo(Device device, unsigned nvml_enum,
                                           abi::GpuInstanceProfile* info) {
  return with_enum(device, given(info), nvml_enum,
                   [&](const Target& target, const hw::MigProfile& profile) {
                     *info = {};
                     fill(*target.gpu.model, profile, *info);
                     return Return::success;
                   });
}

Return nvmlDeviceGetGpuInstanceProfileInfoV(Device device, unsigned nvml_enum,
                                            abi::GpuInstanceProfileV2* info) {
  return with_enum(device, given(info), nvml_enum,
                   [&](const Target& target, const hw::MigProfile& profile) {
                     return fill_versioned(*target.gpu.model, profile, info);
                   });
}

Return nvmlDeviceGetGpuInstanceProfileInfoByIdV(Device device, unsigned id,
                                                abi::GpuInstanceProfileV2* info) {
  return on_board(device, given(info), [&](const Target& target) {
    const std::optional<int> index = profile_by_id(target.gpu, id);
    if (!index) return Return::not_supported;
    const hw::GpuModel& model = *target.gpu.model;
    return fill_versioned(model, model.profiles[static_cast<std::size_t>(*index)], info);
  });
}

Return nvmlDeviceGetGpuInstancePossiblePlacements(Device device, unsigned id, abi::Place* places,
                                                  unsigned* count) {
  return placements(device, id, places, count);
}
Return nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device device, unsigned id, abi::Place* places,
                                                     unsigned* count) {
  return placements(device, id, places, count);
}

Return nvmlDeviceGetGpuInstanceRemainingCapacity(Device device, unsigned id, unsigned* count) {
  return on_mig_gpu(device, given(count), [&](const Target& target) {
    const std::optional<int> profile = profile_by_id(target.gpu, id);
    if (!profile) return Return::invalid_argument;
    return answer(count, target.machine.remaining(target.index, *profile));
  });
}

Return nvmlDeviceCreateGpuInstance(Device device, unsigned id, GpuInstance* out) {
  return create(device, id, true, nullptr, out);
}
Return nvmlDeviceCreateGpuInstanceWithPlacement(Device device, unsigned id, const abi::Place* place,
                                                GpuInstance* out) {
  return create(device, id, given(place), place, out);
}

Return nvmlGpuInstanceDestroy(GpuInstance instance) {
  std::optional<Entity> entity;
  const Return ready = on_gpu_instance(instance, given(instance), [&](const Target& target) {
    entity = entity_of(target.index, *target.instance);
    return Return::success;
  });
  if (ready != Return::success) return ready;
  const Return done = change("destroy_instance", [&](Machine& machine) -> Result<std::int64_t> {
    TRY(still_there(machine, *entity));
    const auto gone = TRY(machine.destroy_instance(entity->gpu, entity->gi_id));
    Library::here().handles.forget(*entity);
    return gone.duration_ns;
  });
  return done;
}

// The room is what the profile allows at most; the count only goes out.
Return nvmlDeviceGetGpuInstances(Device device, unsigned id, GpuInstance* out, unsigned* count) {
  return on_mig_gpu(device, given(count) && given(out), [&](const Target& target) {
    const std::optional<int> profile = profile_by_id(target.gpu, id);
    if (!profile) return Return::invalid_argument;
    unsigned found = 0;
    for (const SimInstance& instance : target.gpu.instances)
      if (instance.profile == *profile) out[found++] = instance_handle(target.index, instance);
    return answer(count, found);
  });
}

Return nvmlDeviceGetGpuInstanceById(Device device, unsigned gi_id, GpuInstance* out) {
  return on_mig_gpu(device, given(out), [&](const Target& target) {
    const SimInstance* instance = target.gpu.find(static_cast<int>(gi_id));
    if (instance == nullptr) return Return::not_found;
    return answer(out, instance_handle(target.index, *instance));
  });
}

Return nvmlGpuInstanceGetInfo(GpuInstance instance, abi::GpuInstanceInfo* info) {
  return on_gpu_instance(instance, given(info), [&](const Target& target) {
    const hw::MigProfile& profile = target.profile();
    *info = {.device = device_handle(target.index),
             .id = whole(target.instance->gi_id),
             .profile_id = whole(profile.profile_id),
             .place = {whole(target.instance->start), whole(profile.size)}};
    return Return::success;
  });
}

}  // extern "C"

}  // namespace partita::nvml_sim
