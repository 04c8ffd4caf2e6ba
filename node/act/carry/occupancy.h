// The node that a batch is carried out on: which of its GPUs the batch uses, and who is in the way
// there. Pure: works on a state that was read.
#pragma once

#include <string>
#include <vector>

#include "device/node_state.h"
#include "act/batch/script.h"
#include "hw/catalogue.h"
#include "plan/batch.h"

namespace partita::carry {

// Indices of the node's GPUs from --gpu-index ("0,2"); empty where the flag is. Bad input: no such
// GPU, one twice. environment: MIG is off there, or the model unknown; lost.
Result<std::vector<int>> named_gpus(const std::string& flag, const device::NodeState& node);

// All of the node that have MIG on and a model of the catalogue. Environment when there is none.
Result<std::vector<int>> usable_gpus(const device::NodeState& node);

// Per GPU of the problem one of the node, of its model: those `named`, else the first that fit. Bad
// input whose context is `schedule` when the node has other GPUs than the schedule is for.
Result<std::vector<int>> matching_gpus(const plan::BatchProblem& problem,
                                       const device::NodeState& node, const std::vector<int>& named,
                                       const std::string& schedule);

// Instances that are in the way of those of the script, each with its GPU and who holds it:
// together with them some would find no room at the moment when they are planned.
std::vector<std::string> blockers(const exec::Script& script, const device::NodeState& node,
                                  const hw::Catalogue& catalogue);

}  // namespace partita::carry
