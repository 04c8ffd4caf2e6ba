#include "drivers/sim/sim_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "device/call.h"

namespace partita::drivers::sim {
namespace {

using device::Call;
using device::ComputeInstance;
using device::GpuState;
using device::Instance;
using device::Method;
using device::ProfileInfo;

const hw::MigProfile& profile_of(const SimGpu& gpu, const SimInstance& instance) {
  return gpu.model->profiles[static_cast<std::size_t>(instance.profile)];
}

template <class T>
Result<T> in_context(Result<T> result, const Call& call) {
  if (result || !result.error().context.empty()) return result;
  Error error = std::move(result.error());
  error.context = to_string(call);
  return failed(std::move(error));
}

// The processes on the instance, or with -1 on the GPU outside any.
std::vector<device::Holder> holders_of(const SimGpu& gpu, int gi_id) {
  std::vector<device::Holder> holders;
  for (const SimProcess& process : gpu.processes)
    if (process.gi_id == gi_id && (holders.empty() || holders.back().pid != process.pid))
      holders.push_back({process.pid, process.name});
  return holders;
}

Instance instance_of(const SimGpu& gpu, const SimInstance& from) {
  const hw::MigProfile& shape = profile_of(gpu, from);
  Instance instance;
  instance.profile = shape.name;
  instance.profile_id = shape.profile_id;
  instance.gpcs = shape.gpcs;
  instance.start = from.start;
  instance.size = shape.size;
  instance.gi_id = from.gi_id;
  for (const SimComputeInstance& compute : from.compute)
    instance.compute.push_back({compute.ci_id, compute.gpcs, compute.uuid});
  instance.holders = holders_of(gpu, from.gi_id);
  return instance;
}

// Answers of the machine without an answer of its own: no such GPU.
Error no_gpu(const Machine& machine) {
  return {ErrorCode::not_found, fmt::format("the machine has {} GPUs", machine.gpus().size()), {}};
}

// Runs `ask`, which gives a Result, on the machine.
template <class Ask>
auto asked(SharedMachine& shared, const Call& call, Ask ask)
    -> decltype(ask(std::declval<Machine&>())) {
  using Answer = decltype(ask(std::declval<Machine&>()));
  Answer answer = failed({ErrorCode::environment, "the machine did not answer", {}});
  const auto ran = shared.with([&](Machine& machine) { answer = ask(machine); });
  if (!ran) return failed(ran.error());
  return in_context(std::move(answer), call);
}

// Carries out a changing call; `effect` is that of SharedMachine::change.
template <class Effect>
Result<void> changed(SharedMachine& shared, const Call& call, Effect effect) {
  return in_context(shared.change(name_of(call.method), effect), call);
}

}  // namespace

GpuState state_of(const SimGpu& gpu, int index) {
  GpuState state;
  state.index = index;
  state.uuid = gpu.uuid;
  if (!gpu.model->nvml_names.empty()) state.name = gpu.model->nvml_names.front();
  state.model = gpu.model->name;
  if (!gpu.model->pci_device_ids.empty()) state.pci_device_id = gpu.model->pci_device_ids.front();
  state.memory = gpu.model->total_memory.value_or(Mib{});
  state.mig_capable = !gpu.model->profiles.empty();
  state.lost = gpu.lost;
  if (gpu.lost) return state;
  state.mig_enabled = gpu.mig;
  state.mig_pending = gpu.mig_pending;
  if (!gpu.nvlink.empty()) state.nvlinks = {gpu.pci_bus_id};
  if (gpu.links_are_up()) state.nvlinks.push_back(gpu.nvlink);
  for (const SimInstance& instance : gpu.instances)
    state.instances.push_back(instance_of(gpu, instance));
  std::ranges::sort(state.instances, {},
                    [](const Instance& i) { return std::tuple(i.start, i.gi_id); });
  state.holders = holders_of(gpu, -1);
  return state;
}

Result<device::DriverInfo> SimDriver::info() {
  return asked(machine_, {Method::info}, [](Machine& machine) -> Result<device::DriverInfo> {
    return device::DriverInfo{"sim", "1", static_cast<int>(machine.gpus().size())};
  });
}

Result<GpuState> SimDriver::read(int gpu) {
  return asked(machine_, {Method::read, {gpu}}, [&](Machine& machine) -> Result<GpuState> {
    const SimGpu* found = machine.find(gpu);
    if (!found) return failed(no_gpu(machine));
    return state_of(*found, gpu);
  });
}

Result<std::vector<ProfileInfo>> SimDriver::profiles(int gpu) {
  const auto ask = [&](Machine& machine) -> Result<std::vector<ProfileInfo>> {
    const SimGpu* found = machine.find(gpu);
    if (!found) return failed(no_gpu(machine));
    if (found->lost) return failed({ErrorCode::lost, "the GPU fell off the bus", {}});
    std::vector<ProfileInfo> infos;
    const std::vector<hw::MigProfile>& profiles = found->model->profiles;
    for (std::size_t i = 0; i < profiles.size(); ++i) {
      const hw::MigProfile& p = profiles[i];
      infos.push_back({.nvml_enum = p.nvml_enum,
                       .profile_id = p.profile_id,
                       .name = p.name,
                       .gpcs = p.gpcs,
                       .size = p.size,
                       .sms = p.sms.value_or(0),
                       .memory = p.memory.value_or(Mib{}),
                       .max_instances = p.max_instances,
                       .remaining = machine.remaining(gpu, static_cast<int>(i)),
                       .starts = p.starts});
    }
    std::ranges::sort(infos, {}, &ProfileInfo::nvml_enum);
    return infos;
  };
  return asked(machine_, {Method::profiles, {gpu}}, ask);
}

Result<device::ModeChange> SimDriver::set_mig_mode(int gpu, bool enabled) {
  device::ModeChange change = device::ModeChange::done;
  const auto effect = [&](Machine& machine) -> Result<std::int64_t> {
    TRY(machine.set_mig_mode(gpu, enabled));
    const SimGpu& now = *machine.find(gpu);
    if (now.mig != now.mig_pending) change = device::ModeChange::pending_reset;
    return 0;
  };
  TRY(changed(machine_, {Method::set_mig_mode, {gpu, enabled}}, effect));
  return change;
}

Result<int> SimDriver::create_instance(int gpu, const device::Placement& placement) {
  int gi_id = -1;
  const auto effect = [&](Machine& machine) -> Result<std::int64_t> {
    int profile = -1;
    if (const SimGpu* found = machine.find(gpu)) {
      const auto& all = found->model->profiles;
      const auto at = std::ranges::find(all, placement.nvml_enum, &hw::MigProfile::nvml_enum);
      if (at != all.end()) profile = static_cast<int>(at - all.begin());
    }
    const auto made = TRY(machine.create_instance(gpu, profile, placement.start));
    gi_id = made.value;
    return made.duration_ns;
  };
  TRY(changed(machine_, {Method::create_instance, {gpu, placement.nvml_enum, placement.start}},
              effect));
  return gi_id;
}

Result<void> SimDriver::destroy_instance(int gpu, int gi_id) {
  const auto effect = [&](Machine& machine) -> Result<std::int64_t> {
    const auto gone = TRY(machine.destroy_instance(gpu, gi_id));
    return gone.duration_ns;
  };
  return changed(machine_, {Method::destroy_instance, {gpu, gi_id}}, effect);
}

Result<ComputeInstance> SimDriver::create_compute(int gpu, int gi_id) {
  ComputeInstance compute;
  const auto effect = [&](Machine& machine) -> Result<std::int64_t> {
    const SimGpu* found = machine.find(gpu);
    const SimInstance* instance = found ? found->find(gi_id) : nullptr;
    const int gpcs = instance ? profile_of(*found, *instance).gpcs : 1;
    const auto made = TRY(machine.create_compute(gpu, gi_id, gpcs, 0));
    const SimComputeInstance& now =
        *std::ranges::find(found->find(gi_id)->compute, made.value, &SimComputeInstance::ci_id);
    compute = {now.ci_id, now.gpcs, now.uuid};
    return made.duration_ns;
  };
  TRY(changed(machine_, {Method::create_compute, {gpu, gi_id}}, effect));
  return compute;
}

Result<void> SimDriver::destroy_compute(int gpu, int gi_id, int ci_id) {
  const auto effect = [&](Machine& machine) -> Result<std::int64_t> {
    const auto gone = TRY(machine.destroy_compute(gpu, gi_id, ci_id));
    return gone.duration_ns;
  };
  return changed(machine_, {Method::destroy_compute, {gpu, gi_id, ci_id}}, effect);
}

}  // namespace partita::drivers::sim
