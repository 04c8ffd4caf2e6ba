#include "fleet_world.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error_code.h"
#include "base/hash.h"

namespace partita::actuation_tests {

using sim_driver::Machine;
using sim_driver::SimGpu;
using sim_driver::SimInstance;

namespace {

constexpr std::int64_t kFleetWorldSecond = 1'000'000'000;
constexpr std::int64_t kSlice = kFleetWorldSecond / 5;  // longest time between two draws of events

}  // namespace

Faults draw_faults(Rng& rng) {
  Faults faults;
  // Half of the kinds are absent from a seed, so that each also meets the others alone.
  const auto draw = [&](double& kind, double often) {
    const double level = rng.uniform();
    if (rng.below(2) == 0) kind = often * (0.1 + level);
  };
  draw(faults.driver_error, 0.06);
  draw(faults.hang, 0.03);
  draw(faults.read_error, 0.01);
  draw(faults.disk_error, 0.03);
  draw(faults.death, 0.05);
  draw(faults.stray, 0.2);
  draw(faults.stray_leaves, 0.15);
  draw(faults.intruder, 0.08);
  draw(faults.worker_crash, 0.3);
  draw(faults.lost, 0.05);
  draw(faults.back, 0.1);
  draw(faults.reboot, 0.03);
  draw(faults.supervisor_death, 0.05);
  draw(faults.worker_fails, 0.2);
  draw(faults.worker_stubborn, 0.1);
  return faults;
}

void FleetLog::line(std::int64_t now_ns, const std::string& text) {
  log_.absorb(static_cast<std::uint64_t>(now_ns));
  log_.absorb(text_hash(text));
  ++counts[text.substr(0, text.find(' '))];
  if (echo_ != nullptr) {
    fmt::print(echo_, "{:10.3f} {}\n", static_cast<double>(now_ns) * 1e-9, text);
  }
}

void FleetClock::sleep_ns(std::int64_t ns) {
  if (ns > 0) world_.advance(now + ns);
}

// ---- the disk ----

// As the program under test or the supervisor sees it; Death is what kills that one.
class FleetWorld::FilesDoor final : public Files {
 public:
  FilesDoor(FleetWorld& world, bool program) : world_(world), program_(program) {}
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
  Result<void> remove(const std::string& path) override { return world_.disk.remove(path); }

  Result<void> write_atomic(const std::string& path, std::string_view text) override {
    if (world_.chance(world_.faults.death)) {
      if (world_.rng.below(2) == 0) put(path, std::string(text), "write");
      die();
    }
    const bool fails = world_.chance(world_.faults.disk_error);
    if (!fails || world_.rng.below(2) == 0) put(path, std::string(text), "write");
    return fails ? full(path) : Result<void>{};
  }

  // A death or a full disk may leave any prefix of the text.
  Result<void> append(const std::string& path, std::string_view text) override {
    const bool dies = world_.chance(world_.faults.death);
    const bool fails = !dies && world_.chance(world_.faults.disk_error);
    const std::size_t length = dies || fails ? world_.pick(text.size() + 1) : text.size();
    put(path, world_.disk.content[path] + std::string(text.substr(0, length)), "append");
    if (dies) die();
    return fails ? full(path) : Result<void>{};
  }

 private:
  void put(const std::string& path, std::string text, const char* how) {
    if (program_) world_.log(fmt::format("{} {} {:016x}", how, path, text_hash(text)));
    std::string& content = world_.disk.content[path];
    content = std::move(text);
    world_.with_machine([&](Machine& machine) {
      if (path == actuate::journal_path(kFleetDir)) {
        world_.oracle->journal_is(content, machine);
      } else if (path == actuate::assignment_path(kFleetDir)) {
        world_.oracle->assignment_is(content, machine);
      }
    });
  }
  [[noreturn]] void die() {
    world_.log(program_ ? "death at the disk" : "supervisor-death at the disk");
    if (program_) throw Killed{};
    throw SupervisorKilled{};
  }
  Result<void> full(const std::string& path) {
    world_.log("disk-error " + path);
    return environment_error(path, "no space left on device");
  }

  FleetWorld& world_;
  bool program_;
};

// ---- the driver ----

class FleetWorld::DriverDoor final : public device::NodeDriver {
 public:
  explicit DriverDoor(FleetWorld& world) : world_(world) {}
  Result<device::DriverInfo> info() override { return world_.inner_->info(); }
  Result<device::GpuState> read(int gpu) override {
    if (world_.chance(world_.faults.read_error)) {
      world_.log(fmt::format("read-error gpu {}", gpu));
      return failed({ErrorCode::environment, "the driver does not answer", "read"});
    }
    Result<device::GpuState> state = world_.inner_->read(gpu);
    if (state) world_.oracle->looked(gpu, *state);
    return state;
  }
  Result<std::vector<device::ProfileInfo>> profiles(int gpu) override {
    return world_.inner_->profiles(gpu);
  }
  Result<device::ModeChange> set_mig_mode(int gpu, bool enabled) override {
    return around(fmt::format("set_mig_mode gpu {}", gpu),
                  [&] { return world_.inner_->set_mig_mode(gpu, enabled); });
  }
  Result<int> create_instance(int gpu, const device::Placement& at) override {
    world_.with_machine([&](Machine& machine) {
      world_.oracle->before_create(machine, gpu, at.nvml_enum, at.start);
    });
    return around(fmt::format("create_instance gpu {} {} at {}", gpu, at.nvml_enum, at.start),
                  [&] { return world_.inner_->create_instance(gpu, at); });
  }
  Result<void> destroy_instance(int gpu, int gi_id) override {
    before_destroy(gpu, gi_id);
    return around(fmt::format("destroy_instance gpu {} gi {}", gpu, gi_id),
                  [&] { return world_.inner_->destroy_instance(gpu, gi_id); });
  }
  Result<device::ComputeInstance> create_compute(int gpu, int gi_id) override {
    world_.with_machine(
        [&](Machine& machine) { world_.oracle->before_create_compute(machine, gpu, gi_id); });
    return around(fmt::format("create_compute gpu {} gi {}", gpu, gi_id),
                  [&] { return world_.inner_->create_compute(gpu, gi_id); });
  }
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override {
    before_destroy(gpu, gi_id);
    return around(fmt::format("destroy_compute gpu {} gi {} ci {}", gpu, gi_id, ci_id),
                  [&] { return world_.inner_->destroy_compute(gpu, gi_id, ci_id); });
  }
  Result<telemetry::GpuSample> telemetry(int gpu) override { return world_.inner_->telemetry(gpu); }
  Result<device::PowerState> power_settings(int gpu) override {
    return world_.inner_->power_settings(gpu);
  }
  Result<void> set_power_settings(int gpu, const device::PowerSettings& settings) override {
    return around(fmt::format("set_power_settings gpu {}", gpu),
                  [&] { return world_.inner_->set_power_settings(gpu, settings); });
  }

 private:
  void before_destroy(int gpu, int gi_id) {
    world_.with_machine(
        [&](Machine& machine) { world_.oracle->before_destroy(machine, gpu, gi_id); });
  }
  template <class Act>
  auto around(const std::string& what, Act act) -> decltype(act());

  FleetWorld& world_;
};

// Anything may go wrong with a call, before or after its effect: no answer for a while, an error, a
// death.
template <class Act>
auto FleetWorld::DriverDoor::around(const std::string& what, Act act) -> decltype(act()) {
  if (world_.chance(world_.faults.hang)) {
    world_.log("hang " + what);
    world_.clock.sleep_ns(static_cast<std::int64_t>(world_.rng.uniform() * 4 * kFleetWorldSecond));
  }
  const bool dies = world_.chance(world_.faults.death);
  const bool fails = !dies && world_.chance(world_.faults.driver_error);
  const bool happens = (!dies && !fails) || world_.rng.below(2) == 0;
  decltype(act()) answer = failed({ErrorCode::timeout, "no answer", what});
  if (happens) {
    answer = act();
    world_.log(what + (answer ? "" : ": " + to_string(answer.error().code)));
    world_.with_machine([&](Machine& machine) { world_.oracle->check(machine); });
  }
  if (dies) {
    world_.log("death at " + what);
    throw Killed{};
  }
  if (fails) {
    const std::vector<std::string> words = error_code_words();
    const ErrorCode code = *parse_error_code(words[world_.pick(words.size())]);
    world_.log(fmt::format("driver-error {} {}", to_string(code), what));
    return failed({code, "a fault of the driver", what});
  }
  return answer;
}

// ---- processes ----

// Starts workers on the devices of the machine.
class FleetWorld::ProcessesDoor final : public Processes {
 public:
  explicit ProcessesDoor(FleetWorld& world) : world_(world) {}
  Result<Pid> start(const ProcessSpec& spec) override {
    const Result<Pid> pid = world_.processes->start(spec);
    if (pid) attach(*pid, spec.environment.at("CUDA_VISIBLE_DEVICES"));
    return pid;
  }
  std::vector<ProcessExit> exited() override {
    world_.settle();
    return world_.processes->exited();
  }
  Result<void> stop(Pid pid, StopSignal signal) override {
    world_.log(fmt::format("stop {} {}", pid, signal == StopSignal::kill ? "kill" : "terminate"));
    return world_.processes->stop(pid, signal);
  }
  bool alive(Pid pid) override { return world_.processes->alive(pid); }
  std::string identity(Pid pid) override { return world_.processes->identity(pid); }
  Result<void> adopt(Pid pid, const std::string& identity) override {
    return world_.processes->adopt(pid, identity);
  }
  std::map<Pid, std::string> find(const std::string& variable) override {
    return world_.processes->find(variable);
  }
  void end_family(const std::string& variable, const std::string& value) override {
    world_.processes->end_family(variable, value);
  }

 private:
  // A program whose device is not there ends at once.
  void attach(Pid pid, const std::string& device) {
    bool found = false;
    world_.with_machine([&](Machine& machine) {
      for (std::size_t g = 0; g < machine.gpus().size(); ++g) {
        for (const SimInstance& instance : machine.gpus()[g].instances) {
          for (const auto& compute : instance.compute) {
            if (compute.uuid != device) continue;
            const int gpu = static_cast<int>(g);
            found = machine.attach(gpu, {pid, "worker", instance.gi_id, compute.ci_id}).has_value();
            return;
          }
        }
      }
    });
    world_.log(fmt::format("start {} on {}{}", pid, device, found ? "" : ", which is not there"));
    if (found) {
      world_.workers[pid] = device;
    } else {
      world_.processes->crash(pid, 1);
    }
  }

  FleetWorld& world_;
};

SimBehaviour FleetWorld::behaviour() {
  SimBehaviour behaviour;
  behaviour.stop_ns = static_cast<std::int64_t>(rng.uniform() * kFleetWorldSecond / 2);
  if (chance(faults.worker_fails)) {
    behaviour.run_ns = static_cast<std::int64_t>(rng.uniform() * 8 * kFleetWorldSecond);
    behaviour.status = 1;
  }
  behaviour.heeds_terminate = !chance(faults.worker_stubborn);
  return behaviour;
}

void FleetWorld::end_process(Pid pid) {
  with_machine([&](Machine& machine) { machine.detach(pid); });
  workers.erase(pid);
  log(fmt::format("end {}", pid));
}

// Processes that ended let go of their devices.
void FleetWorld::settle() {
  std::vector<Pid> ended;
  for (const auto& [pid, device] : workers) {
    if (!processes->alive(pid)) ended.push_back(pid);
  }
  for (const Pid pid : ended) end_process(pid);
}

void FleetWorld::start_supervisor() {
  actuate::WorkerPolicy policy;
  policy.grace_ns = 2 * kFleetWorldSecond;
  policy.first_wait_ns = kFleetWorldSecond / 5;
  policy.longest_wait_ns = 2 * kFleetWorldSecond;
  policy.seldom_ns = 4 * kFleetWorldSecond;
  policy.quick_ns = kFleetWorldSecond;
  actuate::SupervisorOptions options{
      .command = *actuate::parse_command("command", "serve {service}"),
      .state_file = std::string(kFleetDir) + "/workers.json",
      .log_dir = "",
      .policy = policy};
  options.hooks.say = [this](const std::string& line) { log("supervisor: " + line); };
  supervisor = std::make_unique<actuate::Supervisor>(*processes_door_, *supervisor_files_,
                                                     std::move(options));
  const Result<void> recovered = supervisor->recover(clock.now);
  if (!recovered) oracle->violations.push_back("no supervisor: " + to_string(recovered.error()));
  followed_.clear();
}

void FleetWorld::kill_supervisor() {
  if (!supervisor) return;
  supervisor.reset();
  processes->orphan_all();
  next_supervision_ = clock.now + static_cast<std::int64_t>(rng.uniform() * 3 * kFleetWorldSecond);
  log("supervisor-death");
}

void FleetWorld::supervise() {
  try {
    if (!supervisor) start_supervisor();
    const auto file = disk.content.find(actuate::assignment_path(kFleetDir));
    if (file != disk.content.end() && file->second != followed_) {
      followed_ = file->second;
      const auto assignment = actuate::parse_assignment(file->first, followed_);
      if (assignment) supervisor->follow(*assignment);
      if (!assignment) oracle->violations.push_back(to_string(assignment.error()));
    }
    next_supervision_ = supervisor->step(clock.now);
  } catch (const SupervisorKilled&) {
    kill_supervisor();
  }
}

// ---- the world ----

FleetWorld::FleetWorld(const std::vector<Machine::Gpus>& gpus, std::uint64_t seed, std::FILE* echo)
    : rng(Rng(seed).split(7)), log_(echo) {
  machine_ = sim_driver::own_machine(Machine(gpus, "fleet " + std::to_string(seed)), clock, 1);
  inner_ = std::make_unique<sim_driver::SimDriver>(*machine_);
  program_files_ = std::make_unique<FilesDoor>(*this, true);
  supervisor_files_ = std::make_unique<FilesDoor>(*this, false);
  driver_ = std::make_unique<DriverDoor>(*this);
  processes =
      std::make_unique<SimProcesses>(clock, [this](const ProcessSpec&) { return behaviour(); });
  processes_door_ = std::make_unique<ProcessesDoor>(*this);
  oracle = std::make_unique<FleetOracle>();
}

actuate::Doors FleetWorld::doors() {
  return {*driver_, *program_files_, clock, hw::builtin_catalogue(), kFleetDir};
}

void FleetWorld::advance(std::int64_t until) {
  while (clock.now < until) {
    const std::int64_t before = clock.now;
    clock.now = std::min({until, std::max(next_supervision_, before + 1), before + kSlice});
    settle();
    if (clock.now >= next_supervision_) supervise();
    disturb(clock.now - before);
  }
}

void FleetWorld::disturb(std::int64_t ns) {
  const double seconds = static_cast<double>(ns) * 1e-9;
  with_machine([&](Machine& machine) { oracle->check(machine); });
  for (auto it = intruders.begin(); it != intruders.end();) {
    const auto [pid, until] = *it++;
    if (clock.now >= until) remove_intruder(pid);
  }
  if (chance(faults.stray * seconds)) add_stray();
  if (chance(faults.stray_leaves * seconds)) remove_stray();
  if (chance(faults.intruder * seconds)) add_intruder();
  if (chance(faults.worker_crash * seconds)) crash_worker();
  if (chance(faults.supervisor_death * seconds)) kill_supervisor();
  int gpus = 0;
  with_machine([&](Machine& machine) { gpus = static_cast<int>(machine.gpus().size()); });
  if (chance(faults.lost * seconds))
    lose_gpu(static_cast<int>(pick(static_cast<std::size_t>(gpus))));
  if (chance(faults.back * seconds)) {
    for (int gpu = 0; gpu < gpus; ++gpu) regain_gpu(gpu);
  }
  if (chance(faults.reboot * seconds)) {
    reboot();
    if (program_runs) throw Killed{};
  }
}

// What ran on a GPU is dead.
void FleetWorld::lose_gpu(int gpu) {
  std::vector<Pid> dead;
  with_machine([&](Machine& machine) {
    for (const auto& process : machine.find(gpu)->processes) dead.push_back(process.pid);
    machine.lose(gpu);
    oracle->wiped(gpu, machine.find(gpu)->uuid);
  });
  log(fmt::format("lost gpu {}", gpu));
  for (const Pid pid : dead) {
    if (intruders.erase(pid) > 0) continue;
    processes->crash(pid, 135);
  }
  settle();
  ++disturbances;
}

void FleetWorld::regain_gpu(int gpu) {
  bool back = false;
  with_machine([&](Machine& machine) {
    back = machine.find(gpu)->lost;
    machine.regain(gpu);
  });
  if (!back) return;
  log(fmt::format("back gpu {}", gpu));
  ++disturbances;
}

void FleetWorld::reset_gpu(int gpu) {
  with_machine([&](Machine& machine) {
    if (machine.reset(gpu)) oracle->wiped(gpu, machine.find(gpu)->uuid);
  });
  log(fmt::format("reset gpu {}", gpu));
}

void FleetWorld::reboot() {
  log("reboot");
  kill_supervisor();
  for (const auto& [pid, device] : workers) processes->crash(pid, 137);
  settle();
  intruders.clear();
  with_machine([&](Machine& machine) {
    machine.reboot();
    for (std::size_t g = 0; g < machine.gpus().size(); ++g) {
      oracle->wiped(static_cast<int>(g), machine.gpus()[g].uuid);
    }
  });
  ++disturbances;
}

// ---- other people ----

// Somebody creates an instance: whole, without compute instance, or with a smaller one.
void FleetWorld::add_stray() {
  with_machine([&](Machine& machine) {
    const int gpu = static_cast<int>(pick(machine.gpus().size()));
    const SimGpu& at = *machine.find(gpu);
    if (at.lost || !at.mig) return;
    const int number = static_cast<int>(pick(at.model->profiles.size()));
    const hw::MigProfile& profile = at.model->profiles[static_cast<std::size_t>(number)];
    const int start = profile.starts[pick(profile.starts.size())];
    if (oracle->announced({at.uuid, profile.name, start})) return;
    const auto made = machine.create_instance(gpu, number, start);
    if (!made) return;
    oracle->made_by_others(gpu, made->value);
    const std::uint64_t shape = rng.below(8);
    const int gpcs = shape == 0 ? 0 : shape == 1 ? 1 : profile.gpcs;
    if (gpcs > 0) CHECK(machine.create_compute(gpu, made->value, gpcs, 0).has_value());
    log(fmt::format("stray gpu {} {} at {} gi {} with {} slices", gpu, profile.name, start,
                    made->value, gpcs));
    ++disturbances;
  });
}

// Somebody destroys one of the instances that others made.
void FleetWorld::remove_stray() {
  with_machine([&](Machine& machine) {
    std::vector<InstanceKey> strays;
    for (std::size_t g = 0; g < machine.gpus().size(); ++g) {
      for (const SimInstance& one : machine.gpus()[g].instances) {
        const InstanceKey key{static_cast<int>(g), one.gi_id};
        if (oracle->is_stray(key.first, key.second)) strays.push_back(key);
      }
    }
    if (strays.empty()) return;
    const auto [gpu, gi_id] = strays[pick(strays.size())];
    const SimInstance gone = *machine.find(gpu)->find(gi_id);
    for (const auto& compute : gone.compute) {
      if (!machine.destroy_compute(gpu, gi_id, compute.ci_id)) return;  // somebody uses it
    }
    if (!machine.destroy_instance(gpu, gi_id)) return;
    oracle->removed_by_others(gpu, gi_id);
    log(fmt::format("stray-leaves gpu {} gi {}", gpu, gi_id));
    ++disturbances;
  });
}

// Somebody runs a program on some instance.
void FleetWorld::add_intruder() {
  with_machine([&](Machine& machine) {
    const int gpu = static_cast<int>(pick(machine.gpus().size()));
    const std::vector<SimInstance>& instances = machine.find(gpu)->instances;
    if (instances.empty()) return;
    const SimInstance& instance = instances[pick(instances.size())];
    if (instance.compute.empty()) return;
    const std::int64_t pid = next_pid_++;
    const bool stays = rng.below(2) == 0;
    const auto seconds = static_cast<std::int64_t>(stays ? 1'000'000 : 1 + rng.below(10));
    const int ci_id = instance.compute.front().ci_id;
    CHECK(machine.attach(gpu, {pid, "intruder", instance.gi_id, ci_id}).has_value());
    intruders[pid] = clock.now + seconds * kFleetWorldSecond;
    log(fmt::format("intruder {} gpu {} gi {} for {} s", pid, gpu, instance.gi_id, seconds));
  });
}

void FleetWorld::remove_intruder(std::int64_t pid) {
  with_machine([&](Machine& machine) { machine.detach(pid); });
  intruders.erase(pid);
  log(fmt::format("intruder-leaves {}", pid));
}

void FleetWorld::crash_worker() {
  if (workers.empty()) return;
  auto victim = workers.begin();
  std::advance(victim, pick(workers.size()));
  log(fmt::format("worker-crash {}", victim->first));
  processes->crash(victim->first, 139);
  settle();
}

}  // namespace partita::actuation_tests
