// Made: what a planner makes of a problem, as everybody gets to see it: judged, or the reasons why
// there is none. Every planner's answer goes through make_and_judge; there is no other way from a
// problem to a Judged plan.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decide/reasons.h"
#include "verify/judge.h"

namespace partita::decide {

// What a planner is told of the world: a CPU clock for its statistics, whom to tell how far it is,
// and a clock for searches of a given time. All may be empty; the last only without such a search.
struct Watch {
  std::function<double()> cpu_ms;
  std::function<void(const std::string&)> progress;
  std::function<double()> now_s;
};

template <class Plan>
struct Made {
  std::optional<plan::Judged<Plan>> plan;
  std::vector<plan::Reason> refusals;  // not empty exactly when there is no plan
  long budget = 0;                     // of a search: the least that makes the same again; 0: any
};

// Judges what `planner` ("planner 'exact' made a plan") made. An Error lists what the judge
// refuses; `with` is what the judge needs besides the problem.
template <class Plan, class Problem, class... With>
Result<Made<Plan>> make_and_judge(const std::string& planner, const Problem& problem,
                                  std::optional<Plan> plan, std::vector<plan::Reason> refusals,
                                  const With&... with) {
  if (!plan) return Made<Plan>{std::nullopt, std::move(refusals)};
  verify::Verdict<Plan> verdict = verify::judge(problem, with..., *std::move(plan));
  if (!verdict) return failed(refused_by_judge(planner, verdict.error().violations));
  return Made<Plan>{*std::move(verdict), {}};
}

}  // namespace partita::decide
