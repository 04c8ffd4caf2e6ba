#include "decide/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/append.h"
#include "base/nearest.h"
#include "decide/pipelines.h"
#include "plan/digest.h"
#include "plan/predictions.h"
#include "planners/serving/finish.h"
#include "planners/serving/in_place.h"
#include "planners/serving/pool_memo.h"
#include "planners/serving/token_points.h"
#include "verify/pool_memo.h"

namespace partita::decide {
namespace {

constexpr std::size_t kTellOfJudge = 500;    // services: from there on it takes a second
constexpr std::size_t kPoolsOfService = 12;  // answers remembered from turn to turn
constexpr int kMostRoomier = 10;             // plans after the first
constexpr double kRoom = 0.02;               // of the rate, the first time
constexpr double kMostRoom = 0.3;
constexpr double kRoomOfMany = 0.05;
constexpr std::size_t kManyServices = 500;

planners::serving::Options serving_options(const PlanOptions& options) {
  return {.node_budget = options.node_budget,
          .cpu_ms = options.watch.cpu_ms,
          .progress = options.watch.progress,
          .pools = options.planners_pools,
          .tokens = options.planners_tokens,
          .rules = options.planners_pools ? &options.planners_pools->rules : nullptr,
          .most_gpus = options.most_gpus};
}

// Of steps of pipelines, which are planned alone and together again and again.
planners::serving::Outcome outcome_of(const Planner& planner, const plan::ServingProblem& problem,
                                      const PlanOptions& options) {
  const planners::serving::Options how = serving_options(options);
  const bool known = how.pools && !how.cpu_ms && !problem.goal &&
                     std::ranges::none_of(problem.services, plan::adds_up);
  if (!known) return planner.plan(problem, how);
  std::string key = planner.name + plan::digest(problem);
  for (const plan::Service& one : problem.services)
    key += fmt::format("|{}{}", one.name, one.member ? "." : "");
  for (const plan::FleetEntry& one : problem.fleet)
    key +=
        fmt::format("|{}*{}*{}*{}", one.gpu.name, one.count.value_or(-1), one.price, one.node_gpus);
  key += fmt::format("|{}|{}|{}", problem.max_processes, how.node_budget, how.most_gpus);
  if (const auto* found = how.pools->outcomes.find(key)) return *found;
  return how.pools->outcomes.keep(std::move(key), planner.plan(problem, how));
}

// What a planner made, with what of it rests on predictions.
std::optional<plan::ServingPlan> marked(const plan::ServingProblem& problem,
                                        planners::serving::Outcome& outcome) {
  if (!outcome.plan) return std::nullopt;
  return plan::with_predictions(problem, *std::move(outcome.plan));
}

// More from turn to turn, and more for a few of many, which hardly make the plan larger.
double room_of(const plan::ServingProblem& problem, int turn) {
  const double first = problem.services.size() > kManyServices ? kRoomOfMany : kRoom;
  return std::min(kMostRoom, std::ldexp(first, turn));
}

// The services whose pools the judge's arrivals find too tight, when that is all that it says.
std::set<std::size_t> too_tight(const plan::ServingProblem& problem,
                                const std::vector<plan::Reason>& violations) {
  if (problem.rule.kind != plan::SloRule::Kind::pooled) return {};
  std::map<std::string, std::size_t> services;
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    services.emplace("service " + problem.services[s].name, s);
    services.emplace("service " + problem.services[s].name + " predicted_latency_ms", s);
  }
  std::set<std::size_t> missed;
  for (const plan::Reason& violation : violations) {
    // What is left of a service without a GPU: "service S without gpu I".
    const std::string subject = violation.subject.substr(0, violation.subject.find(" without gpu"));
    const auto service = services.find(subject);
    const bool in_time = violation.constraint == "slo" || violation.constraint == "service_row" ||
                         violation.constraint == "survive";
    if (!in_time || service == services.end()) return {};
    missed.insert(service->second);
  }
  return missed;
}

// They are planned for a little more traffic.
void give_room(plan::ServingProblem& asked, const std::set<std::size_t>& services, double room) {
  for (const std::size_t s : services) {
    double& headroom = asked.services[s].traffic.headroom;
    headroom = (1 + headroom) * (1 + room) - 1;
  }
}

bool says_rows_are_wrong(const std::vector<plan::Reason>& violations) {
  return std::any_of(violations.begin(), violations.end(), [](const plan::Reason& violation) {
    return violation.constraint == "service_row";
  });
}

// All plans with more room were refused too.
std::vector<plan::Reason> not_found(std::vector<plan::Reason> violations) {
  for (plan::Reason& violation : violations) {
    violation.constraint = plan::kNotFound;
    violation.detail += fmt::format("; so the judge, of the last of {} plans with ever more room",
                                    kMostRoomier + 1);
  }
  return violations;
}

// A plan for something else with the terms and the bounds of what was asked.
plan::ServingPlan bounded(const plan::ServingProblem& problem, plan::ServingPlan plan,
                          const plan::Objective& bounds) {
  std::map<std::string_view, const plan::Service*> wanted;
  for (const plan::Service& one : problem.services) wanted.emplace(one.name, &one);
  // Says no more of a service than was asked: that alone the judge looks at.
  std::map<std::string_view, double> less;
  for (plan::PlannedService& row : plan.services) {
    const auto asked = wanted.find(row.name);
    if (asked == wanted.end()) continue;
    plan::Terms terms = *asked->second;
    terms.dispatch = row.dispatch;
    static_cast<plan::Terms&>(row) = std::move(terms);
    const Rps rate = plan::planning_rate(row);
    if (problem.rule.kind != plan::SloRule::Kind::pooled || row.planned <= rate) continue;
    less.emplace(row.name, rate / row.planned);
    row.planned = rate;
  }
  for (plan::PlannedGpu& gpu : plan.gpus)
    for (plan::PlannedInstance& one : gpu.instances)
      if (const auto share = less.find(one.service); share != less.end())
        one.throughput = one.throughput * share->second;
  plan::Objective& own = plan.objective;
  own.lower_bound_gpus = std::min(own.gpus, bounds.lower_bound_gpus);
  // Of so many GPUs, and so of no other number of them.
  own.lower_bound_gpcs = own.gpus == bounds.gpus ? std::min(own.gpcs, bounds.lower_bound_gpcs) : 0;
  own.lower_bound_cost = std::min(own.cost, bounds.lower_bound_cost);
  own.lower_bound_watts = std::min(own.watts, bounds.lower_bound_watts);
  own.optimal = problem.goal == plan::Goal::energy
                    ? own.watts <= own.lower_bound_watts
                    : planners::serving::meets_its_bounds(problem, own);
  return plan;
}

std::string more_room(const plan::ServingProblem& problem, int turn) {
  return fmt::format(
      "the judge's arrivals found pools too tight that the planner's did not; planned {} with more "
      "room for those, {:g} % at first",
      turn == 1 ? "once more" : fmt::format("{} times more", turn), 100 * room_of(problem, 0));
}

plan::PlanStats plus(const plan::PlanStats& a, const plan::PlanStats& b) {
  return {a.planning_ms + b.planning_ms, a.capacity_ms + b.capacity_ms, a.nodes + b.nodes};
}

using PlanFor = std::function<planners::serving::Outcome(const plan::ServingProblem&,
                                                         const planners::serving::Options&)>;

// What `plan_for` makes of the problem, judged; of a little more traffic where the judge refuses
// nothing but pools.
Result<Made<plan::ServingPlan>> with_room(const std::string& planner,
                                          const plan::ServingProblem& problem, PlanOptions options,
                                          const PlanFor& plan_for) {
  // A turn asks anew of the services that got room; of all others it is known.
  const std::size_t most = kPoolsOfService * problem.services.size();
  planners::serving::PoolMemo planners_pools(most);
  verify::PoolMemo judges_pools(most);
  if (!options.planners_pools) options.planners_pools = &planners_pools;
  planners::serving::TokenOracle tokens;
  if (!options.planners_tokens) options.planners_tokens = &tokens;
  if (!options.judges_pools) options.judges_pools = &judges_pools;
  plan::ServingProblem asked = problem;
  std::optional<plan::Objective> bounds;
  plan::PlanStats spent;  // by all turns
  for (int turn = 0;; ++turn) {
    planners::serving::Outcome outcome = plan_for(asked, serving_options(options));
    std::optional<plan::ServingPlan> plan = marked(problem, outcome);
    if (!plan) return Made<plan::ServingPlan>{std::nullopt, std::move(outcome.refusals)};
    spent = plus(spent, plan->stats);
    plan->stats = spent;
    if (!bounds) bounds = plan->objective;
    if (turn > 0) {
      plan = bounded(problem, *std::move(plan), *bounds);
      plan->explanation.push_back(more_room(problem, turn));
    }
    if (options.watch.progress && problem.services.size() > kTellOfJudge)
      options.watch.progress(
          fmt::format("the judge looks at {} services", problem.services.size()));
    auto verdict = verify::judge(problem, options.judges_pools, *std::move(plan));
    if (verdict) return Made<plan::ServingPlan>{*std::move(verdict), {}};
    const std::vector<plan::Reason>& violations = verdict.error().violations;
    const std::set<std::size_t> tight = too_tight(problem, violations);
    if (tight.empty()) return failed(refused_by_judge(planner, violations));
    if (turn == kMostRoomier) {
      // A row that is wrong whatever the room is our bug.
      if (says_rows_are_wrong(violations)) return failed(refused_by_judge(planner, violations));
      return Made<plan::ServingPlan>{std::nullopt, not_found(violations)};
    }
    give_room(asked, tight, room_of(problem, turn));
  }
}

// ---- what asks for more is a plan for what asks for less ----

// A search is no function that falls with what is asked: it looks elsewhere for a longer SLO, and
// may find less. So where few services leave a gap to the bound, plans for fixed steps of shorter
// SLOs, higher rates and percentiles are candidates too.
constexpr std::size_t kFewServices = 3;
constexpr double kGrid = 1.05;  // of SLOs and rates
constexpr int kShorterSlos = 6, kHigherRates = 3;
constexpr double kPercentileGrid[] = {50, 80, 90, 95, 98, 99, 99.5, 99.8, 99.9, 99.95, 99.99};

// The step-th power of the grid below or above a value.
double on_grid(double value, int steps) {
  const double place = std::log(value) / std::log(kGrid);
  const double first = steps < 0 ? std::ceil(place - 1e-9) : std::floor(place + 1e-9);
  return std::pow(kGrid, first + steps);
}

std::vector<plan::ServingProblem> asking_for_more(const plan::ServingProblem& problem) {
  std::vector<plan::ServingProblem> all;
  const auto add = [&](const auto& change) {
    all.push_back(problem);
    for (plan::Service& service : all.back().services) change(service);
  };
  for (int step = 1; step <= kShorterSlos; ++step)
    add([&](plan::Service& service) { service.slo = Millis{on_grid(service.slo.value, -step)}; });
  for (int step = 1; step <= kHigherRates; ++step)
    add([&](plan::Service& service) { service.rate = Rps{on_grid(service.rate.value, step)}; });
  add([](plan::Service& service) {
    for (const double percentile : kPercentileGrid)
      if (percentile > service.percentile) return void(service.percentile = percentile);
  });
  return all;
}

bool some_add_up(const plan::ServingProblem& problem) {
  return std::ranges::any_of(problem.services, plan::adds_up);
}

// Whether planning again begins with no regard to what runs.
bool from_nothing(const plan::ServingProblem& problem) {
  return problem.survive > 0 || std::ranges::any_of(problem.services, [](const plan::Service& one) {
           return one.models.has_value();
         });
}

bool worth_more_plans(const plan::ServingProblem& problem, const plan::Objective& found) {
  return problem.rule.kind == plan::SloRule::Kind::pooled &&
         problem.services.size() <= kFewServices && problem.fleet.size() == 1 &&
         problem.survive == 0 && !problem.goal && !some_add_up(problem) &&
         found.lower_bound_gpus > 0 && found.gpus > found.lower_bound_gpus;
}

// On ever fewer GPUs as long as the planner knows a plan for them that the judge passes: in steps
// that double, then halve, since on many GPUs each takes its time. It ends with no more than one by
// one would, as nothing above that fails.
Made<plan::ServingPlan> on_fewer_gpus(const Planner& planner, const plan::ServingProblem& problem,
                                      const PlanOptions& options, Made<plan::ServingPlan> made) {
  if (!made.plan || !planner.on_gpus) return made;
  const auto accept = [&](plan::ServingPlan plan) {
    const plan::ServingPlan& before = **made.plan;
    plan.stats = before.stats;
    plan = bounded(problem, plan::with_predictions(problem, std::move(plan)), before.objective);
    auto verdict = verify::judge(problem, options.judges_pools, std::move(plan));
    if (verdict) made.plan = *std::move(verdict);
    return verdict.has_value();
  };
  int low = (*made.plan)->objective.lower_bound_gpus, step = 1;
  while (worth_more_plans(problem, (*made.plan)->objective)) {
    const int now = (*made.plan)->objective.gpus, fewer = std::max(low, now - step);
    if (fewer >= now) break;
    if (planner.on_gpus(problem, fewer, serving_options(options), accept)) {
      step *= 2;
    } else {
      low = fewer + 1;
      step = std::max(1, (now - low + 1) / 2);
    }
  }
  return made;
}

// The best of `made` and of the plans for what asks for more.
Made<plan::ServingPlan> with_candidates(const plan::ServingProblem& problem,
                                        const PlanOptions& options, const PlanFor& plan_for,
                                        Made<plan::ServingPlan> made) {
  if (!made.plan || !worth_more_plans(problem, (*made.plan)->objective)) return made;
  plan::PlanStats spent = (*made.plan)->stats;
  for (const plan::ServingProblem& more : asking_for_more(problem)) {
    const plan::Objective best = (*made.plan)->objective;
    if (best.gpus <= best.lower_bound_gpus) break;
    planners::serving::Outcome outcome = plan_for(more, serving_options(options));
    if (!outcome.plan) continue;
    spent = plus(spent, outcome.plan->stats);
    if (outcome.plan->objective.gpus >= best.gpus) continue;
    plan::ServingPlan plan = bounded(problem, *marked(problem, outcome), best);
    plan.stats = spent;
    plan.explanation.push_back(
        "found as a plan for shorter SLOs, higher rates or percentiles than these: the search for "
        "these alone took more GPUs");
    auto verdict = verify::judge(problem, options.judges_pools, std::move(plan));
    if (verdict) made.plan = *std::move(verdict);
  }
  return made;
}

// Steps keep their shares, and so their instances, where that holds; another split is for those
// that it does not hold for, and where it saves a GPU.
Result<MadeAgain> pipelines_again(const plan::ServingProblem& problem,
                                  const plan::ServingPlan& current, std::optional<int> max_moves,
                                  const PlanOptions& options) {
  planners::serving::IncrementalOutcome again;
  auto kept = plan_with_shares(
      problem, current,
      [&](const plan::ServingProblem& asked) {
        again =
            planners::serving::incremental(asked, current, {serving_options(options), max_moves});
        return std::move(again.outcome);
      },
      [&](const plan::ServingProblem& asked) {
        return outcome_of(**find_planner("", "exact"), asked, options);
      },
      {options.planners_pools, options.judges_pools});
  if (!kept) return make_plan_in_place(problem, current, max_moves, options);
  MadeAgain made{{std::move(kept), {}}, again.changes, std::move(again.curve)};
  const plan::Objective& objective = (*made.made.plan)->objective;
  if (objective.gpus <= objective.lower_bound_gpus) return made;
  auto other = make_plan_in_place(problem, current, max_moves, options);
  const bool fewer =
      other && other->made.plan && (*other->made.plan)->objective.gpus < objective.gpus;
  return fewer ? std::move(other) : std::move(made);
}

}  // namespace

std::vector<std::string> planner_names() {
  std::vector<std::string> names;
  for (const Planner& planner : planners::serving::planners()) names.push_back(planner.name);
  return names;
}

Result<const Planner*> find_planner(const std::string& flag, const std::string& name) {
  for (const Planner& planner : planners::serving::planners()) {
    if (planner.name == name) return &planner;
  }
  const std::vector<std::string> names = planner_names();
  return bad_input(flag, fmt::format("unknown planner '{}'{} (there are {})", name,
                                     did_you_mean(name, names), joined(names, ", ")));
}

plan::SloRule rule_for(const Planner& planner, const std::optional<plan::SloRule>& asked) {
  if (asked) return *asked;
  return planner.own_rule.value_or(plan::SloRule{});
}

Result<Made<plan::ServingPlan>> make_plan(const Planner& planner,
                                          const plan::ServingProblem& problem,
                                          const PlanOptions& options) {
  if (some_add_up(problem) && planner.name != "exact")
    return bad_input("",
                     fmt::format("services of kind llm and those with 'models' are planned with "
                                 "the planner 'exact', not with '{}'",
                                 planner.name));
  if (has_pipelines(problem))
    return plan_pipelines(
        problem,
        [&](const plan::ServingProblem& asked) { return outcome_of(planner, asked, options); },
        Split::planned, kStretches[0], {options.planners_pools, options.judges_pools});
  auto made = TRY(with_room(fmt::format("planner '{}' made a plan", planner.name), problem, options,
                            planner.plan));
  return with_candidates(problem, options, planner.plan,
                         on_fewer_gpus(planner, problem, options, std::move(made)));
}

Result<MadeAgain> make_plan_in_place(const plan::ServingProblem& problem,
                                     const plan::ServingPlan& current, std::optional<int> max_moves,
                                     const PlanOptions& options) {
  auto made = TRY(make_plan(**find_planner("", "exact"), problem, options));
  MadeAgain again{std::move(made), {}, {}};
  if (!again.made.plan) return again;
  auto verdict =
      verify::judge(problem, options.judges_pools,
                    planners::serving::in_place_of(current, **again.made.plan, problem.fleet));
  if (!verdict)
    return failed(refused_by_judge("the plan, put in place", verdict.error().violations));
  again.changes = plan::changes_between(current, **verdict);
  again.made.plan = *std::move(verdict);
  const int moves = again.changes.moved + again.changes.created;
  if (!max_moves || moves <= *max_moves) return again;
  again.made.plan.reset();
  again.made.refusals = {
      {plan::kNotFound, "plan", 1.0 * *max_moves, 1.0 * moves,
       "instances may be created (max_moves), and the plan that was found creates so many: it is "
       "planned from nothing, as with all pipelines whose shares of the SLO change, sets of "
       "models, and GPUs that may be lost"}};
  return again;
}

Result<MadeAgain> make_plan_again(const plan::ServingProblem& problem,
                                  const plan::ServingPlan& current, std::optional<int> max_moves,
                                  const PlanOptions& options) {
  if (from_nothing(problem)) return make_plan_in_place(problem, current, max_moves, options);
  if (has_pipelines(problem)) return pipelines_again(problem, current, max_moves, options);
  planners::serving::IncrementalOutcome again;
  auto made = with_room(
      "the incremental planner made a plan", problem, options,
      [&](const plan::ServingProblem& asked, const auto& planners_options) {
        again = planners::serving::incremental(asked, current, {planners_options, max_moves});
        return std::move(again.outcome);
      });
  if (!made) return failed(made.error());
  return MadeAgain{*std::move(made), again.changes, std::move(again.curve)};
}

std::vector<plan::Reason> too_many_gpus(const plan::ServingPlan& plan, int max_gpus) {
  const plan::Objective& objective = plan.objective;
  if (objective.gpus <= max_gpus) return {};
  std::string detail = fmt::format("planner '{}' needs {} GPUs", plan.planner, objective.gpus);
  if (objective.lower_bound_gpus > max_gpus) {
    detail +=
        fmt::format("; no plan has fewer than {} (proven lower bound)", objective.lower_bound_gpus);
  } else if (objective.lower_bound_gpus > 0) {
    detail += fmt::format("; the proven lower bound is {}, so a larger --node-budget may find one",
                          objective.lower_bound_gpus);
  } else {
    detail += "; it proves no lower bound: try --planner exact";
  }
  const bool certain = objective.lower_bound_gpus > max_gpus;
  return {{certain ? "fleet_count" : plan::kNotFound, "gpu " + plan.gpu_model,
           static_cast<double>(max_gpus), static_cast<double>(objective.gpus), detail}};
}

}  // namespace partita::decide
