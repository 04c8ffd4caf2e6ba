// Documents that compare planners, and batch schedulers, on one problem.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/form.h"
#include "plan/reason.h"

namespace partita::forms {

// What a document of kind Comparison says. Figures of a planner without a plan are not written.
struct StatedStanding {
  struct Worst {
    std::string service;
    double slo_attainment = 0;
    bool operator==(const Worst&) const = default;
  };
  struct Unfillable {
    std::string service;
    int batch = 0;
    double share_rps = 0, fill_ms = 0, execution_ms = 0, slo_ms = 0;
    bool operator==(const Unfillable&) const = default;
  };
  std::string planner, slo_rule;
  bool feasible = false;
  std::vector<plan::Reason> reasons = {};  // why not
  int gpus = 0, gpcs = 0, lower_bound_gpus = 0;
  bool optimal = false;
  double planning_ms = 0, internal_slack = 0, external_fragmentation = 0;
  std::optional<Worst> worst_paced = {}, worst_full = {};
  std::vector<Unfillable> unfillable = {};
  bool operator==(const StatedStanding&) const = default;
};
struct StatedComparison {
  double duration_s = 0;
  std::uint64_t seed = 0;
  std::vector<StatedStanding> planners;
  bool operator==(const StatedComparison&) const = default;
};
std::string comparison_json(const StatedComparison& comparison);
Result<StatedComparison> parse_comparison(const std::string& file, std::string_view text);
DocumentKind comparison_kind();

// What a document of kind BatchComparison says. Figures are written of schedules that are right.
struct StatedBatchStanding {
  std::string scheduler;
  bool feasible = false, ok = false;
  std::vector<plan::Reason> reasons = {};  // why there is none, or what is wrong
  double makespan_s = 0, lower_bound_s = 0;
  bool optimal = false;
  double ratio_to_bound = 0, ratio_to_far = 0;  // infinite: unknown
  int creates = 0, destroys = 0;
  double utilisation = 0, mean_end_s = 0;
  int late = 0;
  double scheduling_ms = 0;
  bool operator==(const StatedBatchStanding&) const = default;
};
struct StatedBatchComparison {
  int tasks = 0, gpus = 0;
  double lower_bound_s = 0;
  std::vector<StatedBatchStanding> schedulers;
  bool operator==(const StatedBatchComparison&) const = default;
};
std::string batch_comparison_json(const StatedBatchComparison& comparison);
Result<StatedBatchComparison> parse_batch_comparison(const std::string& file,
                                                     std::string_view text);
DocumentKind batch_comparison_kind();

}  // namespace partita::forms
