#include "batch/batch_scheduling.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "flags.h"
#include "serving/planning.h"
#include "progress.h"
#include "verify/batch.h"

namespace partita::cli {
namespace {

constexpr long kMostBudget = 1'000'000'000'000;

// Whether the next run of a search still fits into a time, if steps take as long as in the last.
class Patience {
 public:
  Patience(Clock& clock, double seconds)
      : clock_(clock), begin_(clock.now_ns()), limit_(seconds * 1e9) {}

  bool go_on(long spent, long next) {
    const auto elapsed = static_cast<double>(clock_.now_ns() - begin_);
    const double step = spent > spent_ ? (elapsed - elapsed_) / static_cast<double>(spent - spent_)
                                       : 0;  // nothing is known before the first search
    elapsed_ = elapsed;
    spent_ = spent;
    return elapsed + step * static_cast<double>(next - spent) <= limit_;
  }

 private:
  Clock& clock_;
  std::int64_t begin_;
  double limit_;
  double elapsed_ = 0;
  long spent_ = 1;
};

}  // namespace

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
                            "Search steps that a scheduler may spend instead of its own default; "
                            "steps, not seconds, so that every machine finds the same. More "
                            "never gives a worse schedule"),
         1, kMostBudget)
      ->type_name("N");
}

void add_time_flag(CLI::App& command, SearchFlags& flags) {
  within(command.add_option("--time", flags.time_s,
                            "Search for about so long, and not beyond --budget where that is "
                            "given. What is found depends on the machine; the --budget that finds "
                            "it again is printed"),
         1e-3, 1e6)
      ->type_name("SECONDS");
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
    Patience patience(context.clock, search.time_s);
    if (search.time_s > 0) {
      if (search.budget == 0) options.budget = kMostBudget;
      options.go_on = [&](long spent, long next) { return patience.go_on(spent, next); };
    }
    planners::batch::Outcome outcome = planners::batch::run(chosen, problem, options);
    result.schedule = std::move(outcome.schedule);
    result.refusals = std::move(outcome.refusals);
    result.budget = outcome.budget;
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
