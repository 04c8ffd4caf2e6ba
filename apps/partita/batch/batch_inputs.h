// Inputs of the batch commands: from flags to a checked plan::BatchProblem, and from a schedule
// file to the problem that it claims to solve with the judge's verdict. Everything that people can
// get wrong is refused here with FILE:LINE or the flag's name.
#pragma once

#include <string>
#include <vector>

#include "context.h"
#include "plan/batch.h"
#include "plan/reason.h"

namespace partita::cli {

// ---- GPUs ----

struct GpuFlags {
  std::string gpu;  // "A30-24GB", or "A100-80GB:2,A30-24GB:4"
  int gpus = 1;     // of a single model
  std::string catalogue;
};

// --gpu and --catalogue.
void add_gpu_list_flags(CLI::App& command, GpuFlags& flags);
// --gpus, for commands to which it matters how many there are.
void add_gpu_count_flag(CLI::App& command, GpuFlags& flags);

// GPU models, each once, and per GPU the index of its model, in the order of the list.
struct GpuList {
  std::vector<hw::GpuModel> models;
  std::vector<int> gpus;
};

Result<GpuList> load_gpus(Context& context, const GpuFlags& flags);

// ---- problems ----

// Adds --tasks.
void add_tasks_flag(CLI::App& command, std::string& tasks);

// The tasks of the file on these GPUs.
Result<plan::BatchProblem> load_batch(Context& context, const std::string& tasks,
                                      const GpuList& gpus);

// Says on standard error what is odd about a batch.
void warn_about(Context& context, const std::string& tasks, const plan::BatchProblem& problem);

// ---- schedules ----

struct ScheduleFlags {
  std::string schedule;  // path
  std::string tasks;     // path
  std::string catalogue;
};

// SCHEDULE, --tasks and --catalogue: the GPUs are the schedule's.
void add_schedule_flags(CLI::App& command, ScheduleFlags& flags);

struct JudgedSchedule {
  plan::BatchProblem problem;
  plan::BatchSchedule schedule;  // GPU models by their catalogue names
  std::vector<plan::Reason> violations;
};

Result<JudgedSchedule> load_schedule(Context& context, const ScheduleFlags& flags);

// "8 tasks on 1 GPU" of a problem.
std::string size_text(const plan::BatchProblem& problem);

// "28.434": a time in seconds.
std::string seconds_text(plan::Nanos time);

// "2 of 8 tasks miss their deadline:", then one indented line each; empty when nobody is late.
std::string late_text(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule);

}  // namespace partita::cli
