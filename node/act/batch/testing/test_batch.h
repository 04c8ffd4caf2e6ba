// What tests of act/batch share: scripts by hand, and a driver whose answers are written down. For
// tests only.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "act/batch/script.h"
#include "device/node_driver.h"

namespace partita::exec::test {

// One A30 (device 4): visit 0 has the whole of it and runs c; then visits 1 and 2 have a half each
// and run a, which comes after c, and b. All times in nanoseconds.
inline Script halves() {
  Script script;
  script.gpus = {{.device = 4, .model = "A30-24GB"}};
  script.visits = {
      {.place = {"4g.24gb", 0}, .nvml_enum = 3, .size = 4, .tasks = {0}},
      {.place = {"2g.12gb", 0}, .nvml_enum = 1, .size = 2, .tasks = {1}, .after = {0}},
      {.place = {"2g.12gb", 2}, .nvml_enum = 1, .size = 2, .tasks = {2}, .after = {0}}};
  script.tasks = {{.name = "c", .command = "run c", .visit = 0, .planned = {10, 30}},
                  {.name = "a", .command = "run a", .visit = 1, .after = {0}, .planned = {50, 70}},
                  {.name = "b", .command = "run b", .visit = 2, .planned = {60, 90}}};
  script.gpus[0].changes = {{.visit = 0, .create = true, .planned = Planned{0, 10}},
                            {.visit = 0, .create = false, .planned = Planned{30, 40}},
                            {.visit = 1, .create = true, .planned = Planned{40, 50}},
                            {.visit = 2, .create = true, .planned = Planned{50, 60}},
                            {.visit = 1, .create = false},
                            {.visit = 2, .create = false}};
  script.planned_makespan = 90;
  return script;
}

// One instance of it for all of its tasks, one after the other.
inline Script row(const std::vector<std::string>& names) {
  Script script;
  script.gpus = {{.device = 0, .model = "A30-24GB"}};
  script.visits = {{.place = {"2g.12gb", 2}, .nvml_enum = 1, .size = 2}};
  script.gpus[0].changes = {{.visit = 0, .create = true, .planned = Planned{0, 10}},
                            {.visit = 0, .create = false}};
  for (const std::string& name : names) {
    script.visits[0].tasks.push_back(static_cast<int>(script.tasks.size()));
    script.tasks.push_back({.name = name, .command = "run " + name});
  }
  return script;
}

inline device::Instance instance(const std::string& profile, int start, int size, int gi_id,
                                 const std::string& uuid = {}) {
  device::Instance made;
  made.profile = profile;
  made.start = start;
  made.size = made.gpcs = size;
  made.gi_id = gi_id;
  if (!uuid.empty()) made.compute = {{.ci_id = 0, .gpcs = size, .uuid = uuid}};
  return made;
}

// GPUs that are as the test says. Changes are made at once; the errors in `refuse` are what a call
// answers, those in `lose` instead of the answer of a call that took effect.
class ToldDriver final : public device::NodeDriver {
 public:
  std::map<int, device::GpuState> gpus;
  std::map<std::string, Error> refuse, lose;  // by method
  std::function<void(const std::string& method)> before = {};
  std::vector<std::string> calls;  // that change something
  int next_gi = 7;

  Result<device::DriverInfo> info() override { return device::DriverInfo{"told", "1", 1}; }
  Result<device::GpuState> read(int gpu) override {
    TRY(answer("read", refuse));
    const auto found = gpus.find(gpu);
    if (found == gpus.end()) return failed({ErrorCode::not_found, "no such GPU", "read"});
    return found->second;
  }
  Result<std::vector<device::ProfileInfo>> profiles(int) override {
    return std::vector<device::ProfileInfo>();
  }
  Result<device::ModeChange> set_mig_mode(int, bool) override { return device::ModeChange::done; }
  Result<int> create_instance(int gpu, const device::Placement& placement) override {
    return changed<int>("create_instance", [&] {
      const bool half = placement.nvml_enum == 1;
      gpus[gpu].instances.push_back(
          instance(half ? "2g.12gb" : "4g.24gb", placement.start, half ? 2 : 4, next_gi));
      return next_gi++;
    });
  }
  Result<void> destroy_instance(int gpu, int gi_id) override {
    return nothing_of(changed<bool>("destroy_instance", [&] {
      return std::erase_if(gpus[gpu].instances,
                           [&](const auto& one) { return one.gi_id == gi_id; }) > 0;
    }));
  }
  Result<device::ComputeInstance> create_compute(int gpu, int gi_id) override {
    return changed<device::ComputeInstance>("create_compute", [&] {
      device::ComputeInstance made{.ci_id = 0, .gpcs = 0, .uuid = "MIG-" + std::to_string(gi_id)};
      for (device::Instance& one : gpus[gpu].instances)
        if (one.gi_id == gi_id) one.compute.push_back({0, one.gpcs, made.uuid});
      return made;
    });
  }
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override {
    return nothing_of(changed<bool>("destroy_compute", [&] {
      for (device::Instance& one : gpus[gpu].instances)
        if (one.gi_id == gi_id)
          std::erase_if(one.compute, [&](const auto& c) { return c.ci_id == ci_id; });
      return true;
    }));
  }
  Result<telemetry::GpuSample> telemetry(int) override { return telemetry::GpuSample{}; }
  Result<device::PowerState> power_settings(int) override { return device::PowerState{}; }
  Result<void> set_power_settings(int, const device::PowerSettings&) override { return {}; }

 private:
  static Result<void> answer(const std::string& method, const std::map<std::string, Error>& all) {
    const auto found = all.find(method);
    if (found == all.end()) return {};
    return failed(found->second);
  }
  static Result<void> nothing_of(const Result<bool>& done) {
    if (!done) return failed(done.error());
    return {};
  }
  template <class T, class Act>
  Result<T> changed(const std::string& method, Act act) {
    calls.push_back(method);
    if (before) before(method);
    TRY(answer(method, refuse));
    T made = act();
    TRY(answer(method, lose));
    return made;
  }
};

}  // namespace partita::exec::test
