// Workload profiles: what a model measured (or is predicted to reach) on a partition.
// A point is (gpcs, batch, processes) -> total throughput of all processes, execution latency of
// one batch.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace partita::profile {

// Bounds on what a profile may hold; readers refuse more.
inline constexpr int kMaxBatch = 65536;
inline constexpr int kMaxProcesses = 64;
inline constexpr int kMaxGpcs = 16;

struct ProfilePoint {
  int gpcs = 0;
  int batch = 0;
  int processes = 0;
  Rps throughput;             // total of all processes, > 0
  Millis latency;             // execution of one batch while all processes run, > 0
  std::optional<Mib> memory;  // of all processes together
  // Absent: measured. Else a law predicted it, learned on this GPU model (empty: not known which).
  std::optional<std::string> learned_on = {};
  bool operator==(const ProfilePoint&) const = default;
  bool predicted() const { return learned_on.has_value(); }
};

// A combination that was tried and did not run, most often for want of memory. What was never tried
// is neither a point nor one of these.
struct NoRun {
  int gpcs = 0;
  int batch = 0;
  int processes = 0;
  bool operator==(const NoRun&) const = default;
};

struct WorkloadProfile {
  std::string model;
  std::vector<ProfilePoint> points;  // sorted by (gpcs, processes, batch), unique
  std::vector<NoRun> no_runs = {};   // sorted likewise, unique, none of them a point
  std::string shape = {};  // of its inputs, as `profile measure` was told; empty: not said
  bool operator==(const WorkloadProfile&) const = default;
};

// Profiles of one GPU model, by model name.
using ProfileTable = std::map<std::string, WorkloadProfile>;

// How long a process is busy with a full batch: what was measured of a batch, or what the measured
// throughput leaves for it when that is longer. Tables round both.
Millis batch_time(const ProfilePoint& point);

// Execution latency (batch_time) against batch size of one (model, gpcs, processes), up to the
// batch size that a segment uses. A partial batch is padded to the cheapest measured batch that
// holds it, so `latency` never decreases.
struct BatchCurve {
  struct Step {
    int batch = 0;
    Millis latency;
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps;  // ascending batch; never empty
  bool operator==(const BatchCurve&) const = default;

  int max_batch() const { return steps.back().batch; }
  // Execution latency of a batch of n requests, 1 <= n <= max_batch().
  Millis latency(int n) const;
};

// The curve of a measured point. Empty steps when (gpcs, processes, batch) was not measured.
BatchCurve batch_curve(const WorkloadProfile& profile, int gpcs, int processes, int max_batch);

// The point with exactly these keys, or null.
const ProfilePoint* find_point(const WorkloadProfile& profile, int gpcs, int batch, int processes);

}  // namespace partita::profile
