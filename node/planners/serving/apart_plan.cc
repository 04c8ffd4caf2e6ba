#include "planners/serving/apart_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/index.h"
#include "planners/serving/planning.h"

namespace partita::planners::serving {
namespace {

// Price of a GPU beyond the fixed number while slices are minimised: dearer than any slices it
// could save.
constexpr double kBeyondFixed = 1000;
// Slices are a tie-break where GPUs are bought.
constexpr double kSliceTieBreak = 1e-3;
constexpr std::size_t kMaxTrials = 200;
constexpr int kDives = 6;          // with other seeds
constexpr int kDiscrepancies = 3;  // per dive

class ApartPlanner {
 public:
  ApartPlanner(const plan::ServingProblem& problem, const Fleet& fleet, ApartProblem apart,
               const ApartOptions& options)
      : problem_(problem), fleet_(fleet), apart_(std::move(apart)), master_(apart_) {
    result_.bound = options.bound;
    result_.nodes = options.nodes;
  }

  ApartResult run() {
    if (!master_.fits()) return std::move(result_);
    result_.attempted = true;
    bound_gpus();
    first_plan();
    search_gpus();
    if (best_) {
      search_slices();
      settle();
    }
    return std::move(result_);
  }

 private:
  bool single() const { return problem_.fleet.size() == 1; }

  double price(const GpuCounts& gpus) const {
    double sum = 0;
    for (std::size_t m = 0; m < gpus.size(); ++m)
      sum += gpus[m] * (single() ? 1 : problem_.fleet[m].price);
    return sum;
  }

  ApartNode empty_node(double gpc_price) const {
    ApartNode node;
    node.gpc_price = gpc_price;
    node.placed.assign(apart_.groups->count() * at(fleet_.classes), 0);
    node.cover.resize(apart_.units.size());
    return node;
  }

  // GPUs are bought.
  ApartNode buying(double gpc_price) const {
    ApartNode node = empty_node(gpc_price);
    for (const plan::FleetEntry& entry : problem_.fleet) {
      Supply supply;
      supply.price = single() ? 1 : entry.price;
      if (entry.count) supply.most = *entry.count;
      node.supply.push_back(supply);
    }
    return node;
  }

  // So many GPUs are there.
  ApartNode having(const GpuCounts& gpus, double gpc_price, double extra) const {
    ApartNode node = empty_node(gpc_price);
    for (const int n : gpus) node.supply.push_back({static_cast<double>(n), extra});
    return node;
  }

  void limit_spread(int gpus) {
    for (std::size_t u = 0; u < apart_.units.size(); ++u) {
      const auto g = at(apart_.group[u]);
      if (apart_.groups->apart[g] >> g & 1) apart_.units[u].max_count = gpus;
    }
  }

  long solve_cost() const {
    return kNodesPerRow * static_cast<long>(apart_.units.size() + apart_.groups->count() * 5);
  }

  void bound_gpus() {
    ApartNode node = buying(0);
    if (single()) node.supply[0].most = Supply{}.most;
    while (true) {
      const ApartSolution solution = master_.solve(node, [this](double bound, double value) {
        return single() ? round_up(bound) >= round_up(value) : value - bound < 1e-7 * (1 + value);
      });
      result_.nodes -= solve_cost() * solution.rounds;
      result_.explanation.push_back(fmt::format(
          "services that keep apart: patterns of whole GPUs need {} {:.6g} (pricing rounds: {})",
          single() ? "at least" : "a price of at least", solution.bound, solution.rounds));
      const double bound =
          single() ? round_up(solution.bound) : solution.bound - kBoundSlack * (1 + solution.bound);
      result_.bound = std::max(result_.bound, bound);
      if (!single()) return;
      // A spread service has at most one instance per GPU.
      const int gpus = static_cast<int>(result_.bound);
      if (gpus == limit_) return;
      limit_ = gpus;
      limit_spread(gpus);
    }
  }

  std::optional<ApartPlan> dive(const ApartNode& node, const ApartLimits& limits) {
    ApartDive search(apart_, master_, limits);
    auto plan = search.run(node);
    result_.nodes -= solve_cost() * search.solves();
    return plan;
  }

  void first_plan() {
    limit_spread(INT32_MAX);
    const auto plan = dive(buying(kSliceTieBreak), {1e9, 2, 400, 0});
    if (plan) accept(*plan);
  }

  GpuCounts counts_of(const ApartPlan& plan) const {
    GpuCounts counts(problem_.fleet.size(), 0);
    for (const Pattern& one : plan.gpus) counts[at(one.model)] += gpus_of(one, fleet_);
    return counts;
  }
  int gpcs_of(const ApartPlan& plan) const {
    double sum = 0;
    for (const Counts& counts : plan.covers) sum += cost(counts, fleet_.gpcs, fleet_.classes);
    return static_cast<int>(std::lround(sum));
  }

  // Leaves out instances that are not needed, the largest first, and puts smaller ones in the place
  // of others.
  void trim(ApartPlan& plan) const {
    for (std::size_t u = 0; u < plan.covers.size(); ++u)
      for (std::size_t k = at(fleet_.classes); k-- > 0;)
        while (plan.covers[u][k] > 0 && (drop(plan, u, k) || shrink(plan, u, k))) {
        }
  }
  bool drop(ApartPlan& plan, std::size_t u, std::size_t k) const {
    --plan.covers[u][k];
    if (covers(apart_.units[u], plan.covers[u], fleet_.classes)) return true;
    ++plan.covers[u][k];
    return false;
  }
  bool shrink(ApartPlan& plan, std::size_t u, std::size_t k) const {
    for (const int j : fleet_.smaller[k]) {
      Counts next = plan.covers[u];
      --next[k];
      ++next[at(j)];
      if (!usable(apart_.units[u], at(j)) || !covers(apart_.units[u], next, fleet_.classes))
        continue;
      const int base = apart_.group[u] * fleet_.classes, old = base + static_cast<int>(k);
      for (Pattern& gpu : plan.gpus) {
        const auto found = std::find(gpu.cells.begin(), gpu.cells.end(), old);
        if (found == gpu.cells.end()) continue;
        *found = base + j;
        std::sort(gpu.cells.begin(), gpu.cells.end());
        plan.covers[u] = next;
        return true;
      }
    }
    return false;
  }

  bool better(const GpuCounts& gpus, int gpcs) const {
    const double ours = price(gpus), known = price(result_.counts), cent = 1e-9 * (1 + known);
    return ours < known - cent || (ours < known + cent && gpcs < result_.gpcs);
  }

  // False where nodes do not hold its groups of GPUs.
  bool accept(ApartPlan plan) {
    Counts sum{};
    for (std::size_t u = 0; u < plan.covers.size(); ++u) {
      const auto part = cover_within(apart_.units[u], plan.covers[u], fleet_.classes);
      if (!part) return true;
      plan.covers[u] = *part;
    }
    trim(plan);
    for (const Counts& counts : plan.covers)
      for (std::size_t k = 0; k < counts.size(); ++k) sum[k] += counts[k];
    if (!fleet_.fit_nodes(sum)) return false;
    const GpuCounts counts = counts_of(plan);
    for (std::size_t m = 0; m < counts.size(); ++m)
      if (problem_.fleet[m].count && counts[m] > *problem_.fleet[m].count) return true;
    if (best_ && !better(counts, gpcs_of(plan))) return true;
    best_ = plan;
    result_.counts = counts;
    result_.gpcs = gpcs_of(plan);
    return true;
  }

  // Whether the master shows that these GPUs are too few.
  bool refuted(const GpuCounts& gpus) {
    limit_spread(std::accumulate(gpus.begin(), gpus.end(), 0));
    const ApartSolution solution =
        master_.solve(having(gpus, 0, 1), [](double bound, double value) {
          return bound > 2 * kBoundSlack || value < kBoundSlack / 2;
        });
    result_.nodes -= solve_cost() * solution.rounds;
    return solution.bound > 2 * kBoundSlack;
  }

  enum class Verdict { found, none, unknown };

  // Exhaustive, where every service is a group of its own.
  Verdict tree(const ApartNode& node, double cutoff) {
    if (apart_.groups->count() != apart_.units.size()) return Verdict::unknown;
    const int solves = static_cast<int>(result_.nodes / 2 / solve_cost());
    ApartTree search(apart_, master_, {cutoff, 0, solves, 0});
    const TreeResult found = search.run(node);
    result_.nodes -= solve_cost() * search.solves();
    if (found.plan) return accept(*found.plan) ? Verdict::found : Verdict::unknown;
    return found.proven ? Verdict::none : Verdict::unknown;
  }

  Verdict try_gpus(const GpuCounts& gpus) {
    limit_spread(std::accumulate(gpus.begin(), gpus.end(), 0));
    for (int seed = 0; seed < kDives && result_.nodes > 0; ++seed) {
      const ApartNode node = having(gpus, seed % 2 == 0 ? 1 : 0, kBeyondFixed);
      const ApartLimits limits{kBeyondFixed - 1, kDiscrepancies, 150,
                              static_cast<std::uint64_t>(seed)};
      const auto plan = dive(node, limits);
      if (plan && accept(*plan)) return Verdict::found;
    }
    return tree(having(gpus, 0, kBeyondFixed), 0);
  }

  void search_gpus() {
    std::optional<GpuCounts> incumbent;
    if (best_) incumbent = result_.counts;
    const Trials trials = fleet_trials(problem_, result_.bound, incumbent);
    bool proven = trials.complete && trials.counts.size() <= kMaxTrials;
    std::size_t tried = 0;
    for (const GpuCounts& gpus : trials.counts) {
      if (++tried > kMaxTrials || result_.nodes <= 0) {
        proven = false;
        break;
      }
      const Verdict verdict = refuted(gpus) ? Verdict::none : try_gpus(gpus);
      if (verdict == Verdict::found) break;
      if (verdict == Verdict::none) {
        if (proven && single()) result_.bound = std::max(result_.bound, gpus[0] + 1.0);
        continue;
      }
      proven = false;
    }
    result_.refuted_cheaper = best_ && (single() ? result_.counts[0] <= result_.bound : proven);
    if (best_ && result_.refuted_cheaper) result_.bound = price(result_.counts);
  }

  // On these GPUs, and on all others that cost as much.
  void search_slices() {
    const Trials equal = equally_priced(problem_, result_.counts);
    const int alone = slices_alone();
    bool all = equal.complete;
    int least = INT32_MAX;
    for (std::size_t i = 0; i < equal.counts.size() && alone < result_.gpcs; ++i) {
      if (i > 0 && result_.nodes <= 0) {
        all = false;
        break;
      }
      least = std::min(least, search_slices_on(equal.counts[i]));
    }
    result_.gpc_bound = std::min(all ? std::max(alone, least) : alone, result_.gpcs);
  }

  // Every service's cheapest cover by itself.
  int slices_alone() {
    limit_spread(INT32_MAX);
    double sum = 0;
    for (const Kind& unit : apart_.units)
      sum += cheapest_cover(unit, fleet_.gpcs, fleet_.classes).bound;
    return static_cast<int>(round_up(sum));
  }

  // Slices that a plan on these GPUs has at least, where there are fewer than known.
  int search_slices_on(const GpuCounts& gpus) {
    limit_spread(std::accumulate(gpus.begin(), gpus.end(), 0));
    const ApartNode node = having(gpus, 1, kBeyondFixed);
    const ApartSolution root = master_.solve(node, [this](double bound, double value) {
      return round_up(bound) >= round_up(value) || (!single() && round_up(bound) >= result_.gpcs);
    });
    result_.nodes -= solve_cost() * root.rounds;
    int least = static_cast<int>(round_up(root.bound));
    for (int seed = 0; seed < kDives; ++seed) {
      while (result_.gpcs > least && result_.nodes > 0) {
        const auto plan = dive(
            node, {result_.gpcs - 1 + 1e-6, kDiscrepancies, 150, static_cast<std::uint64_t>(seed)});
        if (!plan || !accept(*plan)) break;
      }
    }
    // A low target is soon decided; each that has no plan raises the bound.
    while (result_.gpcs > least && result_.nodes > 0) {
      const Verdict verdict = tree(node, least + 1e-6);
      if (verdict != Verdict::none) break;
      ++least;
    }
    if (result_.gpcs > least && result_.nodes > 0 &&
        tree(node, result_.gpcs - 1 + 1e-6) == Verdict::none)
      least = result_.gpcs;
    return least;
  }

  // Cells to services.
  void settle() {
    result_.covers = best_->covers;
    std::vector<Counts> left = best_->covers;
    std::vector<FilledGpu> gpus;
    for (const Pattern& pattern : best_->gpus) {
      FilledGpu gpu{at(pattern.model), {}};
      for (const int cell : pattern.cells) {
        const int group = cell / fleet_.classes;
        const auto k = at(cell % fleet_.classes);
        for (std::size_t u = 0; u < left.size(); ++u) {
          if (apart_.group[u] != group || left[u][k] == 0) continue;
          --left[u][k];
          gpu.tenants.push_back({k, static_cast<int>(u)});
          break;
        }
      }
      if (!gpu.tenants.empty())
        gpus.insert(gpus.end(), at(gpus_of(pattern, fleet_)), std::move(gpu));
    }
    for (const Counts& counts : left) CHECK(total(counts) == 0);
    result_.gpus = std::move(gpus);
  }

  const plan::ServingProblem& problem_;
  const Fleet& fleet_;
  ApartProblem apart_;
  ApartMaster master_;
  ApartResult result_;
  std::optional<ApartPlan> best_;
  int limit_ = -1;
};

}  // namespace

ApartResult plan_apart(const plan::ServingProblem& problem, const Fleet& fleet,
                       const KindTable& kinds, const ApartOptions& options) {
  ApartResult nothing;
  nothing.nodes = options.nodes;
  const auto groups = apart_groups(problem.services);
  if (!groups) return nothing;
  ApartProblem apart;
  apart.fleet = &fleet;
  apart.groups = &*groups;
  apart.units.resize(problem.services.size());
  for (std::size_t i = 0; i < kinds.kinds.size(); ++i)
    for (const int s : kinds.services[i]) {
      apart.units[at(s)] = kinds.kinds[i];
      apart.units[at(s)].copies = 1;
    }
  apart.group = groups->of_service;
  return ApartPlanner(problem, fleet, std::move(apart), options).run();
}

}  // namespace partita::planners::serving
