// How many units a kernel or a model needs. `sizes`: the numbers that a mask may have, ascending,
// the last all of them (hw::mask_sizes); without it any number. Pure.
#pragma once

#include <span>
#include <vector>

#include "profile/kernel_profile.h"

namespace partita::planners::mask {

// The fewest units on which the kernel takes at most (1 + tolerance) times what it takes on all of
// them (KRISP, section 3.3.2).
using Sizes = std::span<const int>;
int least_units(const profile::KernelProfile& kernel, double tolerance, Sizes sizes = {});
std::vector<int> least_units(const profile::ModelKernels& model, double tolerance,
                             Sizes sizes = {});

// The fewest units on which the whole model, all kernels on the same units, takes at most (1 +
// tolerance) times what it takes on all: the knee that model-wise right-sizing uses.
int knee(const profile::ModelKernels& model, double tolerance, Sizes sizes = {});

// Units per kernel such that the model takes at most (1 + tolerance) times what it takes on all
// units.
struct RightSize {
  std::vector<int> units;  // per kernel
  double time_us = 0;
  double unit_us = 0;  // summed units x time: what the GPU spends
  double bound = 0;    // no choice spends less; 0 where nothing is proven
  bool optimal = false;
};

// Algorithm 2 (Chow 2022, section 3.6) with its two inverted tests put right: from the least size
// each, the kernel whose next step saves the most time takes it, until the model is fast enough. It
// steps over plateaus; what it makes small is the sum of units, whatever the kernels take.
RightSize critical_greedy(const profile::ModelKernels& model, double tolerance, Sizes sizes = {});

// The least unit_us: a multiple-choice knapsack over the kernels. The Lagrangian price of time
// gives a bound and a choice near it; options that the gap between them excludes are dropped, and
// what is left is enumerated as lists of (time, unit_us) that do not dominate each other. Exact
// unless a list would grow beyond max_states; then the best choice found, with the bound.
RightSize critical_exact(const profile::ModelKernels& model, double tolerance, Sizes sizes = {},
                         std::size_t max_states = 200'000);

}  // namespace partita::planners::mask
