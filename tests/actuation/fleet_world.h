// The world of one run of the simulation fleet: a simulated machine, a disk, worker processes with
// the real supervisor, other people, and a clock that lets all of them act while the program under
// test sleeps. Everything happens in one thread and follows from one seed. A fault is drawn at
// every call at a door and every moment of waiting; the death of the program is a Killed that is
// thrown through it, as SIGKILL would end it.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "act/apply.h"
#include "act/workers.h"
#include "base/check.h"
#include "base/rng.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"
#include "fleet_oracle.h"
#include "sim/engine.h"

namespace partita::actuation_tests {

// Thrown through the program under test, and through the supervisor.
struct Killed {};
struct SupervisorKilled {};

// How often what happens; all 0: calm. Which of them a seed has is drawn once.
struct Faults {
  // Chances per call.
  double driver_error = 0, hang = 0, read_error = 0, disk_error = 0, death = 0;
  // Events per second.
  double stray = 0, stray_leaves = 0, intruder = 0, worker_crash = 0, lost = 0, back = 0,
         reboot = 0, supervisor_death = 0;
  // Chances per start of a worker: it ends by itself, it ignores being told to end.
  double worker_fails = 0, worker_stubborn = 0;
};
Faults draw_faults(Rng& rng);

// What happened, and its hash.
class FleetLog {
 public:
  explicit FleetLog(std::FILE* echo) : echo_(echo) {}
  void line(std::int64_t now_ns, const std::string& text);
  std::uint64_t hash() const { return log_.hash(); }
  std::map<std::string, long> counts;  // by first word

 private:
  std::FILE* echo_;
  sim::EventLog log_;
};

class FleetWorld;

class FleetClock final : public Clock {
 public:
  explicit FleetClock(FleetWorld& world) : world_(world) {}
  std::int64_t now_ns() override { return now; }
  std::int64_t cpu_ns() override { return now; }
  void sleep_ns(std::int64_t ns) override;
  std::int64_t now = 0;

 private:
  FleetWorld& world_;
};

class FleetWorld {
 public:
  FleetWorld(const std::vector<sim_driver::Machine::Gpus>& gpus, std::uint64_t seed,
             std::FILE* echo);

  // The doors as the program under test sees them.
  actuate::Doors doors();
  template <class Use>
  void with_machine(Use use) {
    CHECK(machine_->with(use).has_value());
  }
  void log(const std::string& text) { log_.line(clock.now, text); }

  // What others do.
  void lose_gpu(int gpu);
  void regain_gpu(int gpu);
  void reset_gpu(int gpu);
  void reboot();
  void add_stray();
  void remove_stray();
  void add_intruder();
  void remove_intruder(std::int64_t pid);
  void crash_worker();
  void kill_supervisor();
  // One of the events above, each as often as the faults say.
  void disturb(std::int64_t ns);
  // Lets time pass until `until`.
  void advance(std::int64_t until);

  Faults faults;
  Rng rng;
  FleetClock clock{*this};
  MemoryFiles disk;
  std::unique_ptr<FleetOracle> oracle;
  std::map<std::int64_t, std::int64_t> intruders;  // processes of others, until when they stay
  bool program_runs = false;
  long disturbances = 0;  // events that may undo what an operation just did
  std::unique_ptr<actuate::Supervisor> supervisor;
  std::unique_ptr<SimProcesses> processes;
  // Worker processes that live, with their device.
  std::map<Pid, std::string> workers;
  const FleetLog& events() const { return log_; }

 private:
  class FilesDoor;
  class DriverDoor;
  class ProcessesDoor;
  SimBehaviour behaviour();
  void supervise();
  void start_supervisor();
  void settle();
  void end_process(Pid pid);
  bool chance(double of) { return of > 0 && rng.uniform() < of; }
  // The index of a random element of something with `size` of them.
  std::size_t pick(std::size_t size) { return static_cast<std::size_t>(rng.below(size)); }

  FleetLog log_;
  std::unique_ptr<sim_driver::SharedMachine> machine_;
  std::unique_ptr<sim_driver::SimDriver> inner_;
  std::unique_ptr<Files> program_files_, supervisor_files_;
  std::unique_ptr<device::NodeDriver> driver_;
  std::unique_ptr<Processes> processes_door_;
  std::string followed_;  // the assignment file that the supervisor saw last
  std::int64_t next_supervision_ = 0;
  std::int64_t next_pid_ = 900'000;
};

inline constexpr const char* kFleetDir = "/state";

}  // namespace partita::actuation_tests
