// What the batch commands share: the flags that name their inputs, and words about tasks.
#pragma once

#include <string>

#include "context.h"
#include "decide/batch.h"
#include "decide/batch_inputs.h"

namespace partita::cli {

struct DrawnSchedule {
  const plan::BatchSchedule& schedule;
  const std::vector<plan::LateTask>& late;
  bool explain = false;
};

// --gpu and --catalogue.
void add_gpu_list_flags(CLI::App& command, decide::GpuNames& flags);
// --gpus, for commands to which it matters how many there are.
void add_gpu_count_flag(CLI::App& command, decide::GpuNames& flags);
// --reconfigurer and --gpus-per-node.
void add_reconfigurer_flags(CLI::App& command, decide::GpuNames& flags);
// --tasks.
void add_tasks_flag(CLI::App& command, std::string& tasks);
// --seed and --budget.
void add_search_flags(CLI::App& command, decide::SearchOptions& flags);
// --time.
void add_time_flag(CLI::App& command, decide::SearchOptions& flags);
// SCHEDULE, --tasks and --catalogue: the GPUs are the schedule's.
void add_schedule_flags(CLI::App& command, decide::ScheduleFiles& flags);

// A schedule for people, or as a picture of --format svg.
Result<std::string> shown_schedule(Context& context, const Output& output,
                                   const std::string& catalogue, const DrawnSchedule& drawn);

// Says on standard error what is odd about a batch.
void warn_about(Context& context, const std::string& tasks, const plan::BatchProblem& problem);

}  // namespace partita::cli
