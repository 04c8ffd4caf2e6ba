// The forms are of the vocabulary of plan: its names, visible in theirs. Internal to the forms.
#pragma once

#include "plan/batch.h"
#include "plan/batching.h"
#include "plan/graph.h"
#include "plan/kernels.h"
#include "plan/reason.h"
#include "plan/serving.h"

namespace partita::forms {

using plan::BatchPolicy;
using plan::BatchProblem;
using plan::BatchSchedule;
using plan::BatchStats;
using plan::Batcher;
using plan::CriticalPath;
using plan::FleetEntry;
using plan::GraphProblem;
using plan::GraphRun;
using plan::GraphTask;
using plan::GraphTaskKind;
using plan::GraphTaskRun;
using plan::GraphWaits;
using plan::Grouping;
using plan::KernelPlan;
using plan::KernelProblem;
using plan::KernelTimes;
using plan::KernelWorker;
using plan::Lane;
using plan::Lanes;
using plan::LateTask;
using plan::Nanos;
using plan::Objective;
using plan::Overlap;
using plan::PlanStats;
using plan::PlannedGpu;
using plan::PlannedInstance;
using plan::PlannedService;
using plan::Reason;
using plan::Reconfiguration;
using plan::ScheduledTask;
using plan::Service;
using plan::ServingPlan;
using plan::ServingProblem;
using plan::SizeTimes;
using plan::SloRule;
using plan::Task;
using plan::critical_path;
using plan::kDefaultMaxProcesses;
using plan::kDefaultPercentile;
using plan::kForever;
using plan::kMaxBatchGpus;
using plan::kMaxBatchTime;
using plan::kMaxGraphBytes;
using plan::kMaxGraphEdges;
using plan::kMaxGraphGroups;
using plan::kMaxGraphTasks;
using plan::kMaxGraphWorkUs;
using plan::kMaxOptions;
using plan::kMaxTaskTime;
using plan::kMaxTasks;
using plan::kMaxWorkers;
using plan::kNanosInSecond;
using plan::late_tasks;
using plan::nanos;
using plan::parse_slo_rule;
using plan::predicted_time;
using plan::put_in_order;
using plan::run_ns;
using plan::seconds;
using plan::share_of;
using plan::timed;
using plan::wanted_units;
using plan::work_ns;

}  // namespace partita::forms
