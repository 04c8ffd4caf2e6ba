#include "exec/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace partita::exec {
namespace {

using device::GpuState;
using device::Instance;

std::string holders_text(const Instance& instance) {
  std::string text;
  for (const device::Holder& holder : instance.holders) {
    fmt::format_to(std::back_inserter(text), "{}{}{}{}", text.empty() ? "" : ", ", holder.pid,
                   holder.name.empty() ? "" : " ", holder.name);
  }
  return text;
}

std::string name_of(const Operation& operation) {
  return fmt::format("{} {}@{} on GPU {}", operation.destroy ? "destroy" : "create",
                     operation.profile, operation.start, operation.device);
}

Outcome refused(const Operation& operation, ErrorCode code, std::string message) {
  return {.made = {}, .error = Error{code, std::move(message), name_of(operation)}};
}
Outcome refused(const Operation& operation, const Error& error) {
  return refused(operation, error.code, to_string(error));
}

// The GPU as it is now; a lost one is an error here.
Result<GpuState> read_present(device::NodeDriver& driver, int gpu) {
  Result<GpuState> state = driver.read(gpu);
  if (state && state->lost) {
    return failed({ErrorCode::lost, "the GPU fell off the bus", fmt::format("GPU {}", gpu)});
  }
  return state;
}

// ---- create ----

// The instances that hold slices from `start` on, `size` of them (0: at least one).
std::string in_the_way(const GpuState& gpu, int start, int size) {
  std::string text;
  for (const Instance& instance : gpu.instances) {
    const bool apart =
        instance.start >= start + std::max(size, 1) || instance.start + instance.size <= start;
    if (apart) continue;
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ", ", describe(instance));
  }
  return text;
}

int size_of(device::NodeDriver& driver, const Operation& operation) {
  const auto profiles = driver.profiles(operation.device);
  if (!profiles) return 0;
  const auto found =
      std::ranges::find(*profiles, operation.nvml_enum, &device::ProfileInfo::nvml_enum);
  return found == profiles->end() ? 0 : found->size;
}

Outcome no_room(device::NodeDriver& driver, const Operation& operation, const GpuState& now) {
  const std::string who = in_the_way(now, operation.start, size_of(driver, operation));
  return refused(operation, ErrorCode::no_room,
                 who.empty() ? "what it needs is taken" : "in the way: " + who);
}

// The instance that appeared at the place since `before`, or null.
const Instance* appeared(const GpuState& before, const GpuState& now, const Operation& operation) {
  for (const Instance& instance : now.instances) {
    if (instance.start != operation.start || instance.profile != operation.profile) continue;
    if (std::ranges::find(before.instances, instance.gi_id, &Instance::gi_id) ==
        before.instances.end())
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
  if (compute) return {.made = Made{gi_id, compute->uuid}, .error = {}};
  // The answer may be lost though the call took effect.
  const Result<GpuState> now = read_present(driver, operation.device);
  if (!now) return {.made = Made{gi_id, {}}, .error = refused(operation, now.error()).error};
  const auto found = std::ranges::find(now->instances, gi_id, &Instance::gi_id);
  if (found == now->instances.end()) return refused(operation, compute.error());
  if (found->whole()) return {.made = Made{gi_id, found->uuid()}, .error = {}};
  return take_back(driver, operation, gi_id, compute.error());
}

Outcome create(device::NodeDriver& driver, const Operation& operation) {
  const Result<GpuState> before = read_present(driver, operation.device);
  if (!before) return refused(operation, before.error());
  const auto gi_id =
      driver.create_instance(operation.device, {operation.nvml_enum, operation.start});
  if (gi_id) return create_compute(driver, operation, *gi_id);
  const Result<GpuState> now = read_present(driver, operation.device);
  if (!now) return refused(operation, now.error());
  if (gi_id.error().code == ErrorCode::no_room) return no_room(driver, operation, *now);
  if (const Instance* mine = appeared(*before, *now, operation))
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
    const Made& made = *operation.destroy;
    if (instance.gi_id != made.gi_id || instance.start != operation.start ||
        instance.profile != operation.profile)
      continue;
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
    if (!ours(*operation.destroy)(compute)) continue;
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
  return operation.destroy ? destroy(driver, operation) : create(driver, operation);
}

}  // namespace partita::exec
