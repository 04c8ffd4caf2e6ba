#include "planners/serving/pooled.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <variant>

#include "base/index.h"
#include "planners/serving/energy.h"
#include "planners/serving/exact.h"
#include "planners/serving/finish.h"
#include "planners/serving/fleet.h"
#include "planners/serving/level.h"
#include "planners/serving/place.h"
#include "planners/serving/pool_oracle.h"
#include "planners/serving/pool_rows.h"
#include "planners/serving/set_points.h"
#include "planners/serving/survive.h"
#include "planners/serving/token_points.h"
#include "planners/serving/watts.h"

namespace partita::planners::serving {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Caps on the latency of a full batch, as shares of the SLO: the modes.
constexpr double kCaps[] = {1.0, 0.93, 0.86, 0.78, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2};
// A mode whose cheapest pool takes so many compute slices more than the best mode's is left out.
constexpr double kSpareSlices = 1;
// With so many services there is one that fits any gap: each keeps its cheapest mode.
constexpr std::size_t kManyServices = 300;
constexpr double kTie = 1e-6;
constexpr int kLevelSteps = 2;           // covers offered for each price
constexpr std::size_t kTellEvery = 500;  // services, of the progress
constexpr int kMostTrials = 40;          // pools tried for the demand of a mode
constexpr int kFineTrials = 16;          // of them with the least step; then it grows
constexpr int kMostRounds = 60;          // plans made until every pool holds
constexpr int kPatience = 6;             // pools of a service that miss before it is settled again
constexpr double kStep = 0.004;          // of a demand at least, when it grows
constexpr double kBurstyStep = 0.06;     // for arrivals that the closed form does not know
constexpr double kGrowth = 1.25;         // of that step
constexpr double kLargestStep = 0.3;
// Whoever needs more than so many times the rate, or instances, is not served by more of them.
constexpr double kMostDemand = 4;
constexpr double kMostSpare = 28;
constexpr double kAbove = 1 + 1e-6;
constexpr double kMostCounted = 1e7;  // GPUs: of more a plain bound is enough

using Modes = std::vector<PointTables>;

Outcome refused(std::vector<plan::Reason> reasons) { return {std::nullopt, std::move(reasons)}; }

PoolParts without(PoolParts parts, const PoolPart& one) {
  for (PoolPart& part : parts) {
    if (std::tie(part.entry, part.gpcs, part.batch, part.processes) !=
        std::tie(one.entry, one.gpcs, one.batch, one.processes))
      continue;
    part.instances -= one.instances;
  }
  std::erase_if(parts, [](const PoolPart& part) { return part.instances == 0; });
  return parts;
}

// The pools that must hold, by service: its own, and what is left of it when a GPU is lost.
std::vector<std::set<PoolParts>> pools_to_hold(const plan::ServingProblem& problem,
                                               const plan::ServingPlan& plan) {
  const std::vector<PoolParts> pools = pools_of(problem, plan);
  std::vector<std::set<PoolParts>> all;
  for (const PoolParts& parts : pools) all.push_back({parts});
  if (problem.survive == 0) return all;
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    plan::ServingPlan alone;
    alone.gpus.push_back(gpu);
    const std::vector<PoolParts> lost = pools_of(problem, alone);
    for (std::size_t s = 0; s < pools.size(); ++s) {
      PoolParts left = pools[s];
      for (const PoolPart& part : lost[s]) left = without(std::move(left), part);
      all[s].insert(std::move(left));
    }
  }
  return all;
}

bool has_many(const plan::ServingProblem& problem) {
  return problem.services.size() > kManyServices;
}

// Services whose misses are too rare to be seen in any run that can be afforded.
std::vector<plan::Reason> unseen(const plan::ServingProblem& problem) {
  std::vector<plan::Reason> reasons;
  for (const plan::Service& one : problem.services)
    if (one.percentile > highest_percentile())
      reasons.push_back({"percentile", "service " + one.name, one.percentile, highest_percentile(),
                         fmt::format("of {} requests, the longest run that is simulated, fewer "
                                     "than {:g} may be late: nothing can be said of them",
                                     kLongestRun, kFewestSeen)});
  return reasons;
}

PointTables batches_within(const plan::ServingProblem& problem, double cap) {
  std::vector<Millis> longest;
  for (const plan::Service& one : problem.services) longest.push_back(cap * one.slo);
  PointTables tables;
  for (const plan::FleetEntry& entry : problem.fleet)
    tables.push_back(points_within(problem, entry, longest));
  return tables;
}

void clear(PointTables& tables, std::size_t s) {
  for (PointTable& table : tables)
    std::fill(table.best[s].begin(), table.best[s].end(), std::nullopt);
}

// With many services there are always some that fill what others leave: each is planned by
// itself, and what is the cheapest pool has to hold for certain.
bool each_by_itself(const plan::ServingProblem& problem) {
  const bool tied =
      std::any_of(problem.services.begin(), problem.services.end(),
                  [](const plan::Service& one) { return one.spread || !one.avoid.empty(); });
  return has_many(problem) && !tied && problem.fleet.size() == 1 && problem.survive == 0 &&
         problem.goal != plan::Goal::energy;
}

// The points within a cap, with those of language models and sets, which know none.
// Without `sets` those of one model, more than which no set carries.
PointTables tables_within(const plan::ServingProblem& problem, const TokenColumns& columns,
                          double cap, TokenSize size, SetOracle* sets = nullptr) {
  PointTables tables = batches_within(problem, cap);
  if (std::ranges::any_of(problem.services,
                          [](const plan::Service& one) { return one.tokens.has_value(); }))
    for (std::size_t e = 0; e < tables.size(); ++e) columns.add_to(tables[e], e, size);
  for (std::size_t e = 0; sets && e < tables.size(); ++e) sets->add_to(tables[e], e);
  return tables;
}

bool holds(PoolOracle& oracle, const plan::Service& service, const PoolParts& parts) {
  return plan::adds_up(service) || oracle.check(service, parts).holds;
}

// What holds for replicas of language models as this planner runs them; the others are fluid.
std::string own_space(const plan::ServingProblem& problem, const TokenColumns& columns,
                      PointTables fluid, const Options& options) {
  for (std::size_t e = 0; e < fluid.size(); ++e) columns.add_to(fluid[e], e, TokenSize::simulated);
  Modes modes{std::move(fluid)};
  if (problem.survive > 0) modes = with_spare(problem, modes);
  const Outcome relaxed = plan_exact(problem, modes, quietly(options));
  if (!relaxed.plan) return "";
  return fmt::format(
      "with replicas of language models that carry what they carry in the simulation, split at "
      "random, no plan has fewer than {} GPUs",
      relaxed.plan->objective.lower_bound_gpus);
}

// What a part of a pool counts for at the point at which it runs, which need not be the table's.
double rate_as_it_runs(const plan::ServingProblem& problem, const PointTable& table, std::size_t s,
                       const PoolPart& part) {
  const auto& profiles = problem.fleet[part.entry].profiles;
  const auto found = profiles.find(problem.services[s].model);
  const profile::ProfilePoint* point =
      found == profiles.end()
          ? nullptr
          : profile::find_point(found->second, part.gpcs, part.batch, part.processes);
  return point && profile::batch_time(*point) <= table.longest[s] ? full_rate(*point).value : 0;
}

// GPUs that carry a service with its best instance on each.
double gpus_alone(const PointTables& fluid, std::size_t s) {
  double most = 0;  // that an instance carries per GPU
  for (const PointTable& table : fluid)
    for (std::size_t k = 0; k < table.profiles.size(); ++k)
      if (const auto& point = table.best[s][k])
        most = std::max(most, point->throughput.value / (table.gpus.empty() ? 1 : table.gpus[k]));
  return fluid.front().demand[s] / most;
}

// Seen before anything is searched for: more GPUs are needed, whatever the dispatcher, than there
// are or than a plan may have.
std::vector<plan::Reason> beyond(const plan::ServingProblem& problem, const PointTables& fluid,
                                 const Fleet& fleet, const Options& options) {
  double there = 0, largest = 0, all = 0;
  for (const plan::FleetEntry& entry : problem.fleet)
    there += entry.count.value_or(std::numeric_limits<int>::max());
  const double most = std::min<double>(there, options.most_gpus);
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    const double alone = gpus_alone(fluid, s);
    largest = std::max(largest, alone);
    all += alone + profile::kMostGroupedGpus;
  }
  if (all <= most) return {};
  std::size_t slots = 1;
  for (const hw::PackingRules& rules : fleet.rules)
    for (const hw::Fill& fill : rules.fills)
      slots = std::max(slots, static_cast<std::size_t>(
                                  std::accumulate(fill.counts.begin(), fill.counts.end(), 0)));
  double least = std::ceil(largest / static_cast<double>(slots));
  const bool one_model = problem.fleet.size() == 1;
  if (least <= kMostCounted && one_model)
    least = ask_master(problem, {fluid}, quietly(options)).least_gpus;
  if (least <= most) return {};
  const std::string limit =
      most < kMostPlannedGpus
          ? fmt::format(
                "{:.0f} GPUs are allowed; no dispatcher does it with fewer than {:.0f} "
                "(proven lower bound)",
                most, least)
          : fmt::format(
                "a plan has at most {:.0f} GPUs, and no dispatcher does it with fewer "
                "than {:.0f}: plan parts of the rates apart",
                most, least);
  return {
      {"fleet_count", one_model ? problem.fleet.front().gpu.name : "fleet", most, least, limit}};
}

int gpcs_of(const plan::ServingProblem& problem, std::size_t entry, int profile) {
  return problem.fleet[entry].gpu.profiles[at(profile)].gpcs;
}

using Other = std::function<std::optional<plan::ServingPlan>(const Outcome&)>;

class PoolPlanner {
 public:
  PoolPlanner(const plan::ServingProblem& problem, const Options& options)
      : problem_(problem),
        options_(options),
        oracle_(problem, options.pools),
        own_tokens_(),
        columns_(problem, options.tokens ? *options.tokens : own_tokens_, options.all_groups),
        sets_(problem),
        language_(std::ranges::any_of(
            problem.services, [](const plan::Service& one) { return one.tokens.has_value(); })) {}

  // `other`: a better one than is found, which may be asked for.
  Outcome plan(const PointPlanner& solve, bool one_mode, const Other& other = {}) {
    Outcome outcome = pools(solve, one_mode);
    if (outcome.plan) state_bounds(*outcome.plan);
    if (other)
      if (auto better = other(outcome)) {
        state_bounds(*better);
        outcome = {std::move(better), {}};
      }
    if (outcome.plan) fill_rows(problem_, *outcome.plan, oracle_);
    return outcome;
  }
  // A plan whose pools hold, without bounds.
  Outcome pools(const PointPlanner& solve, bool one_mode) {
    if (auto reasons = unseen(problem_); !reasons.empty()) return refused(reasons);
    PointTables widest = tables_within(problem_, columns_, kCaps[0], TokenSize::simulated, &sets_);
    if (auto reasons = unservable(problem_, {widest}); !reasons.empty()) return refused(reasons);
    make_modes(std::move(widest));
    auto fleet = make_fleet(problem_, modes_.front(), options_.rules);
    if (!fleet) return refused({{"fleet_size", "fleet", 0, kMaxClasses, fleet.error().message}});
    fleet_ = std::move(*fleet);
    if (auto reasons = beyond(problem_, fluid_tables(), fleet_, options_); !reasons.empty())
      return refused(reasons);
    alone_ = each_by_itself(problem_);
    missed_.resize(problem_.services.size());
    all_modes_ = modes_;
    calibrate();
    if (auto reasons = not_found(); !reasons.empty()) return refused(reasons);
    if (one_mode)
      if (auto reasons = keep_one_mode(); !reasons.empty()) return refused(reasons);
    Outcome outcome = solve_until_pools_hold(solve);
    if (!outcome.plan) return refused(worded(std::move(outcome.refusals)));
    return outcome;
  }

 private:
  const plan::Service& service(std::size_t s) const { return problem_.services[s]; }

  // A service whose points are the same under two caps has them in the first mode only. `widest`:
  // those under the first cap, outside of which no other has any.
  void make_modes(PointTables widest) {
    for (const double cap : kCaps) {
      PointTables tables =
          cap == kCaps[0] ? std::move(widest)
                          : tables_within(problem_, columns_, cap, TokenSize::simulated, &sets_);
      for (std::size_t s = 0; s < problem_.services.size(); ++s) {
        const bool known =
            std::any_of(modes_.begin(), modes_.end(), [&](const Modes::value_type& m) {
              for (std::size_t e = 0; e < m.size(); ++e)
                if (m[e].best[s] != tables[e].best[s]) return false;
              return true;
            });
        if (known) clear(tables, s);
      }
      modes_.push_back(std::move(tables));
    }
    for (PointTables& tables : modes_)
      tables.front().demand.assign(problem_.services.size(), kNever);
  }

  // ---- demands ----

  Mode mode_at(std::size_t m, std::size_t s) const {
    return mode_in(problem_, modes_[m], fleet_, s);
  }

  PoolParts parts_of(std::size_t m, std::size_t s, const Counts& counts) const {
    PoolParts parts;
    for (std::size_t e = 0; e < modes_[m].size(); ++e) {
      const PointTable& table = modes_[m][e];
      for (std::size_t k = 0; k < table.profiles.size(); ++k) {
        const int n = counts[at(fleet_.first_class[e]) + k];
        const auto& point = table.best[s][k];
        if (n > 0)
          add(parts,
              {e, gpcs_of(problem_, e, table.profiles[k]), point->batch, point->processes, n});
      }
    }
    std::sort(parts.begin(), parts.end());
    return parts;
  }

  // The least demand worth trying: by the closed form where that is good, else the rate itself.
  double first_demand(std::size_t m, std::size_t s) const {
    double longest = 0, batch = kNever;
    for (const PointTable& table : modes_[m]) {
      for (const auto& point : table.best[s]) {
        if (!point) continue;
        longest = std::max(longest, point->time.value);
        batch = std::min(batch, 1.0 * point->batch);
      }
    }
    const double rate = plan::planning_rate(service(s)).value;
    if (service(s).slo.value < kRoomySlo * longest) return rate;
    const double closed =
        model::closed_form_fluid(Rps{rate}, planned_slo(service(s)), Millis{longest}, batch).value;
    return std::isfinite(closed) ? std::max(rate, 0.9 * closed) : rate;
  }

  // A pool that holds, of the mode's points.
  struct Settled {
    double cost = kNever;
    std::size_t mode = 0;
    Counts counts{};
  };
  struct Way {
    double cost;  // of the cheapest pool when waiting cost nothing
    std::size_t mode;
  };

  // Modes of a service in ascending cost of their cheapest pools.
  std::vector<Way> ways_of(std::size_t s) {
    std::vector<Way> ways;
    for (std::size_t m = 0; m < modes_.size(); ++m) {
      Mode mode = mode_at(m, s);
      if (*std::max_element(mode.rate.begin(), mode.rate.end()) <= 0) continue;
      mode.demand = modes_[m].front().demand[s] = first_demand(m, s);
      const Kind kind{mode, {}, service(s).min_replicas};
      ways.push_back({cheapest_cover(kind, fleet_.gpcs, fleet_.classes).bound, m});
    }
    std::stable_sort(ways.begin(), ways.end(),
                     [](const Way& a, const Way& b) { return a.cost < b.cost; });
    return ways;
  }

  // Thoroughly where nothing corrects a wrong answer, or the quick ones have been wrong before.
  bool settles(std::size_t s, const PoolParts& parts) {
    return alone_ || missed_[s] > 0 ? oracle_.check(service(s), parts).holds
                                    : oracle_.carries(service(s), parts);
  }

  double step_of(std::size_t s, int turn) const {
    const bool poisson = plan::is_poisson(service(s).traffic.arrivals);
    return std::min(kLargestStep, (poisson ? kStep : kBurstyStep) * std::pow(kGrowth, turn));
  }

  // Raises the mode's demand until its cheapest pool holds; what that costs, infinity when it is
  // more than `most`.
  Settled settle(std::size_t m, std::size_t s, double most) {
    double& demand = modes_[m].front().demand[s];
    Kind kind{mode_at(m, s), {}, service(s).min_replicas};
    const double enough = kMostDemand * std::max(demand, plan::planning_rate(service(s)).value) +
                          kMostSpare * *std::max_element(kind.rate.begin(), kind.rate.end());
    for (int trial = 0; trial < kMostTrials && demand <= enough; ++trial) {
      kind.demand = demand;
      const PricedCover cover = cheapest_cover(kind, fleet_.gpcs, fleet_.classes);
      if (cover.bound > most) return {};
      if (settles(s, parts_of(m, s, cover.counts))) return {cover.bound, m, cover.counts};
      demand = std::max(demand * (1 + step_of(s, std::max(0, trial - kFineTrials))),
                        carried(kind, cover.counts, fleet_.classes) * kAbove);
    }
    return {};
  }

  // The demands of the modes that can be part of a good plan, infinity of the others.
  std::vector<double> settle(std::size_t s, double spare) {
    if (plan::adds_up(service(s))) return settle_sum(s);
    std::vector<double> demands(modes_.size(), kNever);
    Settled best;
    for (const Way& way : ways_of(s)) {
      if (way.cost > best.cost + spare - (spare == 0 ? kTie : 0)) break;
      const Settled settled = settle(way.mode, s, best.cost + spare);
      if (settled.cost == kNever) continue;
      demands[way.mode] = modes_[way.mode].front().demand[s];
      if (settled.cost < best.cost) best = settled;
    }
    settled_[s] = best;
    return demands;
  }

  // Replicas of a language model, and instances of a set, carry what they carry together.
  std::vector<double> settle_sum(std::size_t s) {
    std::vector<double> demands(modes_.size(), kNever);
    demands.front() = modes_.front().front().demand[s] = plan::planning_rate(service(s)).value;
    const Kind kind{mode_at(0, s), {}, service(s).min_replicas};
    const PricedCover cover = cheapest_cover(kind, fleet_.gpcs, fleet_.classes);
    settled_[s] = {cover.bound, 0, cover.counts};
    return demands;
  }

  // The quick answers were wrong: every mode is asked again, thoroughly.
  void settle_again(std::size_t s) {
    for (std::size_t m = 0; m < modes_.size(); ++m)
      for (std::size_t e = 0; e < modes_[m].size(); ++e)
        modes_[m][e].best[s] = all_modes_[m][e].best[s];
    take(s, settle(s, kSpareSlices));
  }

  void calibrate() {
    struct Known {
      std::vector<double> demands;
      Settled settled;
    };
    std::map<std::pair<int, int>, Known> known;  // by question and replicas
    settled_.resize(problem_.services.size());
    for (std::size_t s = 0; s < problem_.services.size(); ++s) {
      if (plan::adds_up(service(s))) {
        take(s, settle_sum(s));
        continue;
      }
      const std::pair key{oracle_.question(service(s)), service(s).min_replicas};
      const auto same = known.find(key);
      if (same != known.end()) {
        settled_[s] = same->second.settled;
        take(s, same->second.demands);
        continue;
      }
      if (options_.progress && s % kTellEvery == 0 && s > 0)
        options_.progress(fmt::format("pools: {} of {} services", s, problem_.services.size()));
      std::vector<double> demands = settle(s, has_many(problem_) ? 0 : kSpareSlices);
      take(s, demands);
      known.emplace(key, Known{std::move(demands), settled_[s]});
    }
  }

  void take(std::size_t s, const std::vector<double>& demands) {
    for (std::size_t m = 0; m < modes_.size(); ++m) {
      modes_[m].front().demand[s] = demands[m];
      if (demands[m] == kNever) clear(modes_[m], s);
    }
  }

  // Services for which no pool was found that keeps the SLO.
  std::vector<plan::Reason> not_found() const {
    std::vector<plan::Reason> reasons;
    for (std::size_t s = 0; s < problem_.services.size(); ++s) {
      const bool served = std::any_of(modes_.begin(), modes_.end(), [&](const PointTables& tables) {
        return std::isfinite(tables.front().demand[s]);
      });
      if (served) continue;
      double fastest = kNever;
      for (const PointTable& table : tables_within(problem_, columns_, 1, TokenSize::simulated))
        for (const auto& point : table.best[s])
          if (point) fastest = std::min(fastest, point->time.value);
      reasons.push_back(
          {plan::kNotFound, "service " + service(s).name, fastest, service(s).slo.value,
           fmt::format("no pool was found that keeps p{:g} within {:g} ms, among those of {:g} "
                       "times the rate and more: a full batch takes {:.4g} ms at least",
                       service(s).percentile, service(s).slo.value, kMostDemand, fastest)});
    }
    return reasons;
  }

  // One mode per service: the one in which the best plan of all modes runs it.
  std::vector<plan::Reason> keep_one_mode() {
    const Outcome best =
        solve_until_pools_hold([&](const plan::ServingProblem& asked, const Modes& modes) {
          return plan_exact(asked, modes, options_);
        });
    if (!best.plan) return best.refusals;
    const std::vector<PoolParts> pools = pools_of(problem_, *best.plan);
    PointTables kept = modes_.front();
    for (std::size_t s = 0; s < problem_.services.size(); ++s) {
      for (const PointTables& tables : modes_) {
        if (counted(tables, s, pools[s]) < tables.front().demand[s] * (1 - 1e-6)) continue;
        for (std::size_t e = 0; e < kept.size(); ++e) {
          kept[e].best[s] = tables[e].best[s];
          kept[e].longest[s] = tables[e].longest[s];
        }
        kept.front().demand[s] = tables.front().demand[s];
        break;
      }
    }
    modes_.assign(1, std::move(kept));
    return {};
  }

  // ---- plans ----

  // Every service has the pool of the master's solution where that holds, else its own cheapest;
  // then some get one as cheap of other shapes.
  std::optional<plan::ServingPlan> level_pools() {
    const MasterAnswer master = ask_master(problem_, modes_, options_);
    PointTables tables = modes_.front();
    std::vector<Counts> chosen;
    for (std::size_t s = 0; s < settled_.size(); ++s) {
      take_from_master(s, master.covers[s]);
      tables.front().best[s] = modes_[settled_[s].mode].front().best[s];
      chosen.push_back(settled_[s].counts);
    }
    const hw::PackingRules& rules = fleet_.rules.front();
    const Levelling levelling{
        fleet_.gpcs, [&](std::size_t s, const Prices& prices) { return covers_under(prices, s); },
        [&](std::size_t s, const Counts& cover) {
          return holds(oracle_, service(s), parts_of(settled_[s].mode, s, cover));
        }};
    const int gpus = levelled_ = level(rules, chosen, levelling);
    if (gpus > problem_.fleet.front().count.value_or(gpus)) return std::nullopt;
    Placement placed = place(problem_, tables, fleet_, chosen, {gpus});
    if (!placed.gpus) return std::nullopt;
    plan::ServingPlan plan;
    plan.gpus = *std::move(placed.gpus);
    plan.objective.gpus = static_cast<int>(plan.gpus.size());
    double slices = 0;
    for (const Counts& counts : chosen) slices += cost(counts, fleet_.gpcs, fleet_.classes);
    plan.objective.gpcs = static_cast<int>(std::lround(slices));
    plan.objective.cost = plan.objective.gpus * problem_.fleet.front().price;
    plan.explanation.push_back(fmt::format(
        "{} services: each has the cheapest pool that holds at the planned rate; some then another "
        "one, so that the shapes fill whole GPUs",
        chosen.size()));
    return plan;
  }

  void take_from_master(std::size_t s, const Counts& counts) {
    if (counts == settled_[s].counts) return;
    for (std::size_t m = 0; m < modes_.size(); ++m) {
      if (!std::isfinite(modes_[m].front().demand[s])) continue;
      const Kind kind{mode_at(m, s), {}, service(s).min_replicas};
      if (!covers(kind, counts, fleet_.classes)) continue;
      if (!holds(oracle_, service(s), parts_of(m, s, counts))) continue;
      settled_[s] = {cost(counts, fleet_.gpcs, fleet_.classes), m, counts};
      return;
    }
  }

  // The service's cheapest covers in its mode, for what it needs at least and for a little more.
  std::vector<Counts> covers_under(const Prices& prices, std::size_t s) const {
    std::vector<Counts> found;
    Kind kind{mode_at(settled_[s].mode, s), {}, service(s).min_replicas};
    for (int step = 0; step < kLevelSteps; ++step) {
      found.push_back(cheapest_cover(kind, prices, fleet_.classes).counts);
      kind.demand = carried(kind, found.back(), fleet_.classes) * kAbove;
    }
    return found;
  }

  Outcome solve_until_pools_hold(const PointPlanner& solve) {
    if (alone_)
      if (auto plan = level_pools()) return {std::move(plan), {}};
    std::fill(missed_.begin(), missed_.end(), 0);
    for (int round = 1;; ++round) {
      Outcome outcome = solve(problem_, modes_);
      if (!outcome.plan) return outcome;
      const int failed = raise_failing(*outcome.plan);
      if (failed == 0) {
        outcome.plan->explanation.push_back(
            fmt::format("pools: every service's instances keep its SLO as one pool in a simulation "
                        "at the planned rate, plans made until then: {}",
                        round));
        return outcome;
      }
      if (options_.progress)
        options_.progress(
            fmt::format("round {}: {} pools miss their SLO in the simulation", round, failed));
      if (round == kMostRounds)
        return refused({{plan::kNotFound, "plan", 1.0 * failed, 0,
                         fmt::format("no plan was found whose pools all keep their SLO, of {}",
                                     kMostRounds)}});
    }
  }

  int raise_failing(const plan::ServingPlan& plan) {
    int failed = 0;
    const std::vector<std::set<PoolParts>> pools = pools_to_hold(problem_, plan);
    for (std::size_t s = 0; s < pools.size(); ++s) {
      const int before = failed;
      for (const PoolParts& parts : pools[s]) {
        if (!parts.empty() && holds(oracle_, service(s), parts)) continue;
        ++failed;
        raise(s, parts);
      }
      if (failed > before && ++missed_[s] == kPatience) settle_again(s);
    }
    return failed;
  }

  // What a pool counts for in a mode; 0 when it has points that the mode has not, but for those of
  // what is running (`kept`), which stay as they are where their batches are no longer than the
  // mode's.
  double counted(const PointTables& tables, std::size_t s, const PoolParts& parts,
                 bool kept = false) const {
    double sum = 0;
    for (const PoolPart& part : parts) {
      const PointTable& table = tables[part.entry];
      double each = kept ? rate_as_it_runs(problem_, table, s, part) : 0;
      for (std::size_t k = 0; k < table.profiles.size(); ++k) {
        const auto& point = table.best[s][k];
        if (point && gpcs_of(problem_, part.entry, table.profiles[k]) == part.gpcs &&
            point->batch == part.batch && point->processes == part.processes)
          each = point->throughput.value;
      }
      if (each == 0) return 0;
      sum += part.instances * each;
    }
    return sum;
  }

  // Every mode that this pool covers needs more from now on.
  void raise(std::size_t s, const PoolParts& parts) {
    for (PointTables& tables : modes_) {
      const double sum = counted(tables, s, parts, true);
      double& demand = tables.front().demand[s];
      if (sum >= demand * (1 - 1e-6))
        demand = std::max(demand * (1 + step_of(s, std::max(0, missed_[s] - kFineTrials))),
                          sum * kAbove);
    }
  }

  // ---- bounds ----

  // No request in time runs in a batch longer than the SLO, the late ones in any batch: with r1, r2
  // the throughputs of a process in batches up to the SLO and in any, and theta <= r1 / r2
  // everywhere, sum r1 >= (p + theta (1 - p)) rate.
  PointTables fluid_tables() const {
    PointTables tables = tables_within(problem_, columns_, 1, TokenSize::fluid);
    const PointTables any = tables_within(problem_, columns_, 1e9, TokenSize::fluid);
    for (std::size_t s = 0; s < problem_.services.size(); ++s) {
      if (service(s).tokens) {
        tables.front().demand.push_back(plan::planning_rate(service(s)).value);
        continue;
      }
      double theta = 1;
      for (std::size_t e = 0; e < any.size(); ++e) {
        for (std::size_t k = 0; k < any[e].profiles.size(); ++k) {
          if (!any[e].best[s][k]) continue;
          const auto& within = tables[e].best[s][k];
          theta = std::min(theta, within ? within->throughput / any[e].best[s][k]->throughput : 0);
        }
      }
      const double in_time = service(s).percentile / 100;
      tables.front().demand.push_back(plan::planning_rate(service(s)).value *
                                      (in_time + theta * (1 - in_time)));
    }
    return tables;
  }

  // Too few GPUs for certain are those that no dispatcher could do with; demands prove nothing.
  std::vector<plan::Reason> worded(std::vector<plan::Reason> reasons) const {
    if (problem_.fleet.size() > 1 || problem_.survive > 0 || !problem_.fleet.front().count)
      return reasons;
    const int have = *problem_.fleet.front().count;
    const int least = ask_master(problem_, {fluid_tables()}, quietly(options_)).least_gpus;
    return {{have < least ? "fleet_count" : plan::kNotFound, problem_.fleet.front().gpu.name,
             1.0 * have, 1.0 * least,
             have < least
                 ? fmt::format("{} GPUs are allowed; no dispatcher does it with fewer than {}",
                               have, least)
                 : fmt::format("no plan was found on {} GPUs{}; no dispatcher does it with fewer "
                               "than {}",
                               have, levelled_ > 0 ? fmt::format(", one on {}", levelled_) : "",
                               least)}};
  }

  void state_bounds(plan::ServingPlan& plan) const {
    Modes fluid{fluid_tables()};
    if (problem_.goal == plan::Goal::energy) {
      if (language_)
        plan.explanation.push_back(
            "watts of language models: above idle a replica burns what its GPUs burn at most, "
            "while "
            "it computes prompts and for every request's part of steps of full batches; replicas "
            "that are asked for little have smaller batches and burn more");
      if (problem_.survive > 0) return bound_surviving(problem_, fluid, options_, plan);
      return state_watts(problem_, plan_energy(problem_, fluid, quietly(options_)).bound, plan);
    }
    if (problem_.survive > 0) {
      bound_surviving(problem_, fluid, options_, plan);
      if (language_)
        plan.explanation.push_back(own_space(problem_, columns_, fluid.front(), options_));
      return;
    }
    plan::Objective& objective = plan.objective;
    if (alone_) {
      objective.lower_bound_gpus =
          std::min(objective.gpus, ask_master(problem_, fluid, quietly(options_)).least_gpus);
      objective.lower_bound_cost = objective.lower_bound_gpus * problem_.fleet.front().price;
    } else {
      const Outcome relaxed = plan_exact(problem_, fluid, quietly(options_));
      if (!relaxed.plan) return;
      objective.lower_bound_gpus =
          std::min(objective.gpus, relaxed.plan->objective.lower_bound_gpus);
      objective.lower_bound_cost =
          std::min(objective.cost, relaxed.plan->objective.lower_bound_cost);
    }
    objective.lower_bound_gpcs =
        std::min(objective.gpcs,
                 static_cast<int>(std::ceil(slices_at_least(problem_, fluid, fleet_) - 1e-6)));
    objective.optimal = meets_its_bounds(problem_, objective);
    if (language_ && !alone_)
      plan.explanation.push_back(own_space(problem_, columns_, fluid_tables(), options_));
    plan.explanation.push_back(fmt::format(
        "no dispatcher does it with fewer than {} GPUs and {} compute slices: requests in time run "
        "in batches that end within the SLO{}, and no process is more than busy",
        objective.lower_bound_gpus, objective.lower_bound_gpcs,
        language_ ? " (language models: in steps that last TPOT, with lengths at their means)"
                  : ""));
  }

  const plan::ServingProblem& problem_;
  const Options& options_;
  PoolOracle oracle_;
  TokenOracle own_tokens_;
  TokenColumns columns_;
  SetOracle sets_;
  const bool language_;  // some services are language models
  Modes modes_;
  Fleet fleet_;
  bool alone_ = false;            // each service is planned by itself
  int levelled_ = 0;              // GPUs that these took, if so
  Modes all_modes_;               // as they were before demands ruled some out
  std::vector<int> missed_;       // per service: rounds in which its pool missed
  std::vector<Settled> settled_;  // per service, when each is planned by itself
};

bool worth_fewer_models(const plan::ServingProblem& problem, const Outcome& outcome) {
  if (problem.fleet.size() == 1 || problem.goal == plan::Goal::energy) return false;
  if (!outcome.plan)
    return std::ranges::any_of(outcome.refusals, [](const plan::Reason& reason) {
      return reason.constraint == plan::kNotFound;
    });
  const plan::Objective& objective = outcome.plan->objective;
  return objective.cost > objective.lower_bound_cost * (1 + 1e-9);
}

// The cheapest on fewer GPU models, where it is cheaper than what is known.
std::optional<plan::ServingPlan> of_fewer_models(const plan::ServingProblem& problem,
                                                 const Options& options, const PointPlanner& solve,
                                                 const Outcome& known) {
  std::optional<plan::ServingPlan> found;
  const auto& fleet = problem.fleet;
  double least = known.plan ? known.plan->objective.cost : kNever;
  const auto offer = [&](std::vector<plan::FleetEntry> entries) {
    plan::ServingProblem fewer = problem;
    fewer.fleet = std::move(entries);
    Outcome outcome = PoolPlanner(fewer, options).pools(solve, false);
    if (!outcome.plan || outcome.plan->objective.cost >= least * (1 - 1e-9)) return;
    found = std::move(outcome.plan);
    least = found->objective.cost;
  };
  for (const plan::FleetEntry& entry : fleet) offer({entry});
  if (fleet.size() == 3)
    for (std::size_t out = 0; out < 3; ++out) offer({fleet[out == 0], fleet[out == 2 ? 1 : 2]});
  if (found)
    found->explanation.push_back(
        "planned without some GPU models of the fleet: with all of them it was not cheaper");
  return found;
}

}  // namespace

Outcome plan_pools(const plan::ServingProblem& problem, const Options& options,
                   const PointPlanner& solve) {
  TokenOracle tokens;
  Options each = options;
  if (!each.tokens) each.tokens = &tokens;
  return PoolPlanner(problem, each).plan(solve, false, [&](const Outcome& known) {
    return worth_fewer_models(problem, known) ? of_fewer_models(problem, each, solve, known)
                                              : std::nullopt;
  });
}

Outcome plan_pools_in_one_mode(const plan::ServingProblem& problem, const Options& options,
                               const PointPlanner& solve) {
  return PoolPlanner(problem, options).plan(solve, true);
}

}  // namespace partita::planners::serving
