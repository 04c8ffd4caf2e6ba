#include "verify/judge.h"

#include <fmt/format.h>

#include <utility>

#include "plan/digest.h"
#include "verify/batch.h"
#include "verify/kernels.h"
#include "verify/power.h"
#include "verify/serving.h"

namespace partita::verify {

// The only one whom Judged lets make it.
class Judge {
 public:
  template <class Plan>
  static Verdict<Plan> pass(Plan plan, std::string digest, std::vector<plan::Reason> violations) {
    if (!violations.empty())
      return tl::unexpected(Refused<Plan>{std::move(plan), std::move(violations)});
    return plan::Judged<Plan>(std::move(plan), std::move(digest));
  }
};

namespace {

using plan::Reason;

// The reason why a plan with that digest does not answer a problem with this one.
std::vector<Reason> other_problem(const std::string& stated, const std::string& own) {
  if (stated.empty() || stated == own) return {};
  return {{"problem_digest", "plan", 0, 0,
           fmt::format("it was made for other inputs: it answers {}, these are {}", stated, own)}};
}

template <class Plan>
Verdict<Plan> pass(Plan plan, const std::string& digest, std::vector<Reason> reasons,
                   const std::vector<Reason>& violations) {
  reasons.insert(reasons.end(), violations.begin(), violations.end());
  if (plan.problem_digest.empty()) plan.problem_digest = digest;
  return Judge::pass(std::move(plan), digest, std::move(reasons));
}

}  // namespace

Verdict<plan::ServingPlan> judge(const plan::ServingProblem& problem, plan::ServingPlan plan) {
  return judge(problem, nullptr, std::move(plan));
}

Verdict<plan::ServingPlan> judge(const plan::ServingProblem& problem, PoolMemo* memo,
                                 plan::ServingPlan plan) {
  const std::string& stated = plan.problem_digest;
  const std::string digest = plan::digest(problem);
  std::vector<Reason> reasons;
  if (!stated.empty() && stated != digest) {
    // Judged by another rule than it was planned under: the digest knows its own.
    plan::ServingProblem planned = problem;
    planned.rule = plan.rule;
    reasons = other_problem(stated, plan::digest(planned));
  }
  const std::vector<Reason> violations = verify(problem, plan, memo);
  return pass(std::move(plan), digest, std::move(reasons), violations);
}

Verdict<plan::BatchSchedule> judge(const plan::BatchProblem& problem,
                                   plan::BatchSchedule schedule) {
  const std::string digest = plan::digest(problem);
  const std::vector<Reason> violations = verify(problem, schedule);
  std::vector<Reason> reasons = other_problem(schedule.problem_digest, digest);
  return pass(std::move(schedule), digest, std::move(reasons), violations);
}

Verdict<plan::PlannedKernels> judge(const plan::KernelProblem& problem,
                                    const hw::Topology& topology, plan::PlannedKernels planned) {
  const std::string digest = plan::digest(problem);
  std::vector<Reason> violations = verify(problem, planned.plan);
  if (violations.empty()) violations = verify(problem, planned.plan, planned.lanes, topology);
  std::vector<Reason> reasons = other_problem(planned.problem_digest, digest);
  return pass(std::move(planned), digest, std::move(reasons), violations);
}

Verdict<plan::PowerPlan> judge(const plan::PowerProblem& problem, plan::PowerPlan plan) {
  const std::string digest = plan::digest(problem);
  const std::vector<Reason> violations = verify(problem, plan);
  std::vector<Reason> reasons = other_problem(plan.problem_digest, digest);
  return pass(std::move(plan), digest, std::move(reasons), violations);
}

Verdict<plan::PowerSchedule> judge(const plan::PowerProblem& problem, const plan::PowerTrace& trace,
                                   const plan::TransitionCost& cost, plan::PowerSchedule schedule) {
  std::vector<Reason> violations = verify(problem, trace, cost, schedule);
  return Judge::pass(std::move(schedule), plan::digest(problem), std::move(violations));
}

Verdict<plan::ServingPlan> judge_alone(const hw::Catalogue& catalogue, plan::ServingPlan plan) {
  std::vector<Reason> violations = verify_alone(catalogue, plan);
  std::string digest = plan.problem_digest;
  return Judge::pass(std::move(plan), std::move(digest), std::move(violations));
}

}  // namespace partita::verify
