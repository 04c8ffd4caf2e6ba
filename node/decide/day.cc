#include "decide/day.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "base/check.h"
#include "decide/day_change.h"
#include "plan/changes.h"
#include "planners/serving/watts.h"
#include "planners/serving/incremental_finish.h"

namespace partita::decide {
namespace {

constexpr double kMinuteSeconds = 60, kHourSeconds = 3600;
// How often the day is gone round at least and at most, as long as its first plan does not follow
// from its last one.
constexpr int kRounds = 3, kMostRounds = 8;
// Of days of so few periods every way is tried to let plans stay for several of them; of longer
// ones so many, one after the other, where most is changed.
constexpr std::size_t kFewPeriods = 4, kMostTries = 12;

struct Period {
  int from = 0, to = 0;
  plan::ServingProblem problem;
  std::optional<plan::ServingPlan> plan = {};
};

// Of each period: whether the plan of the one before it stays.
using Keeps = std::vector<bool>;

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
  const auto exact = TRY(find_planner("--planner", "exact"));
  auto made = make_plan(*exact, period.problem, options.plan);
  if (!made || !made->plan || before == nullptr) return made;
  plan::ServingPlan plan = **made->plan;
  plan.gpus = planners::serving::named_as_matched(*before, std::move(plan.gpus));
  return make_and_judge("planner 'exact' made a plan", period.problem, std::optional(plan), {});
}

// A plan that changes little of the one before. Where the incremental planner finds none, there may
// still be one that has nothing to do with it.
Result<Made<plan::ServingPlan>> next_plan(const Period& period, const plan::ServingPlan& before,
                                          const DayOptions& options) {
  auto again = TRY(make_plan_again(period.problem, before, std::nullopt, options.plan));
  if (again.made.plan) return std::move(again.made);
  return from_scratch(period, &before, options);
}

// A plan, or why there is none, with the period that asks for it.
Result<Made<plan::ServingPlan>> plan_for(const Period& period, const plan::ServingPlan* before,
                                         const DayOptions& options) {
  if (options.plan.watch.progress) options.plan.watch.progress(span_text(period));
  auto made = TRY(before == nullptr ? from_scratch(period, nullptr, options)
                                    : next_plan(period, *before, options));
  for (plan::Reason& reason : made.refusals)
    reason.detail = span_text(period) + (reason.detail.empty() ? "" : ": " + reason.detail);
  return made;
}

// Energy by the hours of a tariff.
struct Pricing {
  const plan::Tariff& tariff;
  double gpu_hour = 0;  // that an hour of a GPU of the plan for the peak costs; 0: no tariff

  plan::EnergyRate rate(const Period& period) const {
    const auto at = [&](int minute) {
      return static_cast<double>(tariff.from_s) + kMinuteSeconds * minute;
    };
    const int to = period.to > period.from ? period.to : period.to + plan::kMinutesOfDay;
    const auto mean = plan::mean_rate(tariff, at(period.from), at(to));
    CHECK(mean.has_value());  // a day comes again
    return *mean;
  }
  double joules(const Period& period, const plan::ServingPlan& plan) const {
    return planners::serving::expected_watts(period.problem, plan) * kHourSeconds *
           plan::DayPeriod{period.from, period.to, {}, {}}.hours();
  }
  // GPU-hours of the period's plan, as they are weighed.
  double gpu_hours(const Period& period) const {
    if (gpu_hour == 0)
      return period.plan->objective.gpus * plan::DayPeriod{period.from, period.to, {}, {}}.hours();
    return joules(period, *period.plan) / plan::kJoulesPerKwh *
           plan::weight(tariff, rate(period)) / gpu_hour;
  }
};

Result<Pricing> pricing_of(const DayOptions& options, const Period& peak) {
  Pricing pricing{options.tariff};
  if (options.tariff.empty()) return pricing;
  if (!options.tariff.daily)
    return bad_input("--prices", "a day is weighed by hours that come again every day: without "
                                 "dates, as 13:00Z");
  const double mean = plan::weight(options.tariff, pricing.rate(peak));
  const double joules = pricing.joules(peak, *peak.plan);
  if (!(mean > 0 && joules > 0))
    return bad_input("--prices", "energy is free in the mean hour of the day, so nothing can be "
                                 "weighed by it");
  pricing.gpu_hour = joules / plan::kJoulesPerKwh * mean /
                     (peak.plan->objective.gpus * plan::DayPeriod{}.hours());
  return pricing;
}

// What a day costs that goes round, without what its changes need meanwhile.
double cost_of(const std::vector<Period>& periods, const Pricing& pricing) {
  double cost = 0;
  for (std::size_t p = 0; p < periods.size(); ++p) {
    const Period& period = periods[p];
    const Period& before = periods[(p + periods.size() - 1) % periods.size()];
    const plan::Changes changes = plan::changes_between(*before.plan, *period.plan);
    cost += pricing.gpu_hours(period);
    cost += kMoveHours * (changes.restarted + changes.moved + changes.created);
  }
  return cost;
}

// Plans for all periods, round and round from the busiest one, each from the one before it, until a
// round changes nothing or is no cheaper than the cheapest. A day whose rounds do not settle is
// closed where the first plan is not made from the last one; the cheapest round is kept.
// Refusals: of the first period that has no plan.
Result<std::vector<plan::Reason>> fill_in(std::vector<Period>& periods, const DayOptions& options,
                                          const Pricing& pricing) {
  const auto busiest = std::ranges::max_element(
      periods, {}, [](const Period& period) { return all_rates(period.problem).value; });
  const auto first = static_cast<std::size_t>(busiest - periods.begin());
  const std::size_t count = periods.size();
  const plan::ServingPlan* before = nullptr;
  std::vector<Period> best;
  for (int round = 0; round < kMostRounds; ++round) {
    for (std::size_t step = 0; step < count; ++step) {
      Period& period = periods[(first + step) % count];
      auto made = TRY(plan_for(period, before, options));
      if (!made.plan) return std::move(made.refusals);
      // What follows then is known.
      if (period.plan && period.plan->gpus == (**made.plan).gpus)
        return std::vector<plan::Reason>{};
      period.plan = **made.plan;
      before = &*period.plan;
    }
    if (count == 1) return std::vector<plan::Reason>{};
    const bool cheaper = best.empty() || cost_of(periods, pricing) < cost_of(best, pricing);
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

// The same plan for another period; nothing where the judge refuses it under that period's rates.
std::optional<plan::ServingPlan> restated(const Period& period, plan::ServingPlan plan) {
  for (plan::PlannedService& row : plan.services) {
    const auto service = std::ranges::find(period.problem.services, row.name, &plan::Service::name);
    CHECK(service != period.problem.services.end());
    static_cast<plan::Terms&>(row) = plan::row_of(*service, plan.rule);
  }
  plan.objective.lower_bound_gpus = plan.objective.lower_bound_gpcs = 0;
  plan.objective.lower_bound_cost = 0;
  plan.objective.optimal = false;
  plan.explanation = {"the plan of the period before it stays"};
  plan.problem_digest.clear();  // of another problem
  const auto verdict = verify::judge(period.problem, std::move(plan));
  if (!verdict) return std::nullopt;
  return **verdict;
}

class DaySearch {
 public:
  DaySearch(const plan::ServingProblem& problem, std::vector<Period> periods, Period peak,
            const DayOptions& options, const Pricing& pricing)
      : problem_(problem),
        periods_(std::move(periods)),
        peak_(std::move(peak)),
        options_(options),
        pricing_(pricing) {}

  Result<MadeDay> run() {
    const std::size_t count = periods_.size();
    TRY(attempt(Keeps(count, false)));
    if (count > 1) {
      const auto most_changed = by_changes();
      TRY(attempt(Keeps(count, true)));
      const auto tried = count <= kFewPeriods ? attempt_all() : attempt_some(most_changed);
      if (!tried) return failed(tried.error());
    }
    if (best_) return MadeDay{std::move(best_), {}};
    return MadeDay{std::nullopt, std::move(refusals_)};
  }

 private:
  Result<void> attempt_all() {
    const std::size_t count = periods_.size();
    for (std::size_t pattern = 1; pattern + 1 < std::size_t{1} << count; ++pattern) {
      Keeps keeps(count);
      for (std::size_t p = 0; p < count; ++p) keeps[p] = (pattern >> p & 1) != 0;
      if (std::ranges::count(keeps, false) < 2) continue;  // one plan all day
      if (auto tried = attempt(keeps); !tried) return tried;
    }
    return {};
  }

  // One more plan that stays at a time, as long as it pays.
  Result<void> attempt_some(const std::vector<std::size_t>& order) {
    Keeps keeps(periods_.size(), false);
    for (std::size_t i = 0; i < std::min(order.size(), kMostTries); ++i) {
      Keeps more = keeps;
      more[order[i]] = true;
      if (std::ranges::count(more, false) < 2) break;
      TRY(attempt(more));
      if (keeps_ == more) keeps = more;
    }
    return {};
  }

  // The periods of the best day, those first into which most is changed.
  std::vector<std::size_t> by_changes() const {
    std::vector<std::size_t> order(periods_.size());
    std::iota(order.begin(), order.end(), 0);
    if (!best_) return order;
    const auto moves = [&](std::size_t p) {
      const plan::DayChange& change = best_->changes[p];
      return change.changes.restarted + change.changes.moved + change.changes.created +
             change.stand_ins;
    };
    std::ranges::stable_sort(order, std::greater<>(), moves);
    return order;
  }

  // Consecutive periods that one plan serves, as one whose rates are the highest of theirs.
  std::vector<Period> stays_of(const Keeps& keeps) const {
    const std::size_t count = periods_.size();
    const auto first = static_cast<std::size_t>(std::ranges::find(keeps, false) - keeps.begin());
    if (first == count) return {peak_};
    std::vector<Period> stays;
    for (std::size_t step = 0; step < count; ++step) {
      const Period& period = periods_[(first + step) % count];
      if (!keeps[(first + step) % count]) {
        stays.push_back(period);
        continue;
      }
      stays.back().to = period.to;
      for (std::size_t s = 0; s < period.problem.services.size(); ++s) {
        Rps& rate = stays.back().problem.services[s].rate;
        rate = std::max(rate, period.problem.services[s].rate);
      }
    }
    return stays;
  }

  // The periods with the plans of the stays; nothing where one does not serve all its periods.
  std::optional<std::vector<Period>> spread_out(const std::vector<Period>& stays,
                                                const Keeps& keeps) const {
    const std::size_t count = periods_.size();
    const auto first = static_cast<std::size_t>(std::ranges::find(keeps, false) - keeps.begin());
    std::vector<Period> periods = periods_;
    std::size_t stay = 0;
    for (std::size_t step = 0; step < count; ++step) {
      const std::size_t p = (first + step) % count;
      if (step > 0 && !keeps[p]) ++stay;
      const bool alone = !keeps[p] && !keeps[(p + 1) % count];
      periods[p].plan = alone ? stays[stay].plan : restated(periods[p], *stays[stay].plan);
      if (!periods[p].plan) return std::nullopt;
    }
    return periods;
  }

  // Makes the day in which these plans stay, and keeps it if it is the best so far.
  Result<void> attempt(const Keeps& keeps) {
    std::vector<Period> stays = stays_of(keeps);
    if (stays.size() > 1 || !stays.front().plan) {
      auto refusals = TRY(fill_in(stays, options_, pricing_));
      if (!refusals.empty()) return refuse(std::move(refusals));
    }
    const auto periods = spread_out(stays, keeps);
    if (!periods) return {};
    auto day = TRY(day_of(*periods));
    if (auto reasons = lacking(problem_, day.changes); !reasons.empty())
      return refuse(std::move(reasons));
    if (best_ && day_cost(day) >= day_cost(*best_) - kSameCost) return {};
    best_ = std::move(day);
    keeps_ = keeps;
    return {};
  }

  Result<void> refuse(std::vector<plan::Reason> reasons) {
    if (refusals_.empty()) refusals_ = std::move(reasons);
    return {};
  }

  Result<plan::DayPlan> day_of(const std::vector<Period>& periods) const {
    plan::DayPlan day;
    day.change_time = options_.change_time;
    day.peak_gpus = peak_.plan->objective.gpus;
    day.peak_optimal = peak_.plan->objective.optimal;
    day.peak_gpu_hours = day.peak_gpus * plan::DayPeriod{}.hours();
    const double change_hours = options_.change_time.value / kHourSeconds;
    for (std::size_t p = 0; p < periods.size(); ++p) {
      const Period& period = periods[p];
      const Period& before = periods[(p + periods.size() - 1) % periods.size()];
      day.periods.push_back({period.from, period.to, all_rates(period.problem), *period.plan});
      day.gpu_hours += period.plan->objective.gpus * day.periods.back().hours();
      if (pricing_.gpu_hour > 0) state_energy(period, day);
      if (periods.size() == 1) break;
      const auto change = TRY(change_into(before, period));
      day.gpu_hours += change_hours * (2 * change.gpus - before.plan->objective.gpus -
                                       period.plan->objective.gpus);
      day.changes.push_back(change);
    }
    return day;
  }

  void state_energy(const Period& period, plan::DayPlan& day) const {
    const auto add = [](std::optional<plan::EnergyBill>& sum, const plan::EnergyBill& one) {
      if (!sum) sum.emplace();
      sum->joules += one.joules;
      if (one.cost) sum->cost = sum->cost.value_or(0) + *one.cost;
      if (one.co2_g) sum->co2_g = sum->co2_g.value_or(0) + *one.co2_g;
    };
    const plan::EnergyRate rate = pricing_.rate(period);
    plan::DayPeriod& row = day.periods.back();
    row.energy = plan::bill(pricing_.joules(period, *period.plan), rate);
    row.weighed_gpu_hours = pricing_.gpu_hours(period);
    add(day.energy, *row.energy);
    add(day.peak_energy, plan::bill(pricing_.joules(period, *peak_.plan), rate));
  }

  static constexpr double kSameCost = 1e-6;
  const plan::ServingProblem& problem_;
  const std::vector<Period> periods_;  // without plans
  const Period peak_;
  const DayOptions& options_;
  const Pricing& pricing_;
  std::optional<plan::DayPlan> best_;
  Keeps keeps_;  // of it
  std::vector<plan::Reason> refusals_;
};

}  // namespace

plan::ServingProblem at_minute(plan::ServingProblem problem, int minute) {
  for (plan::Service& service : problem.services) {
    if (service.traffic.rates.empty()) continue;
    service.rate = plan::rate_at(service.traffic.rates, minute);
    service.traffic.rates.clear();
  }
  return problem;
}

double day_cost(const plan::DayPlan& day) {
  const int beyond = std::max(0, plan::most_gpus(day) - day.peak_gpus);
  double gpu_hours = day.gpu_hours;
  for (const plan::DayPeriod& period : day.periods)
    if (period.energy)
      gpu_hours += period.weighed_gpu_hours - period.plan.objective.gpus * period.hours();
  return gpu_hours + kMoveHours * (plan::creations(day) + plan::restarts(day)) +
         plan::DayPeriod{}.hours() * beyond;
}

Result<MadeDay> plan_day(const plan::ServingProblem& problem, const DayOptions& options) {
  std::vector<Period> periods = periods_of(problem);
  TRY(check_time(periods, options.change_time));
  Period peak{periods.front().from, periods.front().from, at_peak(problem)};
  auto for_peak = TRY(plan_for(peak, nullptr, options));
  if (!for_peak.plan) return MadeDay{std::nullopt, std::move(for_peak.refusals)};
  peak.plan = **for_peak.plan;
  const auto pricing = TRY(pricing_of(options, peak));
  return DaySearch(problem, std::move(periods), std::move(peak), options, pricing).run();
}

}  // namespace partita::decide
