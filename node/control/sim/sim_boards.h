// SimBoards: the GPUs of a simulated node, a machine of drivers/sim, and what happens to them: they
// fall off the bus and come back, report XIDs and errors, and others change their instances.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/processes.h"
#include "base/rng.h"
#include "control/host/agent.h"
#include "device/health.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"

namespace partita::control {

class SimBoards {
 public:
  SimBoards(drivers::sim::Machine machine, Clock& clock, drivers::sim::PowerRights rights);

  device::NodeDriver& driver() { return *driver_; }  // also their meters
  drivers::sim::Machine machine() const;             // a copy
  device::NodeState look() const;
  int used() const;  // with instances or processes
  double energy_j() const;
  std::set<std::string> devices() const;  // MIG devices
  const std::string& uuid_of(int gpu) const { return gpus_[static_cast<std::size_t>(gpu)].uuid; }
  const std::string& model_of(int gpu) const { return gpus_[static_cast<std::size_t>(gpu)].model; }

  // ---- processes on MIG devices, and on groups of whole GPUs
  // The GPU that has it, of a group the first; nothing: it is not there.
  std::optional<int> gpu_of(const std::string& device) const;
  // A process holds it until it lets go; false where it is not there. `busy`: the share of time in
  // which it computes.
  bool hold(const std::string& device, Pid pid, const std::string& name,
            std::optional<double> busy = {});
  void let_go(Pid pid);

  // ---- what goes wrong
  int healthy(Rng& rng) const;  // any GPU that is there; -1: none
  void lose(int gpu);
  void regain(int gpu);
  void report_xid(int gpu, int xid);
  void add_error(int gpu) { ++*ill(gpu).uncorrected_errors; }
  void cure(int gpu) { ills_.erase(uuid_of(gpu)); }
  void reboot();
  // Somebody destroys an instance, whoever uses it, or makes a small one.
  void change_by_others(Rng& rng);
  const std::set<std::string>& foreign() const { return foreign_; }  // devices that others made
  // What a watch of their health has to say; `silent`: nothing can be read.
  std::vector<HealthEvent> take_health(bool silent);
  // A watch that has only just begun: what was said before is not heard.
  void watch_anew();
  // Hears what happens to them.
  std::function<void(const std::string& what, const std::string& text)> told = {};

 private:
  template <class Use>
  void with(Use use) const {
    CHECK(machine_->with(use).has_value());
  }
  device::HealthReading& ill(int gpu);
  void tell(const std::string& what, const std::string& text) const {
    if (told) told(what, text);
  }

  std::unique_ptr<drivers::sim::SharedMachine> machine_;
  std::unique_ptr<drivers::sim::SimDriver> driver_;
  struct Names {
    std::string uuid, model;
  };
  std::vector<Names> gpus_;
  std::vector<HealthEvent> news_;                      // XIDs that were not heard yet
  std::map<std::string, device::HealthReading> ills_;  // by UUID
  device::HealthChanges health_changes_;
  std::set<std::string> foreign_;
};

}  // namespace partita::control
