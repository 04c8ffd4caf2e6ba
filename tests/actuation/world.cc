#include "world.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace partita::actuation_tests {

using actuate::AssignedSegment;
using actuate::Wanted;

void WorldClock::sleep_ns(std::int64_t ns) {
  constexpr std::int64_t kSlice = 20'000'000;
  while (ns > 0) {
    const std::int64_t slice = std::min(ns, kSlice);
    now += slice;
    ns -= slice;
    world_.tick();
  }
}

// The disk, as a door at which things go wrong.
class World::FilesDoor final : public Files {
 public:
  explicit FilesDoor(World& world) : world_(world) {}
  Result<std::string> read(const std::string& path) override { return world_.disk.read(path); }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return world_.disk.list(path);
  }
  bool is_directory(const std::string& path) override { return world_.disk.is_directory(path); }
  bool exists(const std::string& path) override { return world_.disk.exists(path); }
  Result<void> make_directories(const std::string& path) override {
    return world_.disk.make_directories(path);
  }
  Result<FileLock> lock(const std::string& path) override { return world_.disk.lock(path); }
  Result<void> write_atomic(const std::string& path, std::string_view text) override {
    return around("write", [&](bool torn) {
      const Result<void> done = torn ? Result<void>{} : world_.disk.write_atomic(path, text);
      world_.check_floor();
      return done;
    });
  }
  Result<void> append(const std::string& path, std::string_view text) override {
    return around("append", [&](bool torn) {
      const std::size_t length =
          torn ? static_cast<std::size_t>(world_.calls * 7919) % text.size() : text.size();
      return world_.disk.append(path, text.substr(0, length));
    });
  }
  Result<void> remove(const std::string& path) override {
    return around("remove", [&](bool) { return world_.disk.remove(path); });
  }

 private:
  template <class Act>
  Result<void> around(const char* what, Act act) {
    const Mishap mishap = world_.next(what);
    switch (mishap.kind) {
      case Mishap::Kind::crash_before:
        throw Crash{};
      case Mishap::Kind::torn:
        static_cast<void>(act(true));
        throw Crash{};
      case Mishap::Kind::crash_after:
        static_cast<void>(act(false));
        throw Crash{};
      case Mishap::Kind::error:
        return environment_error("disk", "no space left on device");
      case Mishap::Kind::error_after:
      case Mishap::Kind::none:
        return act(false);
    }
    return {};
  }
  World& world_;
};

// The driver, as a door at which things go wrong.
class World::DriverDoor final : public device::NodeDriver {
 public:
  explicit DriverDoor(World& world) : world_(world) {}
  Result<device::DriverInfo> info() override { return world_.inner_->info(); }
  Result<device::GpuState> read(int gpu) override { return world_.inner_->read(gpu); }
  Result<std::vector<device::ProfileInfo>> profiles(int gpu) override {
    return world_.inner_->profiles(gpu);
  }
  Result<device::ModeChange> set_mig_mode(int gpu, bool enabled) override {
    return around("set_mig_mode", [&] { return world_.inner_->set_mig_mode(gpu, enabled); });
  }
  Result<int> create_instance(int gpu, const device::Placement& placement) override {
    return around("create_instance",
                  [&] { return world_.inner_->create_instance(gpu, placement); });
  }
  Result<void> destroy_instance(int gpu, int gi_id) override {
    return around("destroy_instance", [&] { return world_.inner_->destroy_instance(gpu, gi_id); });
  }
  Result<device::ComputeInstance> create_compute(int gpu, int gi_id) override {
    return around("create_compute", [&] { return world_.inner_->create_compute(gpu, gi_id); });
  }
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override {
    const sim_driver::Machine before = world_.machine();
    return around("destroy_compute", [&] {
      const Result<void> done = world_.inner_->destroy_compute(gpu, gi_id, ci_id);
      if (done) watch(before, gpu, gi_id, ci_id);
      world_.check_floor();
      return done;
    });
  }
  Result<telemetry::GpuSample> telemetry(int gpu) override { return world_.inner_->telemetry(gpu); }
  Result<device::PowerState> power_settings(int gpu) override {
    return world_.inner_->power_settings(gpu);
  }
  Result<void> set_power_settings(int gpu, const device::PowerSettings& settings) override {
    return around("set_power_settings",
                  [&] { return world_.inner_->set_power_settings(gpu, settings); });
  }

 private:
  void watch(const sim_driver::Machine& before, int gpu, int gi_id, int ci_id) {
    for (const auto& one : before.find(gpu)->find(gi_id)->compute) {
      if (one.ci_id != ci_id || !world_.untouchable.contains(one.uuid)) continue;
      world_.violations.push_back("destroyed a device that does not change: " + one.uuid);
    }
  }

  template <class Act>
  auto around(const char* what, Act act) -> decltype(act()) {
    const Mishap mishap = world_.next(what);
    const Error error{mishap.code, "made up", what};
    switch (mishap.kind) {
      case Mishap::Kind::crash_before:
      case Mishap::Kind::torn:
        throw Crash{};
      case Mishap::Kind::crash_after:
        static_cast<void>(act());
        throw Crash{};
      case Mishap::Kind::error:
        return failed(error);
      case Mishap::Kind::error_after:
        static_cast<void>(act());
        return failed(error);
      case Mishap::Kind::none:
        return act();
    }
    return act();
  }
  World& world_;
};

World::World(const std::vector<sim_driver::Machine::Gpus>& gpus, std::uint64_t seed) {
  machine_ =
      sim_driver::own_machine(sim_driver::Machine(gpus, "world " + std::to_string(seed)), clock, 1);
  inner_ = std::make_unique<sim_driver::SimDriver>(*machine_);
  files_ = std::make_shared<FilesDoor>(*this);
  driver_ = std::make_shared<DriverDoor>(*this);
}

actuate::Doors World::doors() {
  return {*driver_, *files_, clock, hw::builtin_catalogue(), kStateDir};
}

device::NodeState World::look() {
  Result<device::NodeState> state = device::read_node(*inner_);
  CHECK(state.has_value());
  return *state;
}

actuate::Assignment World::assignment() {
  Result<actuate::Assignment> read = actuate::read_assignment(disk, kStateDir);
  CHECK(read.has_value());
  return *read;
}

sim_driver::Machine World::machine() {
  std::optional<sim_driver::Machine> copy;
  change_machine([&](sim_driver::Machine& machine) { copy = machine; });
  return *copy;
}

void World::change_machine(const std::function<void(sim_driver::Machine&)>& use) {
  CHECK(machine_->with(use).has_value());
}

void World::restart_workers() { running_.clear(); }

Mishap World::next(const char* what) {
  ++calls;
  log.record(clock.now, 1, static_cast<std::uint32_t>(text_hash(what)), calls);
  return mishap(calls);
}

void World::check_floor() {
  if (floor.empty()) return;
  std::map<std::string, double> up;
  std::set<std::string> devices;
  const sim_driver::Machine now = machine();
  for (const sim_driver::SimGpu& gpu : now.gpus()) {
    for (const auto& instance : gpu.instances) {
      for (const auto& compute : instance.compute) devices.insert(compute.uuid);
    }
  }
  const actuate::Assignment assigned = assignment();
  for (const AssignedSegment& one : assigned.segments) {
    if (devices.contains(one.device)) up[one.service] += capacity_of(one);
  }
  for (const auto& [service, least] : floor) {
    if (up[service] >= least * (1 - 1e-9) - 1e-9) continue;
    violations.push_back(fmt::format("{} has {} of {}", service, up[service], least));
  }
}

// A worker on all GPUs of a group; that they are in use already is what must never be.
void World::start_group(sim_driver::Machine& machine, const AssignedSegment& segment) {
  const std::int64_t pid = next_pid_++;
  for (const std::string& uuid : actuate::whole_gpus(segment.device)) {
    for (std::size_t g = 0; g < machine.gpus().size(); ++g) {
      if (machine.gpus()[g].uuid != uuid) continue;
      if (!machine.gpus()[g].processes.empty() || machine.gpus()[g].mig)
        violations.push_back("two owners of " + uuid);
      if (!machine.attach(static_cast<int>(g), {pid, "engine", -1, -1}))
        violations.push_back("no engine starts on " + uuid);
    }
  }
  running_[segment.device] = {pid, segment.service, -1};
}

// Every assigned device gets a worker; workers of devices that are no longer assigned leave after a
// while, but for the stubborn.
void World::tick() {
  if (!workers) return;
  const auto file = disk.content.find(actuate::assignment_path(kStateDir));
  if (file != disk.content.end() && file->second != followed_) {
    followed_ = file->second;
    assigned_ = assignment();
  }
  std::map<std::string, const AssignedSegment*> assigned;
  for (const AssignedSegment& one : assigned_.segments) assigned[one.device] = &one;
  const device::NodeState state = look();
  change_machine([&](sim_driver::Machine& machine) {
    std::set<std::string> present;
    for (const AssignedSegment& one : assigned_.segments)
      if (!actuate::whole_gpus(one.device).empty() && actuate::is_there(state, one.device) &&
          !running_.contains(one.device))
        start_group(machine, one);
    for (const auto& [device, worker] : running_)
      if (!actuate::whole_gpus(device).empty()) present.insert(device);
    for (std::size_t g = 0; g < machine.gpus().size(); ++g) {
      const std::vector<sim_driver::SimInstance> instances = machine.gpus()[g].instances;
      for (const sim_driver::SimInstance& instance : instances) {
        for (const auto& compute : instance.compute) {
          present.insert(compute.uuid);
          if (!assigned.contains(compute.uuid) || running_.contains(compute.uuid)) continue;
          const std::int64_t pid = next_pid_++;
          const sim_driver::SimProcess process{pid, "worker", instance.gi_id, compute.ci_id};
          if (!machine.attach(static_cast<int>(g), process)) continue;
          running_[compute.uuid] = {pid, assigned.at(compute.uuid)->service, -1};
        }
      }
    }
    for (auto it = running_.begin(); it != running_.end();) {
      Worker& worker = it->second;
      if (!present.contains(it->first)) {
        it = running_.erase(it);
        continue;
      }
      const bool stays = assigned.contains(it->first) || stubborn.contains(worker.service);
      if (stays) {
        worker.leaving_since = -1;
      } else if (worker.leaving_since < 0) {
        worker.leaving_since = clock.now;
      } else if (clock.now - worker.leaving_since >= leave_ns) {
        machine.detach(worker.pid);
        it = running_.erase(it);
        continue;
      }
      ++it;
    }
  });
}

namespace {

// Segments of one service carry the same per compute slice, so that sums are exact.
actuate::Segment random_segment(Rng& rng, int gpcs) {
  const int service = static_cast<int>(rng.below(5));
  if (rng.below(20) == 0) return {};  // an instance for somebody else's use
  return {fmt::format("s{}", service), 1 << rng.below(4), 1 + static_cast<int>(rng.below(3)),
          gpcs * 10.0 * (service + 1)};
}

void fill_gpu(actuate::WantedGpu& gpu, const hw::GpuModel& model, Rng& rng, double fill) {
  std::vector<hw::PlacedProfile> placed;
  for (const actuate::WantedInstance& one : gpu.instances) {
    placed.push_back({model.profile_index(one.profile), one.start});
  }
  for (int attempt = 0; attempt < 24; ++attempt) {
    if (rng.uniform() > fill) continue;
    const int profile = static_cast<int>(rng.below(model.profiles.size()));
    const hw::MigProfile& shape = model.profiles[static_cast<std::size_t>(profile)];
    if (shape.gpcs > 4 && rng.below(4) != 0) continue;
    const int start = shape.starts[rng.below(shape.starts.size())];
    placed.push_back({profile, start});
    if (!hw::conflicts(model, placed).empty()) {
      placed.pop_back();
      continue;
    }
    gpu.instances.push_back({shape.name, start, random_segment(rng, shape.gpcs)});
  }
}

}  // namespace

// Objectives and rates that differ from plan to plan.
std::vector<plan::Terms> services_of(const Wanted& wanted) {
  std::map<std::string, plan::Terms> services;
  for (const actuate::WantedGpu& gpu : wanted.gpus) {
    for (const actuate::WantedInstance& one : gpu.instances) {
      if (one.segment.service.empty()) continue;
      plan::Terms& service = services[one.segment.service];
      service.name = one.segment.service;
      service.model = "m";
      service.slo = Millis{10.0 + one.start};
      service.rate += Rps{one.segment.throughput_rps / 3};
    }
  }
  std::vector<plan::Terms> all;
  for (const auto& [name, service] : services) all.push_back(service);
  return all;
}

Wanted random_wanted(const hw::GpuModel& model, int gpus, Rng& rng, double fill) {
  Wanted wanted;
  for (int g = 0; g < gpus; ++g) {
    wanted.gpus.push_back({model.name, "", {}});
    fill_gpu(wanted.gpus.back(), model, rng, fill);
  }
  wanted.services = services_of(wanted);
  return wanted;
}

Wanted altered(const Wanted& wanted, const hw::GpuModel& model, Rng& rng) {
  Wanted next = wanted;
  for (actuate::WantedGpu& gpu : next.gpus) {
    if (rng.below(2) == 0) continue;
    std::erase_if(gpu.instances, [&](const auto&) { return rng.below(3) == 0; });
    for (actuate::WantedInstance& one : gpu.instances) {
      if (rng.below(6) != 0) continue;
      const int profile = model.profile_index(one.profile);
      one.segment = random_segment(rng, model.profiles[static_cast<std::size_t>(profile)].gpcs);
    }
    fill_gpu(gpu, model, rng, 0.8);
  }
  for (std::size_t i = next.gpus.size(); i > 1; --i) {
    std::swap(next.gpus[i - 1], next.gpus[rng.below(i)]);
  }
  next.services = services_of(next);
  return next;
}

Wanted with_groups(Wanted wanted, const hw::GpuModel& model, Rng& rng) {
  const auto whole = std::ranges::find(model.profiles, model.memory_slices, &hw::MigProfile::size);
  const std::size_t pairs = rng.below(wanted.gpus.size() / 2 + 1);
  for (std::size_t g = 0; g < 2 * pairs; ++g) {
    const int pair = static_cast<int>(g / 2);
    const std::string service = fmt::format("s{}", g % 2 == 0 ? rng.below(3) : 0);
    const actuate::Segment segment{service, 1 << rng.below(3), 1, 160};
    const auto& before = g % 2 == 0 ? segment : wanted.gpus[g - 1].instances.front().segment;
    wanted.gpus[g] = {model.name, "", {{whole->name, 0, before}}, -1, pair};
  }
  wanted.services = services_of(wanted);
  return wanted;
}

std::string difference(World& world, const Wanted& wanted) {
  using Row = std::tuple<std::string, int, std::string, int, int>;
  std::map<std::string, actuate::Segment> running;
  const actuate::Assignment assigned = world.assignment();
  for (const AssignedSegment& one : assigned.segments) {
    running[one.device] = {one.service, one.batch, one.processes, 0};
  }
  std::multiset<std::vector<Row>> have, need;
  std::size_t devices = 0;
  const device::NodeState state = world.look();
  for (const device::GpuState& gpu : state.gpus) {
    if (gpu.lost) continue;
    std::vector<Row> rows;
    for (const device::Instance& one : gpu.instances) {
      if (!one.whole()) return fmt::format("gpu {} has a partial instance", gpu.index);
      const actuate::Segment segment = running[one.uuid()];
      devices += segment.service.empty() ? 0U : 1U;
      rows.emplace_back(one.profile, one.start, segment.service, segment.batch, segment.processes);
    }
    std::sort(rows.begin(), rows.end());
    if (!rows.empty()) have.insert(rows);
  }
  // A group is a row for each of its GPUs.
  for (const AssignedSegment& one : assigned.segments) {
    if (actuate::whole_gpus(one.device).empty() || !actuate::is_there(state, one.device)) continue;
    ++devices;
    have.insert(std::vector<Row>(actuate::whole_gpus(one.device).size(),
                                 {"whole", 0, one.service, one.batch, one.processes}));
  }
  std::map<int, std::vector<Row>> groups;
  for (const actuate::WantedGpu& gpu : wanted.gpus) {
    if (gpu.group < 0) continue;
    const actuate::Segment& segment = gpu.instances.front().segment;
    groups[gpu.group].emplace_back("whole", 0, segment.service, segment.batch, segment.processes);
  }
  for (const auto& [group, rows] : groups) need.insert(rows);
  for (const actuate::WantedGpu& gpu : wanted.gpus) {
    std::vector<Row> rows;
    if (gpu.group >= 0) continue;
    for (const auto& one : gpu.instances) {
      rows.emplace_back(one.profile, one.start, one.segment.service, one.segment.batch,
                        one.segment.processes);
    }
    std::sort(rows.begin(), rows.end());
    if (!rows.empty()) need.insert(rows);
  }
  if (have != need) return "the layouts differ";
  if (assigned.services != wanted.services) return "the services differ";
  if (world.assignment().segments.size() != devices)
    return "the assignment names devices that are not there";
  return {};
}

}  // namespace partita::actuation_tests
