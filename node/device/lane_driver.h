// LaneDriver: the door to what dies with its process -- lanes, which are masks of units with a
// stream, and events between them. A lane runs its kernels one after another, and each only on the
// units of its mask; kernels of different lanes run at the same time, also where masks overlap.
// Implementations: drivers/cpu_mask; lane_adaptors.h wraps any of them, lane_conformance.h is the
// suite that all of them pass. Lanes and events are numbered by the driver, no number comes twice.
// Thread rule: any thread, at the same time; work-groups themselves must not call the door, unless
// it is open to them.
//
// Errors (base ErrorCode) that every implementation must tell apart: not_found (no such lane or
// event), invalid_argument (mask or kernel), limit (lanes, events or kernels are at their limit),
// in_use (a lane with unfinished work), not_supported (a kind of kernel that this driver does not
// run), lost, environment. Error::context is the call with its arguments.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "hw/topology.h"

namespace partita::device {

struct LaneDriverInfo {
  std::string name;             // "cpu_mask"
  hw::Topology topology;        // the units that masks are made of
  int atom = 1;                 // masks are made of whole atoms of so many units (hw::units_of)
  int max_lanes = 0;            // lanes that may exist at the same time
  int max_events = 0;           // events that may exist at the same time
  std::int64_t max_queued = 0;  // kernels, records and waits that one lane may have unfinished
  bool operator==(const LaneDriverInfo&) const = default;
};

// A kernel that runs on threads of this process: called once for each work-group. It must not throw
// (the program would end there).
struct HostKernel {
  std::function<void(std::int64_t group)> run;
};

// A kernel of a GPU. What it points to is read during launch() and create_graph() alone.
struct DeviceKernel {
  void* function = nullptr;  // of the driver's library: CUDA's CUkernel, HIP's hipFunction_t
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};  // work-groups; threads of each
  std::uint32_t shared_bytes = 0;                              // dynamic, per work-group
  std::vector<void*> arguments = {};                           // where each one's value lies
};

struct Kernel {
  std::int64_t groups = 1;  // work-groups, at least one; as many as the grid of a DeviceKernel has
  std::variant<HostKernel, DeviceKernel> code;
};

struct LaneState {
  hw::UnitMask mask;        // as it was created
  std::int64_t queued = 0;  // kernels, records and waits that are not finished
  bool operator==(const LaneState&) const = default;
};

class LaneGraphs;  // lane_graphs.h
class LaneMemory;  // lane_memory.h

class LaneDriver {
 public:
  virtual ~LaneDriver() = default;

  // What there is to make lanes of, and the limits.
  virtual Result<LaneDriverInfo> info() = 0;
  // A lane on these units, idle; its number. invalid_argument: an empty mask, units that the
  // topology does not have, parts of atoms, or no unit of some die.
  virtual Result<int> create_lane(const hw::UnitMask& mask) = 0;
  // Ends a lane. in_use while anything of it is unfinished: synchronise first.
  virtual Result<void> destroy_lane(int lane) = 0;
  // The lane as it is now.
  virtual Result<LaneState> query(int lane) = 0;
  // Queues a kernel and returns at once.
  virtual Result<void> launch(int lane, Kernel kernel) = 0;
  // Blocks until everything that was queued on the lane before this call is finished, and sees its
  // effects.
  virtual Result<void> synchronise(int lane) = 0;
  // A new event: finished when everything is that was queued on the lane before it.
  virtual Result<int> record_event(int lane) = 0;
  // What is queued on the lane after this waits for the event. Answers whether it has to: where the
  // event is finished already nothing is queued, and the dependency costs nothing.
  virtual Result<bool> wait_event(int lane, int event) = 0;
  // Whether the event is finished.
  virtual Result<bool> event_finished(int event) = 0;
  // Forgets an event; lanes that wait for it go on waiting.
  virtual Result<void> destroy_event(int event) = 0;
  // Whether work-groups may call it, too: all but destroy_lane and synchronise.
  virtual bool open_to_groups() const { return false; }
  // Kernels of several lanes as one launch, where the driver can; nullptr where not.
  virtual LaneGraphs* graphs() { return nullptr; }
  // Memory and code of a device of its own; nullptr where lanes run on this machine's threads.
  virtual LaneMemory* memory() { return nullptr; }
};

}  // namespace partita::device
