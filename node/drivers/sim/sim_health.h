// The HealthWatch door on the simulated machine: what SimDriver's GPUs report, as NvmlHealth hears
// it: XIDs from when it began to listen, what can be read at each look.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/health.h"
#include "drivers/sim/shared_machine.h"

namespace partita::drivers::sim {

class SimHealthWatch final : public device::HealthWatch {
 public:
  explicit SimHealthWatch(SharedMachine& machine) : machine_(machine) {}
  std::vector<device::HealthEvent> look() override;
  std::vector<std::string> complaints() override;

 private:
  SharedMachine& machine_;
  std::map<std::string, long> heard_;  // number of the last XID, by UUID
  device::HealthChanges changes_;
  std::string complaint_, said_;
};

}  // namespace partita::drivers::sim
