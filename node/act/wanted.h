// Wanted: the layout that a node shall have, whoever decided it -- a serving plan, or a state that
// was read earlier (restore, rollback). Plain data; instances keep the starts that their source
// names.
#pragma once

#include <string>
#include <vector>

#include "act/assignment.h"
#include "base/result.h"
#include "device/node_forms.h"
#include "device/node_state.h"
#include "plan/judged.h"
#include "plan/serving.h"

namespace partita::actuate {

struct WantedInstance : hw::Placement {
  Segment segment;
  bool operator==(const WantedInstance&) const = default;
};

struct WantedGpu {
  std::string model;  // catalogue name
  std::string uuid;   // exactly this GPU; empty: any GPU of the model
  std::vector<WantedInstance> instances;
  int index = -1;  // the node's GPU that is meant, unless another one does better; -1: none
  // GPUs of the same number work as one: MIG is off, and a segment that is named on each of them
  // (as the profile that has all of a GPU) runs once, on all. -1: the GPU is cut into instances.
  int group = -1;
  bool operator==(const WantedGpu&) const = default;
  // Without instances: one that was of a group whose other GPUs are gone. It is wanted empty.
  bool is_whole() const { return group >= 0 && !instances.empty(); }
};

struct Wanted {
  std::vector<WantedGpu> gpus;
  std::vector<plan::Terms> services = {};  // by name; what is known of them
  bool operator==(const Wanted&) const = default;
};

// Whether the device of a segment exists: its instance, or all GPUs of its group with MIG off.
bool is_there(const device::NodeState& state, const std::string& device);

Wanted wanted_of(const plan::Judged<plan::ServingPlan>& plan);
// Exactly this state on exactly these GPUs, of its whole instances: a GPU without any, or with MIG
// off, is wanted empty; nothing lent or lost is wanted. A GPU without UUID may be any of its model.
Wanted wanted_of(const device::NodeState& state, const Assignment& assignment);
// The same for a document that people hand in, with the occupants it names.
Wanted wanted_of(const device::StateDocument& document);

// Refuses what no GPU of the catalogue can be: unknown models and profiles, illegal layouts.
Result<void> check_wanted(const Wanted& wanted, const hw::Catalogue& catalogue);
// The same of a plan, before anybody judges it.
Result<void> check_places(const plan::ServingPlan& plan, const hw::Catalogue& catalogue);

}  // namespace partita::actuate
