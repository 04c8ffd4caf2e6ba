// The processes door: starting programs of others (workers, tasks, daemons), hearing of their end,
// stopping them. Each started process leads its own process group, so that stop() reaches its
// children too. Single-threaded; whoever starts a process is told of its exit once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace partita {

using Pid = std::int64_t;

struct ProcessSpec {
  std::vector<std::string> argv;                   // argv[0] is looked up in PATH
  std::map<std::string, std::string> environment;  // added to ours
  std::string log_file;   // standard output and error are appended to it; empty: thrown away
  std::string directory;  // where it runs; empty: where we are
  bool operator==(const ProcessSpec&) const = default;
};

struct ProcessExit {
  Pid pid = 0;
  int status = 0;  // exit status, or 128 + the signal that ended it
  bool operator==(const ProcessExit&) const = default;
};

// terminate asks (SIGTERM), kill does not (SIGKILL).
enum class StopSignal { terminate, kill };

class Processes {
 public:
  virtual ~Processes() = default;
  // Starts a process. ErrorCode::environment when the program or its directory is not there.
  virtual Result<Pid> start(const ProcessSpec& spec) = 0;
  // The processes of ours that ended since the last call, in order of pid.
  virtual std::vector<ProcessExit> exited() = 0;
  // Signals the process group of one of ours; one that has ended is no error.
  virtual Result<void> stop(Pid pid, StopSignal signal) = 0;
  // Whether any process of this number lives, ours or not.
  virtual bool alive(Pid pid) = 0;
};

class RealProcesses final : public Processes {
 public:
  Result<Pid> start(const ProcessSpec& spec) override;
  std::vector<ProcessExit> exited() override;
  Result<void> stop(Pid pid, StopSignal signal) override;
  bool alive(Pid pid) override;

 private:
  std::vector<Pid> running_;  // ascending
};

}  // namespace partita
