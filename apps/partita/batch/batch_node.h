// The node of `partita batch run`: which of its GPUs a batch uses, who is in the way there, and a
// copy of it in memory on which the batch can be rehearsed. Reads states, changes nothing.
#pragma once

#include <string>
#include <vector>

#include "device/node_state.h"
#include "drivers/sim/machine.h"
#include "exec/batch/script.h"
#include "hw/catalogue.h"
#include "plan/batch.h"

namespace partita::cli {

// Indices of the node's GPUs from --gpu ("0,2"); empty where the flag is. Bad input: no such GPU,
// one twice. environment: MIG is off there, or the model unknown; lost.
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

// The node in memory: its GPUs with their instances and holders, as far as the catalogue knows
// them.
drivers::sim::Machine copy_of(const device::NodeState& node, const hw::Catalogue& catalogue);

}  // namespace partita::cli
