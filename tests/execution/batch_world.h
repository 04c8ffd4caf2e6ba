// A machine in memory for tests of the batch executor: GPUs, processes and a disk on a simulated
// clock, in one thread. Task processes hold their MIG device. What goes wrong is scripted: tasks
// that fail or hang, driver faults, instances and processes of others, a lost GPU, and the death of
// the executor at a write to the journal or in a driver call (a Death is thrown through it).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "act/carry/batch_script.h"
#include "device/adaptors.h"
#include "drivers/sim/sim_driver.h"
#include "act/batch/session.h"

namespace partita::execution_tests {

using exec::Nanos;
inline constexpr Nanos kSecond = exec::kSecond;
inline const std::string kJournal = "run.journal";

struct Death {};

// Where an append to the journal ends the program, if it does.
enum class DeathAt { before, torn, after };

class MortalFiles final : public MemoryFiles {
 public:
  Result<void> write_atomic(const std::string& path, std::string_view text) override {
    return around([&] { return MemoryFiles::write_atomic(path, text); });
  }
  Result<void> append(const std::string& path, std::string_view text) override {
    if (++appends == die_at) {
      if (how == DeathAt::torn)
        static_cast<void>(MemoryFiles::append(path, text.substr(0, text.size() * 2 / 3)));
      if (how == DeathAt::after) static_cast<void>(MemoryFiles::append(path, text));
      throw Death{};
    }
    if (refuse_from > 0 && appends >= refuse_from) return environment_error(path, "disk full");
    return around([&] { return MemoryFiles::append(path, text); });
  }
  Result<void> remove(const std::string& path) override {
    return around([&] { return MemoryFiles::remove(path); });
  }

  int appends = 0, die_at = 0, refuse_from = 0;
  DeathAt how = DeathAt::before;
  int changes = 0, die_at_change = 0;  // the same for whatever changes the disk

 private:
  template <class Act>
  Result<void> around(Act act) {
    const bool dies = ++changes == die_at_change;
    if (dies && how != DeathAt::after) throw Death{};
    const Result<void> done = act();
    if (dies) throw Death{};
    return done;
  }
};

// Something that happens at a time, whatever the executor does.
struct Incident {
  Nanos time = 0;
  std::function<void(drivers::sim::Machine&)> happens;
};

class BatchWorld {
 public:
  BatchWorld(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule,
             const exec::Options& options, std::optional<double> timeout_factor = {});

  // What a task's attempt does; by default it runs for its planned time.
  std::function<SimBehaviour(const exec::ScriptTask&, int attempt)> behaviour;
  std::vector<device::Fault> faults;
  std::vector<Incident> incidents;  // ascending in time
  MortalFiles files;
  ManualClock clock;
  Nanos downtime = 3 * kSecond;  // from a death to the next start
  std::function<bool()> interrupted = {};

  // One life of the program; false when it died. Its wish to go on is `resume`.
  bool live(bool resume);
  // Lives until the end, the same command again and again; the number of deaths.
  int live_to_the_end();

  const exec::Script& script() const { return script_; }
  const exec::RunReport& report() const { return report_; }
  std::uint64_t log_hash() const { return log_hash_; }
  std::optional<Error> refused() const { return refused_; }  // the session's
  drivers::sim::Machine machine();
  void change_machine(const std::function<void(drivers::sim::Machine&)>& use);
  // Instances on the node as "1g.6gb@3 on GPU 0", but for those with these devices.
  std::vector<std::string> instances(const std::set<std::string>& others = {});
  // What must never happen, and did: one sentence each.
  std::vector<std::string> broken;
  // Starts of processes per task, over all lives.
  std::map<std::string, int> starts;
  std::map<Pid, SimProcesses::Process> processes_alive() { return processes_.running(); }

 private:
  SimBehaviour begin_process(const ProcessSpec& spec);
  std::optional<Nanos> tick(Nanos now);
  void see_processes();
  void write_statuses();
  void die();
  bool has_finished(const std::string& task) const;

  exec::Script script_;
  exec::Options options_;
  std::unique_ptr<drivers::sim::SharedMachine> shared_;
  drivers::sim::SimDriver sim_;
  std::unique_ptr<device::FaultyDriver> driver_;
  SimProcesses processes_;
  std::map<Pid, SimProcesses::Process> seen_;  // as last seen
  std::size_t next_incident_ = 0;
  exec::RunReport report_;
  std::uint64_t log_hash_ = 0;
  std::optional<Error> refused_;
};

}  // namespace partita::execution_tests
