#include "decide/batch_robust.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace partita::decide {
namespace {

// Runs of one candidate: many, as long as that takes seconds only.
constexpr long kSimulatedTasks = 10'000'000;
constexpr long kFewestRuns = 20, kMostRuns = 1000;

int runs_for(const plan::BatchProblem& problem) {
  const long tasks = std::max<long>(static_cast<long>(problem.tasks.size()), 1);
  return static_cast<int>(std::clamp(kSimulatedTasks / tasks, kFewestRuns, kMostRuns));
}

struct Candidate {
  Made<plan::BatchSchedule> made;
  std::string label;  // for people
};

// All candidates, the first being what the scheduler makes without regard to the spread. Only that
// one may be without a schedule.
Result<std::vector<Candidate>> make_candidates(const planners::batch::Chosen& chosen,
                                               const plan::BatchProblem& problem,
                                               SearchOptions search, const Watch& watch) {
  std::vector<std::pair<planners::batch::Chosen, SearchOptions>> wanted;
  for (int i = 0; i < kSpreadSeeds; ++i, ++search.seed) wanted.emplace_back(chosen, search);
  if (chosen.scheduler == &planners::batch::schedulers().front()) {
    const Result<planners::batch::Chosen> far = planners::batch::find_scheduler("far");
    CHECK(far.has_value());
    wanted.emplace_back(*far, search);
  }
  std::vector<Candidate> candidates;
  for (const auto& [scheduler, how] : wanted) {
    auto made = TRY(make_schedule(scheduler, problem, how, watch));
    const auto same = [&](const Candidate& other) { return **other.made.plan == **made.plan; };
    if (!candidates.empty() && (!made.plan || std::ranges::any_of(candidates, same))) continue;
    const std::string& name = scheduler.scheduler->name;
    candidates.push_back({std::move(made), name == "far" && scheduler.scheduler != chosen.scheduler
                                               ? name
                                               : fmt::format("{} (seed {})", name, how.seed)});
    if (!candidates.front().made.plan) break;
  }
  return candidates;
}

}  // namespace

Result<Robust> make_robust_schedule(const planners::batch::Chosen& chosen,
                                    const plan::BatchProblem& problem, const SearchOptions& search,
                                    double spread, const Watch& watch) {
  auto candidates = TRY(make_candidates(chosen, problem, search, watch));
  std::vector<plan::BatchSchedule> schedules;
  plan::Nanos bound = 0;
  for (const auto& [made, label] : candidates) {
    if (!made.plan) return Robust{made, {}, {}, {}};
    bound = std::max(bound, (*made.plan)->lower_bound);
    schedules.push_back(**made.plan);
    schedules.back().scheduler = label;
  }
  Robust robust;
  robust.options.seed = search.seed;
  robust.options.spread = spread;
  robust.options.runs = runs_for(problem);
  sim::Robustness simulated = TRY(sim::robustness(problem, schedules, robust.options));
  // The best bound of all of them holds for the chosen one.
  plan::BatchSchedule best = **candidates[simulated.best].made.plan;
  best.lower_bound = bound;
  robust.made =
      TRY(make_and_judge(fmt::format("scheduler '{}' made a schedule", chosen.scheduler->name),
                         problem, std::optional(std::move(best)), {}));
  robust.report = simulated.reports[simulated.best];
  robust.candidates = sim::robustness_text(simulated);
  return robust;
}

}  // namespace partita::decide
