// A LivePlanner against a clock that jumps from event to event: tasks become known at their release
// and take other times than expected. Deterministic; what it makes is judged by its callers.
#pragma once

#include <functional>
#include <vector>

#include "planners/batch/live.h"

namespace partita::planners::batch {

struct LiveRunOptions {
  LiveOptions planning = {};
  double cv = 0;  // how far actual times are thought to be off
  // What came before, by its release: before 0, ascending. It is known, and over.
  std::vector<plan::Task> earlier = {};
};

struct LiveRun {
  plan::BatchSchedule schedule;  // what took place, with the actual times; lower_bound 0
  long plannings = 0;
  std::vector<double> planning_ms;  // per decision, CPU; empty without a clock
};

// `actual` has the same tasks with the times that they really take. Predecessors must be released
// no later than what comes after them. bad_input as LivePlanner::create's, and a task that fits
// nowhere.
Result<LiveRun> run_live(const plan::BatchProblem& expected, const plan::BatchProblem& actual,
                         const LiveRunOptions& options, const std::function<double()>& cpu_ms = {});

}  // namespace partita::planners::batch
