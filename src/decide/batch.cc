#include "decide/batch.h"

#include <fmt/format.h>

namespace partita::decide {

std::vector<std::string> scheduler_names() {
  std::vector<std::string> names;
  for (const auto& scheduler : planners::batch::schedulers()) names.push_back(scheduler.name);
  return names;
}

Result<planners::batch::Chosen> choose_scheduler(const std::string& flag, const std::string& name) {
  Result<planners::batch::Chosen> chosen = planners::batch::find_scheduler(name);
  if (!chosen) return bad_input(flag, chosen.error().message);
  return chosen;
}

Result<Made<plan::BatchSchedule>> make_schedule(const planners::batch::Chosen& chosen,
                                                const plan::BatchProblem& problem,
                                                const SearchOptions& search, const Watch& watch) {
  planners::batch::Outcome outcome = planners::batch::run(
      chosen, problem, {search.seed, search.budget, {}, watch.cpu_ms, watch.progress});
  return make_and_judge(fmt::format("scheduler '{}' made a schedule", chosen.scheduler->name),
                        problem, std::move(outcome.schedule), std::move(outcome.refusals));
}

std::optional<Error> misuse(const std::string& flag, const std::vector<plan::Reason>& refusals) {
  for (const plan::Reason& reason : refusals) {
    if (reason.constraint != "argument" && reason.constraint != "layout") continue;
    return Error{ErrorCode::bad_input, reason.subject + ": " + reason.detail, flag};
  }
  return std::nullopt;
}

}  // namespace partita::decide
