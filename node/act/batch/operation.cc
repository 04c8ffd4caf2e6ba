#include "act/batch/operation.h"

#include <fmt/format.h>

#include <algorithm>

namespace partita::exec {
namespace {

using device::GpuState;
using device::Instance;

std::string holders_text(const Instance& instance) {
  std::string text;
  for (const device::Holder& holder : instance.holders) {
    text += text.empty() ? "" : ", ";
    text += holder.is_lease() ? holder.name
                              : fmt::format("{}{}{}", holder.pid, holder.name.empty() ? "" : " ",
                                            holder.name);
  }
  return text;
}

std::string name_of(const Operation& operation) {
  return fmt::format("{} {}@{} on GPU {}",
                     operation.kind == Operation::Kind::destroy ? "destroy" : "create",
                     operation.place.profile, operation.place.start, operation.device);
}

Outcome refused(const Operation& operation, ErrorCode code, std::string message) {
  Outcome outcome;
  outcome.error = Error{code, std::move(message), name_of(operation)};
  return outcome;
}
Outcome refused(const Operation& operation, const Error& error) {
  return refused(operation, error.code, to_string(error));
}
Outcome created(const Made& made) {
  Outcome outcome;
  outcome.made = made;
  return outcome;
}

// The GPU as it is now; a lost one is an error here.
Result<GpuState> read_present(device::NodeDriver& driver, int gpu) {
  Result<GpuState> state = driver.read(gpu);
  if (state && state->lost)
    return failed({ErrorCode::lost, "the GPU fell off the bus", fmt::format("GPU {}", gpu)});
  return state;
}

// ---- create ----

// The instances that hold slices of the place.
std::string in_the_way(const GpuState& gpu, const Operation& operation) {
  std::string text;
  for (const Instance& instance : gpu.instances) {
    const int start = operation.place.start;
    const bool apart =
        instance.start >= start + operation.size || instance.start + instance.size <= start;
    if (apart) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", describe(instance));
  }
  return text;
}

Outcome look(device::NodeDriver& driver, const Operation& operation) {
  const Result<GpuState> now = read_present(driver, operation.device);
  if (!now) return refused(operation, now.error());
  const std::string others = in_the_way(*now, operation);
  if (!others.empty()) return refused(operation, ErrorCode::no_room, "in the way: " + others);
  Outcome outcome;
  for (const Instance& instance : now->instances) outcome.present.push_back(instance.gi_id);
  return outcome;
}

// The instance that appeared at the place since the look, or null.
const Instance* appeared(const GpuState& now, const Operation& operation) {
  for (const Instance& instance : now.instances) {
    if (operation.place != instance) continue;
    if (std::ranges::find(operation.present, instance.gi_id) == operation.present.end())
      return &instance;
  }
  return nullptr;
}

// Its compute instance is missing: the instance goes as well, so that the attempt can be repeated.
Outcome take_back(device::NodeDriver& driver, const Operation& operation, int gi_id,
                  const Error& error) {
  Outcome outcome = refused(operation, error);
  if (!driver.destroy_instance(operation.device, gi_id)) outcome.made = Made{gi_id, {}};
  return outcome;
}

Outcome create_compute(device::NodeDriver& driver, const Operation& operation, int gi_id) {
  const auto compute = driver.create_compute(operation.device, gi_id);
  if (compute) return created({gi_id, compute->uuid});
  // The answer may be lost though the call took effect.
  const Result<GpuState> now = read_present(driver, operation.device);
  if (!now) {
    Outcome outcome = refused(operation, now.error());
    outcome.made = Made{gi_id, {}};
    return outcome;
  }
  const auto found = std::ranges::find(now->instances, gi_id, &Instance::gi_id);
  if (found == now->instances.end()) return refused(operation, compute.error());
  if (found->whole()) return created({gi_id, found->uuid()});
  return take_back(driver, operation, gi_id, compute.error());
}

Outcome create(device::NodeDriver& driver, const Operation& operation) {
  const auto gi_id =
      driver.create_instance(operation.device, {operation.nvml_enum, operation.place.start});
  if (gi_id) return create_compute(driver, operation, *gi_id);
  const Result<GpuState> now = read_present(driver, operation.device);
  if (!now) {
    Outcome outcome = refused(operation, now.error());
    outcome.unknown = true;
    return outcome;
  }
  // Refused by the driver is refused; any other error may hide that the call took effect.
  if (gi_id.error().code == ErrorCode::no_room) {
    const std::string others = in_the_way(*now, operation);
    return refused(operation, ErrorCode::no_room,
                   others.empty() ? to_string(gi_id.error()) : "in the way: " + others);
  }
  if (const Instance* mine = appeared(*now, operation))
    return create_compute(driver, operation, mine->gi_id);
  return refused(operation, gi_id.error());
}

// ---- destroy ----

// Of a half-made one the compute instance is not known, so every one is taken for ours.
auto ours(const Made& made) {
  return [&made](const device::ComputeInstance& compute) {
    return made.uuid.empty() || compute.uuid == made.uuid;
  };
}

// The instance that was made, or null: gone, or another one has its number now.
const Instance* find_made(const GpuState& gpu, const Operation& operation) {
  for (const Instance& instance : gpu.instances) {
    const Made& made = operation.made;
    if (instance.gi_id != made.gi_id || operation.place != instance) continue;
    if (instance.compute.empty() || std::ranges::any_of(instance.compute, ours(made)))
      return &instance;
  }
  return nullptr;
}

Outcome not_destroyed(const Operation& operation, const Instance& instance, const Error& error) {
  if (error.code != ErrorCode::in_use || instance.holders.empty()) return refused(operation, error);
  return refused(operation, ErrorCode::in_use, "held by " + holders_text(instance));
}

Outcome destroy(device::NodeDriver& driver, const Operation& operation) {
  const Result<GpuState> before = read_present(driver, operation.device);
  if (!before) return refused(operation, before.error());
  const Instance* instance = find_made(*before, operation);
  if (instance == nullptr) return {};
  // Asked here, so that an instance which another process uses is never left half destroyed.
  if (instance->busy())
    return refused(operation, ErrorCode::in_use, "held by " + holders_text(*instance));
  std::optional<Error> error;
  for (const device::ComputeInstance& compute : instance->compute) {
    if (!ours(operation.made)(compute)) continue;
    const auto done = driver.destroy_compute(operation.device, instance->gi_id, compute.ci_id);
    if (!done && !error) error = done.error();
  }
  // Tried in any case: a lost answer may hide that the call took effect.
  const auto done = driver.destroy_instance(operation.device, instance->gi_id);
  if (done) return {};
  if (!error) error = done.error();
  const Result<GpuState> now = read_present(driver, operation.device);
  if (!now) return refused(operation, now.error());
  const Instance* left = find_made(*now, operation);
  return left == nullptr ? Outcome{} : not_destroyed(operation, *left, *error);
}

}  // namespace

std::string describe(const Instance& instance) {
  const std::string holders = holders_text(instance);
  return fmt::format("{}@{} (gi {}{}{})", instance.profile, instance.start, instance.gi_id,
                     holders.empty() ? "" : ", held by ", holders);
}

Outcome perform(device::NodeDriver& driver, const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::look:
      return look(driver, operation);
    case Operation::Kind::create:
      return create(driver, operation);
    case Operation::Kind::destroy:
      return destroy(driver, operation);
  }
  return {};
}

}  // namespace partita::exec
