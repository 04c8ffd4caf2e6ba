// SharedMachine: one simulated machine seen by several processes. The machine is described by a YAML
// file (PARTITA_SIM) and its state lies in a locked file beside it; without a description it is one
// A100-80GB with MIG on, in the memory of this process. Thread-safe (a mutex, and the file's lock).
// Limits: kMaxSimGpus GPUs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "device/adaptors.h"
#include "drivers/sim/machine.h"

namespace partita::drivers::sim {

inline constexpr int kMaxSimGpus = 64;

// The file that PARTITA_SIM names: gpus: [{model, count, mig}], state: FILE (relative to the
// description), optional speed: FACTOR (durations are multiplied by it; 0 = instantly),
// faults: [{method, call, error, hang_s, after_effect, dies}], instances: [{gpu, profile, start, whole}]
// and processes: [{gpu, start, pid, name}] that are there at the first start.
struct MachineDescription {
  std::vector<Machine::Gpus> gpus;
  std::string state;  // path; empty: in memory
  double speed = 1;
  std::vector<device::Fault> faults;
  struct Present {
    int gpu = 0;
    std::string profile;
    int start = 0;
    bool whole = true;  // with its compute instance
  };
  std::vector<Present> instances;
  struct Attached {
    int gpu = 0, start = -1;  // -1: outside any instance
    std::int64_t pid = 0;
    std::string name;
  };
  std::vector<Attached> processes;
};

Result<MachineDescription> parse_machine(const std::string& file, std::string_view text,
                                         const hw::Catalogue& catalogue);

class SharedMachine {
 public:
  virtual ~SharedMachine() = default;
  // Runs `use` on the present machine; what it changed is stored before anybody else sees the machine.
  virtual Result<void> with(const std::function<void(Machine&)>& use) = 0;
  // Lets `duration` (times the speed) pass as a reconfiguration does: one at a time per node.
  virtual Result<void> spend(std::int64_t duration_ns) = 0;
};

// In memory.
std::unique_ptr<SharedMachine> own_machine(Machine machine, Clock& clock, double speed);
// By its description; `path` empty: the default machine. Refused with FILE:LINE.
Result<std::unique_ptr<SharedMachine>> open_machine(const std::string& path, Clock& clock,
                                                    const hw::Catalogue& catalogue);

}  // namespace partita::drivers::sim
