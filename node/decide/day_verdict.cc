#include "decide/day_verdict.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "decide/day_change.h"

namespace partita::decide {
namespace {

constexpr double kClose = 1e-6;  // relative, of numbers that were written down
constexpr double kSecondsOfHour = 3600;

class DayJudge {
 public:
  DayJudge(Files& files, const std::string& file, const plan::DayPlan& day, ProblemFiles inputs)
      : files_(files), file_(file), day_(day), inputs_(std::move(inputs)) {}

  Result<DayVerdict> run() {
    check_order();
    if (!violations_.empty()) return DayVerdict{{}, std::move(violations_)};
    std::vector<plan::ServingProblem> problems;
    for (const plan::DayPeriod& period : day_.periods) {
      auto problem = TRY(judge_from(period));
      problems.push_back(std::move(problem));
    }
    if (violations_.empty()) check_changes(problems);
    if (violations_.empty()) check_hours();
    return DayVerdict{std::move(problems.front()), std::move(violations_)};
  }

 private:
  void report(const std::string& constraint, const std::string& subject, double have, double need,
              const std::string& detail) {
    violations_.push_back({constraint, subject, have, need, detail});
  }
  void check(const std::string& subject, double stated, double right) {
    if (std::abs(stated - right) > kClose * std::max(1.0, std::abs(right)))
      report("day", subject, stated, right, "stated, and counted");
  }

  // Each period ends where the next begins, in the order of the day.
  void check_order() {
    const std::size_t count = day_.periods.size();
    int ends = 0;  // over midnight, or all day
    for (std::size_t p = 0; p < count; ++p) {
      const plan::DayPeriod& period = day_.periods[p];
      const plan::DayPeriod& next = day_.periods[(p + 1) % count];
      ends += period.to <= period.from ? 1 : 0;
      if (period.to != next.from)
        report("day", "period from " + plan::clock_text(period.from), period.to, next.from,
               "minutes of the day: its end, and the beginning of the next");
    }
    if (ends != 1)
      report("day", "periods", ends, 1, "of them reach the end of the day: they are no one day");
    if (day_.changes.size() != (count == 1 ? 0 : count))
      report("day", "changes", static_cast<double>(day_.changes.size()),
             static_cast<double>(count == 1 ? 0 : count), "changes, one into each period");
  }

  Result<JudgedPlan> judged_at(const plan::DayPeriod& period, int minute) {
    inputs_.at = plan::clock_text(minute);
    return judge_plan(files_, file_, period.plan, inputs_);
  }

  // The problem of the period, whose plan is judged at its beginning and at all changes of rates.
  Result<plan::ServingProblem> judge_from(const plan::DayPeriod& period) {
    auto judged = TRY(judged_at(period, period.from));
    add(period.from, judged.verdict);
    Rps all;
    for (const plan::Service& service : judged.problem.services) all += service.rate;
    check(fmt::format("period from {} rate_rps", plan::clock_text(period.from)), period.rate.value,
          all.value);
    auto minutes = TRY(changes_of_rates());
    for (const int minute : minutes) {
      if (minute == period.from || !within(period, minute)) continue;
      const auto then = TRY(judged_at(period, minute));
      add(minute, then.verdict);
    }
    return std::move(judged.problem);
  }

  void add(int minute, const verify::Verdict<plan::ServingPlan>& verdict) {
    if (verdict) return;
    for (plan::Reason reason : verdict.error().violations) {
      reason.subject = fmt::format("at {}: {}", plan::clock_text(minute), reason.subject);
      violations_.push_back(std::move(reason));
    }
  }

  Result<std::set<int>> changes_of_rates() {
    if (!minutes_.empty()) return minutes_;
    ProblemFiles whole = inputs_;
    whole.at.clear();
    whole.gpu = day_.periods.front().plan.gpu_model;
    whole.rule = whole.dispatch = "";
    const auto problem = TRY(load_problem(files_, whole));
    for (const plan::DayPeriod& period : day_.periods) minutes_.insert(period.from);
    for (const plan::Service& service : problem.services)
      for (const plan::RateAt& entry : service.traffic.rates) minutes_.insert(entry.minute);
    return minutes_;
  }

  // While a change is made, under the rates before it; and what is stated of it.
  void check_changes(const std::vector<plan::ServingProblem>& problems) {
    for (std::size_t p = 0; p < day_.changes.size(); ++p) {
      const std::size_t before = (p + day_.periods.size() - 1) % day_.periods.size();
      const plan::DayChange& change = day_.changes[p];
      const std::string at = "change at " + plan::clock_text(change.at);
      const Between right = between(problems[p], day_.periods[before].plan, day_.periods[p].plan);
      check(at, change.at, day_.periods[p].from);
      check(at + " kept", change.changes.kept, right.changes.kept);
      check(at + " restarted", change.changes.restarted, right.changes.restarted);
      check(at + " moved", change.changes.moved, right.changes.moved);
      check(at + " created", change.changes.created, right.changes.created);
      check(at + " removed", change.changes.removed, right.changes.removed);
      check(at + " stand_ins", change.stand_ins, right.stand_ins);
      check(at + " gpus", change.gpus, right.gpus);
      add(change.at, verify::judge(problems[before], right.stood_in));
    }
  }

  void check_hours() {
    double hours = 0;
    for (std::size_t p = 0; p < day_.periods.size(); ++p) {
      const int gpus = day_.periods[p].plan.objective.gpus;
      hours += gpus * day_.periods[p].hours();
      if (day_.changes.empty()) continue;
      const std::size_t before = (p + day_.periods.size() - 1) % day_.periods.size();
      hours += day_.change_time.value / kSecondsOfHour *
               (2 * day_.changes[p].gpus - day_.periods[before].plan.objective.gpus - gpus);
    }
    check("gpu_hours", day_.gpu_hours, hours);
    check("peak_gpu_hours", day_.peak_gpu_hours, day_.peak_gpus * plan::DayPeriod{}.hours());
  }

  Files& files_;
  const std::string& file_;
  const plan::DayPlan& day_;
  ProblemFiles inputs_;
  std::set<int> minutes_;
  std::vector<plan::Reason> violations_;
};

}  // namespace

Result<DayVerdict> judge_day(Files& files, const std::string& file, const plan::DayPlan& day,
                             const ProblemFiles& inputs) {
  return DayJudge(files, file, day, inputs).run();
}

}  // namespace partita::decide
