// NodeView: the node as it was read last, and what each GPU may be used for. A value; the loop
// makes it at every step. Internal to control.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "act/assignment.h"
#include "act/journal.h"
#include "control/memory.h"
#include "control/seen.h"
#include "control/world.h"
#include "device/node_state.h"

namespace partita::control {

// The GPUs of a node, by what they may be used for.
struct GpuUse {
  struct Gpu {
    int index = 0;
    std::string uuid, model;
    int nvlink = 0;  // its domain
    bool operator==(const Gpu&) const = default;
  };
  std::vector<Gpu> usable;                      // for services
  std::map<std::string, std::string> not_used;  // by UUID (or index, without one), and why
  std::vector<Gpu> batch;                       // reserved for batches
  bool is_usable(const std::string& uuid) const;
  bool operator==(const GpuUse&) const = default;
};
GpuUse gpus_for_services(const World& world, const device::NodeState& state,
                         const std::vector<OutGpu>& out);

struct NodeView {
  bool known = false;       // in this step
  device::NodeState state;  // printable
  device::NodeState raw;    // as the driver told it
  actuate::Assignment assignment;
  actuate::JournalState journal;
  std::int64_t read_ms = 0;  // when that was
  std::string blind;         // why it cannot be read now; empty: it can
  GpuUse use;
  std::set<std::string> lent;  // UUIDs of GPUs that batches have

  // Takes over what was read, or says why nothing was.
  void read(const Seen& seen, std::int64_t now_ms);
  // What services may use while batches keep what they have.
  GpuUse spared() const;
  // Whether Partita made this instance, or knows what runs there.
  bool is_ours(const device::Instance& instance) const;
  // Whether an instance of this GPU is lent to somebody (act/lease).
  bool has_lent(const std::string& gpu_uuid) const;
  // Places that are lent: "7g.80gb at 0 of GPU-...".
  std::vector<std::string> what_is_lent() const;
  // Whether this segment's instance is there.
  bool has(const actuate::AssignedSegment& segment) const;
};

}  // namespace partita::control
