#include "planners/batch/timed_explain.h"

#include <fmt/format.h>

#include <algorithm>

namespace partita::planners::batch {
namespace {

std::string in_seconds(Nanos time) { return fmt::format("{:.6g} s", plan::seconds(time).value); }

double in_priority_seconds(const TimedBatch& batch, Wide lateness) {
  return static_cast<double>(lateness) * batch.weight_unit / 1e9;
}

struct Explainer {
  const plan::BatchProblem& problem;
  const TimedBatch& batch;
  const TimedBounds& bounds;
  const Physical& physical;

  const std::string& name(int task) const { return problem.tasks[at(task)].name; }

  std::string profile_of(int task) const {
    const Node& node = batch.forest.nodes[at(physical.node[at(task)])];
    const hw::GpuModel& model = problem.models[at(problem.gpus[at(node.gpu)])];
    return model.profiles[at(node.profile)].name;
  }

  // The predecessor that ended last, or -1.
  int last_before(int task) const {
    int last = -1;
    for (const int before : batch.before[at(task)]) {
      if (last < 0 || physical.end[at(before)] > physical.end[at(last)]) last = before;
    }
    return last;
  }

  std::string summary() const {
    Wide lateness = 0;
    int deadlines = 0, late = 0;
    for (std::size_t t = 0; t < batch.deadline.size(); ++t) {
      if (batch.deadline[t] >= kNever) continue;
      ++deadlines;
      const Nanos by = physical.end[t] - batch.deadline[t];
      if (by <= 0) continue;
      ++late;
      lateness += Wide{batch.weight[t]} * by;
    }
    if (deadlines == 0) return "No task has a deadline.";
    if (late == 0) return fmt::format("All {} deadlines are met.", deadlines);
    return fmt::format(
        "{} of {} deadlines {} missed: lateness times priority adds up to {:.6g} s, and no "
        "schedule "
        "has less than {:.6g} s.",
        late, deadlines, late == 1 ? "is" : "are", in_priority_seconds(batch, lateness),
        in_priority_seconds(batch, bounds.lateness));
  }

  // Why a task could not meet its deadline on an empty GPU either.
  std::string hopeless(int task) const {
    const auto t = at(task);
    std::string why;
    if (bounds.ready[t] > batch.release[t]) {
      why =
          fmt::format("its predecessors cannot have ended before {}", in_seconds(bounds.ready[t]));
    } else if (batch.release[t] > 0) {
      why = fmt::format("it is released at {}", in_seconds(batch.release[t]));
    } else {
      why = "an instance has to be created first";
    }
    return fmt::format("no schedule ends it before {}: {}, and it takes {} at least",
                       in_seconds(bounds.end[t]), why, in_seconds(bounds.least[t]));
  }

  // What held the task up in this schedule, from the largest part on.
  std::string held_up(int task) const {
    const auto t = at(task);
    const int before = last_before(task);
    const Nanos ready = std::max(batch.release[t], before < 0 ? 0 : physical.end[at(before)]);
    const Nanos waited = physical.begin[t] - ready;
    const Nanos slow = physical.end[t] - physical.begin[t] - bounds.least[t];
    const Nanos behind = ready - bounds.ready[t];
    if (before >= 0 && behind >= waited && behind >= slow) {
      return fmt::format("its predecessor {} ends only at {}", name(before), in_seconds(ready));
    }
    if (waited >= slow) {
      return fmt::format("it could run from {} on and waits {} for slices", in_seconds(ready),
                         in_seconds(waited));
    }
    return fmt::format(
        "it runs {} on {} instead of {} on a larger instance, whose slices others use",
        in_seconds(physical.end[t] - physical.begin[t]), profile_of(task),
        in_seconds(bounds.least[t]));
  }

  std::string late(int task) const {
    const auto t = at(task);
    const std::string why = bounds.end[t] > batch.deadline[t] ? hopeless(task) : held_up(task);
    return fmt::format("Task {} ends at {}, {} after its deadline: {}.", name(task),
                       in_seconds(physical.end[t]), in_seconds(physical.end[t] - batch.deadline[t]),
                       why);
  }
};

}  // namespace

std::vector<std::string> explain_timed(const plan::BatchProblem& problem, const TimedBatch& batch,
                                       const TimedBounds& bounds, const Physical& physical) {
  const Explainer explainer{problem, batch, bounds, physical};
  std::vector<std::string> sentences = {explainer.summary()};
  std::size_t late = 0;
  for (int t = 0; t < batch.forest.tasks; ++t) {
    if (physical.end[at(t)] <= batch.deadline[at(t)]) continue;
    if (++late <= kMaxExplainedTasks) sentences.push_back(explainer.late(t));
  }
  if (late > kMaxExplainedTasks) {
    sentences.push_back(fmt::format("{} more tasks are late.", late - kMaxExplainedTasks));
  }
  sentences.push_back(
      fmt::format("The makespan is {}; releases, predecessors and areas alone take {}.",
                  in_seconds(physical.makespan), in_seconds(bounds.makespan)));
  return sentences;
}

}  // namespace partita::planners::batch
