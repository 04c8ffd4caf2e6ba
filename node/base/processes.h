// The processes door: starting programs of others (workers, tasks, daemons), hearing of their end,
// stopping them. Each started process leads its own process group, so that stop() reaches its
// children too. Single-threaded; whoever starts a process is told of its exit once. Processes live
// on when their door dies; another door may adopt() them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/result.h"

namespace partita {

using Pid = std::int64_t;

struct ProcessSpec {
  std::vector<std::string> argv = {};                   // argv[0] is looked up in PATH
  std::map<std::string, std::string> environment = {};  // added to ours
  std::string log_file = {};   // standard output and error are appended; empty: thrown away
  std::string directory = {};  // where it runs; empty: where we are
  std::string input = {};      // what it reads from standard input
  // Once it ends, what is left of its process group is killed; of a daemon it is left alone. Holds
  // for whoever adopts it, too; what was adopted counts as no daemon.
  bool daemon = false;
  // A variable of `environment` whose value belongs to this process alone: its descendants are
  // known by it, see end_family(). Where the system has cgroups they are in one of their own, too.
  std::string family_variable = {};
  bool operator==(const ProcessSpec&) const = default;
};

// The exit status of a process that was adopted: only its parent is told the real one.
inline constexpr int kUnknownStatus = -1;

struct ProcessExit {
  Pid pid = 0;
  int status = 0;  // exit status, 128 + the signal that ended it, or kUnknownStatus
  bool operator==(const ProcessExit&) const = default;
};

// terminate asks (SIGTERM), kill does not (SIGKILL).
enum class StopSignal { terminate, kill };

class Processes {
 public:
  virtual ~Processes() = default;
  // Starts a process. ErrorCode::environment when the program or its directory is not there, or its
  // log file cannot be opened.
  virtual Result<Pid> start(const ProcessSpec& spec) = 0;
  // The processes of ours that ended since the last call, in order of pid.
  virtual std::vector<ProcessExit> exited() = 0;
  // Signals the process group of one of ours; one that has ended is no error.
  virtual Result<void> stop(Pid pid, StopSignal signal) = 0;
  // Whether any process of this number lives, ours or not.
  virtual bool alive(Pid pid) = 0;
  // What tells this process from a later one of the same number; empty when none lives.
  virtual std::string identity(Pid pid) = 0;
  // Makes a process that another door started one of ours. ErrorCode::not_found unless the process
  // of this number lives and has this identity.
  virtual Result<void> adopt(Pid pid, const std::string& identity) = 0;
  // The living processes, ours or not, that were started with this variable in their environment by
  // any door, and its value. Children that inherited it do not count.
  virtual std::map<Pid, std::string> find(const std::string& variable) = 0;
  // Kills all that were started with this family variable and value and their descendants, in
  // whatever session they are: by their cgroup, and by their environment.
  virtual void end_family(const std::string& variable, const std::string& value) = 0;
};

class RealProcesses final : public Processes {
 public:
  Result<Pid> start(const ProcessSpec& spec) override;
  std::vector<ProcessExit> exited() override;
  Result<void> stop(Pid pid, StopSignal signal) override;
  bool alive(Pid pid) override;
  std::string identity(Pid pid) override;
  Result<void> adopt(Pid pid, const std::string& identity) override;
  std::map<Pid, std::string> find(const std::string& variable) override;
  void end_family(const std::string& variable, const std::string& value) override;

 private:
  struct Process {
    bool daemon = false;
    std::string adopted_as;  // its identity; empty for our own children
  };
  std::optional<int> end_of(Pid pid, const Process& process);

  std::map<Pid, Process> running_;
  Cgroups cgroups_;
  std::vector<std::string> dying_;  // folders of cgroups whose processes have been killed
};

// What a simulated process does.
struct SimBehaviour {
  std::optional<std::int64_t> run_ns = {};  // until it ends by itself; without: never
  int status = 0;                           // with which it then ends
  bool heeds_terminate = true;              // else only kill ends it
  std::int64_t stop_ns = 0;                 // from terminate to its end
  std::optional<Error> refused = {};        // it cannot even be started
};

// Processes that exist only on a clock, for tests and simulations. Deterministic: pids count up
// from 1000, ends happen when the clock has reached them.
class SimProcesses final : public Processes {
 public:
  using Script = std::function<SimBehaviour(const ProcessSpec&)>;
  // `clock` must outlive it; `script` is asked once per start.
  SimProcesses(Clock& clock, Script script) : clock_(clock), script_(std::move(script)) {}

  Result<Pid> start(const ProcessSpec& spec) override;
  std::vector<ProcessExit> exited() override;
  Result<void> stop(Pid pid, StopSignal signal) override;
  bool alive(Pid pid) override;
  std::string identity(Pid pid) override;
  Result<void> adopt(Pid pid, const std::string& identity) override;
  std::map<Pid, std::string> find(const std::string& variable) override;
  void end_family(const std::string& variable, const std::string& value) override;

  struct Process {
    ProcessSpec spec = {};
    SimBehaviour behaviour = {};
    std::int64_t started_ns = 0;
    std::optional<std::int64_t> ends_ns = {};
    int status = 0;     // at its end
    bool ours = true;   // its exit will be told
    bool child = true;  // its exit status can be told
  };
  // Those alive now.
  std::map<Pid, Process> running();
  // When the next process ends as things are; nothing when all run for ever.
  std::optional<std::int64_t> next_end_ns();
  // Ends a process now, as a crash does.
  void crash(Pid pid, int status);
  // As after the death of whoever held this door: all live on, none is ours until adopted.
  void orphan_all();

 private:
  void end(Process& process, std::int64_t at_ns, int status);
  bool ended(const Process& process) {
    return process.ends_ns && *process.ends_ns <= clock_.now_ns();
  }

  Clock& clock_;
  Script script_;
  Pid next_ = 1000;
  std::map<Pid, Process> processes_;
};

}  // namespace partita
