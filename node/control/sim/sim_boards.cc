#include "control/sim/sim_boards.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "act/assignment.h"
#include "hw/xids.h"

namespace partita::control {
namespace {

using drivers::sim::Machine;
using drivers::sim::SimGpu;
using drivers::sim::SimInstance;

struct Spot {
  int gpu = -1, gi_id = -1, ci_id = -1;
};

// Where a MIG device is, or the GPUs of a group of whole ones; none: not all of it is there.
std::vector<Spot> spots_of(const Machine& machine, const std::string& device) {
  std::vector<Spot> spots;
  const std::vector<std::string> whole = actuate::whole_gpus(device);
  for (std::size_t g = 0; g < machine.gpus().size(); ++g) {
    const SimGpu& gpu = machine.gpus()[g];
    const int index = static_cast<int>(g);
    if (std::ranges::count(whole, gpu.uuid) > 0 && !gpu.lost && !gpu.mig)
      spots.push_back({index, -1, -1});
    for (const SimInstance& instance : gpu.instances)
      for (const auto& compute : instance.compute)
        if (compute.uuid == device) return {{index, instance.gi_id, compute.ci_id}};
  }
  return spots.size() == whole.size() ? spots : std::vector<Spot>{};
}

}  // namespace

SimBoards::SimBoards(Machine machine, Clock& clock, drivers::sim::PowerRights rights) {
  for (const SimGpu& gpu : machine.gpus()) gpus_.push_back({gpu.uuid, gpu.model->name});
  machine_ = drivers::sim::own_machine(std::move(machine), clock, 1, {}, rights);
  driver_ = std::make_unique<drivers::sim::SimDriver>(*machine_);
}

Machine SimBoards::machine() const {
  std::optional<Machine> copy;
  with([&](Machine& machine) { copy = machine; });
  return *std::move(copy);
}

device::NodeState SimBoards::look() const {
  auto state = device::read_node(*driver_);
  CHECK(state.has_value());
  return *std::move(state);
}

int SimBoards::used() const {
  int used = 0;
  const auto seen = machine_->glance([&](const Machine& machine) {
    for (const SimGpu& gpu : machine.gpus())
      used += gpu.instances.empty() && gpu.processes.empty() ? 0 : 1;
  });
  CHECK(seen.has_value());
  return used;
}

double SimBoards::energy_j() const {
  double sum = 0;
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu)
    if (const auto sample = driver_->telemetry(static_cast<int>(gpu)); sample && sample->energy)
      sum += sample->energy->value;
  return sum;
}

std::set<std::string> SimBoards::devices() const {
  std::set<std::string> all;
  with([&](Machine& machine) {
    for (const SimGpu& gpu : machine.gpus())
      for (const SimInstance& instance : gpu.instances)
        for (const auto& compute : instance.compute) all.insert(compute.uuid);
  });
  return all;
}

std::optional<int> SimBoards::gpu_of(const std::string& device) const {
  std::vector<Spot> spots;
  with([&](Machine& machine) { spots = spots_of(machine, device); });
  return spots.empty() ? std::nullopt : std::optional(spots.front().gpu);
}

bool SimBoards::hold(const std::string& device, Pid pid, const std::string& name,
                     std::optional<double> busy) {
  bool held = false;
  with([&](Machine& machine) {
    const std::vector<Spot> spots = spots_of(machine, device);
    held = !spots.empty();
    if (busy) machine.detach(pid);
    for (const Spot& spot : spots)
      held = machine.attach(spot.gpu, {pid, name, spot.gi_id, spot.ci_id, false, busy}) && held;
  });
  return held;
}

void SimBoards::let_go(Pid pid) {
  with([&](Machine& machine) { machine.detach(pid); });
}

int SimBoards::healthy(Rng& rng) const {
  std::vector<int> well;
  with([&](Machine& machine) {
    for (std::size_t g = 0; g < machine.gpus().size(); ++g)
      if (!machine.gpus()[g].lost) well.push_back(static_cast<int>(g));
  });
  return well.empty() ? -1 : well[rng.below(well.size())];
}

device::HealthReading& SimBoards::ill(int gpu) {
  device::HealthReading& reading = ills_[uuid_of(gpu)];
  if (!reading.uncorrected_errors) reading.uncorrected_errors = 0;
  return reading;
}

void SimBoards::report_xid(int gpu, int xid) {
  news_.push_back({uuid_of(gpu), HealthEvent::Kind::xid, xid});
  const hw::Xid* known = hw::find_xid(xid);
  if (known != nullptr && known->action == hw::XidAction::reset_gpu) ill(gpu).recovery = 1;
}

void SimBoards::lose(int gpu) {
  constexpr int kOffTheBus = 79;
  with([&](Machine& machine) { machine.lose(gpu); });
  report_xid(gpu, kOffTheBus);
  tell("lost", fmt::format("gpu {}", gpu));
}

void SimBoards::regain(int gpu) {
  with([&](Machine& machine) { machine.regain(gpu); });
  cure(gpu);
  tell("regained", fmt::format("gpu {}", gpu));
}

void SimBoards::reboot() {
  with([](Machine& machine) { machine.reboot(); });
  ills_.clear();
}

void SimBoards::change_by_others(Rng& rng) {
  const int gpu = healthy(rng);
  if (gpu < 0) return;
  const bool destroys = rng.below(2) == 0;
  const std::uint64_t pick = rng.next();
  std::string what;
  with([&](Machine& machine) {
    const SimGpu& there = machine.gpus()[static_cast<std::size_t>(gpu)];
    if (destroys && !there.instances.empty()) {
      const SimInstance instance = there.instances[pick % there.instances.size()];
      const std::vector<drivers::sim::SimProcess> processes = there.processes;
      for (const auto& process : processes)
        if (process.gi_id == instance.gi_id) machine.detach(process.pid);
      for (const auto& compute : instance.compute)
        CHECK(machine.destroy_compute(gpu, instance.gi_id, compute.ci_id).has_value());
      CHECK(machine.destroy_instance(gpu, instance.gi_id).has_value());
      what = fmt::format("destroys gi {} of gpu {}", instance.gi_id, gpu);
    } else if (const auto made = machine.create_instance(gpu, 0, std::nullopt)) {
      const int gpcs = there.model->profiles[0].gpcs;
      CHECK(machine.create_compute(gpu, made->value, gpcs, std::nullopt).has_value());
      foreign_.insert(there.find(made->value)->compute.front().uuid);
      what = fmt::format("makes gi {} on gpu {}", made->value, gpu);
    }
  });
  if (!what.empty()) tell("foreign", what);
}

std::vector<HealthEvent> SimBoards::take_health(bool silent) {
  std::vector<HealthEvent> news = std::exchange(news_, {});
  if (silent) return news;
  with([&](Machine& machine) {
    for (const SimGpu& gpu : machine.gpus()) {
      device::HealthReading now = ills_[gpu.uuid];
      now.gpu_uuid = gpu.uuid;
      now.lost = gpu.lost;
      if (!now.uncorrected_errors) now.uncorrected_errors = 0;
      if (!now.recovery) now.recovery = 0;
      for (HealthEvent& one : health_changes_.hear(now)) news.push_back(std::move(one));
    }
  });
  return news;
}

void SimBoards::watch_anew() {
  news_.clear();
  health_changes_ = {};
}

}  // namespace partita::control
