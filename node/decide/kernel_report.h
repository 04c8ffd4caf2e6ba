// What the outputs of `partita kernels` share. Pure.
#pragma once

#include <string>
#include <vector>

#include "hw/topology.h"
#include "plan/kernels.h"
#include "profile/kernel_profile.h"

namespace partita::decide {

// A row of blocks, one per kernel or several kernels, as high as their mean share of `most` units.
std::string strip(const std::vector<int>& units, int most, int columns);

// "330 kernels, 5148 us on all 60 CUs".
std::string model_facts(const profile::ModelKernels& model, const hw::Topology& topology);

// "MI50, 60 CUs", with its atoms where they are of several units.
std::string gpu_facts(const hw::Topology& topology, int atom);

// "objective 4960.538 us, bound 4960.538: optimal".
std::string objective_text(const plan::KernelPlan& plan);

// A plan for people: a table of the workers, the units of their kernels as blocks, and the masks.
std::string kernel_plan_text(const plan::KernelProblem& problem,
                             const plan::PlannedKernels& planned, const hw::Topology& topology,
                             int width);

}  // namespace partita::decide
