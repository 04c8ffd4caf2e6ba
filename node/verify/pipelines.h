// The judge's own look at pipelines: pools that hand requests on to one another are driven together
// by random arrivals at the whole of their rates, and requests are counted whose way through all
// steps took longer than the SLO. What is counted is the time of the whole way, not a sum of the
// steps' percentiles. Deterministic; shares nothing with planners and simulator but the
// dispatcher's rule. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "plan/dispatcher.h"
#include "plan/serving.h"
#include "verify/findings.h"

namespace partita::verify {

// The pools under the pooled rule of services that are steps of pipelines, by service.
using Pools = std::map<std::string, plan::DispatchPolicy>;

// Names of services that are steps.
std::set<std::string> steps_of_pipelines(const std::vector<plan::Terms>& services);

struct PipelineVerdict {
  bool stable = true;  // every pool that it goes through carries all that arrives there
  bool holds = true;   // no more are late than its percentile allows, and this is sure
  double late = 0;     // share of its requests that were
  double surely = 0;   // ... that are at most, with kSurely confidence (batch means)
  Millis latency{0};   // its percentile
  std::map<std::string, Millis> members = {};  // of a pipeline: the percentile of each step alone
};

inline constexpr double kSurely = 0.99;
inline constexpr long kFewestOfPipeline = 20'000, kMostOfPipeline = 1'280'000;

// Of all pipelines among the services, and of those that are steps and have clients of their own,
// by name; pipelines with a step without pool are left out.
using PipelineVerdicts = std::map<std::string, PipelineVerdict, std::less<>>;
PipelineVerdicts judge_pipelines(const std::vector<plan::Terms>& services, const Pools& pools);
// The same; what was found of the same pipelines and pools lately is told again. Null: nothing is.
struct PoolMemo;
PipelineVerdicts judge_pipelines(const std::vector<plan::Terms>& services, const Pools& pools,
                                 PoolMemo* memo);

// What is wrong with a service of them, or with what its row (null: it has none) says of it. A
// pipeline must have been judged.
void report_pipeline(const plan::Terms& service, const PipelineVerdicts& verdicts,
                     const plan::PlannedService* row, Findings& findings);

}  // namespace partita::verify
