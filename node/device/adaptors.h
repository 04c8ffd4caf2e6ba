// Adaptors around any NodeDriver: faults, limits, recording, replay. Each owns nothing but its own
// notes and refers to the driver it wraps, which must outlive it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "device/call.h"
#include "device/fault_script.h"
#include "device/node_driver.h"

namespace partita::device {

// A driver in which calls go wrong after a script.
class FaultyDriver final : public NodeDriver {
 public:
  FaultyDriver(NodeDriver& inner, Clock& clock, std::vector<Fault> script,
               std::function<void()> on_death);
  Result<DriverInfo> info() override;
  Result<GpuState> read(int gpu) override;
  Result<std::vector<ProfileInfo>> profiles(int gpu) override;
  Result<ModeChange> set_mig_mode(int gpu, bool enabled) override;
  Result<int> create_instance(int gpu, const Placement& placement) override;
  Result<void> destroy_instance(int gpu, int gi_id) override;
  Result<ComputeInstance> create_compute(int gpu, int gi_id) override;
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override;
  Result<telemetry::GpuSample> telemetry(int gpu) override;
  Result<PowerState> power_settings(int gpu) override;
  Result<void> set_power_settings(int gpu, const PowerSettings& settings) override;

 private:
  template <class Run>
  auto changed(const Call& call, Run run) -> decltype(run());

  NodeDriver& inner_;
  FaultScript script_;
};

// A driver with limits: read-only, or only some GPUs (others answer denied to every change).
struct Limits {
  bool read_only = false;
  std::optional<std::vector<int>> gpus;
};
class LimitedDriver final : public NodeDriver {
 public:
  LimitedDriver(NodeDriver& inner, Limits limits);
  Result<DriverInfo> info() override;
  Result<GpuState> read(int gpu) override;
  Result<std::vector<ProfileInfo>> profiles(int gpu) override;
  Result<ModeChange> set_mig_mode(int gpu, bool enabled) override;
  Result<int> create_instance(int gpu, const Placement& placement) override;
  Result<void> destroy_instance(int gpu, int gi_id) override;
  Result<ComputeInstance> create_compute(int gpu, int gi_id) override;
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override;
  Result<telemetry::GpuSample> telemetry(int gpu) override;
  Result<PowerState> power_settings(int gpu) override;
  Result<void> set_power_settings(int gpu, const PowerSettings& settings) override;

 private:
  Result<void> allowed(const Call& call, int gpu) const;

  NodeDriver& inner_;
  Limits limits_;
};

// Every call and its answer, in order: the document `kind: Recording` of docs/formats.md. `partita
// capture` records the read-only calls of a real machine, tests replay them.
class RecordingDriver final : public NodeDriver {
 public:
  explicit RecordingDriver(NodeDriver& inner);
  ~RecordingDriver() override;
  Result<DriverInfo> info() override;
  Result<GpuState> read(int gpu) override;
  Result<std::vector<ProfileInfo>> profiles(int gpu) override;
  Result<ModeChange> set_mig_mode(int gpu, bool enabled) override;
  Result<int> create_instance(int gpu, const Placement& placement) override;
  Result<void> destroy_instance(int gpu, int gi_id) override;
  Result<ComputeInstance> create_compute(int gpu, int gi_id) override;
  Result<void> destroy_compute(int gpu, int gi_id, int ci_id) override;
  Result<telemetry::GpuSample> telemetry(int gpu) override;
  Result<PowerState> power_settings(int gpu) override;
  Result<void> set_power_settings(int gpu, const PowerSettings& settings) override;
  // The recording so far.
  std::string json() const;

 private:
  struct Notes;
  NodeDriver& inner_;
  std::unique_ptr<Notes> notes_;
};

// Answers from a recording. Changing calls are answered in recorded order; another one than the
// next is ErrorCode::not_found and changes nothing. A reading call gets the last answer that was
// recorded for its arguments before the next change (the first one after it where there is none
// before); never recorded is not_found. Refused with FILE:LINE.
Result<std::unique_ptr<NodeDriver>> replay(const std::string& file, std::string_view recording);

}  // namespace partita::device
