// SharedMachine: one simulated machine seen by several processes. A YAML file (PARTITA_SIM)
// describes it and its state lies in a locked file beside that; without a description it is one
// A100-80GB with MIG on, in the memory of this process. Where the state is a file, real processes
// of this computer whose CUDA_VISIBLE_DEVICES names a MIG device or GPU of the machine by UUID hold
// that device. Thread-safe (locks on files or in memory). Limits: kMaxSimGpus GPUs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "device/adaptors.h"
#include "drivers/sim/machine.h"

namespace partita::drivers::sim {

inline constexpr int kMaxSimGpus = 64;

// Who may set power limits and clocks; everybody else is denied, as NVML does.
enum class PowerRights { anybody, root, nobody };

// The file that PARTITA_SIM names; docs/formats.md has every key.
struct MachineDescription {
  std::vector<Machine::Gpus> gpus;
  std::string state;  // path as written; empty: in memory
  double speed = 1;   // durations are multiplied by it; 0: instantly
  std::vector<device::Fault> faults;
  struct Present : hw::PlacedProfile {
    int gpu = 0;
    bool whole = true;  // with its compute instance
    bool operator==(const Present&) const = default;
  };
  std::vector<Present> instances;
  struct Attached {
    int gpu = 0, start = -1;  // start of the instance; -1: outside any instance
    std::int64_t pid = 0;
    std::string name;
    std::optional<double> activity = {};  // see SimProcess
    bool operator==(const Attached&) const = default;
  };
  std::vector<Attached> processes;
  Celsius ambient{30};
  PowerRights power_rights = PowerRights::anybody;
  bool operator==(const MachineDescription&) const = default;
};

// Refused with FILE:LINE: also instances that cannot exist together, and processes on none.
Result<MachineDescription> parse_machine(const std::string& file, std::string_view text,
                                         const hw::Catalogue& catalogue);

// The machine at its first start, with what the description puts there.
Machine make_machine(const MachineDescription& description, std::string_view identity);

class SharedMachine {
 public:
  // `faults`: what goes wrong with changes, see change().
  SharedMachine(Clock& clock, double speed, std::vector<device::Fault> faults,
                PowerRights power_rights = PowerRights::anybody)
      : clock_(clock), speed_(speed), faults_(std::move(faults)), power_rights_(power_rights) {}
  virtual ~SharedMachine() = default;
  // The file that other processes share the machine by; empty: nobody else can see it.
  virtual std::string shared_file() const { return {}; }

  // Runs `use` on the present machine; what it changed is stored before anybody else sees the
  // machine. An error means that `use` did not run or that nothing was stored.
  virtual Result<void> with(const std::function<void(Machine&)>& use) = 0;

  // Runs `use` on the present machine without looking for processes of this computer: those that
  // it has may have ended, and new ones are missing.
  virtual Result<void> glance(const std::function<void(const Machine&)>& use) = 0;

  // Runs `use` on the present machine with the processes of this computer as they were kSeenNs ago
  // at most: for those who ask of each device in turn.
  virtual Result<void> look(const std::function<void(const Machine&)>& use) { return with(use); }
  static constexpr std::int64_t kSeenNs = 10'000'000;

  // A changing call of the door or of the C ABI, named as NodeDriver names it: runs `effect` on the
  // present machine, stores what it changed and then lets the answered duration pass. Faults of the
  // script happen here, counted over all processes that share the machine.
  Result<void> change(std::string_view method,
                      const std::function<Result<std::int64_t>(Machine&)>& effect);

  // The time that boards go by: nanoseconds of the clock, which processes of one computer share.
  std::int64_t now_ns() { return clock_.now_ns(); }
  // As Machine::set_power, now; denied by the description's rights.
  Result<void> set_power(int gpu, const device::PowerSettings& settings);

  // Lets `duration_ns` (times the speed) pass as a reconfiguration does: one at a time per node.
  Result<void> spend(std::int64_t duration_ns);

 protected:
  // The lock that makes reconfigurations happen one after another; `with` goes on meanwhile.
  virtual Result<std::shared_ptr<void>> busy() = 0;

 private:
  Clock& clock_;
  double speed_;
  std::vector<device::Fault> faults_;
  PowerRights power_rights_;
};

// In memory.
std::unique_ptr<SharedMachine> own_machine(Machine machine, Clock& clock, double speed,
                                           std::vector<device::Fault> faults = {},
                                           PowerRights power_rights = PowerRights::anybody);
// By its description; `path` empty: the default machine. Refused with FILE:LINE.
Result<std::unique_ptr<SharedMachine>> open_machine(const std::string& path, Clock& clock,
                                                    const hw::Catalogue& catalogue);
// By the text of a description; its 'state' lies beside `path`.
Result<std::unique_ptr<SharedMachine>> described_machine(const std::string& path,
                                                         std::string_view text, Clock& clock,
                                                         const hw::Catalogue& catalogue);

}  // namespace partita::drivers::sim
