#include "planners/batch/opened.h"

#include <utility>

namespace partita::planners::batch {

Outcome refused(std::string constraint, std::string subject, std::string detail) {
  return {.schedule = {},
          .refusals = {{std::move(constraint), std::move(subject), 0, 0, std::move(detail)}}};
}

Opened open_problem(const plan::BatchProblem& problem) {
  Result<Forest> forest = make_forest(problem);
  if (!forest) {
    return {{}, refused("gpu_model", forest.error().context, forest.error().message)};
  }
  for (int task = 0; task < forest->tasks; ++task) {
    if (least_area(*forest, task) < kNever) continue;
    const std::string& name = problem.tasks[at(task)].name;
    return {
        {},
        refused("does_not_fit", "task " + name, "it has no time on any instance of these GPUs")};
  }
  return {std::move(*forest), {}};
}

}  // namespace partita::planners::batch
