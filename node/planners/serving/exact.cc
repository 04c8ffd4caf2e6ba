#include "planners/serving/exact.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/index.h"
#include "planners/serving/apart_plan.h"
#include "planners/serving/energy.h"
#include "planners/serving/finish.h"
#include "planners/serving/planning.h"
#include "planners/serving/pool_memo.h"
#include "planners/serving/pooled.h"
#include "planners/serving/survive.h"
#include "planners/serving/watts.h"

namespace partita::planners::serving {
namespace {

using Verdict = SearchResult::Verdict;

// Price of a GPU beyond the fixed number while slices are minimised: dearer than any slices it
// could save.
constexpr double kExtraGpuPrice = 1000;
// Choices that are placed at most when services must keep apart, which is slow; further ones
// count as unknown.
constexpr int kMaxQuestions = 150;

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

class ExactPlanner : Planning {
 public:
  ExactPlanner(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
               Fleet fleet, const Options& options)
      : Planning(problem, modes, std::move(fleet), options, OwnCost::none),
        tied_(std::ranges::any_of(problem.services, [](const plan::Service& s) {
          return s.spread || !s.avoid.empty();
        })) {}

  Outcome plan() {
    bound_gpus();
    if (tied_ && keep_apart()) return placed_.empty() ? refuse() : finish();
    if (!search_gpus()) return refuse();
    search_gpcs();
    return finish();
  }
  MasterAnswer ask_master() {
    bound_gpus();
    return {static_cast<int>(bound_),
            per_service(round_columns(table_.kinds, gpu_master_.columns))};
  }

 private:
  void bound_gpus() {
    MasterProblem master = master_problem();
    for (const plan::FleetEntry& entry : problem_.fleet) {
      Supply supply;
      supply.price = single() ? 1 : entry.price;
      if (!single() && entry.count) supply.most = *entry.count;
      master.supply.push_back(supply);
    }
    const bool whole = single();
    gpu_master_ = solve_master(master, {}, [whole](double bound, double value) {
      return whole ? round_up(bound) >= round_up(value) : value - bound < 1e-7 * (1 + value);
    });
    bound_ = whole ? round_up(gpu_master_.bound)
                   : gpu_master_.bound - kBoundSlack * (1 + gpu_master_.bound);
    const int spread = most_spread();
    if (whole && spread > bound_) bound_ = spread;
    // What pools are asked to carry beyond their rates is found by trial, and proves nothing.
    const bool proves = problem_.rule.kind != plan::SloRule::Kind::pooled;
    say(fmt::format(
        "{}: the convexified services need {} {:.6g}{} ({} kinds of service, {} covers, "
        "pricing rounds: {}), so {} {:.6g}",
        proves ? "lower bound" : "start of the search", whole ? "at least" : "a price of at least",
        gpu_master_.bound, whole ? " GPUs" : "", table_.kinds.size(), gpu_master_.columns.size(),
        gpu_master_.rounds, proves ? "a plan needs at least" : "pools like these are tried from",
        bound_));
    say_prices();
  }

  // The way of services that must keep apart; false when it neither finds a plan nor shows that
  // there is none.
  bool keep_apart() {
    ApartResult result = plan_apart(problem_, fleet_, table_, {bound_, nodes_});
    if (!result.attempted) return false;
    nodes_ = result.nodes;
    bound_ = result.bound;
    for (std::string& sentence : result.explanation) say(std::move(sentence));
    if (!result.gpus) {
      // Too few GPUs for certain, or a dive that ended early.
      const std::optional<int>& count = problem_.fleet[0].count;
      return single() && count && bound_ > *count;
    }
    gpus_ = result.counts;
    gpu_proven_ = result.refuted_cheaper;
    best_gpcs_ = result.gpcs;
    gpc_bound_ = result.gpc_bound;
    choice_.assign(table_.kinds.size(), {});
    for (std::size_t i = 0; i < choice_.size(); ++i)
      for (const int s : table_.services[i]) choice_[i].push_back(result.covers[at(s)]);
    placed_ = settle(problem_, tables_of(choice_), fleet_, *result.gpus);
    say(fmt::format("compute slices: at least {}, found {}", gpc_bound_, best_gpcs_));
    return true;
  }

  // What an instance of every shape is worth at the bound: the scarce shapes are dear.
  void say_prices() {
    std::string prices;
    for (std::size_t k = 0; k < static_cast<std::size_t>(fleet_.classes); ++k) {
      const auto m = static_cast<std::size_t>(fleet_.model_of[k]);
      const auto local = k - static_cast<std::size_t>(fleet_.first_class[m]);
      const auto profile = static_cast<std::size_t>(fleet_.rules[m].profiles[local]);
      prices += fmt::format("{}{}{} {:.3g}", k == 0 ? "" : ", ",
                            fleet_.gpus[k] > 1 ? fmt::format("{} x ", fleet_.gpus[k]) : "",
                            problem_.fleet[m].gpu.profiles[profile].name, gpu_master_.prices[k]);
    }
    say(fmt::format("prices of the shapes at that bound, in {}: {}",
                    single() ? "GPUs" : "the price of the fleet", prices));
  }

  // A spread service needs as many GPUs as it has replicas, and as its largest instances
  // carry its rate.
  int most_spread() const {
    double most = 0;
    for (std::size_t i = 0; i < table_.kinds.size(); ++i) {
      const Kind& kind = table_.kinds[i];
      if (!problem_.services[static_cast<std::size_t>(table_.services[i][0])].spread) continue;
      double replicas = kUnbounded;
      for (int m = 0; m < modes(kind); ++m) {
        const Mode& one = mode(kind, m);
        const double rate = *std::max_element(one.rate.begin(), one.rate.end());
        if (rate > 0) replicas = std::min(replicas, round_up(one.demand / rate));
      }
      most = std::max({most, replicas, static_cast<double>(kind.min_count)});
    }
    return static_cast<int>(most);
  }

  void limit_spread(int gpus) {
    for (std::size_t i = 0; i < table_.kinds.size(); ++i)
      if (problem_.services[static_cast<std::size_t>(table_.services[i][0])].spread)
        table_.kinds[i].max_count = gpus;
  }

  // The rows of the packing for fixed numbers of GPUs.
  SearchProblem search_problem(const GpuCounts& gpus) {
    limit_spread(std::accumulate(gpus.begin(), gpus.end(), 0));
    return rows_on(gpus);
  }

  // Searches with growing candidate sets; a choice counts only when it can be placed.
  SearchResult search(const SearchProblem& problem, const std::vector<Column>& columns,
                      const Choice& start, const GpuCounts& gpus) {
    for (const Search::Reach reach :
         {Search::Reach::columns, Search::Reach::near, Search::Reach::all}) {
      Search search(problem, columns, reach);
      if (search.refuted()) return {Verdict::none, {}};
      if (auto choice = search.improve(start)) {
        if (placeable(*choice, gpus)) return {Verdict::found, std::move(*choice)};
      }
      if (reach != Search::Reach::all && !Search::same_everywhere(problem)) continue;
      long share = nodes_ / 2;
      nodes_ -= share;
      const Accept accept = [&](const Choice& choice) { return acceptable(choice, gpus); };
      SearchResult result = search.exhaust(share, tied_ ? accept : Accept{});
      nodes_ += share;
      // With services to keep apart, `accept` has placed it already.
      if (result.verdict != Verdict::found || tied_ || placeable(result.choice, gpus))
        return result;
      break;
    }
    return {Verdict::unknown, {}};
  }

  bool placeable(const Choice& choice, const GpuCounts& gpus) {
    return acceptable(choice, gpus) == Acceptance::yes;
  }
  Acceptance acceptable(const Choice& choice, const GpuCounts& gpus) {
    if (tied_ && ++questions_ > kMaxQuestions) return Acceptance::unknown;
    Placement placement = placed(choice, gpus);
    if (!placement.gpus) return placement.proven ? Acceptance::no : Acceptance::unknown;
    placed_ = std::move(*placement.gpus);
    return Acceptance::yes;
  }

  bool search_gpus() {
    const Choice start = round_columns(table_.kinds, gpu_master_.columns);
    incumbent_ = accept_rounded(start);
    if (!incumbent_ && !single()) accept_all(start);
    const bool proven = tied_ && single() && incumbent_ ? bisect(start) : climb(start);
    if (!incumbent_) return false;
    gpus_ = *incumbent_;
    gpu_proven_ = single() ? gpus_[0] <= bound_ : proven;
    if (!single() && gpu_proven_) bound_ = price(gpus_);
    return true;
  }

  Verdict try_gpus(const GpuCounts& gpus, const Choice& start) {
    SearchProblem problem = search_problem(gpus);
    problem.certificates.push_back({gpu_master_.multipliers});
    SearchResult result = search(problem, gpu_master_.columns, start, gpus);
    if (result.verdict == Verdict::found) {
      incumbent_ = gpus;
      choice_ = std::move(result.choice);
    }
    return result.verdict;
  }

  // Upwards from the bound until a plan is found; whether everything cheaper was refuted.
  bool climb(const Choice& start) {
    bool proven = true;
    const Trials trials = fleet_trials(problem_, bound_, incumbent_);
    for (const GpuCounts& gpus : trials.counts) {
      const Verdict verdict = try_gpus(gpus, start);
      if (verdict == Verdict::found) break;
      proven = proven && verdict == Verdict::none;
      if (proven && single()) bound_ = std::max(bound_, gpus[0] + 1.0);
    }
    return proven && trials.complete;
  }

  // Services that keep apart can need many more GPUs than counting says, and a trial is slow:
  // halve the gap. What has no place on some number of GPUs has none on fewer.
  bool bisect(const Choice& start) {
    int low = static_cast<int>(bound_);
    while (low < (*incumbent_)[0]) {
      const int middle = low + ((*incumbent_)[0] - low) / 2;
      const Verdict verdict = try_gpus({middle}, start);
      if (verdict == Verdict::found) continue;
      low = middle + 1;
      if (verdict == Verdict::none) bound_ = std::max(bound_, static_cast<double>(low));
    }
    return (*incumbent_)[0] <= bound_;
  }

  // A first plan on all GPUs that there are; an unbounded model gets one per instance.
  void accept_all(const Choice& start) {
    GpuCounts gpus;
    for (const plan::FleetEntry& entry : problem_.fleet)
      gpus.push_back(entry.count.value_or(total(sum_of(start))));
    if (try_gpus(gpus, start) != Verdict::found) return;
    for (std::size_t m = 0; m < gpus.size(); ++m)
      gpus[m] = static_cast<int>(std::count_if(
          placed_.begin(), placed_.end(),
          [&](const plan::PlannedGpu& g) { return g.model == problem_.fleet[m].gpu.name; }));
    incumbent_ = gpus;
  }

  // The rounded master as a first plan, with as many GPUs as its counts need.
  std::optional<GpuCounts> accept_rounded(const Choice& start) {
    const Counts sum = sum_of(start);
    GpuCounts gpus;
    int spread = most_spread();
    for (std::size_t i = 0; i < start.size(); ++i)
      if (problem_.services[static_cast<std::size_t>(table_.services[i][0])].spread)
        for (const Counts& counts : start[i]) spread = std::max(spread, total(counts));
    for (std::size_t m = 0; m < problem_.fleet.size(); ++m)
      gpus.push_back(hw::gpus_needed(fleet_.rules[m], fleet_.counts_of(static_cast<int>(m), sum)));
    if (single()) gpus[0] = std::max(gpus[0], spread);
    // Services that keep apart may need more GPUs than their counts; with one per instance there is
    // always a place.
    const int most = gpus[0] + total(sum);
    for (int extra = 1; gpus[0] <= most; gpus[0] += extra, extra *= 2) {
      questions_ = 0;
      for (std::size_t m = 0; m < gpus.size(); ++m)
        if (problem_.fleet[m].count && gpus[m] > *problem_.fleet[m].count) return std::nullopt;
      if (!placeable(start, gpus)) continue;
      choice_ = start;
      return gpus;
    }
    return std::nullopt;
  }

  void search_gpcs() {
    best_gpcs_ = gpcs_of(choice_);
    limit_spread(single() ? gpus_[0] : INT32_MAX);
    Choice cheapest(table_.kinds.size());
    double least = 0;
    for (std::size_t i = 0; i < table_.kinds.size(); ++i) {
      const PricedCover cover = cheapest_cover(table_.kinds[i], fleet_.gpcs, fleet_.classes);
      cheapest[i].assign(static_cast<std::size_t>(table_.kinds[i].copies), cover.counts);
      least += table_.kinds[i].copies * cover.bound;
    }
    gpc_bound_ = static_cast<int>(round_up(least));
    if (gpc_bound_ < best_gpcs_) {
      const std::vector<double> packing_free(fleet_.rows.size(), 0);
      try_gpcs(gpus_, gpc_bound_, packing_free, gpu_master_.columns, cheapest);
    }
    if (gpc_bound_ < best_gpcs_) improve_gpcs();
    say(fmt::format("compute slices: at least {}, found {}", gpc_bound_, best_gpcs_));
  }

  // On these GPUs, and on all others that cost as much.
  void improve_gpcs() {
    const Trials equal = equally_priced(problem_, gpus_);
    std::vector<Column> seed = gpu_master_.columns;
    bool all = equal.complete;
    int least = INT32_MAX;
    for (std::size_t i = 0; i < equal.counts.size() && gpc_bound_ < best_gpcs_; ++i) {
      if (i > 0 && nodes_ <= 0) {
        all = false;
        break;
      }
      const MasterSolution solution = price_gpcs(equal.counts[i], seed);
      if (i == 0) seed = solution.columns;
      least = std::min(least, improve_gpcs_on(equal.counts[i], solution));
    }
    if (all) gpc_bound_ = std::max(gpc_bound_, std::min(least, best_gpcs_));
  }

  // The packing against the slices.
  MasterSolution price_gpcs(const GpuCounts& gpus, const std::vector<Column>& seed) {
    limit_spread(std::accumulate(gpus.begin(), gpus.end(), 0));
    MasterProblem master = master_problem();
    master.gpc_price = 1;
    for (const int count : gpus)
      master.supply.push_back({static_cast<double>(count), kExtraGpuPrice});
    MasterSolution solution =
        solve_master(master, seed, [most = best_gpcs_](double bound, double value) {
          return round_up(bound) >= round_up(value) || round_up(bound) >= most;
        });
    if (!single())
      nodes_ -= kNodesPerRow * static_cast<long>(table_.kinds.size()) * solution.rounds;
    return solution;
  }

  // Tries totals from the bound upwards; how many slices a plan on these GPUs has at least.
  int improve_gpcs_on(const GpuCounts& gpus, const MasterSolution& solution) {
    int bound = std::max(gpc_bound_, static_cast<int>(round_up(solution.bound)));
    if (bound >= best_gpcs_) return bound;
    const Choice start = round_columns(table_.kinds, solution.columns);
    for (int target = bound, step = 1; target < best_gpcs_; target += step) {
      const Verdict verdict = try_gpcs(gpus, target, solution.multipliers, solution.columns, start);
      if (verdict == Verdict::none && target == bound) bound = target + 1;
      if (verdict == Verdict::unknown) step *= 2;
    }
    return bound;
  }

  // With the GPUs fixed: a plan of at most `target` slices becomes the choice.
  Verdict try_gpcs(const GpuCounts& gpus, int target, std::vector<double> multipliers,
                   const std::vector<Column>& columns, const Choice& start) {
    SearchProblem problem = search_problem(gpus);
    SearchRow slices{{}, target};
    for (std::size_t k = 0; k < static_cast<std::size_t>(fleet_.classes); ++k)
      slices.weight[k] = std::lround(fleet_.gpcs[k]);
    multipliers.resize(problem.rows.size(), 0);
    problem.rows.push_back(slices);
    multipliers.push_back(1);
    problem.certificates.push_back({std::move(multipliers)});
    SearchResult result = search(problem, columns, start, gpus);
    if (result.verdict == Verdict::found) {
      gpus_ = gpus;
      choice_ = std::move(result.choice);
      best_gpcs_ = gpcs_of(choice_);
    }
    return result.verdict;
  }

  Outcome refuse() const {
    Outcome outcome;
    for (std::size_t m = 0; m < problem_.fleet.size() && single(); ++m) {
      if (!problem_.fleet[m].count) {
        outcome.refusals.push_back({plan::kNotFound, problem_.fleet[m].gpu.name, 0, bound_,
                                    "no place was found that keeps all services apart"});
        continue;
      }
      const int have = *problem_.fleet[m].count;
      const bool certain = bound_ > have;
      outcome.refusals.push_back(
          {certain ? "fleet_count" : plan::kNotFound, problem_.fleet[m].gpu.name,
           static_cast<double>(have), bound_,
           fmt::format("{} GPUs are allowed; {} {:g} are needed", have,
                       certain ? "at least" : "no plan was found; at least", bound_)});
    }
    if (!single())
      outcome.refusals.push_back(
          {"fleet_count", "fleet", 0, bound_,
           "the GPUs of the fleet are not enough for the rates of the services"});
    return outcome;
  }

  Outcome finish() {
    plan::ServingPlan plan = plan_of(std::move(placed_), best_gpcs_);
    plan.objective.lower_bound_gpcs = std::min(gpc_bound_, best_gpcs_);
    if (single()) {
      plan.objective.lower_bound_gpus = std::min(static_cast<int>(bound_), plan.objective.gpus);
      plan.objective.lower_bound_cost = plan.objective.lower_bound_gpus * problem_.fleet[0].price;
    } else {
      double dearest = 0;
      for (const plan::FleetEntry& entry : problem_.fleet) dearest = std::max(dearest, entry.price);
      plan.objective.lower_bound_cost = std::min(bound_, plan.objective.cost);
      plan.objective.lower_bound_gpus =
          std::min(plan.objective.gpus,
                   static_cast<int>(round_up(plan.objective.lower_bound_cost / dearest)));
    }
    plan.objective.optimal = gpu_proven_ && best_gpcs_ <= gpc_bound_;
    return {std::move(plan), {}};
  }

  const bool tied_;  // some services must keep apart, so counting is not all
  int questions_ = 0;

  MasterSolution gpu_master_;
  double bound_ = 0;  // of GPUs, or of the price of a fleet of several models
  bool gpu_proven_ = false;
  std::optional<GpuCounts> incumbent_;
  GpuCounts gpus_;
  Choice choice_;
  std::vector<plan::PlannedGpu> placed_;  // of choice_: set whenever a choice is accepted
  int gpc_bound_ = 0;
  int best_gpcs_ = 0;
};

}  // namespace

Outcome plan_exact(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                   const Options& options) {
  if (auto reasons = unservable(problem, modes); !reasons.empty())
    return {std::nullopt, std::move(reasons)};
  if (problem.services.empty()) {
    plan::ServingPlan nothing;
    nothing.objective.optimal = true;
    nothing.objective.goal = problem.goal;
    if (problem.goal == plan::Goal::energy) state_watts(problem, kUnbounded, nothing);
    return {nothing, {}};
  }
  auto fleet = make_fleet(problem, modes.front(), options.rules);
  if (!fleet)
    return {std::nullopt, {{"fleet_size", "fleet", 0, kMaxClasses, fleet.error().message}}};
  double bound = 0;
  if (problem.goal == plan::Goal::energy) {
    EnergyOutcome energy = plan_energy(problem, modes, options);
    if (energy.plan) return {std::move(energy.plan), {}};
    bound = energy.bound;
  }
  Outcome outcome = ExactPlanner(problem, modes, std::move(*fleet), options).plan();
  if (!outcome.plan) return outcome;
  outcome.plan->objective.goal = problem.goal;
  if (problem.goal == plan::Goal::energy) state_watts(problem, bound, *outcome.plan);
  return outcome;
}

MasterAnswer ask_master(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                        const Options& options) {
  CHECK(problem.fleet.size() == 1);
  auto fleet = make_fleet(problem, modes.front(), options.rules);
  CHECK(fleet);
  return ExactPlanner(problem, modes, *std::move(fleet), options).ask_master();
}

Outcome plan_exact(const plan::ServingProblem& problem, const Options& options) {
  Stopwatch watch(options);
  if (problem.rule.kind == plan::SloRule::Kind::pooled) {
    // Many are made until the pools hold, and each keeps all services apart.
    KnownRules rules;
    Options each = options;
    if (!each.rules) each.rules = &rules;
    PoolMemo pools;
    if (!each.pools && problem.fleet.size() > 1) each.pools = &pools;
    Options share = each;
    share.node_budget = options.node_budget / 10;
    const auto solve = [&](const plan::ServingProblem& asked,
                           const std::vector<PointTables>& modes) {
      return asked.survive > 0 ? plan_surviving(asked, modes, share)
                               : plan_exact(asked, modes, each);
    };
    return complete(plan_pools(problem, each, solve), problem, "exact", watch);
  }
  PointTables tables;
  for (const plan::FleetEntry& entry : problem.fleet) tables.push_back(best_points(problem, entry));
  watch.points_done(problem.rule);
  if (problem.survive == 0)
    return complete(plan_exact(problem, {tables}, options), problem, "exact", watch);
  Outcome outcome = plan_surviving(problem, {tables}, options);
  if (outcome.plan) bound_surviving(problem, {tables}, options, *outcome.plan);
  return complete(std::move(outcome), problem, "exact", watch);
}

}  // namespace partita::planners::serving
