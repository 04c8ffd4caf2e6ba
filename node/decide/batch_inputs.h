// Inputs of batches: from the files and GPUs that people name to a checked plan::BatchProblem, and
// from a schedule file to the judge's verdict. Everything that people can get wrong is refused here
// with FILE:LINE or the flag's name.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "hw/catalogue.h"
#include "plan/batch.h"
#include "verify/judge.h"

namespace partita::decide {

struct GpuNames {
  std::string gpu;  // "A30-24GB", or "A100-80GB:2,A30-24GB:4"
  int gpus = 1;     // of a single model
  std::string catalogue;
};

// GPU models, each once, and per GPU the index of its model, in the order of the list.
struct GpuList {
  std::vector<hw::GpuModel> models;
  std::vector<int> gpus;
};

Result<GpuList> load_gpus(Files& files, const GpuNames& names);

// The tasks of the file on these GPUs.
Result<plan::BatchProblem> load_batch(Files& files, const std::string& tasks, const GpuList& gpus);

struct ScheduleFiles {
  std::string schedule, tasks, catalogue;  // paths
};

// A schedule, GPU models by their catalogue names, with the problem that it claims to solve.
struct JudgedSchedule {
  plan::BatchProblem problem;
  verify::Verdict<plan::BatchSchedule> verdict;
};

Result<JudgedSchedule> load_schedule(Files& files, const ScheduleFiles& inputs);

}  // namespace partita::decide
