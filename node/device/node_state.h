// NodeState: what a driver reads back of a node, as plain data. It is always read, never
// remembered. Forms (the document `kind: NodeState`) are in node_forms.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "hw/layout.h"

namespace partita::device {

// A process that uses a GPU or an instance; or, with pid 0 and a name, whom the instance is lent to
// (act/lease).
struct Holder {
  std::int64_t pid = 0;
  std::string name;  // empty where the driver does not tell
  bool operator==(const Holder&) const = default;

  bool is_lease() const { return pid == 0 && !name.empty(); }
};
// "pid 1234 (python)", "lease slurm:42".
std::string to_string(const Holder& holder);

struct ComputeInstance {
  int ci_id = 0;
  int gpcs = 0;      // compute slices; those of its GPU instance when it is whole
  std::string uuid;  // of the MIG device, "MIG-..."; new at every creation
  bool operator==(const ComputeInstance&) const = default;
};

// A GPU instance with its compute instances.
struct Instance : hw::Placement {  // the driver's name of a profile that the catalogue lacks
  int profile_id = 0;              // the driver's GPU instance profile id (19, 14, 9 ...)
  int gpcs = 0;                    // compute slices
  int size = 0;                    // memory slices
  int gi_id = 0;  // unique on its GPU while it exists; no function of the placement
  std::vector<ComputeInstance> compute;  // by ci_id; empty when creation was cut short
  std::vector<Holder> holders;           // by pid
  bool operator==(const Instance&) const = default;

  // One compute instance that has all of it: what Partita creates and can run a segment on.
  bool whole() const { return compute.size() == 1 && compute.front().gpcs == gpcs; }
  // UUID of the first MIG device; empty when there is none.
  std::string uuid() const { return compute.empty() ? std::string{} : compute.front().uuid; }
  bool busy() const { return !holders.empty(); }
  bool lent() const { return !holders.empty() && holders.front().is_lease(); }
};

struct GpuState {
  int index = 0;
  std::string uuid;           // "GPU-..."
  std::string name;           // the driver's product name, "NVIDIA A100-SXM4-80GB"
  std::string model;          // catalogue name; empty when the catalogue does not know it
  std::string pci_device_id;  // "0x20B210DE"
  Mib memory;                 // total
  bool mig_capable = false, mig_enabled = false;
  bool mig_pending = false;  // the mode after the next reset; equals mig_enabled when none is due
  bool lost = false;         // fell off the bus: nothing below was read
  // PCI addresses that its NVLinks join: its own, and those at the other ends of links that are up,
  // GPUs or switches. Empty: the driver does not tell.
  std::vector<std::string> nvlinks = {};
  std::vector<Instance> instances;  // by start, then gi_id
  std::vector<Holder> holders;      // of the GPU outside any instance, by pid
  bool operator==(const GpuState&) const = default;
};

struct NodeState {
  std::string driver;          // "sim", "nvml", "amd"
  std::string driver_version;  // as the driver says
  std::vector<GpuState> gpus;  // by index
  bool operator==(const NodeState&) const = default;

  // The GPU with this UUID, or null.
  const GpuState* find(const std::string& uuid) const;
};

// One instance profile as the board offers it.
struct ProfileInfo {
  int nvml_enum = 0;   // index of the profile in the driver's enumeration
  int profile_id = 0;  // GPU instance profile id
  std::string name;    // the driver's, "1g.18gb+me"
  int gpcs = 0;
  int size = 0;  // memory slices of a placement
  int sms = 0;
  Mib memory;
  int max_instances = 0;
  int remaining = 0;        // how many more fit now
  std::vector<int> starts;  // legal starts, ascending
  bool operator==(const ProfileInfo&) const = default;
};

}  // namespace partita::device
