#include "planners/batch/best.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/terminal.h"
#include "planners/batch/anneal.h"
#include "planners/batch/branch.h"
#include "planners/batch/far.h"
#include "planners/batch/fifo.h"
#include "planners/batch/opened.h"
#include "planners/batch/played.h"
#include "planners/batch/runs.h"
#include "planners/batch/search.h"
#include "planners/batch/timed.h"

namespace partita::planners::batch {
namespace {

constexpr int kFarStarts = 6;           // allocations of FAR's family to start from
constexpr int kQuickTasks = 17;         // larger batches `best` does not try to prove
constexpr long kQuickProof = 100'000;   // search nodes that it spends on it
constexpr long kFullProof = 8'000'000;  // search nodes: what `exact` spends
constexpr long kFullSettling = 2'000'000;
constexpr long kQuickSettling = 20'000;  // search nodes on real times, once columns are proven
constexpr std::size_t kFinishes = 2;     // assignments that are finished on real times
constexpr long kFinishCost = 8;          // annealing moves that one on real times costs
constexpr double kFinishEnough = 1e-4;   // a finish is left out when so little is to be gained

// What one run may spend.
struct Effort {
  long heuristic_steps = 0;
  long proof_steps = 0;
  long settle_steps = 0;  // search nodes on real times, once the columns are proven
};

Effort effort_of(const Forest& forest, const Run& run, bool exact) {
  if (!exact) {
    const long proof = forest.tasks <= kQuickTasks ? std::min(run.steps, kQuickProof) : 0;
    return {.heuristic_steps = run.steps, .proof_steps = proof, .settle_steps = kQuickSettling};
  }
  // A short run of `exact` is short in all that it does.
  return {.heuristic_steps = std::min(usual_steps(forest), run.steps * kBranchCost),
          .proof_steps = run.steps,
          .settle_steps = std::min(run.steps, std::max(kFullSettling, run.steps / 4))};
}

struct Best {
  Physical physical;
  Nanos bound = 0;
  bool complete = false;  // the shortest columns are proven
  long steps = 0;
  long budget = 0;  // that gives the same again
  Nanos far = 0;    // FAR's makespan
};

// From assignments to the shortest schedule on real times, FAR's to begin with. Keeps the best of
// all runs.
class Finish {
 public:
  Finish(const Forest& forest, const plan::BatchProblem& problem, const FarResult& far)
      : forest_(forest), problem_(problem), best_{.physical = far.physical, .far = far.makespan} {}

  void run(const Found& found, const Effort& effort, int restart) {
    const bool complete = found.lower_bound == found.length;
    best_.bound = std::max(best_.bound, found.lower_bound);
    best_.complete = best_.complete || complete;
    best_.steps += found.steps;
    for (const std::vector<int>& assignment : found.pool) consider(Played(forest_, assignment));
    if (complete && gap() > 0) settled_ = settle(effort.settle_steps);
    const std::size_t finishes = std::min(kFinishes, found.pool.size());
    for (std::size_t i = 0; i < finishes && !done(); ++i) {
      if (gap() <= kFinishEnough * static_cast<double>(best_.bound)) break;
      const AnnealOptions cooling{.seed = at(restart) * kFinishes + i + 1,
                                  .steps = effort.heuristic_steps / (4 * kFinishCost)};
      consider(Played(forest_, anneal_played(forest_, found.pool[i], cooling)));
    }
  }

  const Best& best() const { return best_; }
  // Nothing shorter can be found, by any number of runs.
  bool done() const { return settled_ || gap() <= 0; }

 private:
  double gap() const { return static_cast<double>(best_.physical.makespan - best_.bound); }

  void consider(const Played& played) {
    if (played.longest() >= best_.physical.makespan) return;
    const Visits visits = played.visits(smith_order(forest_, problem_, played.assignment()));
    best_.physical = *realise(forest_, visits, Service::longest_tail);
  }

  // Every assignment whose columns are shorter than the best schedule, on real times: a shorter
  // schedule, or a higher bound, or both. Whether the budget of search nodes sufficed.
  bool settle(long budget) {
    std::vector<int> all(static_cast<std::size_t>(forest_.tasks));
    std::iota(all.begin(), all.end(), 0);
    Played played(forest_, best_.physical.node);
    Nanos unsettled = best_.physical.makespan;
    const auto real = [&](const std::vector<int>& assignment) {
      played.assign(assignment);
      unsettled = std::min(unsettled, played.bound());
      return played.longest();
    };
    const Nanos cutoff = best_.physical.makespan;
    const BranchResult result = Branch(forest_).run(
        Loads(forest_),
        {.free = all, .gpus = {}, .cutoff = cutoff, .budget = budget, .real = real});
    best_.steps += result.steps;
    if (result.found) {
      played.assign(result.nodes);
      consider(played);
    }
    if (!result.complete) return false;
    best_.bound = std::max(best_.bound, std::min(unsettled, best_.physical.makespan));
    return true;
  }

  const Forest& forest_;
  const plan::BatchProblem& problem_;
  Best best_;
  bool settled_ = false;  // no assignment is shorter on real times
};

Best find(const Forest& forest, const plan::BatchProblem& problem, const Options& options,
          bool exact) {
  const FarResult far = far_on(forest);
  std::vector<std::vector<int>> starts = {far.assignment};
  for (ListSchedule& list : far_assignments(forest, kFarStarts)) {
    starts.push_back(std::move(list.assignment));
  }
  starts.push_back(greedy(forest));
  Finish finish(forest, problem, far);
  Runs runs(exact ? kFullProof : usual_steps(forest), options);
  while (!finish.done()) {
    const std::optional<Run> run = runs.next();
    if (!run) break;
    const Effort effort = effort_of(forest, *run, exact);
    const Found found = search(forest, starts,
                               {.seed = run->seed,
                                .heuristic_steps = effort.heuristic_steps,
                                .proof_steps = effort.proof_steps,
                                .progress = options.progress});
    if (options.progress) options.progress("on real times");
    finish.run(found, effort, run->restart);
  }
  Best best = finish.best();
  best.budget = runs.spent();
  return best;
}

std::string seconds_text(Nanos time) { return duration_text(plan::seconds(time).value); }

std::vector<std::string> explain(const plan::BatchSchedule& schedule, const Best& best) {
  std::vector<std::string> lines;
  const auto above = [](Nanos a, Nanos b) {
    return 100.0 * static_cast<double>(a - b) / static_cast<double>(std::max(b, Nanos{1}));
  };
  lines.push_back(fmt::format("FAR's schedule takes {}: {:.2f} % longer.", seconds_text(best.far),
                              above(best.far, schedule.makespan)));
  Nanos reconfiguring = 0;
  for (const plan::Reconfiguration& r : schedule.reconfigurations) reconfiguring += r.end - r.begin;
  lines.push_back(fmt::format("{} creates and destroys take {}, one at a time per GPU.",
                              schedule.reconfigurations.size(), seconds_text(reconfiguring)));
  if (schedule.optimal) {
    lines.push_back(
        fmt::format("No schedule is shorter than {}: proven.", seconds_text(schedule.lower_bound)));
  } else if (best.complete) {
    lines.push_back(fmt::format(
        "No schedule is shorter than {}: on every assignment of tasks to instances some slice is "
        "busy or waits that long. The remaining {:.3f} % are creates and destroys waiting for each "
        "other in this schedule.",
        seconds_text(best.bound), above(schedule.makespan, best.bound)));
  } else {
    lines.push_back(
        fmt::format("No schedule is shorter than {}; the shortest one may be up to "
                    "{:.3f} % shorter than this one.",
                    seconds_text(best.bound), above(schedule.makespan, best.bound)));
  }
  return lines;
}

// Assignments that would be good if nothing had a time of its own.
std::vector<std::vector<int>> untimed_starts(const Forest& forest, const Options& options) {
  const std::vector<int> far = far_on(forest).assignment;
  const SearchOptions effort{.seed = options.seed,
                             .heuristic_steps = usual_steps(forest) / 4,
                             .progress = options.progress};
  return {far, search(forest, {far, greedy(forest)}, effort).pool.front()};
}

Outcome solve(const plan::BatchProblem& problem, const Options& options, bool exact) {
  Opened opened = open_problem(problem);
  if (!opened.forest) return opened.refusal;
  const Forest& forest = *opened.forest;
  if (plan::timed(problem)) {
    const std::vector<std::vector<int>> starts = untimed_starts(forest, options);
    if (options.progress) options.progress("annealing orders and placements");
    return timed_from(problem, options, starts);
  }
  const Best best = find(forest, problem, options, exact);
  plan::BatchSchedule schedule = to_schedule(forest, problem, best.physical);
  schedule.lower_bound = best.bound;
  schedule.optimal = schedule.makespan <= best.bound;
  schedule.stats.nodes = best.steps;
  schedule.explanation = explain(schedule, best);
  return {.schedule = std::move(schedule), .refusals = {}, .budget = best.budget};
}

}  // namespace

Outcome best(const plan::BatchProblem& problem, const Options& options) {
  return solve(problem, options, false);
}

Outcome exact(const plan::BatchProblem& problem, const Options& options) {
  return solve(problem, options, true);
}

}  // namespace partita::planners::batch
