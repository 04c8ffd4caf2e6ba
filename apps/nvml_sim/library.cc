#include "library.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "hw/catalogue.h"

namespace partita::nvml_sim {
namespace {

using Kind = Entity::Kind;

// The C interface knows no exceptions.
Return guarded(const std::function<Return()>& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Return::memory;
  } catch (...) {
    return Return::unknown;
  }
}

// What the entity is on this machine; nothing when it is gone.
std::optional<Target> target_of(const Machine& machine, const Entity& entity) {
  const SimGpu* gpu = machine.find(entity.gpu);
  if (gpu == nullptr) return std::nullopt;
  Target target{.machine = machine, .index = entity.gpu, .gpu = *gpu};
  if (entity.kind == Kind::gpu || gpu->lost) return target;
  target.instance = gpu->find(entity.gi_id);
  if (target.instance == nullptr) return std::nullopt;
  if (entity.kind == Kind::gpu_instance)
    return entity_of(entity.gpu, *target.instance) == entity ? std::optional(target) : std::nullopt;
  for (const SimComputeInstance& compute : target.instance->compute)
    if (compute.ci_id == entity.ci_id && compute.uuid == entity.mark) target.compute = &compute;
  return target.compute != nullptr ? std::optional(target) : std::nullopt;
}

// Runs `use` on what `handle` stands for on this machine.
template <class Handle, class Admit>
Return on_entity_of(const Machine& machine, Handle handle, Admit admit, const Use& use) {
  const std::optional<Entity> entity = Library::here().handles.find(handle);
  if (!entity) return Return::invalid_argument;
  if (const Return admitted = admit(*entity); admitted != Return::success) return admitted;
  const auto target = target_of(machine, *entity);
  return target ? use(*target) : Return::invalid_argument;
}

template <class Handle, class Admit>
Return on_entity(Handle handle, bool arguments, Admit admit, const Use& use) {
  return on_machine(
      arguments, [&](const Machine& machine) { return on_entity_of(machine, handle, admit, use); });
}

Return is_gpu(const Entity& entity) {
  return entity.kind == Kind::gpu          ? Return::success
         : entity.kind == Kind::mig_device ? Return::not_supported
                                           : Return::invalid_argument;
}

Return is_device(const Entity& entity) {
  const bool device = entity.kind == Kind::gpu || entity.kind == Kind::mig_device;
  return device ? Return::success : Return::invalid_argument;
}

Use unless_lost(const Use& use) {
  return
      [&use](const Target& target) { return target.gpu.lost ? Return::gpu_is_lost : use(target); };
}

}  // namespace

Library& Library::here() {
  static Library library;
  return library;
}

Return Library::initialise() {
  return guarded([this] {
    const std::lock_guard guard(mutex_);
    if (users_ == 0) {
      const char* named = std::getenv("PARTITA_SIM");
      const std::string description = named ? named : "";
      // A machine without description lives in this process for as long as the process does.
      if (!machine_ || !description.empty() || !opened_.empty()) {
        auto opened = drivers::sim::open_machine(description, clock, hw::builtin_catalogue());
        if (!opened) {
          std::fprintf(stderr, "simulated libnvidia-ml: %s\n", to_string(opened.error()).c_str());
          return Return::driver_not_loaded;
        }
        machine_ = *std::move(opened);
        opened_ = description;
        const auto looked = machine_->glance(
            [this](const Machine& now) { boards_ = std::make_shared<Machine>(now); });
        if (!looked) return code_of(looked.error());
      }
    }
    ++users_;
    return Return::success;
  });
}

bool Library::looked_lately() {
  constexpr std::int64_t kLatelyNs = 100'000'000;
  const std::lock_guard guard(mutex_);
  const std::int64_t now = clock.now_ns();
  if (looked_ns_ >= 0 && now - looked_ns_ < kLatelyNs) return true;
  looked_ns_ = now;
  return false;
}

Return Library::shut_down() {
  const std::lock_guard guard(mutex_);
  if (users_ == 0) return Return::uninitialized;
  --users_;
  return Return::success;
}

std::shared_ptr<drivers::sim::SharedMachine> Library::machine() {
  const std::lock_guard guard(mutex_);
  return users_ > 0 ? machine_ : nullptr;
}

std::shared_ptr<Machine> Library::boards() {
  const std::lock_guard guard(mutex_);
  return users_ > 0 ? boards_ : nullptr;
}

Return on_boards(bool arguments, const std::function<Return(const Machine&)>& use) {
  return guarded([&] {
    const auto boards = Library::here().boards();
    if (!boards) return Return::uninitialized;
    return arguments ? use(*boards) : Return::invalid_argument;
  });
}

Return on_machine(bool arguments, const std::function<Return(const Machine&)>& use) {
  return guarded([&] {
    const auto machine = Library::here().machine();
    if (!machine) return Return::uninitialized;
    if (!arguments) return Return::invalid_argument;
    Return result = Return::unknown;
    const auto ran = machine->glance([&](const Machine& now) { result = use(now); });
    return ran ? result : code_of(ran.error());
  });
}

Return with_processes(bool arguments, const std::function<Return(const Machine&)>& use) {
  return guarded([&] {
    const auto machine = Library::here().machine();
    if (!machine) return Return::uninitialized;
    if (!arguments) return Return::invalid_argument;
    Return result = Return::unknown;
    const auto ran = machine->look([&](const Machine& now) { result = use(now); });
    return ran ? result : code_of(ran.error());
  });
}

Return on_any_device(Device device, bool arguments, const Use& use) {
  const std::optional<Entity> entity = Library::here().handles.find(device);
  if (!entity || entity->kind == Kind::gpu)
    return on_boards(arguments, [&](const Machine& boards) {
      return on_entity_of(boards, device, is_device, use);
    });
  return on_entity(device, arguments, is_device, unless_lost(use));
}

Return on_board(Device device, bool arguments, const Use& use) {
  return on_boards(
      arguments, [&](const Machine& boards) { return on_entity_of(boards, device, is_gpu, use); });
}

Return on_device(Device device, bool arguments, const Use& use) {
  return on_entity(device, arguments, is_device, unless_lost(use));
}

Return on_used_device(Device device, bool arguments, const Use& use) {
  return with_processes(arguments, [&](const Machine& machine) {
    return on_entity_of(machine, device, is_device, unless_lost(use));
  });
}

Return on_gpu(Device device, bool arguments, const Use& use) {
  return on_entity(device, arguments, is_gpu, unless_lost(use));
}

Return on_power(Device device, bool arguments, const PowerUse& use) {
  return guarded([&] {
    const auto machine = Library::here().machine();
    if (!machine) return Return::uninitialized;
    if (!arguments) return Return::invalid_argument;
    const std::int64_t now_ns = machine->now_ns();
    std::optional<Return> result;
    if (Library::here().looked_lately()) {
      const auto ran = machine->glance([&](const Machine& now) {
        result = on_entity_of(now, device, is_gpu, unless_lost([&](const Target& target) {
                                const auto power = now.power_glance(target.index, now_ns);
                                return power ? use(target, *power) : Return::not_ready;
                              }));
      });
      if (!ran) return code_of(ran.error());
      if (*result != Return::not_ready) return *result;
    }
    const auto ran = machine->with([&](Machine& now) {
      result = on_entity_of(now, device, is_gpu, unless_lost([&](const Target& target) {
                              const auto power = now.power_at(target.index, now_ns);
                              return power ? use(target, *power) : code_of(power.error());
                            }));
    });
    return ran ? *result : code_of(ran.error());
  });
}

Return set_power(Device device, const std::function<void(device::PowerSettings&)>& change_one) {
  device::PowerSettings settings;
  int gpu = -1;
  const Return found = on_gpu(device, true, [&](const Target& target) {
    gpu = target.index;
    settings = target.gpu.power.settings;
    return Return::success;
  });
  if (found != Return::success) return found;
  change_one(settings);
  return guarded([&] {
    const auto machine = Library::here().machine();
    if (!machine) return Return::uninitialized;
    const auto done = machine->set_power(gpu, settings);
    return done ? Return::success : code_of(done.error());
  });
}

Return on_mig_device(Device device, bool arguments, const Use& use) {
  const auto admit = [](const Entity& entity) {
    return entity.kind == Kind::mig_device ? Return::success : Return::invalid_argument;
  };
  return on_entity(device, arguments, admit, unless_lost(use));
}

Return on_mig_gpu(Device device, bool arguments, const Use& use) {
  const auto admit = [](const Entity& entity) {
    return entity.kind == Kind::gpu ? Return::success : Return::invalid_argument;
  };
  return on_entity(device, arguments, admit, [&](const Target& target) {
    if (target.gpu.lost) return Return::gpu_is_lost;
    return target.gpu.mig ? use(target) : Return::not_supported;
  });
}

Return on_gpu_instance(GpuInstance instance, bool arguments, const Use& use) {
  const auto admit = [](const Entity& entity) {
    return entity.kind == Kind::gpu_instance ? Return::success : Return::invalid_argument;
  };
  return on_entity(instance, arguments, admit, unless_lost(use));
}

Return on_compute_instance(ComputeInstance instance, bool arguments, const Use& use) {
  const auto admit = [](const Entity& entity) {
    return entity.kind == Kind::compute_instance ? Return::success : Return::invalid_argument;
  };
  return on_entity(instance, arguments, admit, unless_lost(use));
}

Result<void> still_there(const Machine& machine, const Entity& entity) {
  if (target_of(machine, entity)) return {};
  return failed(Error{ErrorCode::invalid_argument, "the handle is of something that is gone", {}});
}

Return change(std::string_view method, const Effect& effect) {
  return guarded([&] {
    const auto machine = Library::here().machine();
    if (!machine) return Return::uninitialized;
    const auto done = machine->change(method, effect);
    return done ? Return::success : code_of(done.error());
  });
}

Return code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::no_driver:
      return Return::driver_not_loaded;
    case ErrorCode::denied:
      return Return::no_permission;
    case ErrorCode::not_found:
      return Return::not_found;
    case ErrorCode::not_supported:
      return Return::not_supported;
    case ErrorCode::invalid_argument:
      return Return::invalid_argument;
    case ErrorCode::no_room:
      return Return::insufficient_resources;
    case ErrorCode::in_use:
      return Return::in_use;
    case ErrorCode::reset_required:
      return Return::reset_required;
    case ErrorCode::lost:
      return Return::gpu_is_lost;
    case ErrorCode::timeout:
      return Return::timeout;
    case ErrorCode::environment:
      return Return::operating_system;
    case ErrorCode::infeasible:
    case ErrorCode::bad_input:
    case ErrorCode::limit:
      break;
  }
  return Return::unknown;
}

Entity entity_of(int gpu, const SimInstance& instance) {
  return {Kind::gpu_instance, gpu, instance.gi_id, -1,
          std::to_string(instance.profile) + '@' + std::to_string(instance.start)};
}

Entity entity_of(int gpu, const SimInstance& instance, const SimComputeInstance& compute) {
  return {Kind::compute_instance, gpu, instance.gi_id, compute.ci_id, compute.uuid};
}

Device device_handle(int gpu) {
  return Library::here().handles.of<Device>({.kind = Kind::gpu, .gpu = gpu});
}

Device mig_device_handle(int gpu, const SimInstance& instance, const SimComputeInstance& compute) {
  Entity entity = entity_of(gpu, instance, compute);
  entity.kind = Kind::mig_device;
  return Library::here().handles.of<Device>(entity);
}

GpuInstance instance_handle(int gpu, const SimInstance& instance) {
  return Library::here().handles.of<GpuInstance>(entity_of(gpu, instance));
}

ComputeInstance compute_handle(int gpu, const SimInstance& instance,
                               const SimComputeInstance& compute) {
  return Library::here().handles.of<ComputeInstance>(entity_of(gpu, instance, compute));
}

Return put(std::string_view text, char* out, unsigned length) {
  if (text.size() >= length) return Return::insufficient_size;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return Return::success;
}

}  // namespace partita::nvml_sim
