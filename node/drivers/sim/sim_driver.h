// SimDriver: the NodeDriver door on a simulated machine. Refers to the machine, which must outlive
// it, and keeps no state but what activities are measured from.
// Thread rule: one call at a time per object, as of every driver.
#pragma once

#include <map>
#include <utility>

#include "device/node_driver.h"
#include "drivers/sim/shared_machine.h"

namespace partita::drivers::sim {

class SimDriver final : public device::NodeDriver {
 public:
  explicit SimDriver(SharedMachine& machine) : machine_(machine) {}
  Result<device::DriverInfo> info() override;
  Result<device::GpuState> read(int gpu) override;
  Result<std::vector<device::ProfileInfo>> profiles(int gpu) override;
  Result<device::ModeChange> set_mig_mode(int gpu, bool enabled) override;
  Result<int> create_instance(int gpu, const device::Placement& placement) override;
  Result<void> destroy_instance(int gpu, int gi_id) override;
  Result<device::ComputeInstance> create_compute(int gpu, int gi_id) override;
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override;
  Result<telemetry::GpuSample> telemetry(int gpu) override;
  Result<device::PowerState> power_settings(int gpu) override;
  Result<void> set_power_settings(int gpu, const device::PowerSettings& settings) override;

 private:
  struct Busy {
    std::int64_t at_ns = 0;
    double busy_s = 0;
  };

  SharedMachine& machine_;
  std::map<std::pair<int, int>, Busy> before_;  // by GPU and gi_id: at the reading before
};

// A GPU of the machine as the door tells it.
device::GpuState state_of(const SimGpu& gpu, int index);

}  // namespace partita::drivers::sim
