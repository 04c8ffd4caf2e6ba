#include "decide/batch.h"

#include <fmt/format.h>

namespace partita::decide {
namespace {

// Whether the next run of a search still fits into a time, if steps take as long as in the last.
class Patience {
 public:
  Patience(std::function<double()> now_s, Seconds limit)
      : now_s_(std::move(now_s)), begin_(now_s_()), limit_(limit.value) {}

  bool go_on(long spent, long next) {
    const double elapsed = now_s_() - begin_;
    const double step = spent > spent_ ? (elapsed - elapsed_) / static_cast<double>(spent - spent_)
                                       : 0;  // nothing is known before the first search
    elapsed_ = elapsed;
    spent_ = spent;
    return elapsed + step * static_cast<double>(next - spent) <= limit_;
  }

 private:
  std::function<double()> now_s_;
  double begin_, limit_;
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

Result<Made<plan::BatchSchedule>> make_schedule(const planners::batch::Chosen& chosen,
                                                const plan::BatchProblem& problem,
                                                const SearchOptions& search, const Watch& watch) {
  planners::batch::Options options;
  options.seed = search.seed;
  options.budget = search.budget;
  options.cpu_ms = watch.cpu_ms;
  options.progress = watch.progress;
  std::optional<Patience> patience;
  if (search.time.value > 0) {
    patience.emplace(watch.now_s, search.time);
    if (search.budget == 0) options.budget = kMostBudget;
    options.go_on = [&](long spent, long next) { return patience->go_on(spent, next); };
  }
  planners::batch::Outcome outcome = planners::batch::run(chosen, problem, options);
  auto made = make_and_judge(fmt::format("scheduler '{}' made a schedule", chosen.scheduler->name),
                             problem, std::move(outcome.schedule), std::move(outcome.refusals));
  if (made) made->budget = outcome.budget;
  return made;
}

std::optional<Error> misuse(const std::string& flag, const std::vector<plan::Reason>& refusals) {
  for (const plan::Reason& reason : refusals) {
    if (reason.constraint != "argument" && reason.constraint != "layout") continue;
    return Error{ErrorCode::bad_input, reason.subject + ": " + reason.detail, flag};
  }
  return std::nullopt;
}

}  // namespace partita::decide
