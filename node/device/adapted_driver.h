// AdaptedDriver: a NodeDriver that does the same with every call. Base of the adaptors around
// drivers (adaptors.h, act/lease/leased_driver.h).
#pragma once

#include <functional>
#include <type_traits>
#include <vector>

#include "device/call.h"
#include "device/node_driver.h"

namespace partita::device {

class AdaptedDriver : public NodeDriver {
 public:
  Result<DriverInfo> info() final;
  Result<GpuState> read(int gpu) final;
  Result<std::vector<ProfileInfo>> profiles(int gpu) final;
  Result<ModeChange> set_mig_mode(int gpu, bool enabled) final;
  Result<int> create_instance(int gpu, const Placement& placement) final;
  Result<void> destroy_instance(int gpu, int gi_id) final;
  Result<ComputeInstance> create_compute(int gpu, int gi_id) final;
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) final;
  Result<telemetry::GpuSample> telemetry(int gpu) final;
  Result<PowerState> power_settings(int gpu) final;
  Result<void> set_power_settings(int gpu, const PowerSettings& settings) final;

 protected:
  // Makes the same call on another driver.
  using Make = std::function<Result<Answer>(NodeDriver& driver)>;
  // What the call comes to: an error, or an answer of the method's type.
  virtual Result<Answer> on_call(const Call& call, const Make& make) = 0;

 private:
  template <class Run>
  auto with(const Call& call, Run run) -> std::invoke_result_t<Run, NodeDriver&>;
};

}  // namespace partita::device
