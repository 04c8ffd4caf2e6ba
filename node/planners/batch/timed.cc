#include "planners/batch/timed.h"

#include <fmt/format.h>

#include <algorithm>

#include "planners/batch/opened.h"
#include "planners/batch/runs.h"
#include "planners/batch/timed_explain.h"
#include "planners/batch/timed_proof.h"
#include "planners/batch/timed_search.h"
#include "planners/batch/timed_starts.h"

namespace partita::planners::batch {
namespace {

// Work of the default budget: tasks appended by all neighbours together, and neighbours at most.
constexpr long kAppends = 20'000'000;
constexpr long kMaxSteps = 1'000'000;
// Work of the list schedules: tasks x GPUs that one rule looks at, and in all.
constexpr long kLooks = 40'000'000;

// As many list schedules as the work allows, at least one; the rules take turns.
std::vector<Choice> list_schedules(const TimedBatch& batch, const TimedBounds& bounds) {
  long left = kLooks;
  const long each = static_cast<long>(batch.forest.tasks) * std::max(4, batch.forest.gpus);
  std::vector<Choice> starts;
  for (const bool waiting : {false, true}) {
    for (const double waste : kWasteWeights) {
      for (const Urgency urgency : kUrgencies) {
        if (left < 0) return starts;
        left -= each;
        starts.push_back(list_schedule(batch, bounds, {urgency, waste, waiting}));
      }
    }
  }
  return starts;
}

Worth worth_of(const TimedBatch& batch, const Physical& physical) {
  Worth worth{.makespan = physical.makespan};
  for (std::size_t t = 0; t < physical.end.size(); ++t) {
    const Wide weight = batch.weight[t];
    worth.finishing += weight * physical.end[t];
    if (physical.end[t] > batch.deadline[t]) {
      worth.lateness += weight * (physical.end[t] - batch.deadline[t]);
    }
  }
  return worth;
}

// The times of a choice: the decoder's, or realise()'s where its turns are better.
Physical best_times(const TimedBatch& batch, const plan::BatchProblem& problem,
                    const Choice& choice) {
  TimedDecoder decoder(batch);
  Physical best = decoder.physical(choice);
  const Visits visits = decoder.visits(choice);
  for (const Service service : {Service::longest_tail, Service::first_ready}) {
    std::optional<Physical> other = realise(batch.forest, visits, service, {}, &problem);
    if (other && worth_of(batch, *other) < worth_of(batch, best)) best = std::move(*other);
  }
  return best;
}

// What is known of the best schedule.
struct Proven {
  bool optimal = false;  // none is less late, and none as little late is shorter
  Nanos bound = 0;       // none at all is shorter
};

constexpr long kFirstStates = 30'000,
               kLastStates = 200'000;                    // of proofs before and after the search
constexpr double kTargets[] = {0.99, 0.97, 0.95, 0.92};  // of the makespan, as bounds

// Searched to the end where that many states suffice, and then `best` may become better. Else that
// nothing is shorter than a part of it.
Proven prove_best(const TimedBatch& batch, const TimedBounds& bounds, Physical& best, long states) {
  Proven proven{.bound = bounds.makespan};
  const auto search = [&](bool with_lateness, Nanos than, long most) {
    ProofAim aim{worth_of(batch, best), with_lateness, most};
    aim.than.makespan = than;
    return prove(batch, bounds, aim);
  };
  const bool due = std::ranges::any_of(batch.deadline, [](Nanos one) { return one < kNever; });
  TimedProof whole = search(due, best.makespan, states);
  if (whole.better) best = *std::move(whole.better);
  proven.optimal = whole.complete;
  if (whole.complete && due) {  // whether being late makes it shorter
    const TimedProof any = search(false, best.makespan, states);
    if (any.complete) proven.bound = any.better ? any.better->makespan : best.makespan;
  } else if (whole.complete) {
    proven.bound = best.makespan;
  }
  for (const double part : kTargets) {
    const auto target = static_cast<Nanos>(part * static_cast<double>(best.makespan));
    if (whole.complete || target <= proven.bound) break;
    const TimedProof shorter = search(false, target, states / 2);
    if (shorter.complete && !shorter.better) proven.bound = target;
  }
  return proven;
}

}  // namespace

Outcome timed_from(const plan::BatchProblem& problem, const Options& options,
                   const std::vector<std::vector<int>>& assignments) {
  Opened opened = open_problem(problem);
  if (!opened.forest) return std::move(opened.refusal);
  const TimedBatch batch = make_timed(problem, std::move(*opened.forest));
  const TimedBounds bounds = timed_bounds(batch);
  std::vector<Choice> starts = list_schedules(batch, bounds);
  for (const std::vector<int>& assignment : assignments) {
    starts.push_back(choice_of(batch, assignment));
  }
  const long usual = std::min(kMaxSteps, kAppends / std::max(1, batch.forest.tasks));
  Runs runs(usual, options);
  std::optional<Physical> best;
  Proven proven{.bound = bounds.makespan};
  bool tried = !provable(batch);
  long steps = 0;
  while (const std::optional<Run> run = runs.next()) {
    const TimedFound found =
        search_timed(batch, starts, {.seed = run->seed, .steps = run->steps, .bounds = &bounds});
    steps += found.steps;
    Physical physical = best_times(batch, problem, found.choice);
    if (!best || worth_of(batch, physical) < worth_of(batch, *best)) best = std::move(physical);
    if (!tried && run->steps >= usual >> 8) {
      proven = prove_best(batch, bounds, *best, kFirstStates);
      tried = true;
    }
    if (proven.optimal && run->steps >= usual >> 4) break;  // only mean ends could be earlier
  }
  if (tried && !proven.optimal && provable(batch))
    proven = prove_best(batch, bounds, *best, kLastStates);
  const Physical& physical = *best;
  plan::BatchSchedule schedule = to_schedule(batch.forest, problem, physical);
  schedule.scheduler = "timed";
  schedule.lower_bound = proven.bound;
  schedule.optimal = proven.optimal || (schedule.makespan == bounds.makespan &&
                                        worth_of(batch, physical).lateness == bounds.lateness);
  schedule.explanation = explain_timed(problem, batch, bounds, physical);
  schedule.stats.nodes = steps;
  return {.schedule = std::move(schedule), .refusals = {}, .budget = runs.spent()};
}

Outcome timed(const plan::BatchProblem& problem, const Options& options) {
  return timed_from(problem, options, {});
}

}  // namespace partita::planners::batch
