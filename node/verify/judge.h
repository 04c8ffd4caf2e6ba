// The judge's stamp. `verify` (serving.h, batch.h, kernels.h) lists what is wrong; `judge` turns a
// plan without faults into a Judged plan, the only way to get one. A plan that states the digest of
// another problem is refused with `problem_digest` as the first reason; one that states none gets
// the problem's. Pure.
#pragma once

#include <tl/expected.hpp>
#include <vector>

#include "hw/catalogue.h"
#include "plan/batch.h"
#include "plan/judged.h"
#include "plan/kernels.h"
#include "plan/power.h"
#include "plan/reason.h"
#include "plan/serving.h"

namespace partita::verify {

struct PoolMemo;

// What the judge did not let pass, and why; there is at least one reason.
template <class Plan>
struct Refused {
  Plan plan;
  std::vector<plan::Reason> violations;
};

template <class Plan>
using Verdict = tl::expected<plan::Judged<Plan>, Refused<Plan>>;

// A serving plan states the SLO rule that it was planned under, and its digest is of that; it is
// judged by the problem's.
Verdict<plan::ServingPlan> judge(const plan::ServingProblem& problem, plan::ServingPlan plan);
// The same; `memo` as in serving.h.
Verdict<plan::ServingPlan> judge(const plan::ServingProblem& problem, PoolMemo* memo,
                                 plan::ServingPlan plan);
Verdict<plan::BatchSchedule> judge(const plan::BatchProblem& problem, plan::BatchSchedule schedule);
Verdict<plan::PlannedKernels> judge(const plan::KernelProblem& problem,
                                    const hw::Topology& topology, plan::PlannedKernels planned);
Verdict<plan::PowerPlan> judge(const plan::PowerProblem& problem, plan::PowerPlan plan);
// A schedule has no digest: it is judged against the trace that it was made for.
Verdict<plan::PowerSchedule> judge(const plan::PowerProblem& problem, const plan::PowerTrace& trace,
                                   const plan::TransitionCost& cost, plan::PowerSchedule schedule);

// A plan whose services nobody has at hand: what the document says must hold together. Placements
// are legal, every instance carries something and its service has a row, every row has an instance,
// what is planned for it is carried and covers its rate, and its predicted latency keeps its SLO
// (for execution:F, that share of it), and replicas and who keeps apart are as its terms say. Words
// as in serving.h. Left out is what only services and profiles tell: measured points, percentiles,
// prices, and whether the terms are what was asked for.
Verdict<plan::ServingPlan> judge_alone(const hw::Catalogue& catalogue, plan::ServingPlan plan);

}  // namespace partita::verify
