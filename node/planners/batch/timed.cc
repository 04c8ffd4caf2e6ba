#include "planners/batch/timed.h"

#include <fmt/format.h>

#include <algorithm>

#include "planners/batch/opened.h"
#include "planners/batch/runs.h"
#include "planners/batch/timed_explain.h"
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
  Runs runs(std::min(kMaxSteps, kAppends / std::max(1, batch.forest.tasks)), options);
  std::optional<Physical> best;
  long steps = 0;
  while (const std::optional<Run> run = runs.next()) {
    const TimedFound found = search_timed(
        batch, starts, {.seed = run->seed, .steps = run->steps, .bounds = &bounds});
    steps += found.steps;
    Physical physical = best_times(batch, problem, found.choice);
    if (!best || worth_of(batch, physical) < worth_of(batch, *best)) best = std::move(physical);
  }
  const Physical& physical = *best;
  plan::BatchSchedule schedule = to_schedule(batch.forest, problem, physical);
  schedule.scheduler = "timed";
  schedule.lower_bound = bounds.makespan;
  schedule.optimal =
      schedule.makespan == bounds.makespan && worth_of(batch, physical).lateness == bounds.lateness;
  schedule.explanation = explain_timed(problem, batch, bounds, physical);
  schedule.stats.nodes = steps;
  return {.schedule = std::move(schedule), .refusals = {}, .budget = runs.spent()};
}

Outcome timed(const plan::BatchProblem& problem, const Options& options) {
  return timed_from(problem, options, {});
}

}  // namespace partita::planners::batch
