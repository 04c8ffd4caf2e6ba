#include "drivers/nvml_mig/nvml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "device/recognise.h"

namespace partita::drivers::nvml_mig {
namespace {

using abi::Return;
using device::ComputeInstance;
using device::GpuState;
using device::Holder;
using device::Instance;
using device::ProfileInfo;

int as_int(unsigned value) { return static_cast<int>(value); }

Mib mib(unsigned long long bytes) { return {static_cast<double>(bytes >> 20)}; }

void add_holder(std::vector<Holder>& holders, const Holder& holder) {
  const auto at = std::ranges::lower_bound(holders, holder.pid, {}, &Holder::pid);
  if (at == holders.end() || at->pid != holder.pid) holders.insert(at, holder);
}

// The text that `function` writes for a GPU.
template <std::size_t Size, class Function>
Result<std::string> text_of(const NvmlLibrary& library, const std::string& call, Function function,
                            abi::Device device) {
  std::array<char, Size> buffer{};
  TRY(library.call(call, function, device, buffer.data(), static_cast<unsigned>(Size - 1)));
  return std::string(buffer.data());
}

template <class Key, class Value>
std::vector<Value> values(std::map<Key, Value> map) {
  std::vector<Value> all;
  for (auto& [key, value] : map) all.push_back(std::move(value));
  return all;
}

}  // namespace

bool absent(const Error& error) {
  return error.code == ErrorCode::not_supported || error.code == ErrorCode::invalid_argument ||
         error.code == ErrorCode::not_found;
}

Error no_such(Error error) {
  if (error.code == ErrorCode::invalid_argument) {
    error.code = ErrorCode::not_found;
    error.message = "there is none";
  }
  return error;
}

bool past_the_last(const Error& error, unsigned i) {
  return i > 0 && error.code == ErrorCode::invalid_argument;
}

Result<unsigned> NvmlReader::count() const {
  unsigned gpus = 0;
  TRY(library_.call("nvmlDeviceGetCount", api_.gpu_count, &gpus));
  return gpus;
}

Result<abi::Device> NvmlReader::find(int gpu) const {
  abi::Device device = nullptr;
  const auto ok = library_.call("nvmlDeviceGetHandleByIndex", api_.gpu_by_index,
                                static_cast<unsigned>(gpu), &device);
  if (!ok) return failed(no_such(ok.error()));
  return device;
}

Result<GpuState> NvmlReader::state(abi::Device device, int gpu) {
  GpuState state;
  state.index = gpu;
  auto ok = identify(device, state);
  if (const hw::GpuModel* model = device::recognise(catalogue_, state)) state.model = model->name;
  if (ok) ok = fill(device, state);
  if (ok) ok = follow_links(device, state);
  if (!ok && ok.error().code != ErrorCode::lost) return failed(ok.error());
  if (!ok) {
    state.lost = true;
    state.mig_enabled = state.mig_pending = false;
    state.instances.clear();
    state.holders.clear();
    state.nvlinks.clear();
  }
  return state;
}

Result<void> NvmlReader::identify(abi::Device device, GpuState& gpu) const {
  gpu.uuid = TRY(text_of<abi::kUuidSize>(library_, "nvmlDeviceGetUUID", api_.uuid, device));
  gpu.name = TRY(text_of<abi::kNameSize>(library_, "nvmlDeviceGetName", api_.name, device));
  abi::PciInfo pci{};
  TRY(library_.call("nvmlDeviceGetPciInfo", api_.pci_info, device, &pci));
  gpu.pci_device_id = fmt::format("0x{:08X}", pci.device_id);
  gpu.nvlinks = {pci.bus_id};
  abi::Memory memory{};
  TRY(library_.call("nvmlDeviceGetMemoryInfo", api_.memory_info, device, &memory));
  gpu.memory = mib(memory.total);
  return {};
}

Result<void> NvmlReader::fill(abi::Device device, GpuState& gpu) {
  unsigned current = 0, pending = 0;
  const auto mode =
      library_.call("nvmlDeviceGetMigMode", api_.mig_mode, device, &current, &pending);
  if (!mode && mode.error().code != ErrorCode::not_supported) return mode;
  gpu.mig_capable = mode.has_value();
  gpu.mig_enabled = current == 1;
  gpu.mig_pending = pending == 1;
  if (gpu.mig_enabled) {
    const auto devices = TRY(mig_devices(device, true));
    gpu.instances = TRY(instances(device, gpu, devices));
  }
  const auto running = TRY(processes(device));
  for (const abi::ProcessInfo& process : running) {
    const auto owner =
        std::ranges::find(gpu.instances, as_int(process.gpu_instance_id), &Instance::gi_id);
    add_holder(owner == gpu.instances.end() ? gpu.holders : owner->holders, holder(process.pid));
  }
  return {};
}

// Where a link that is up leads to nowhere that the driver tells, nothing is known of all of them.
Result<void> NvmlReader::follow_links(abi::Device device, GpuState& gpu) const {
  auto ends = std::exchange(gpu.nvlinks, {});
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    unsigned active = 0;
    const auto state =
        library_.call("nvmlDeviceGetNvLinkState", api_.nvlink_state, device, link, &active);
    if (!state && state.error().code == ErrorCode::lost) return state;
    if (!state && link > 0 && absent(state.error())) break;
    if (!state) return {};
    if (active != 1) continue;
    abi::PciInfo end{};
    const auto remote =
        library_.call("nvmlDeviceGetNvLinkRemotePciInfo", api_.nvlink_remote, device, link, &end);
    if (!remote && remote.error().code == ErrorCode::lost) return remote;
    if (!remote) return {};
    if (std::string at = end.bus_id; std::ranges::count(ends, at) == 0)
      ends.push_back(std::move(at));
  }
  gpu.nvlinks = std::move(ends);
  return {};
}

Result<NvmlReader::Offers*> NvmlReader::offers(abi::Device device, const std::string& uuid) {
  if (const auto known = offers_.find(uuid); known != offers_.end()) return &known->second;
  Offers all;
  for (unsigned i = 0; i < kMaxProfiles; ++i) {
    Result<Profile> one = profile(device, i);
    if (!one && past_the_last(one.error(), i)) break;
    if (!one && absent(one.error())) continue;
    if (!one) return failed(one.error());
    all.profiles.push_back(*std::move(one));
  }
  return &offers_.emplace(uuid, std::move(all)).first->second;
}

Result<std::vector<Instance>> NvmlReader::instances(abi::Device device, const GpuState& gpu,
                                                    const MigDevices& devices) {
  const hw::GpuModel* const model = gpu.model.empty() ? nullptr : catalogue_.find(gpu.model);
  const auto offered = TRY(offers(device, gpu.uuid));
  std::map<std::pair<int, int>, Instance> found;  // by start and id: enumerators may repeat ids
  for (const Profile& known : offered->profiles) {
    const auto listed = TRY(handles(device, known.figures.id));
    for (abi::GpuInstance handle : listed) {
      Instance one = TRY(instance(handle, known, *offered, devices));
      if (std::string name = model ? device::profile_name(*model, one.profile_id) : "";
          !name.empty())
        one.profile = std::move(name);
      found.emplace(std::pair(one.start, one.gi_id), std::move(one));
    }
  }
  return values(std::move(found));
}

Result<std::vector<abi::GpuInstance>> NvmlReader::handles(abi::Device device,
                                                          unsigned profile_id) const {
  std::vector<abi::GpuInstance> listed(kMaxInstances);
  unsigned number = 0;
  TRY(library_.call(fmt::format("nvmlDeviceGetGpuInstances(profile id {})", profile_id),
                    api_.instances, device, profile_id, listed.data(), &number));
  listed.resize(std::min(number, kMaxInstances));
  return listed;
}

Result<Instance> NvmlReader::instance(abi::GpuInstance handle, const Profile& known, Offers& offers,
                                      const MigDevices& devices) const {
  auto inside = TRY(computes(handle, known, offers));
  // Last, so that an instance that went away meanwhile is told from one without compute instances.
  abi::GpuInstanceInfo info{};
  TRY(library_.call("nvmlGpuInstanceGetInfo", api_.instance_info, handle, &info));
  Instance one{{known.name, as_int(info.place.start)},
               as_int(info.profile_id),
               as_int(known.figures.slices),
               as_int(info.place.size),
               as_int(info.id),
               std::move(inside),
               {}};
  for (ComputeInstance& compute : one.compute) {
    const auto seen = devices.find({info.id, static_cast<unsigned>(compute.ci_id)});
    if (seen == devices.end()) continue;
    compute.uuid = seen->second.uuid;
    for (const Holder& process : seen->second.holders) add_holder(one.holders, process);
  }
  return one;
}

// The widest first, each once: enumerators may repeat ids.
Result<std::vector<abi::ComputeInstanceProfile>> NvmlReader::compute_profiles(
    abi::GpuInstance handle) const {
  std::vector<abi::ComputeInstanceProfile> all;
  for (unsigned i = 0; i < kMaxProfiles; ++i) {
    abi::ComputeInstanceProfile known{};
    const auto ok =
        library_.call(fmt::format("nvmlGpuInstanceGetComputeInstanceProfileInfo(profile {})", i),
                      api_.compute_profile, handle, i, 0u, &known);
    if (!ok && past_the_last(ok.error(), i)) break;
    if (!ok && ok.error().code == ErrorCode::not_supported) continue;
    if (!ok) return failed(ok.error());
    if (std::ranges::count(all, known.id, &abi::ComputeInstanceProfile::id) == 0)
      all.push_back(known);
  }
  std::ranges::stable_sort(all, std::greater<>{}, &abi::ComputeInstanceProfile::slices);
  return all;
}

// Until those that were found have all slices of the instance: there is room for no more.
Result<std::vector<ComputeInstance>> NvmlReader::computes(abi::GpuInstance handle,
                                                          const Profile& profile,
                                                          Offers& offers) const {
  std::vector<abi::ComputeInstanceProfile>& known = offers.computes[profile.figures.id];
  if (known.empty()) known = TRY(compute_profiles(handle));
  std::map<int, ComputeInstance> found;
  unsigned slices = 0;
  for (const abi::ComputeInstanceProfile& one : known) {
    if (slices >= profile.figures.slices) break;
    std::array<abi::ComputeInstance, kMaxInstances> listed{};
    unsigned number = 0;
    TRY(library_.call(fmt::format("nvmlGpuInstanceGetComputeInstances(profile id {})", one.id),
                      api_.computes, handle, one.id, listed.data(), &number));
    for (unsigned k = 0; k < std::min(number, kMaxInstances); ++k) {
      abi::ComputeInstanceInfo info{};
      TRY(library_.call("nvmlComputeInstanceGetInfo", api_.compute_info, listed[k], &info));
      const ComputeInstance made{as_int(info.id), as_int(one.slices), {}};
      if (found.try_emplace(made.ci_id, made).second) slices += one.slices;
    }
  }
  return values(std::move(found));
}

Result<NvmlReader::MigDevices> NvmlReader::mig_devices(abi::Device device,
                                                       bool with_processes) const {
  MigDevices found;
  unsigned limit = 0;
  TRY(library_.call("nvmlDeviceGetMaxMigDeviceCount", api_.mig_device_limit, device, &limit));
  for (unsigned i = 0; i < std::min(limit, kMaxInstances); ++i) {
    const std::string of = fmt::format("(MIG device {})", i);
    abi::Device mig = nullptr;
    const auto there =
        library_.call("nvmlDeviceGetMigDeviceHandleByIndex" + of, api_.mig_device, device, i, &mig);
    if (!there && absent(there.error())) continue;  // an index without a device
    TRY(there);
    unsigned gi = 0, ci = 0;
    TRY(library_.call("nvmlDeviceGetGpuInstanceId" + of, api_.gpu_instance_id, mig, &gi));
    TRY(library_.call("nvmlDeviceGetComputeInstanceId" + of, api_.compute_instance_id, mig, &ci));
    auto uuid = TRY(text_of<abi::kUuidSize>(library_, "nvmlDeviceGetUUID" + of, api_.uuid, mig));
    MigDevice& one = found[{gi, ci}];
    one.uuid = std::move(uuid);
    if (!with_processes) continue;
    const auto running = TRY(processes(mig));
    for (const abi::ProcessInfo& process : running) add_holder(one.holders, holder(process.pid));
  }
  return found;
}

Result<std::vector<abi::ProcessInfo>> NvmlReader::processes(abi::Device device) const {
  std::vector<abi::ProcessInfo> all;
  for (const auto list : {api_.compute_processes, api_.graphics_processes}) {
    if (list == nullptr) continue;
    std::vector<abi::ProcessInfo> some;
    unsigned number = 0;
    Return code = list(device, &number, nullptr);
    while (code == Return::insufficient_size && number <= kMaxProcesses) {
      some.resize(number += 8);  // room for those that start between the two calls
      code = list(device, &number, some.data());
    }
    if (code == Return::not_supported) continue;
    if (code != Return::success)
      return failed(library_.error(code, "nvmlDeviceGetComputeRunningProcesses"));
    some.resize(std::min<std::size_t>(number, some.size()));
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

Holder NvmlReader::holder(unsigned pid) const {
  std::array<char, 256> name{};
  const bool told = api_.process_name != nullptr &&
                    api_.process_name(pid, name.data(), name.size() - 1) == Return::success;
  return {.pid = pid, .name = told ? name.data() : ""};
}

Result<NvmlReader::Profile> NvmlReader::profile(abi::Device device, unsigned nvml_enum) const {
  Profile known;
  if (api_.profile_info_v != nullptr) {
    abi::GpuInstanceProfileV2 v{};
    v.version = abi::version_word<abi::GpuInstanceProfileV2>(2);
    TRY(library_.call(fmt::format("nvmlDeviceGetGpuInstanceProfileInfoV({})", nvml_enum),
                      api_.profile_info_v, device, nvml_enum, &v));
    known.figures = {v.id,           v.peer_to_peer, v.slices,   v.max_instances, v.multiprocessors,
                     v.copy_engines, v.decoders,     v.encoders, v.jpegs,         v.optical_flows,
                     v.memory_mib};
    v.name[sizeof v.name - 1] = '\0';
    std::string_view name = v.name;
    if (name.starts_with("MIG ")) name.remove_prefix(4);
    known.name = name;
    return known;
  }
  TRY(library_.call(fmt::format("nvmlDeviceGetGpuInstanceProfileInfo({})", nvml_enum),
                    api_.profile_info, device, nvml_enum, &known.figures));
  abi::Memory memory{};
  TRY(library_.call("nvmlDeviceGetMemoryInfo", api_.memory_info, device, &memory));
  known.name =
      computed_profile_name(as_int(nvml_enum), as_int(known.figures.slices),
                            static_cast<double>(known.figures.memory_mib), mib(memory.total).value);
  return known;
}

Result<std::vector<abi::Place>> NvmlReader::placements(abi::Device device,
                                                       unsigned profile_id) const {
  // The count only goes out; no profile has as many places as there is room.
  std::vector<abi::Place> places(kMaxInstances);
  unsigned number = kMaxInstances;
  TRY(library_.call(
      fmt::format("nvmlDeviceGetGpuInstancePossiblePlacements(profile id {})", profile_id),
      api_.placements, device, profile_id, places.data(), &number));
  places.resize(std::min(number, kMaxInstances));
  std::ranges::sort(places, {}, &abi::Place::start);
  return places;
}

Result<std::vector<ProfileInfo>> NvmlReader::profiles(abi::Device device) const {
  std::vector<ProfileInfo> offered;
  for (unsigned i = 0; i < kMaxProfiles; ++i) {
    const Result<Profile> known = profile(device, i);
    if (!known && past_the_last(known.error(), i)) break;
    if (!known && absent(known.error())) continue;
    if (!known) return failed(known.error());
    const abi::GpuInstanceProfile& figures = known->figures;
    const auto places = placements(device, figures.id);
    if (!places && absent(places.error())) continue;
    if (!places) return failed(places.error());
    unsigned remaining = 0;
    const auto room = library_.call(
        fmt::format("nvmlDeviceGetGpuInstanceRemainingCapacity(profile id {})", figures.id),
        api_.remaining, device, figures.id, &remaining);
    // While MIG is off there is no capacity to ask for.
    if (!room && room.error().code != ErrorCode::not_supported) return failed(room.error());
    ProfileInfo one{.nvml_enum = as_int(i),
                    .profile_id = as_int(figures.id),
                    .name = known->name,
                    .gpcs = as_int(figures.slices),
                    .size = places->empty() ? 0 : as_int(places->front().size),
                    .sms = as_int(figures.multiprocessors),
                    .memory = Mib{static_cast<double>(figures.memory_mib)},
                    .max_instances = as_int(figures.max_instances),
                    .remaining = as_int(remaining),
                    .starts = {}};
    for (const abi::Place& place : *places) one.starts.push_back(as_int(place.start));
    offered.push_back(std::move(one));
  }
  return offered;
}

std::string computed_profile_name(int nvml_enum, int gpcs, double memory_mib, double total_mib) {
  const double eighths = std::ceil(8 * memory_mib / total_mib) / 8;
  const double gb = std::round(eighths * std::ceil(total_mib / 1024));
  const bool graphics = (nvml_enum >= 10 && nvml_enum <= 12) || nvml_enum == 17;
  const char* engines = nvml_enum == 7 || nvml_enum == 8     ? "+me"
                        : graphics                           ? "+gfx"
                        : nvml_enum == 13 || nvml_enum == 14 ? "-me"
                        : nvml_enum == 15 || nvml_enum == 16 ? "+me.all"
                                                             : "";
  return fmt::format("{}g.{}gb{}", gpcs, gb, engines);
}

}  // namespace partita::drivers::nvml_mig
