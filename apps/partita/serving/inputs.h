// Inputs: from the flags of a serving command to a checked plan::ServingProblem. Everything that
// people can get wrong is refused here with FILE:LINE or the flag's name; what comes out can be
// planned, judged and simulated.
#pragma once

#include <string>
#include <vector>

#include "context.h"
#include "plan/serving.h"
#include "profile/workload_profile.h"

namespace partita::cli {

struct ProblemFlags {
  std::string services, profiles, gpu, fleet, catalogue;
  std::string gpu_source = "--gpu";  // what names the GPU model, for messages
  std::string rule;                  // empty: the command's default
  int max_processes = 0;             // 0: the command's default
};

// --services, --profiles, --fleet, --catalogue, --slo-rule, --max-processes.
void add_problem_flags(CLI::App& command, ProblemFlags& flags);
// --gpu as well, for commands that choose the GPU model rather than read it from a plan.
void add_gpu_flag(CLI::App& command, ProblemFlags& flags);

// The problem that the flags describe. flags.gpu names the GPU model unless --fleet is given.
// Services whose model has no profile on any GPU of the fleet are bad input.
Result<plan::ServingProblem> load_problem(Context& context, const ProblemFlags& flags);

// Profiles measured on `gpu`: a native CSV, a directory of ParvaGPU CSVs, or performance laws
// (JSON).
Result<profile::ProfileTable> load_profiles(Context& context, const std::string& flag,
                                            const std::string& path, const hw::GpuModel& gpu);

// The plan in `path`.
Result<plan::ServingPlan> load_plan(Context& context, const std::string& path);

// "queueing" or "execution:F"; the refusal names `flag`.
Result<plan::SloRule> load_rule(const std::string& flag, const std::string& text);

// One line of a fleet file.
struct FleetLine {
  std::string gpu;           // catalogue name
  std::optional<int> count;  // absent: as many as needed
  double price = 1;
  std::string profiles;  // path, relative to the fleet file
  int line = 0;
  bool operator==(const FleetLine&) const = default;
};

// The fleet file: a list under `gpus` of gpu, profiles and optional count, price.
Result<std::vector<FleetLine>> parse_fleet(const std::string& file, std::string_view text);

}  // namespace partita::cli
