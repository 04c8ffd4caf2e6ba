// Power, heat, clocks and activity through NVML: what NvmlDriver's door says of them. What a board
// does not tell, or says as physics does not allow, is left out. Activity of an instance is what
// NVML's performance monitoring (GPM: Hopper and later) counted since the reading before, so this
// keeps a sample per instance. Refers to the library, which must outlive it.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "device/node_driver.h"
#include "drivers/nvml_mig/nvml_reader.h"

namespace partita::drivers::nvml_mig {

class NvmlTelemetry {
 public:
  NvmlTelemetry(const NvmlLibrary& library, const NvmlReader& reader)
      : library_(library), api_(library.api()), reader_(reader) {}
  ~NvmlTelemetry();
  NvmlTelemetry(const NvmlTelemetry&) = delete;
  NvmlTelemetry& operator=(const NvmlTelemetry&) = delete;

  // Of the GPU whose instances `state` has.
  Result<telemetry::GpuSample> sample(abi::Device device, const device::GpuState& state,
                                      int compute_slices);
  Result<device::PowerState> settings(abi::Device device) const;
  Result<void> set(abi::Device device, const device::PowerSettings& settings) const;

 private:
  struct Monitored {
    abi::GpmSample sample = nullptr;
    std::string uuid;  // of what it counts
  };

  void read_board(abi::Device device, telemetry::GpuSample& sample) const;
  void read_fields(abi::Device device, telemetry::GpuSample& sample) const;
  Result<void> read_processes(abi::Device device, telemetry::GpuSample& sample) const;
  bool monitors(abi::Device device) const;
  telemetry::Activity activity(abi::Device device, int gpu, int gi_id, const std::string& uuid);
  telemetry::Activity between(abi::GpmSample first, abi::GpmSample second) const;
  Result<void> set_limit(abi::Device device, const device::PowerState& board,
                         const device::PowerSettings& settings) const;
  Result<void> set_clocks(abi::Device device, const device::PowerSettings& settings) const;

  const NvmlLibrary& library_;
  const NvmlApi& api_;
  const NvmlReader& reader_;
  std::map<std::pair<int, int>, Monitored> monitored_;  // by GPU and gi_id
};

}  // namespace partita::drivers::nvml_mig
