// The independent judge of batch schedules. Recomputes everything from the problem and hw alone;
// shares no code with the schedulers. Pure; keeps nothing between calls. Takes any numbers, also
// absurd ones; of the problem it trusts that parse_tasks would have made it. Takes n log n in
// tasks and reconfigurations; lists at most a few reasons for each of them.
#pragma once

#include <vector>

#include "plan/batch.h"
#include "plan/reason.h"

namespace partita::verify {

// Times may differ by so much, and intervals that must not meet may overlap by it: schedules are
// read from decimal seconds.
inline constexpr plan::Nanos kTimeTolerance = 1'000;  // 1 microsecond

// All violations, none twice; empty means the schedule is right. Word, subject, meaning:
//   unknown_gpu_model  gpu I        the problem has another model at that index, or the schedule
//                                   names none there, or one too many
//   gpu_index          task T, gpu I create PROFILE at S   a GPU that the problem does not have
//   unknown_profile    the same     its GPU model has no MIG profile of that name or alias
//   illegal_start      the same     the profile cannot start at that memory slice
//   missing_task       task T       is not scheduled
//   duplicate_task     task T       is scheduled several times
//   unknown_task       task T       is not in the problem
//   does_not_fit       task T       has no time on an instance of that size
//   duration           task T       end - begin is not its time on that instance
//   negative_time      task T, gpu I OP PROFILE at S   begins before 0, or ends before it begins
//                      schedule     states a lower bound below 0
//   no_instance        task T       runs while its instance does not exist (before its creation
//                                   has ended, after its destruction has begun, or never created)
//   instance_busy      tasks T and U   overlap in time on one instance; U with the one of those
//                                   before that ends last
//   reconfiguration_time  gpu I OP PROFILE at S   takes another time than the catalogue's for
//                                   instances of so many compute slices (0 when it has none)
//   reconfiguration_overlap  gpu I  two reconfigurations at the same time
//   create_existing    gpu I PROFILE at S   is created while it exists
//   destroy_missing    gpu I PROFILE at S   is destroyed while it does not exist
//   layout             gpu I at TIME s   the instance created then cannot exist together with those
//                                   that do (hw::conflicts: memory slices, compute slices, ...)
//   release            task T       starts before its release time
//   after              task T       starts before a predecessor has ended
//   makespan           schedule     states another one than the last task's end
//   lower_bound        schedule     exceeds the makespan, or what the tasks take one by one on one
//                                   instance; or optimal is claimed of more than that
// An instance exists from the begin of its creation to the end of its destruction, or to the end of
// time; nothing exists at the start. All profiles are legal, not only plain ones; a task's time is
// that of the profile's compute slices. Deadlines are wishes: plan::late_tasks names who misses
// them. That optimal is true the judge cannot know.
std::vector<plan::Reason> verify(const plan::BatchProblem& problem,
                                 const plan::BatchSchedule& schedule);

}  // namespace partita::verify
