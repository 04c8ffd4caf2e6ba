#include "batch/batch_scheduling.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "flags.h"
#include "serving/planning.h"
#include "progress.h"
#include "verify/batch.h"

namespace partita::cli {

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

void add_search_flags(CLI::App& command, SearchFlags& flags) {
  add_seed(command, flags.seed);
  within(command.add_option("--budget", flags.budget,
                            "Search steps a scheduler may spend (default: its own limit); steps, "
                            "not seconds, so that every machine finds the same schedule"),
         1, 1e12)
      ->type_name("N");
}

Scheduled make_schedule(Context& context, const planners::batch::Chosen& chosen,
                        const plan::BatchProblem& problem, const SearchFlags& search) {
  Scheduled result;
  {
    Progress progress(context);
    planners::batch::Options options;
    options.seed = search.seed;
    options.budget = search.budget;
    options.cpu_ms = [&context] { return static_cast<double>(context.clock.cpu_ns()) / 1e6; };
    options.progress = [&progress](const std::string& line) { progress.show(line); };
    planners::batch::Outcome outcome = planners::batch::run(chosen, problem, options);
    result.schedule = std::move(outcome.schedule);
    result.refusals = std::move(outcome.refusals);
  }
  if (result.schedule) result.violations = verify::verify(problem, *result.schedule);
  return result;
}

std::optional<Error> misuse(const std::string& flag, const std::vector<plan::Reason>& refusals) {
  for (const plan::Reason& reason : refusals) {
    if (reason.constraint != "argument" && reason.constraint != "layout") continue;
    return Error{ErrorCode::bad_input, reason.subject + ": " + reason.detail, flag};
  }
  return std::nullopt;
}

Error internal_error(const std::string& scheduler, const std::vector<plan::Reason>& violations) {
  return {ErrorCode::environment,
          reasons_text(fmt::format("scheduler '{}' made a schedule that the judge refuses; it is "
                                   "not shown. Please report this with the input files.",
                                   scheduler),
                       violations),
          "internal error"};
}

}  // namespace partita::cli
