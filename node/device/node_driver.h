// NodeDriver: the door to what persists on a node and can be read back -- MIG mode, MIG instances,
// power limits and locked clocks -- and to what its GPUs say of themselves. Calls block for as long
// as the driver takes (creating an instance: 0.1 to 0.5 s) and
// happen one after another. Implementations: drivers/sim, drivers/nvml_mig; adaptors.h wraps any of
// them; conformance.h is the suite that all of them pass. A driver keeps no state of the device.
// Thread rule: one call at a time per object.
//
// Errors (base ErrorCode) that every implementation must tell apart: not_found (no such GPU or
// instance), invalid_argument (profile or start that the board does not have), no_room (placement
// or capacity taken; an occupied placement is no_room too), in_use (a process or a compute instance
// holds it), not_supported, denied, lost, timeout. Error::context is the call with its arguments.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "device/node_state.h"
#include "device/power_settings.h"
#include "hw/telemetry/sample.h"

namespace partita::device {

struct DriverInfo {
  std::string name;     // "sim", "nvml", "amd"
  std::string version;  // of the vendor's driver
  int gpus = 0;
  bool operator==(const DriverInfo&) const = default;
};

// Which profile (the board's enumeration) at which start.
struct Placement {
  int nvml_enum = 0;
  int start = 0;
  bool operator==(const Placement&) const = default;
};

enum class ModeChange { done, pending_reset };

class NodeDriver {
 public:
  virtual ~NodeDriver() = default;

  // What there is; the only call that works without a GPU.
  virtual Result<DriverInfo> info() = 0;
  // Everything about one GPU, read now. A lost GPU is an answer (GpuState::lost), not an error.
  virtual Result<GpuState> read(int gpu) = 0;
  // The profiles that the board offers, by nvml_enum; empty when the GPU has no MIG.
  virtual Result<std::vector<ProfileInfo>> profiles(int gpu) = 0;
  // Turns MIG on or off. pending_reset: stored, in force after a reset (Ampere). in_use while
  // instances or processes are there.
  virtual Result<ModeChange> set_mig_mode(int gpu, bool enabled) = 0;
  // Creates a GPU instance without compute instances, at exactly this placement; its gi_id.
  virtual Result<int> create_instance(int gpu, const Placement& placement) = 0;
  // Destroys a GPU instance; in_use while it has compute instances or holders.
  virtual Result<void> destroy_instance(int gpu, int gi_id) = 0;
  // Creates the one compute instance that has the whole GPU instance.
  virtual Result<ComputeInstance> create_compute(int gpu, int gi_id) = 0;
  // Destroys a compute instance; in_use while a process holds it.
  virtual Result<void> destroy_compute(int gpu, int gi_id, int ci_id) = 0;

  // What the GPU says of itself now; what physics does not allow is left out (telemetry/physics.h).
  // Activities are since the reading before of the same driver object. lost as an error.
  virtual Result<telemetry::GpuSample> telemetry(int gpu) = 0;
  // Power limit and locked clocks; needs no rights.
  virtual Result<PowerState> power_settings(int gpu) = 0;
  // Makes the settings so, whatever they were; they outlive this process. denied without rights,
  // invalid_argument out of what the board can. An error may leave one of the two set.
  virtual Result<void> set_power_settings(int gpu, const PowerSettings& settings) = 0;
};

// read() of every GPU. The first GPU that answers with an error ends it.
Result<NodeState> read_node(NodeDriver& driver);

}  // namespace partita::device
