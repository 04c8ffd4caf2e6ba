#include "drivers/sim/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/append.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/unicode.h"
#include "hw/xids.h"

namespace partita::drivers::sim {
namespace {

tl::unexpected<Error> refused(ErrorCode code, std::string message) {
  return failed(Error{code, std::move(message), {}});
}

// 8-4-4-4-12, in the form of a random UUID.
std::string make_uuid(std::string_view prefix, std::uint64_t seed, std::uint64_t number) {
  Rng stream = Rng(seed).split(number);
  const std::uint64_t high = (stream.next() & ~0xf000ULL) | 0x4000;
  const std::uint64_t low = (stream.next() & ~(3ULL << 62)) | (2ULL << 62);
  return fmt::format("{}{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", prefix, high >> 32,
                     high >> 16 & 0xffff, high & 0xffff, low >> 48, low & 0xffff'ffff'ffffULL);
}

// The gi_ids of instances of `gpcs` compute slices.
struct IdRange {
  int first = 0, last = 0;
};
IdRange gi_id_range(const hw::GpuModel& model, int gpcs) {
  const int parts = static_cast<int>(std::bit_ceil(static_cast<unsigned>(model.compute_slices)) /
                                     std::bit_ceil(static_cast<unsigned>(gpcs)));
  return {parts - 1, 2 * parts - 2};
}

// Takes the next free gi_id: of its range, or any when an unusual model has used that up.
int take_gi_id(SimGpu& gpu, int gpcs) {
  const IdRange range = gi_id_range(*gpu.model, gpcs);
  CHECK(!gpu.free_gi_ids.empty());
  auto at = std::ranges::find_if(gpu.free_gi_ids,
                                 [&](int id) { return id >= range.first && id <= range.last; });
  if (at == gpu.free_gi_ids.end()) at = gpu.free_gi_ids.begin();
  const int id = *at;
  gpu.free_gi_ids.erase(at);
  return id;
}

const hw::MigProfile& profile_of(const SimGpu& gpu, int profile) {
  return gpu.model->profiles[static_cast<std::size_t>(profile)];
}

bool is_profile(const SimGpu& gpu, int profile) {
  return profile >= 0 && profile < static_cast<int>(gpu.model->profiles.size());
}

std::int64_t nanoseconds(Seconds time) {
  return static_cast<std::int64_t>(std::llround(time.value * 1e9));
}

hw::ReconfigurationTime time_of(const hw::GpuModel& model, int gpcs) {
  for (const hw::ReconfigurationTime& time : model.reconfiguration)
    if (time.gpcs >= gpcs) return time;
  return model.reconfiguration.empty() ? hw::ReconfigurationTime{} : model.reconfiguration.back();
}

bool fits(const SimGpu& gpu, std::vector<hw::PlacedProfile> placed, hw::PlacedProfile one) {
  placed.push_back(one);
  return hw::conflicts(*gpu.model, placed).empty();
}

// Placements of plain profiles that still fit.
int capacity(const SimGpu& gpu, const std::vector<hw::PlacedProfile>& placed) {
  int count = 0;
  for (const int profile : hw::plain_profiles(*gpu.model))
    for (const int start : profile_of(gpu, profile).starts)
      count += fits(gpu, placed, {profile, start});
  return count;
}

std::optional<int> best_start(const SimGpu& gpu, int profile) {
  std::optional<int> best;
  int most = -1;
  std::vector<hw::PlacedProfile> placed = gpu.placed();
  for (const int start : profile_of(gpu, profile).starts) {
    if (!fits(gpu, placed, {profile, start})) continue;
    placed.push_back({profile, start});
    if (const int left = capacity(gpu, placed); left >= most) {
      most = left;
      best = start;
    }
    placed.pop_back();
  }
  return best;
}

// Why one more instance does not fit, in words.
std::string why(const SimGpu& gpu, const hw::Conflict& conflict) {
  if (conflict.constraint == "memory_slices") {
    const SimInstance& holder = gpu.instances[static_cast<std::size_t>(conflict.first)];
    return fmt::format("memory slices are taken by GPU instance {} ({} at {})", holder.gi_id,
                       profile_of(gpu, holder.profile).name, holder.start);
  }
  const char* what = conflict.constraint == "compute_slices"  ? "compute slices"
                     : conflict.constraint == "max_instances" ? "instances of this profile"
                                                              : "media engines of a kind";
  return fmt::format("{} {} would be taken, the GPU has {}", conflict.need, what, conflict.have);
}

auto process_key(const SimProcess& process) {
  return std::tuple(process.pid, process.gi_id, process.ci_id);
}

// Adds a process in its place; one that is there already stays.
void add(std::vector<SimProcess>& processes, const SimProcess& process) {
  const auto at = std::ranges::lower_bound(processes, process_key(process), {}, process_key);
  if (at == processes.end() || process_key(*at) != process_key(process))
    processes.insert(at, process);
}

// What neither a reset nor a reboot leaves.
void forget_errors(SimGpu& gpu) {
  gpu.health = {.xids = std::move(gpu.health.xids), .reported = gpu.health.reported};
}

void forget_instances(SimGpu& gpu) {
  gpu.instances.clear();
  gpu.free_gi_ids = fresh_gi_ids(*gpu.model);
}

}  // namespace

std::vector<int> fresh_gi_ids(const hw::GpuModel& model) {
  std::vector<int> ids;
  const int slices = static_cast<int>(std::bit_ceil(static_cast<unsigned>(model.compute_slices)));
  for (int parts = 1; parts <= slices; parts *= 2) {
    for (int id = 2 * parts - 3; id >= parts - 1; --id) ids.push_back(id);
    ids.push_back(2 * parts - 2);
  }
  return ids;
}

const SimInstance* SimGpu::find(int gi_id) const {
  const auto found = std::ranges::find(instances, gi_id, &SimInstance::gi_id);
  return found == instances.end() ? nullptr : &*found;
}

std::vector<hw::PlacedProfile> SimGpu::placed() const {
  return {instances.begin(), instances.end()};
}

bool SimGpu::links_are_up() const {
  return !nvlink.empty() && !(mig && model->architecture == "ampere");
}

Machine::Machine(const std::vector<Gpus>& gpus, std::string_view identity)
    : seed_(text_hash(identity)) {
  for (const Gpus& same : gpus) {
    CHECK(same.model != nullptr && same.count >= 0);
    for (int i = 0; i < same.count; ++i) {
      const std::size_t index = gpus_.size();
      SimGpu gpu;
      gpu.model = same.model;
      gpu.uuid = make_uuid("GPU-", ~seed_, index);
      gpu.serial = fmt::format("{:013}", (seed_ + index) % 10'000'000'000'000ULL);
      gpu.pci_bus_id = fmt::format("00000000:{:02X}:00.0", index + 1);
      if (same.nvlink > 0)
        gpu.nvlink =
            fmt::format("00000001:{:02X}:00.0", index - static_cast<std::size_t>(i % same.nvlink));
      gpu.mig = gpu.mig_pending = same.mig && !same.model->profiles.empty();
      gpu.free_gi_ids = fresh_gi_ids(*same.model);
      gpus_.push_back(std::move(gpu));
    }
  }
}

const SimGpu* Machine::find(int gpu) const {
  const bool there = gpu >= 0 && gpu < static_cast<int>(gpus_.size());
  return there ? &gpus_[static_cast<std::size_t>(gpu)] : nullptr;
}

Result<SimGpu*> Machine::usable(int gpu) {
  if (!find(gpu))
    return refused(ErrorCode::not_found, fmt::format("the machine has {} GPUs", gpus_.size()));
  SimGpu& found = gpus_[static_cast<std::size_t>(gpu)];
  if (found.lost) return refused(ErrorCode::lost, "the GPU fell off the bus");
  return &found;
}

Result<SimGpu*> Machine::mig_gpu(int gpu) {
  auto found = usable(gpu);
  if (found && !(*found)->mig) return refused(ErrorCode::not_supported, "MIG is off");
  return found;
}

Result<void> Machine::set_mig_mode(int gpu, bool enabled) {
  const auto found = TRY(usable(gpu));
  SimGpu& it = *found;
  if (it.model->profiles.empty())
    return refused(ErrorCode::not_supported, "this GPU model has no MIG");
  if (enabled != it.mig && !(it.instances.empty() && it.processes.empty()))
    return refused(ErrorCode::in_use, fmt::format("{} instances and {} processes are there",
                                                  it.instances.size(), it.processes.size()));
  it.mig_pending = enabled;
  if (it.model->architecture != "ampere") it.mig = enabled;
  return {};
}

Result<Timed<int>> Machine::create_instance(int gpu, int profile, std::optional<int> start) {
  const auto found = TRY(mig_gpu(gpu));
  SimGpu& it = *found;
  if (!is_profile(it, profile))
    return refused(ErrorCode::invalid_argument, "the GPU has no such profile");
  const hw::MigProfile& shape = profile_of(it, profile);
  if (!start) start = best_start(it, profile);
  if (!start) return refused(ErrorCode::no_room, fmt::format("no start of {} is free", shape.name));
  if (!std::ranges::binary_search(shape.starts, *start))
    return refused(ErrorCode::invalid_argument,
                   fmt::format("{} may start at {}", shape.name, joined(shape.starts, ", ")));
  std::vector<hw::PlacedProfile> placed = it.placed();
  placed.push_back({profile, *start});
  if (const auto conflicts = hw::conflicts(*it.model, placed); !conflicts.empty())
    return refused(ErrorCode::no_room, why(it, conflicts.front()));

  const int id = take_gi_id(it, shape.gpcs);
  const auto at = std::ranges::lower_bound(it.instances, id, {}, &SimInstance::gi_id);
  it.instances.insert(at, {{profile, *start}, id, {}});
  return Timed<int>{id, nanoseconds(time_of(*it.model, shape.gpcs).create)};
}

Result<Timed<bool>> Machine::destroy_instance(int gpu, int gi_id) {
  const auto found = TRY(mig_gpu(gpu));
  SimGpu& it = *found;
  const auto at = std::ranges::find(it.instances, gi_id, &SimInstance::gi_id);
  if (at == it.instances.end()) return refused(ErrorCode::not_found, "no such GPU instance");
  if (!at->compute.empty())
    return refused(ErrorCode::in_use,
                   fmt::format("it has {} compute instances", at->compute.size()));
  const int gpcs = profile_of(it, at->profile).gpcs;
  it.instances.erase(at);
  it.free_gi_ids.push_back(gi_id);
  return Timed<bool>{true, nanoseconds(time_of(*it.model, gpcs).destroy)};
}

Result<Timed<int>> Machine::create_compute(int gpu, int gi_id, int gpcs, std::optional<int> start) {
  const auto found = TRY(mig_gpu(gpu));
  SimGpu& it = *found;
  const auto at = std::ranges::find(it.instances, gi_id, &SimInstance::gi_id);
  if (at == it.instances.end()) return refused(ErrorCode::not_found, "no such GPU instance");
  const int all = profile_of(it, at->profile).gpcs;
  if (gpcs > all || std::ranges::find(it.model->profiles, gpcs, &hw::MigProfile::gpcs) ==
                        it.model->profiles.end())
    return refused(ErrorCode::invalid_argument,
                   fmt::format("no compute instance of {} slices fits into {}", gpcs, all));
  const auto is_free = [&](int first) {
    return std::ranges::all_of(at->compute, [&](const SimComputeInstance& other) {
      return first + gpcs <= other.start || other.start + other.gpcs <= first;
    });
  };
  if (start && (*start < 0 || *start > all - gpcs))
    return refused(ErrorCode::invalid_argument, fmt::format("it may start at 0 to {}", all - gpcs));
  int first = start.value_or(0);
  while (!start && first < all - gpcs && !is_free(first)) ++first;
  if (!is_free(first))
    return refused(ErrorCode::no_room, "compute instances hold the slices of the GPU instance");

  int id = 0;
  auto place = at->compute.begin();
  for (; place != at->compute.end() && place->ci_id == id; ++place) ++id;
  const std::string uuid = make_uuid("MIG-", seed_, static_cast<std::uint64_t>(++created_));
  at->compute.insert(place, {.ci_id = id, .gpcs = gpcs, .start = first, .uuid = uuid});
  return Timed<int>{id, 0};
}

Result<Timed<bool>> Machine::destroy_compute(int gpu, int gi_id, int ci_id) {
  const auto found = TRY(mig_gpu(gpu));
  SimGpu& it = *found;
  const auto instance = std::ranges::find(it.instances, gi_id, &SimInstance::gi_id);
  if (instance == it.instances.end()) return refused(ErrorCode::not_found, "no such GPU instance");
  const auto at = std::ranges::find(instance->compute, ci_id, &SimComputeInstance::ci_id);
  if (at == instance->compute.end())
    return refused(ErrorCode::not_found, "no such compute instance");
  for (const SimProcess& process : it.processes)
    if (process.gi_id == gi_id && process.ci_id == ci_id)
      return refused(ErrorCode::in_use,
                     fmt::format("process {} ({}) holds it", process.pid, process.name));
  instance->compute.erase(at);
  return Timed<bool>{true, 0};
}

int Machine::remaining(int gpu, int profile) const {
  const SimGpu* it = find(gpu);
  if (!it || it->lost || !it->mig || !is_profile(*it, profile)) return 0;
  // Placements of one profile have one size, so taking each lowest free start takes the most.
  std::vector<hw::PlacedProfile> placed = it->placed();
  for (const int start : profile_of(*it, profile).starts)
    if (fits(*it, placed, {profile, start})) placed.push_back({profile, start});
  return static_cast<int>(placed.size() - it->instances.size());
}

Result<void> Machine::attach(int gpu, const SimProcess& process) {
  const auto found = TRY(usable(gpu));
  if (process.pid < 1 || process.pid > std::numeric_limits<std::int32_t>::max())
    return refused(ErrorCode::invalid_argument, "a pid is 1 to 2^31-1");
  if (process.gi_id != -1 || process.ci_id != -1) {
    const SimInstance* instance = found->find(process.gi_id);
    if (!instance || std::ranges::find(instance->compute, process.ci_id,
                                       &SimComputeInstance::ci_id) == instance->compute.end())
      return refused(ErrorCode::not_found, "no such compute instance");
  }
  SimProcess safe = process;
  safe.name = utf8(printable(process.name.substr(0, kMaxNameBytes / 3)));
  safe.observed = false;
  add(found->processes, safe);
  return {};
}

void Machine::detach(std::int64_t pid) {
  for (SimGpu& gpu : gpus_)
    std::erase_if(gpu.processes, [&](const SimProcess& process) { return process.pid == pid; });
}

void Machine::observe(const std::vector<ObservedProcess>& found) {
  std::map<std::string_view, std::vector<const ObservedProcess*>> users;
  for (const ObservedProcess& process : found)
    for (const std::string& uuid : process.devices) users[uuid].push_back(&process);
  for (SimGpu& gpu : gpus_) {
    std::erase_if(gpu.processes, [](const SimProcess& process) { return process.observed; });
    if (gpu.lost) continue;
    const auto put = [&](const std::string& uuid, int gi_id, int ci_id) {
      const auto at = users.find(uuid);
      if (at == users.end()) return;
      for (const ObservedProcess* process : at->second)
        add(gpu.processes, {process->pid, process->name, gi_id, ci_id, true});
    };
    put(gpu.uuid, -1, -1);
    for (const SimInstance& instance : gpu.instances)
      for (const SimComputeInstance& compute : instance.compute)
        put(compute.uuid, instance.gi_id, compute.ci_id);
  }
}

Result<void> Machine::reset(int gpu) {
  const auto found = TRY(usable(gpu));
  SimGpu& it = *found;
  if (!it.processes.empty())
    return refused(ErrorCode::in_use, fmt::format("{} processes are there", it.processes.size()));
  it.mig = it.mig_pending;
  it.power.settings = {};
  forget_errors(it);
  forget_instances(it);
  return {};
}

void Machine::reboot() {
  for (SimGpu& gpu : gpus_) {
    gpu.mig = gpu.mig_pending;
    gpu.lost = false;
    gpu.processes.clear();
    gpu.power.settings = {};
    forget_errors(gpu);
    forget_instances(gpu);
  }
}

void Machine::lose(int gpu) {
  if (!find(gpu)) return;
  SimGpu& it = gpus_[static_cast<std::size_t>(gpu)];
  it.lost = true;
  it.processes.clear();
  forget_instances(it);
}

void Machine::regain(int gpu) {
  if (!find(gpu) || !find(gpu)->lost) return;
  SimGpu& it = gpus_[static_cast<std::size_t>(gpu)];
  it.lost = false;
  it.mig = it.mig_pending;
  forget_errors(it);
}

void Machine::report_xid(int gpu, int xid, int gi_id, int ci_id) {
  constexpr int kDoubleBitError = 48, kRowPending = 63, kRowFailed = 64, kOffTheBus = 79;
  if (!find(gpu) || find(gpu)->lost) return;
  SimHealth& health = gpus_[static_cast<std::size_t>(gpu)].health;
  if (health.xids.size() == kMaxSimXids) health.xids.erase(health.xids.begin());
  health.xids.push_back({++health.reported, xid, gi_id, ci_id});
  if (xid == kDoubleBitError) ++health.uncorrected_errors;
  health.rows_pending |= xid == kRowPending;
  health.rows_failed |= xid == kRowFailed;
  const hw::Xid* known = hw::find_xid(xid);
  if (known != nullptr && known->action == hw::XidAction::reset_gpu)
    health.recovery = std::max(health.recovery, 1);
  if (known != nullptr && known->action == hw::XidAction::restart_node) health.recovery = 2;
  if (xid == kOffTheBus) lose(gpu);
}

CallCount Machine::count_call(std::string_view method) {
  return {.of_method = ++calls_[std::string(method)], .of_all = ++all_calls_};
}

}  // namespace partita::drivers::sim
