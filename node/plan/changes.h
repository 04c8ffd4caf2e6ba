// Changes: what becomes of the instances when one plan follows another, and which GPU of the first
// becomes which of the second. One definition for both who promises (the incremental planner) and
// who does it (actuate), so that the promise is what happens. Pure; exact.
#pragma once

#include <string>
#include <vector>

#include "plan/serving.h"

namespace partita::plan {

// An instance that is wanted is *kept* when one with its GPU, MIG profile, start, service, batch
// and processes is there; *restarted* when only batch or processes differ; *moved* when it must be
// made for a service that ran before, and *created* when its service is new. What is there and
// neither kept nor restarted is *removed*.
struct Changes {
  int kept = 0, restarted = 0, moved = 0, created = 0, removed = 0;
  bool operator==(const Changes&) const = default;
};
// "3 kept, 0 restarted, 1 moved, 0 created, 1 removed".
std::string to_string(const Changes& changes);

// An instance and its GPU; of a group of GPUs, which follow one another by index, all of these:
// fewer where some are not there.
struct InstanceAt {
  std::vector<const PlannedGpu*> gpus;
  const PlannedInstance* instance = nullptr;
};
std::vector<InstanceAt> instances_of(const std::vector<PlannedGpu>& gpus);

// What changes from one plan to the next, GPUs taken by index and model. Of several equal instances
// of one GPU each is kept once. MIG profiles are compared by name.
Changes changes_between(const ServingPlan& current, const ServingPlan& next);

// What is, or shall be, at a place of a GPU.
struct Tenancy : hw::Placement {
  std::string service;
  int batch = 0, processes = 0;
  bool held = false;  // processes are on it now
};
struct GpuTenancies {
  int index = 0;
  bool ready = true;  // false: MIG has to be turned on first
  std::vector<Tenancy> tenants;
};

GpuTenancies tenancies_of(const PlannedGpu& gpu);

// GPUs on either side that are matched at most; more are refused by a CHECK.
inline constexpr std::size_t kMaxMatchedGpus = 1024;

// Per wanted GPU the position in `there` of the GPU that becomes it, all different. Of all
// assignments one with, one after the other: the fewest instances moved or created; the fewest
// restarted; the most instances that stay, whoever runs there, held ones eightfold; the fewest GPUs
// that are not ready, the most new layouts on empty GPUs; the most GPUs that keep their index. All
// of one model; wanted.size() <= there.size().
std::vector<int> match_gpus(const std::vector<GpuTenancies>& wanted,
                            const std::vector<GpuTenancies>& there);

}  // namespace partita::plan
