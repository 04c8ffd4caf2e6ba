// A node in memory for tests of actuation: a simulated machine, a disk, a clock, and workers that
// follow the assignment file, all in one thread. Any mutating call at a door may be made to fail,
// or to be the last thing that the program did (a Crash is thrown through it, as SIGKILL would end
// it).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "act/apply.h"
#include "base/rng.h"
#include "drivers/sim/shared_machine.h"
#include "drivers/sim/sim_driver.h"
#include "sim/engine.h"

namespace partita::actuation_tests {

namespace sim_driver = drivers::sim;

struct Crash {};

// What befalls the n-th mutating call at a door.
struct Mishap {
  enum class Kind { none, crash_before, crash_after, torn, error, error_after };
  Kind kind = Kind::none;
  ErrorCode code = ErrorCode::environment;
};

class World;

// Time passes only in sleeps, and the workers act while it does.
class WorldClock final : public Clock {
 public:
  explicit WorldClock(World& world) : world_(world) {}
  std::int64_t now_ns() override { return now; }
  std::int64_t cpu_ns() override { return now; }
  void sleep_ns(std::int64_t ns) override;
  std::int64_t now = 0;

 private:
  World& world_;
};

class World {
 public:
  World(const std::vector<sim_driver::Machine::Gpus>& gpus, std::uint64_t seed);

  // The doors as the program under test sees them.
  actuate::Doors doors();
  // What is there, without any mishap.
  device::NodeState look();
  actuate::Assignment assignment();
  sim_driver::Machine machine();
  void change_machine(const std::function<void(sim_driver::Machine&)>& use);
  // As after a power cut: what was locked is free, what was running is gone.
  void restart_workers();

  // Called before each mutating call with its number from 1; none: nothing befalls it.
  std::function<Mishap(long)> mishap = [](long) { return Mishap{}; };
  long calls = 0;                     // mutating calls so far
  std::set<std::string> untouchable;  // MIG devices that must not be destroyed
  std::vector<std::string> violations;
  // Per service the capacity that must stay up; checked at every change.
  std::map<std::string, double> floor;
  std::function<double(const actuate::AssignedSegment&)> capacity_of;
  std::set<std::string> stubborn;      // services whose workers never leave
  std::int64_t leave_ns = 30'000'000;  // time that a worker takes to leave
  bool workers = true;
  sim::EventLog log;

  WorldClock clock{*this};
  MemoryFiles disk;

  void tick();
  Mishap next(const char* what);
  void check_floor();

 private:
  void start_group(sim_driver::Machine& machine, const actuate::AssignedSegment& segment);
  class FilesDoor;
  class DriverDoor;
  struct Worker {
    std::int64_t pid = 0;
    std::string service;
    std::int64_t leaving_since = -1;
  };
  std::unique_ptr<sim_driver::SharedMachine> machine_;
  std::unique_ptr<sim_driver::SimDriver> inner_;
  std::shared_ptr<Files> files_;
  std::shared_ptr<device::NodeDriver> driver_;
  std::map<std::string, Worker> running_;  // by device
  std::string followed_;                   // the assignment file that the workers saw last
  actuate::Assignment assigned_;
  std::int64_t next_pid_ = 1000;
};

inline constexpr const char* kStateDir = "/state";

// What is promised to the services that it has segments of.
std::vector<plan::Terms> services_of(const actuate::Wanted& wanted);

// A random legal layout for `gpus` GPUs of a model, of segments of services s0, s1 ...; `fill` is
// the chance that a free place is used.
actuate::Wanted random_wanted(const hw::GpuModel& model, int gpus, Rng& rng, double fill);
// The same with a few things changed: the usual next plan.
actuate::Wanted altered(const actuate::Wanted& wanted, const hw::GpuModel& model, Rng& rng);

// The same with some pairs of its GPUs as groups, where it has any.
actuate::Wanted with_groups(actuate::Wanted wanted, const hw::GpuModel& model, Rng& rng);

// How a node differs from what is wanted, on the GPUs of its models; empty: not at all.
std::string difference(World& world, const actuate::Wanted& wanted);

}  // namespace partita::actuation_tests
