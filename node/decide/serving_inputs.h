// Inputs of serving: from the files that people name to a checked plan::ServingProblem, and from a
// plan file to the judge's verdict. Everything that people can get wrong is refused here with
// FILE:LINE or the flag's name; what comes out can be planned, judged and simulated.
#pragma once

#include <string>
#include <vector>

#include "decide/gpu_costs.h"
#include "decide/input.h"
#include "plan/serving.h"
#include "profile/workload_profile.h"
#include "verify/judge.h"

namespace partita::decide {

struct ProblemFiles {
  std::string services, profiles, gpu, fleet, catalogue;  // paths; gpu: a catalogue name
  std::string gpu_source = "--gpu";                       // what names it, for messages
  std::string rule;                                       // empty: the standard one
  std::string dispatch;                                   // empty: the rule's
  int max_processes = 0;                                  // 0: the standard one
  int survive = -1;                                       // --survive; -1: the services file's
  ObjectiveFiles objective;                               // --objective and what it needs
  std::string at;  // --at: a time of day, whose rates are taken; empty: rate_rps
};

// The problem that they describe. `gpu` names the GPU model unless `fleet` is given. Services whose
// model has no profile on any GPU of the fleet are bad input. `left_out`, where somebody asks: what
// was measured of their language models and is not planned with, and what to measure; and what
// nobody says of the others.
Result<plan::ServingProblem> load_problem(Files& files, const ProblemFiles& inputs,
                                          std::vector<std::string>* left_out = nullptr);

// The GPU models of its fleet, which are all that a plan for it names.
hw::Catalogue catalogue_of(const plan::ServingProblem& problem);

// Profiles measured on `gpu`: a native CSV, a directory of ParvaGPU CSVs, or performance laws
// (JSON).
Result<profile::ProfileTable> load_profiles(Files& files, const std::string& flag,
                                            const std::string& path, const hw::GpuModel& gpu);

// Files that --profiles names, with commas between them; each beside the file that names them.
std::vector<std::string> paths_in(const std::string& list);
std::string all_beside(const std::string& file, const std::string& list);

// All that was measured on `gpu` in these files, with commas between them: profiles of models, and
// engines of language models. Count and price are left open. The refusal names `flag`.
Result<plan::FleetEntry> load_measured(Files& files, const std::string& flag,
                                       const std::string& paths, const hw::GpuModel& gpu);

// "pooled", "queueing" or "execution:F"; the refusal names `flag`.
Result<plan::SloRule> load_rule(const std::string& flag, const std::string& text);

// A plan with the problem that it claims to solve.
struct JudgedPlan {
  plan::ServingProblem problem;
  verify::Verdict<plan::ServingPlan> verdict;
};

// A plan, or that of a plan for a day at this time.
Result<plan::ServingPlan> parse_plan_at(const std::string& file, std::string_view text,
                                        const std::string& at);

// The GPU model is the plan's, the SLO rule too unless the inputs say one; processes are limited
// only by theirs. `file` names the plan in messages.
Result<JudgedPlan> judge_plan(Files& files, const std::string& file, plan::ServingPlan plan,
                              ProblemFiles inputs);
Result<JudgedPlan> load_judged_plan(Files& files, const std::string& path,
                                    const ProblemFiles& inputs);

}  // namespace partita::decide
