#include "batch/batch_robust.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace partita::cli {
namespace {

// Runs of one candidate: many, as long as that takes seconds only.
constexpr long kSimulatedTasks = 10'000'000;
constexpr long kFewestRuns = 20, kMostRuns = 1000;

int runs_for(const plan::BatchProblem& problem) {
  const long tasks = std::max<long>(static_cast<long>(problem.tasks.size()), 1);
  return static_cast<int>(std::clamp(kSimulatedTasks / tasks, kFewestRuns, kMostRuns));
}

struct Candidate {
  Scheduled made;
  std::string label;  // for people
};

// All candidates, the first being what the scheduler makes without regard to the spread. Only that
// one may be without a schedule.
std::vector<Candidate> make_candidates(Context& context, const planners::batch::Chosen& chosen,
                                       const plan::BatchProblem& problem, SearchFlags search) {
  std::vector<Candidate> candidates;
  const auto add = [&](const planners::batch::Chosen& scheduler, const std::string& label) {
    Scheduled made = make_schedule(context, scheduler, problem, search);
    const auto same = [&made](const Candidate& other) {
      return other.made.schedule == made.schedule;
    };
    if (candidates.empty() || (made.schedule && std::ranges::none_of(candidates, same))) {
      candidates.push_back({std::move(made), label});
    }
  };
  const std::string& name = chosen.scheduler->name;
  for (int i = 0; i < kSpreadSeeds; ++i, ++search.seed) {
    add(chosen, fmt::format("{} (seed {})", name, search.seed));
    if (!candidates.front().made.schedule) return candidates;
  }
  if (chosen.scheduler != &planners::batch::schedulers().front()) return candidates;
  const Result<planners::batch::Chosen> far = planners::batch::find_scheduler("far");
  CHECK(far.has_value());
  add(*far, "far");
  return candidates;
}

}  // namespace

Result<Robust> make_robust_schedule(Context& context, const planners::batch::Chosen& chosen,
                                    const plan::BatchProblem& problem, const SearchFlags& search,
                                    double spread) {
  std::vector<Candidate> candidates = make_candidates(context, chosen, problem, search);
  std::vector<plan::BatchSchedule> schedules;
  plan::Nanos bound = 0;
  for (const auto& [made, label] : candidates) {
    if (!made.schedule || !made.violations.empty()) return Robust{made, {}, {}, {}};
    bound = std::max(bound, made.schedule->lower_bound);
    schedules.push_back(*made.schedule);
    schedules.back().scheduler = label;
  }
  Robust robust;
  robust.options.seed = search.seed;
  robust.options.spread = spread;
  robust.options.runs = runs_for(problem);
  Result<sim::Robustness> simulated = sim::robustness(problem, schedules, robust.options);
  if (!simulated) return failed(simulated.error());
  robust.made = std::move(candidates[simulated->best].made);
  robust.made.schedule->lower_bound = bound;
  robust.report = simulated->reports[simulated->best];
  robust.candidates = sim::robustness_text(*simulated);
  return robust;
}

forms::ChosenFor chosen_for(const Robust& robust) {
  return {robust.options.spread, robust.options.runs, robust.options.seed,
          plan::seconds(robust.report.mean), plan::seconds(robust.report.p95)};
}

}  // namespace partita::cli
