#include "decide/day.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "decide/day_change.h"
#include "plan/changes.h"
#include "planners/serving/incremental_finish.h"

namespace partita::decide {
namespace {

constexpr double kMinuteSeconds = 60, kHourSeconds = 3600;
// How often the day is gone round at least and at most, as long as its first plan does not follow
// from its last one.
constexpr int kRounds = 3, kMostRounds = 8;

struct Period {
  int from = 0, to = 0;
  plan::ServingProblem problem;
  std::optional<plan::ServingPlan> plan = {};
};

Rps all_rates(const plan::ServingProblem& problem) {
  Rps sum;
  for (const plan::Service& service : problem.services) sum += service.rate;
  return sum;
}

bool same_rates(const plan::ServingProblem& a, const plan::ServingProblem& b) {
  return std::ranges::equal(a.services, b.services, {}, &plan::Service::rate, &plan::Service::rate);
}

// From one minute at which some rate changes to the next; the last one ends where the first begins.
std::vector<Period> periods_of(const plan::ServingProblem& problem) {
  std::set<int> minutes;
  for (const plan::Service& service : problem.services)
    for (const plan::RateAt& entry : service.traffic.rates) minutes.insert(entry.minute);
  std::vector<Period> periods;
  for (const int minute : minutes) {
    plan::ServingProblem now = at_minute(problem, minute);
    if (!periods.empty() && same_rates(now, periods.back().problem)) continue;
    periods.push_back({minute, 0, std::move(now)});
  }
  if (periods.size() > 1 && same_rates(periods.front().problem, periods.back().problem))
    periods.erase(periods.begin());
  if (periods.empty()) periods.push_back({0, 0, problem});
  for (std::size_t p = 0; p < periods.size(); ++p)
    periods[p].to = periods[(p + 1) % periods.size()].from;
  return periods;
}

plan::ServingProblem at_peak(plan::ServingProblem problem) {
  for (plan::Service& service : problem.services) {
    if (service.traffic.rates.empty()) continue;
    service.rate = std::ranges::max(service.traffic.rates, {}, [](const plan::RateAt& entry) {
                     return entry.rate.value;
                   }).rate;
    service.traffic.rates.clear();
  }
  return problem;
}

std::string span_text(const Period& period) {
  return fmt::format("from {} to {}", plan::clock_text(period.from), plan::clock_text(period.to));
}

// A plan made without regard to what ran before, its GPUs then matched to those that did.
Result<Made<plan::ServingPlan>> from_scratch(const Period& period, const plan::ServingPlan* before,
                                             const DayOptions& options) {
  const auto exact = find_planner("--planner", "exact");
  if (!exact) return failed(exact.error());
  auto made = make_plan(**exact, period.problem, options.plan);
  if (!made || !made->plan || before == nullptr) return made;
  plan::ServingPlan plan = **made->plan;
  plan.gpus = planners::serving::named_as_matched(*before, std::move(plan.gpus));
  return make_and_judge("planner 'exact' made a plan", period.problem, std::optional(plan), {});
}

// A plan that changes little of the one before. Where the incremental planner finds none, there may
// still be one that has nothing to do with it.
Result<Made<plan::ServingPlan>> next_plan(const Period& period, const plan::ServingPlan& before,
                                          const DayOptions& options) {
  auto again = make_plan_again(period.problem, before, std::nullopt, options.plan);
  if (!again) return failed(again.error());
  if (again->made.plan) return std::move(again->made);
  return from_scratch(period, &before, options);
}

// A plan, or why there is none, with the period that asks for it.
Result<Made<plan::ServingPlan>> plan_for(const Period& period, const plan::ServingPlan* before,
                                         const DayOptions& options) {
  if (options.plan.watch.progress) options.plan.watch.progress(span_text(period));
  auto made = before == nullptr ? from_scratch(period, nullptr, options)
                                : next_plan(period, *before, options);
  if (!made) return made;
  for (plan::Reason& reason : made->refusals)
    reason.detail = span_text(period) + (reason.detail.empty() ? "" : ": " + reason.detail);
  return made;
}

// What a day costs that goes round: GPUs of all its periods, then instances that its changes make.
std::pair<double, int> cost_of(const std::vector<Period>& periods) {
  std::pair<double, int> cost;
  for (std::size_t p = 0; p < periods.size(); ++p) {
    const Period& period = periods[p];
    const Period& before = periods[(p + periods.size() - 1) % periods.size()];
    const plan::Changes changes = plan::changes_between(*before.plan, *period.plan);
    cost.first +=
        period.plan->objective.gpus * plan::DayPeriod{period.from, period.to, {}, {}}.hours();
    cost.second += changes.restarted + changes.moved + changes.created;
  }
  return cost;
}

// Plans for all periods, round and round from the busiest one, each from the one before it, until a
// round changes nothing or is no cheaper than the cheapest. A day whose rounds do not settle is
// closed where the first plan is not made from the last one; the cheapest round is kept.
// Refusals: of the first period that has no plan.
Result<std::vector<plan::Reason>> fill_in(std::vector<Period>& periods, const DayOptions& options) {
  const auto busiest = std::ranges::max_element(
      periods, {}, [](const Period& period) { return all_rates(period.problem).value; });
  const auto first = static_cast<std::size_t>(busiest - periods.begin());
  const std::size_t count = periods.size();
  const plan::ServingPlan* before = nullptr;
  std::vector<Period> best;
  for (int round = 0; round < kMostRounds; ++round) {
    for (std::size_t step = 0; step < count; ++step) {
      Period& period = periods[(first + step) % count];
      auto made = plan_for(period, before, options);
      if (!made) return failed(made.error());
      if (!made->plan) return std::move(made->refusals);
      // What follows then is known.
      if (period.plan && period.plan->gpus == (**made->plan).gpus)
        return std::vector<plan::Reason>{};
      period.plan = **made->plan;
      before = &*period.plan;
    }
    if (count == 1) return std::vector<plan::Reason>{};
    const bool cheaper = best.empty() || cost_of(periods) < cost_of(best);
    if (!cheaper && round >= kRounds) break;
    if (cheaper) best = periods;
  }
  periods = std::move(best);
  return std::vector<plan::Reason>{};
}

Result<plan::DayChange> change_into(const Period& before, const Period& period) {
  const Between change = between(period.problem, *before.plan, *period.plan);
  const auto verdict = verify::judge(before.problem, change.stood_in);
  if (!verdict)
    return failed(refused_by_judge(
        fmt::format("the change at {} goes through a state", plan::clock_text(period.from)),
        verdict.error().violations));
  return plan::DayChange{period.from, change.changes, change.stand_ins, change.gpus};
}

Result<void> check_time(const std::vector<Period>& periods, Seconds change_time) {
  for (const Period& period : periods) {
    const double seconds = plan::DayPeriod{period.from, period.to, {}, {}}.hours() * kHourSeconds;
    if (periods.size() < 2 || seconds >= 2 * change_time.value) continue;
    return bad_input("--change-time",
                     fmt::format("the period {} is shorter than the changes at its ends, {:g} "
                                 "minutes each",
                                 span_text(period), change_time.value / kMinuteSeconds));
  }
  return {};
}

// What the fleet lacks while a change is made.
std::vector<plan::Reason> lacking(const plan::ServingProblem& problem,
                                  const std::vector<plan::DayChange>& changes) {
  long fleet = 0;
  for (const plan::FleetEntry& entry : problem.fleet) {
    if (!entry.count) return {};
    fleet += *entry.count;
  }
  for (const plan::DayChange& change : changes)
    if (change.gpus > fleet)
      return {{"fleet_count", "change at " + plan::clock_text(change.at),
               static_cast<double>(fleet), static_cast<double>(change.gpus),
               "GPUs at once, to drop no request"}};
  return {};
}

}  // namespace

plan::ServingProblem at_minute(plan::ServingProblem problem, int minute) {
  for (plan::Service& service : problem.services) {
    if (service.traffic.rates.empty()) continue;
    service.rate = plan::rate_at(service.traffic.rates, minute);
    service.traffic.rates.clear();
  }
  return problem;
}

Result<MadeDay> plan_day(const plan::ServingProblem& problem, const DayOptions& options) {
  std::vector<Period> periods = periods_of(problem);
  if (auto time = check_time(periods, options.change_time); !time) return failed(time.error());
  Period peak{periods.front().from, periods.front().from, at_peak(problem)};
  auto for_peak = plan_for(peak, nullptr, options);
  if (!for_peak) return failed(for_peak.error());
  if (!for_peak->plan) return MadeDay{std::nullopt, std::move(for_peak->refusals)};
  auto refusals = fill_in(periods, options);
  if (!refusals) return failed(refusals.error());
  if (!refusals->empty()) return MadeDay{std::nullopt, *std::move(refusals)};

  plan::DayPlan day;
  day.change_time = options.change_time;
  day.peak_gpus = (**for_peak->plan).objective.gpus;
  day.peak_optimal = (**for_peak->plan).objective.optimal;
  day.peak_gpu_hours = day.peak_gpus * plan::DayPeriod{}.hours();
  const double change_hours = options.change_time.value / kHourSeconds;
  for (std::size_t p = 0; p < periods.size(); ++p) {
    const Period& period = periods[p];
    const Period& before = periods[(p + periods.size() - 1) % periods.size()];
    day.periods.push_back({period.from, period.to, all_rates(period.problem), *period.plan});
    day.gpu_hours += period.plan->objective.gpus * day.periods.back().hours();
    if (periods.size() == 1) break;
    const auto change = change_into(before, period);
    if (!change) return failed(change.error());
    day.gpu_hours += change_hours *
                     (2 * change->gpus - before.plan->objective.gpus - period.plan->objective.gpus);
    day.changes.push_back(*change);
  }
  if (auto reasons = lacking(problem, day.changes); !reasons.empty())
    return MadeDay{std::nullopt, std::move(reasons)};
  return MadeDay{std::move(day), {}};
}

}  // namespace partita::decide
