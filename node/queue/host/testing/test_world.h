// A machine for tests of the queue: instances and processes that exist in virtual time, outlive the
// queue's host as real ones do, and are checked at every step: nothing overlaps, no attempt begins
// twice. Dies on purpose after a number of operations, before or after their effect.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "queue/host/host.h"

namespace partita::queue::test {

struct Crash {};

inline constexpr Nanos kSec = 1'000'000'000;
inline constexpr Nanos kEpoch = 1'700'000'000 * kSec;

class World final : public AttemptDoor, public InstanceDoor {
 public:
  explicit World(const hw::GpuModel& gpu_model) : model(gpu_model) {}

  // ---- what tests set
  hw::GpuModel model;
  Nanos now = kEpoch;
  long until_crash = 0;  // operations; 0: never
  double refusals = 0;   // share of the driver's calls that it refuses
  Rng rng{1};
  std::function<int(const Task&)> status = [](const Task&) { return 0; };
  std::function<double(const Task&)> factor = [](const Task&) { return 1.0; };
  bool heeds = true;        // processes end when they are asked to
  bool save_hangs = false;  // checkpoints never end
  std::vector<Place> others;  // instances of others: nothing is made where they are

  // ---- what tests read
  std::vector<std::string> faults;
  std::map<std::pair<long, int>, int> started;
  std::map<long, int> completed;  // with status 0
  std::vector<Task> starts;       // in order
  std::map<std::pair<int, int>, std::pair<std::string, int>>
      instances;  // (gpu, start): profile, size
  long saves = 0;
  std::set<long> saving;  // tasks whose checkpoint hangs

  void may_crash() {
    if (until_crash > 0 && --until_crash == 0) throw Crash{};
  }

  // ---- processes
  struct Process {
    Task task;
    Nanos ends = 0;
    int code = 0;
    bool watched = true;
  };
  std::map<Pid, Process> processes;
  std::set<std::pair<long, int>> claimed;

  Result<Began> start(const Task& task) override {
    may_crash();
    const std::pair key{task.id, task.attempts};
    if (++started[key] > 1) faults.push_back(fmt::format("task {} began twice", task.id));
    for (const auto& [pid, process] : processes) {
      if (process.ends > now && overlap(process.task.places, task.places))
        faults.push_back(fmt::format("tasks {} and {} share", process.task.id, task.id));
    }
    const bool is_there = check_places(task);
    if (!claimed.insert(key).second)
      faults.push_back(fmt::format("attempt {} of task {} was taken", task.attempts, task.id));
    starts.push_back(task);
    double time_s = 1;
    const hw::MigProfile& profile =
        model.profiles[at(model.profile_index(task.places.front().profile))];
    for (const KnownTime& known : task.spec.times) {
      if (known.gpcs == profile.gpcs || known.gpcs == 0) time_s = known.time_s;
    }
    const auto takes = static_cast<Nanos>(time_s * factor(task) * 1e9);
    processes[next_pid_] = {task, now + takes, status(task)};
    if (!is_there) processes[next_pid_].ends = now, processes[next_pid_].code = 1;
    const Pid pid = next_pid_++;
    may_crash();
    return Began{task.id, pid, "id", "boot"};
  }
  Event recover(const Task& task) override {
    const std::pair attempt{task.id, task.attempts};
    if (const auto known = past_.find(attempt); known != past_.end())
      return Ended{task.id, known->second, known->second ? ends_.at(attempt) : 0};
    for (auto& [pid, process] : processes) {
      if (process.task.id != task.id || process.task.attempts != task.attempts) continue;
      if (process.ends <= now) {
        complete(process);
        const int code = process.code;
        processes.erase(pid);
        return Ended{task.id, code, ends_.at(attempt)};
      }
      process.watched = true;
      return Began{task.id, pid, "id", "boot"};
    }
    const bool fresh = claimed.insert({task.id, task.attempts}).second;
    if (fresh) return NotBegun{task.id, "never started", false};
    return Ended{task.id, {}};
  }
  std::vector<Event> ended() override {
    std::vector<Event> events;
    for (auto it = processes.begin(); it != processes.end();) {
      Process& process = it->second;
      const bool ended = process.watched && process.ends <= now;
      if (ended) {
        complete(process);
        events.emplace_back(Ended{process.task.id, process.code});
      }
      it = ended ? processes.erase(it) : std::next(it);
    }
    for (const long task : std::exchange(saved_, {})) events.emplace_back(Saved{task});
    return events;
  }
  void stop(Pid pid, StopSignal signal) override {
    const auto found = processes.find(pid);
    if (found == processes.end()) return;
    Process& process = found->second;
    if (process.ends <= now || (signal == StopSignal::terminate && !heeds)) return;
    process.ends = now;
    process.code = signal == StopSignal::kill ? 137 : 143;
  }
  void save(const Task& task) override {
    ++saves;
    if (save_hangs)
      saving.insert(task.id);
    else
      saved_.push_back(task.id);
  }
  void stop_save(long task) override {
    if (saving.erase(task) == 0) faults.push_back(fmt::format("task {} saves nothing", task));
  }

  // ---- instances
  Result<std::string> create(const Place& place) override {
    may_crash();
    if (rng.uniform() < refusals) return failed({ErrorCode::no_room, "refused", ""});
    const int size = model.profiles[at(model.profile_index(place.profile))].size;
    std::vector<hw::PlacedProfile> beside = {{model.profile_index(place.profile), place.start}};
    const std::string device = fmt::format("MIG-{}-{}-{}", place.gpu, place.start, place.profile);
    const auto found = instances.find({place.gpu, place.start});
    if (found != instances.end() && found->second.first == place.profile) return device;
    for (const auto& [key, other] : instances) {
      if (key.first == place.gpu) beside.push_back({model.profile_index(other.first), key.second});
    }
    if (!others.empty()) {
      std::vector<hw::PlacedProfile> all = beside;
      for (const Place& other : others)
        if (other.gpu == place.gpu)
          all.push_back({model.profile_index(other.profile), other.start});
      if (hw::conflicts(model, all).size() > hw::conflicts(model, beside).size())
        return failed({ErrorCode::no_room, "others are there", ""});
    }
    for (const hw::Conflict& conflict : hw::conflicts(model, beside))
      faults.push_back(fmt::format("{}@{}: {}", place.profile, place.start, conflict.constraint));
    instances[{place.gpu, place.start}] = {place.profile, size};
    may_crash();
    return device;
  }
  Result<void> destroy(const Place& place) override {
    may_crash();
    if (rng.uniform() < refusals) return failed({ErrorCode::in_use, "refused", ""});
    for (const auto& [pid, process] : processes) {
      if (process.ends > now && overlap(process.task.places, {place}))
        faults.push_back(fmt::format("task {} lost its instance", process.task.id));
    }
    instances.erase({place.gpu, place.start});
    may_crash();
    return {};
  }
  Result<Seen> look() override {
    unseen_.clear();
    Seen seen{.ours = {}, .others = others};
    for (const auto& [key, instance] : instances)
      seen.ours.push_back({{instance.first, key.second},
                           key.first,
                           fmt::format("MIG-{}-{}-{}", key.first, key.second, instance.first)});
    return seen;
  }

  Nanos next_end() const {
    if (!saved_.empty()) return now + 1;
    Nanos next = INT64_MAX;
    for (const auto& [pid, process] : processes) {
      if (process.watched && process.ends <= now) return now + 1;
      if (process.ends > now) next = std::min(next, process.ends);
    }
    return next;
  }
  void orphan() {
    for (auto& [pid, process] : processes) process.watched = false;
  }
  // A GPU is off the bus, and others have it: its instances are gone, and what runs there fails, or
  // `hangs` until it is asked to end.
  void lose(int gpu, bool hangs = false) {
    for (auto& [pid, process] : processes)
      if (!hangs && process.ends > now &&
          std::ranges::count(process.task.places, gpu, &Place::gpu) > 0) {
        process.ends = now;
        process.code = 1;
      }
    std::erase_if(instances, [&](const auto& one) {
      if (one.first.first == gpu) unseen_.insert(one.first);
      return one.first.first == gpu;
    });
  }
  void reboot() {
    std::erase_if(processes, [&](const auto& one) {
      const Process& process = one.second;
      if (process.ends <= now) return false;
      past_[{process.task.id, process.task.attempts}] = std::nullopt;
      return true;
    });
    instances.clear();
  }

 private:
  // As many instances as it asks for, of one profile that it may have, all there, none twice.
  // Whether they are: one may have gone with its GPU, which nobody knows until somebody looks.
  bool check_places(const Task& task) {
    const auto fault = [&](const char* what) {
      faults.push_back(fmt::format("task {} {}", task.id, what));
    };
    if (static_cast<int>(task.places.size()) != task.spec.gpus) fault("has not what it asks for");
    const std::string& profile = task.places.front().profile;
    if (std::ranges::count(profiles_for(task.spec, model), model.profile_index(profile)) == 0)
      fault("has another profile than it may");
    std::set<std::string> devices;
    bool all = true;
    for (const Place& place : task.places) {
      if (!devices.insert(place.device).second) fault("has an instance twice");
      if (place.profile != profile) fault("has several profiles");
      const auto there = instances.find({place.gpu, place.start});
      if (there != instances.end() && there->second.first == place.profile) continue;
      all = false;
      if (!unseen_.contains({place.gpu, place.start})) fault("has no instance");
    }
    return all;
  }
  void complete(Process& process) {
    const std::pair attempt{process.task.id, process.task.attempts};
    past_[attempt] = process.code;
    ends_[attempt] = process.ends / 1'000'000;
    if (process.code == 0) ++completed[process.task.id];
  }
  bool overlap(const std::vector<Place>& a, const std::vector<Place>& b) const {
    for (const Place& x : a) {
      for (const Place& y : b) {
        const int xs = model.profiles[at(model.profile_index(x.profile))].size;
        const int ys = model.profiles[at(model.profile_index(y.profile))].size;
        if (x.gpu == y.gpu && x.start < y.start + ys && y.start < x.start + xs) return true;
      }
    }
    return false;
  }

  std::map<std::pair<long, int>, std::optional<int>> past_;  // how attempts ended; nothing: so
  std::map<std::pair<long, int>, long> ends_;                // and when, ms
  std::set<std::pair<int, int>> unseen_;  // GPU, start: gone since somebody looked last
  Pid next_pid_ = 100;
  std::vector<long> saved_;
};

inline Config config_on(const hw::GpuModel& model, int gpus) {
  Config config;
  config.models = {model};
  config.reconfigurer.gpus_per_node = std::max(1, gpus);
  for (int i = 0; i < gpus; ++i) {
    config.gpus.push_back(0);
    config.indices.push_back(i);
  }
  config.planning.appends = 2'000;  // tests are many
  return config;
}

// A host on that world, carried on in virtual time, and begun again after every crash.
class Machine {
 public:
  Machine(World& world, QueueStore& store, Config config)
      : world_(world), store_(store), config_(std::move(config)) {
    open();
  }
  Host& host() { return *host_; }
  long crashes() const { return crashes_; }

  template <class Act>
  auto guarded(const Act& act, decltype(act()) otherwise) {
    try {
      return act();
    } catch (const Crash&) {
      revive();
      return otherwise;
    }
  }
  Result<std::vector<Task>> submit(const Spec& spec) {
    return guarded([&] { return host_->submit(spec, world_.now); },
                   failed({ErrorCode::environment, "crash", ""}));
  }
  Result<void> ask(Asked::What what, long task) {
    return guarded(
        [&] {
          return host_->ask({what, task}, world_.now);
        },
        Result<void>(failed({ErrorCode::environment, "crash", ""})));
  }

  // Until that time, or until nothing is open any more: true.
  bool run_until(Nanos end) {
    while (world_.now <= end) {
      const std::optional<Nanos> wake = guarded([&] { return step(); }, std::optional(world_.now));
      if (host_->queue().tasks().size() == 0 && !call_) return true;
      Nanos next = world_.next_end();
      if (wake) next = std::min(next, std::max(*wake, world_.now + 1));
      if (call_) next = std::min(next, call_ends_);
      if (next > end) break;
      world_.now = next;
    }
    world_.now = std::max(world_.now, end);
    return false;
  }

  void revive() {
    ++crashes_;
    host_.reset();
    call_.reset();
    world_.orphan();
    // Opening may crash, too, as often as the world is set to.
    for (;;) {
      try {
        open();
        return;
      } catch (const Crash&) {
        ++crashes_;
      }
    }
  }
  std::function<void()> on_revival = {};

 private:
  void open() {
    if (on_revival && crashes_ > 0) on_revival();
    auto opened = Host::open(config_, {store_, world_, world_}, world_.now);
    if (!opened) throw std::runtime_error(to_string(opened.error()));
    host_ = *std::move(opened);
  }
  std::optional<Nanos> step() {
    if (call_ && call_ends_ <= world_.now) {
      const Host::Call call = *std::exchange(call_, {});
      host_->call_done(call, *answer_, world_.now);
    }
    std::optional<Nanos> wake = host_->turn(world_.now);
    if (call_) return wake;
    if (host_->wants_look()) {
      host_->saw(world_.look());
      wake = host_->turn(world_.now);
    }
    if (const auto call = host_->next_call()) {
      answer_ = std::string();
      if (call->create) {
        answer_ = world_.create(call->place);
      } else if (const auto done = world_.destroy(call->place); !done) {
        answer_ = failed(done.error());
      }
      call_ = call;
      call_ends_ = world_.now + kSec / 5;
    }
    return wake;
  }

  World& world_;
  QueueStore& store_;
  Config config_;
  std::unique_ptr<Host> host_;
  std::optional<Host::Call> call_;
  std::optional<Result<std::string>> answer_;
  Nanos call_ends_ = 0;
  long crashes_ = 0;
};

}  // namespace partita::queue::test
