// The independent judge of batch schedules. Recomputes everything from the problem and hw alone;
// shares no code with the schedulers. Pure; keeps nothing between calls.
#pragma once

#include <vector>

#include "plan/batch.h"
#include "plan/reason.h"

namespace partita::verify {

// Times may differ by so much: schedules are read from decimal seconds.
inline constexpr plan::Nanos kTimeTolerance = 1'000;  // 1 microsecond

// All violations, none twice; empty means the schedule is right. Word, subject, meaning:
//   unknown_gpu_model  gpu I        the problem has no such model, or another one at that index
//   gpu_index          task T, gpu I create PROFILE at S   a GPU that the problem does not have
//   unknown_profile    the same     its GPU model has no MIG profile of that name
//   illegal_start      the same     the profile cannot start at that memory slice
//   missing_task       task T       is not scheduled
//   duplicate_task     task T       is scheduled several times
//   unknown_task       task T       is not in the problem
//   does_not_fit       task T       has no time on an instance of that size
//   duration           task T       end - begin is not its time on that instance
//   negative_time      SUBJECT      begins before 0, or ends before it begins
//   no_instance        task T       runs while its instance does not exist (before its creation
//                                   has ended, after its destruction has begun, or never created)
//   instance_busy      tasks T and U   overlap in time on one instance
//   reconfiguration_time  gpu I OP PROFILE at S   takes another time than the catalogue's
//   reconfiguration_overlap  gpu I  two reconfigurations at the same time
//   create_existing    gpu I PROFILE at S   is created while it exists
//   destroy_missing    gpu I PROFILE at S   is destroyed while it does not exist
//   layout             gpu I at TIME  the instances that exist at that time cannot exist together
//                                   (hw::conflicts: memory slices, compute slices, ...)
//   release            task T       starts before its release time
//   after              task T       starts before its predecessor U has ended
//   makespan           schedule     states another one than the last task's end
//   lower_bound        schedule     exceeds the makespan; or optimal is claimed
//                                   and the areas alone leave no doubt that it cannot be
// An instance exists from the begin of its creation to the end of its destruction, or to the end of
// time. Deadlines are wishes: plan::late_tasks names who misses them.
std::vector<plan::Reason> verify(const plan::BatchProblem& problem,
                                 const plan::BatchSchedule& schedule);

}  // namespace partita::verify
