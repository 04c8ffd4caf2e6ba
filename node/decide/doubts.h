// Inputs of serving that are well formed and probably not meant: an SLO in seconds, a rate per
// minute, profiles whose columns disagree. What cannot be meant is refused with FILE:LINE; what may
// be is said as a warning. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "plan/serving.h"

namespace partita::decide {

// An SLO of less than this share of the fastest batch is refused when it makes sense in seconds.
inline constexpr double kHopelessSlo = 1.0 / 50;
// An SLO of so many times the fastest batch, and a rate for so many GPUs, raise a doubt.
inline constexpr double kEndlessSlo = 20'000;
inline constexpr double kManyGpus = 1'000;
// So many warnings are said at most.
inline constexpr std::size_t kMaxDoubts = 8;

// bad_input for a service whose SLO must be in seconds; `file` names the services.
Result<void> check_units(const plan::ServingProblem& problem, const std::string& file);

// Warnings, one sentence each, the first words of which say where.
std::vector<std::string> doubts(const plan::ServingProblem& problem, const std::string& file);

}  // namespace partita::decide
