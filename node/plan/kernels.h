// The vocabulary of kernel plans: KernelProblem (co-located workers, what their kernels take on how
// many units, a budget of changes) and KernelPlan (the units of every kernel). Values; times in
// microseconds, units are SMs or CUs. Limits: kMaxOptions options, kMaxWorkers workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hw/topology.h"

namespace partita::plan {

inline constexpr int kMaxOptions = 64;
inline constexpr int kMaxWorkers = 64;

// What a worker's kernels take: time[k * options + o] is the time of kernel k on units[o] units.
struct KernelTimes {
  std::vector<int> units;  // the options, ascending
  std::vector<double> time;
  int kernels() const { return units.empty() ? 0 : static_cast<int>(time.size() / units.size()); }
  bool operator==(const KernelTimes&) const = default;
};

struct KernelWorker {
  std::string name;  // unique
  KernelTimes times;
  bool operator==(const KernelWorker&) const = default;
};

// How the units that others use slow a worker down. With A the mean units of a worker, B its summed
// time alone, T the units of the GPU (Quach et al. 2025, section V):
//   others   sum over w of B_w (1 + sum of the others' A / T)   footnote 3: two workers on the same
//                                                               units take twice as long
//   literal  sum over w of B_w (1 + sum of all A / T)           the formula as printed
enum class Overlap { others, literal };
const char* to_string(Overlap overlap);

struct KernelProblem {
  std::vector<KernelWorker> workers;  // at least one
  int total_units = 60;               // T
  int switches = 14;                  // of the units, per worker
  double switch_cost = 0;             // time of one switch; 0 as in the paper
  Overlap overlap = Overlap::others;
  bool operator==(const KernelProblem&) const = default;
};

// A worker's choice: the option of each kernel, and what it comes to.
struct Grouping {
  std::vector<std::uint8_t> option;
  int switches = 0;
  double mean_units = 0;  // over kernels, whatever they take (as ECLIP counts)
  double time = 0;        // summed, with switch_cost per switch
  bool operator==(const Grouping&) const = default;
};

struct KernelPlan {
  std::vector<Grouping> workers;  // as the problem's
  double objective = 0;
  double bound = 0;  // no plan has less
  bool optimal = false;
  bool operator==(const KernelPlan&) const = default;
};

// The mask of a worker's kernels on that many units, made before the run.
struct Lane {
  std::size_t worker = 0;
  int units = 0;
  hw::UnitMask mask;
  int kernels = 0;  // that run on it, of a request
  bool operator==(const Lane&) const = default;
};

// The lanes of a plan, one per worker and number of units that its kernels use. Masks are made of
// whole atoms, or are all units of the GPU.
struct Lanes {
  int atom = 1;           // units that can only be masked together
  std::vector<Lane> all;  // by worker, then units
  const Lane* find(std::size_t worker, int units) const;
  bool operator==(const Lanes&) const = default;
};

// What a planner of kernels makes.
struct PlannedKernels {
  KernelPlan plan;
  Lanes lanes;
  std::string problem_digest = {};  // of what it answers (digest.h); empty: not stated
};

// The time of a worker's request with the slowdown by the others that the problem's rule predicts.
double predicted_time(const KernelProblem& problem, const KernelPlan& plan, std::size_t worker);

}  // namespace partita::plan
