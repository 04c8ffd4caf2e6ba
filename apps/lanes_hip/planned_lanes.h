// What a process is told to do with its kernels: the worker of a KernelPlan that it is.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "hw/topology.h"
#include "lanes/kernel_cursor.h"

namespace partita::lanes_hip {

// Where the plan lies and who this process is of its workers; the environment says it.
struct PlanNames {
  std::string plan, profiles, worker;
};
// PARTITA_KERNEL_PLAN, PARTITA_KERNEL_PROFILES, PARTITA_KERNEL_WORKER.
PlanNames names_of_environment();

// Lane 0 is the stream itself, with all units; lane i has masks[i - 1].
struct PlannedLanes {
  int total_units = 0;
  std::vector<hw::UnitMask> masks;
  std::vector<lanes::KernelCursor::Step> steps;
};
// Refused with FILE:LINE or the variable's name: what the readers refuse, a worker that the plan
// does not have, other numbers of kernels, units without a lane.
Result<PlannedLanes> read_planned_lanes(Files& files, const PlanNames& names);

}  // namespace partita::lanes_hip
