#include "planners/serving/incremental.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/index.h"
#include "planners/serving/exact.h"
#include "planners/serving/finish.h"
#include "planners/serving/in_place.h"
#include "planners/serving/incremental_counts.h"
#include "planners/serving/incremental_finish.h"
#include "planners/serving/incremental_repack.h"
#include "planners/serving/incremental_repair.h"
#include "planners/serving/planning.h"
#include "planners/serving/pooled.h"
#include "planners/serving/survive.h"

namespace partita::planners::serving {
namespace {

// Prices a GPU's compute slices far below an instance when covers are chosen.
constexpr double kSlicePrice = 1e-3;
// Shares of the move budget: one window of local search, one attempt to empty a GPU.
constexpr long kWindowBudget = 1500;
constexpr long kEmptyBudget = 1200;
constexpr std::size_t kWindowHosts = 4;
constexpr std::size_t kRepairHosts = 8;
constexpr std::size_t kVictims = 4;
// GPUs beyond which nothing is searched exhaustively.
constexpr std::size_t kMaxProofHosts = 64;

// The best deployment found for numbers of GPUs.
struct Level {
  GpuCounts gpus;
  std::optional<Deployment> best;
  int bound = 0;
  int moves = 0;  // creations of `best` where it is put
};

class CurveSearch {
 public:
  CurveSearch(const Site& site, const plan::ServingPlan& exact, long budget)
      : site_(site), exact_(exact), counts_(site), whole_(budget) {}

  std::vector<Level> run() {
    least_ = site_.clashes ? 0 : all_kept().missing();
    const std::optional<Deployment> lazy = laziest();
    make_levels(lazy);
    budget_ = whole_ / 3;
    if (lazy) descend(*lazy);
    start_from_scratch();
    long left = whole_ / 3;
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      budget_ = share_of(left, l);
      left -= budget_;
      repack_at(l);
      improve(l);
      rematch(l);
      pass_on(l);
      left += std::max(0L, budget_);
    }
    left = whole_ / 3;
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      budget_ = share_of(left, l);
      left -= budget_;
      prove(l);
      rematch(l);
      pass_on(l);
      left += std::max(0L, budget_);
    }
    return std::move(levels_);
  }

 private:
  // Half for the fewest GPUs, equal parts of the rest for the other levels.
  long share_of(long left, std::size_t l) const {
    return l == 0 ? left / 2 : left / static_cast<long>(levels_.size() - l);
  }
  std::size_t models() const { return at(site_.entries()); }
  bool single() const { return models() == 1; }
  int entry_of(const Deployment& d, int h) const { return site_.unit(d.host(h).model).entry; }
  GpuCounts used(const Deployment& d) const {
    GpuCounts gpus;
    for (std::size_t m = 0; m < models(); ++m) gpus.push_back(d.open_gpus(static_cast<int>(m)));
    return gpus;
  }
  bool within(const GpuCounts& gpus, const GpuCounts& limit) const {
    for (std::size_t m = 0; m < gpus.size(); ++m)
      if (gpus[m] > limit[m]) return false;
    return true;
  }

  Deployment all_kept() const {
    Deployment d(site_);
    for (int h = 0; h < static_cast<int>(d.hosts().size()); ++h) d.open(h);
    return d;
  }

  // A deployment counts for the first level that it fits, and so for all further ones.
  void offer(const Deployment& d) {
    if (d.missing() > 0 || !d.fit_nodes()) return;
    const GpuCounts gpus = used(d);
    for (Level& level : levels_) {
      if (!within(gpus, level.gpus)) continue;
      if (!level.best || d.creations() < level.best->creations()) level.best = d;
      return;
    }
  }

  void pass_on(std::size_t l) {
    if (l + 1 == levels_.size() || !levels_[l].best) return;
    Level& next = levels_[l + 1];
    if (!next.best || levels_[l].best->creations() < next.best->creations())
      next.best = levels_[l].best;
  }

  // ---- the laziest plan ----

  // Keeps everything and adds the fewest instances that are missing, on few GPUs; nothing when the
  // fleet is too small for that.
  std::optional<Deployment> laziest() {
    Deployment d = all_kept();
    d.tidy();
    struct Wanted {
      int service;
      std::size_t cls;
    };
    std::vector<Wanted> wanted;
    for (int s = 0; s < static_cast<int>(site_.kinds.size()); ++s) {
      const Counts cover = fewest_more(d, s);
      for (std::size_t k = 0; k < cover.size(); ++k)
        wanted.insert(wanted.end(), at(cover[k]), {s, k});
    }
    std::stable_sort(wanted.begin(), wanted.end(), [&](const Wanted& a, const Wanted& b) {
      return site_.fleet.gpcs[a.cls] > site_.fleet.gpcs[b.cls];
    });
    for (const Wanted& w : wanted)
      if (d.missing(w.service) > 0 && !place(d, w.service, w.cls)) return std::nullopt;
    d.tidy();
    if (!d.fit_nodes()) return std::nullopt;
    return d;
  }

  Counts fewest_more(const Deployment& d, int service) const {
    if (d.missing(service) == 0) return {};
    Kind rest = site_.kinds[at(service)];
    rest.demand = std::max(0.0, rest.demand - d.rate(service));
    rest.min_count = std::max(0, rest.min_count - d.count(service));
    Prices prices{};
    for (std::size_t k = 0; k < prices.size(); ++k)
      prices[k] = 1 + kSlicePrice * site_.fleet.gpcs[k];
    return cheapest_cover(rest, prices, site_.fleet.classes).counts;
  }

  // A place of this class that harms nobody: beside what runs, instead of spare instances, or on a
  // GPU that is not in use.
  bool place(Deployment& d, int service, std::size_t cls) {
    const int model = site_.unit_of(cls);
    std::tuple<std::size_t, int, int, int> best{~std::size_t{0}, 0, -1, -1};
    for (int h = 0; h < static_cast<int>(d.hosts().size()); ++h) {
      if (d.host(h).model != model || !d.host(h).open) continue;
      int free = 0;
      for (const Tenant& t : d.host(h).tenants) free -= site_.spot(model, t.spot).gpcs;
      for (const int s : spots_of(model, cls)) {
        const auto out = harmless(d, h, s, service);
        if (out) best = std::min(best, {out->size(), free, h, s});
      }
    }
    if (std::get<2>(best) < 0) {
      const int h = further_host(d, model);
      if (h < 0) return false;
      best = {0, 0, h, -1};
      for (const int s : spots_of(model, cls))
        if (harmless(d, h, s, service) && std::get<3>(best) < 0) best = {0, 0, h, s};
      // What ran on a GPU that comes back may be in the way of somebody who keeps apart.
      if (std::get<3>(best) < 0) {
        d.reopen(h);
        best = {0, 0, h, spots_of(model, cls).front()};
      }
    }
    const auto [size, free, h, s] = best;
    const std::vector<Tenant> out = harmless(d, h, s, service).value_or(std::vector<Tenant>{});
    for (const Tenant& t : out) d.remove(h, t);
    d.add(h, s, service);
    return true;
  }

  std::vector<int> spots_of(int model, std::size_t cls) const {
    std::vector<int> result;
    for (std::size_t s = 0; s < site_.spots[at(model)].size(); ++s)
      if (site_.spots[at(model)][s].cls == cls) result.push_back(static_cast<int>(s));
    return result;
  }

  // A closed unit of the site, else a new one; -1 when the fleet has no more.
  int further_host(Deployment& d, int model) const {
    const Unit& unit = site_.unit(model);
    const auto& count = site_.problem.fleet[at(unit.entry)].count;
    if (count && d.open_gpus(unit.entry) + unit.gpus > *count) return -1;
    for (int h = 0; h < static_cast<int>(d.hosts().size()); ++h)
      if (d.host(h).model == model && !d.host(h).open) {
        d.open(h);
        return h;
      }
    return d.add_host(model);
  }

  std::optional<std::vector<Tenant>> harmless(Deployment& d, int h, int spot, int service) const {
    auto out = d.displaced(h, spot, service);
    if (!out) return std::nullopt;
    const auto saved = d.save({h}, {});
    bool fine = true;
    for (const Tenant& t : *out) {
      fine = fine && d.spare(h, t);
      d.remove(h, t);
    }
    d.restore(saved);
    return fine ? std::move(out) : std::nullopt;
  }

  // ---- the levels of the curve ----

  // From the exact planner's numbers of GPUs to those of the laziest plan.
  void make_levels(const std::optional<Deployment>& lazy) {
    GpuCounts gpus(models(), 0);
    for (const plan::PlannedGpu& gpu : exact_.gpus)
      for (std::size_t m = 0; m < models(); ++m)
        gpus[m] += site_.problem.fleet[m].gpu.name == gpu.model ? 1 : 0;
    levels_.push_back({gpus, std::nullopt, least_});
    if (!lazy) return;
    const GpuCounts most = used(*lazy);
    for (std::size_t m = 0; m < models(); ++m)
      while (gpus[m] < most[m]) {
        ++gpus[m];
        levels_.push_back({gpus, std::nullopt, least_});
      }
  }

  // GPUs that would keep more in exchange of their indices.
  void rematch(std::size_t l) {
    if (!levels_[l].best) return;
    for (int before = levels_[l].best->creations(), now = -1; now < before;) {
      before = levels_[l].best->creations();
      offer(matched(site_, finished(*levels_[l].best)));
      now = levels_[l].best->creations();
    }
  }

  void start_from_scratch() {
    Deployment d = matched(site_, exact_.gpus);
    chosen_.assign(site_.kinds.size(), Counts{});
    for (const Host& host : d.hosts())
      for (const Tenant& t : host.tenants)
        ++chosen_[at(t.service)][site_.spot(host.model, t.spot).cls];
    offer(d);
  }

  // Counts near to what runs, repacked.
  void repack_at(std::size_t l) {
    Level& level = levels_[l];
    const std::size_t services = site_.kinds.size();
    const int target = level.best ? level.best->creations() : 1'000'000;
    const int steps = static_cast<int>(std::clamp<std::size_t>(30'000 / services, 20, 100));
    if (l == 0 || services <= 50) counts_.price(level.gpus, target, steps);
    level.bound = std::max(level.bound, counts_.bound(level.gpus));
    if (level.best && level.best->creations() <= level.bound) return;
    chosen_ = counts_.counts(level.gpus, chosen_, l == 0 || services <= 50);
    if (auto d = repack(site_, chosen_, level.gpus)) offer(*d);
  }

  // ---- emptying GPUs ----

  // From the laziest plan downwards: empties the GPU whose tenants are the easiest to replace.
  void descend(Deployment d) {
    offer(d);
    while (budget_ > 0) {
      const GpuCounts gpus = used(d);
      if (within(gpus, levels_[0].gpus)) return;
      std::optional<Deployment> next;
      for (const int victim : victims(d)) {
        Deployment trial = d;
        if (!empty(trial, victim)) continue;
        if (!next || trial.creations() < next->creations()) next = std::move(trial);
      }
      if (!next) return;
      d = std::move(*next);
      offer(d);
    }
  }

  std::vector<int> victims(Deployment& d) const {
    std::vector<std::tuple<int, std::size_t, int>> order;
    const int before = d.missing();
    const GpuCounts gpus = used(d);
    for (int h = 0; h < static_cast<int>(d.hosts().size()); ++h) {
      const Host& host = d.host(h);
      const auto m = at(entry_of(d, h));
      if (!host.open || gpus[m] <= levels_[0].gpus[m]) continue;
      const std::size_t tenants = host.tenants.size();
      std::set<int> services;
      for (const Tenant& t : host.tenants) services.insert(t.service);
      const auto saved = d.save({h}, {});
      const int creations = d.creations();
      d.close(h);
      int lost = d.creations() - creations - before;
      for (const int s : services) lost += d.missing(s);
      d.restore(saved);
      order.emplace_back(lost, tenants, h);
    }
    std::sort(order.begin(), order.end());
    std::vector<int> result;
    for (std::size_t i = 0; i < std::min(kVictims, order.size()); ++i)
      result.push_back(std::get<2>(order[i]));
    return result;
  }

  bool empty(Deployment& d, int victim) {
    const int entry = entry_of(d, victim);
    d.close(victim);
    long share = std::min(budget_, kEmptyBudget);
    budget_ -= share;
    const int limit = d.creations() + d.missing() + 3;
    const Repaired result = repair(d, roomy(d, entry), limit, share);
    budget_ += std::max(0L, share);
    if (result != Repaired::yes) return false;
    d.tidy();
    return true;
  }

  // The open GPUs with the most slices that are free or spare.
  std::vector<int> roomy(const Deployment& d, int entry) const {
    std::vector<std::pair<int, int>> order;
    for (int h = 0; h < static_cast<int>(d.hosts().size()); ++h) {
      if (!d.host(h).open || entry_of(d, h) != entry) continue;
      int needed = 0;
      for (const Tenant& t : d.host(h).tenants)
        if (!d.spare(h, t)) needed += site_.spot(d.host(h).model, t.spot).gpcs;
      order.emplace_back(needed, h);
    }
    std::sort(order.begin(), order.end());
    std::vector<int> hosts;
    for (std::size_t i = 0; i < std::min(kRepairHosts, order.size()); ++i)
      hosts.push_back(order[i].second);
    return hosts;
  }

  // ---- local search ----

  // Rearranges windows of a few GPUs as long as that saves creations.
  void improve(std::size_t l) {
    Level& level = levels_[l];
    if (!level.best) return;
    Deployment d = *level.best;
    for (std::size_t size = 2; size <= kWindowHosts; ++size)
      for (bool better = true; better;) {
        better = false;
        for (int h = 0; h < static_cast<int>(d.hosts().size()); ++h) {
          if (d.creations() <= level.bound || budget_ <= 0) break;
          const auto& tenants = d.host(h).tenants;
          if (std::all_of(tenants.begin(), tenants.end(), [](const Tenant& t) { return t.kept; }))
            continue;
          if (rearranged(d, level.gpus, window_around(d, h, size))) better = true;
        }
      }
    if (d.creations() < level.best->creations()) level.best = d;
  }

  bool rearranged(Deployment& d, const GpuCounts& limit, std::vector<int> hosts) {
    const int entry = entry_of(d, hosts[0]);
    Window window{std::move(hosts), limit[at(entry)] - d.open_gpus(entry)};
    for (const int h : window.hosts)
      if (d.host(h).open) window.open += site_.unit(d.host(h).model).gpus;
    long share = std::min(budget_, kWindowBudget);
    budget_ -= share;
    const Repaired result = rearrange(d, window, d.creations() - 1, share);
    budget_ += std::max(0L, share);
    if (result == Repaired::yes) d.tidy();
    return result == Repaired::yes;
  }

  // A GPU with created instances and those that may help: where these services ran, where those
  // that ran here went, then other GPUs that changed.
  std::vector<int> window_around(const Deployment& d, int h, std::size_t size) const {
    std::vector<int> window{h};
    const auto add = [&](int other) {
      if (window.size() < size && entry_of(d, other) == entry_of(d, h) &&
          std::find(window.begin(), window.end(), other) == window.end())
        window.push_back(other);
    };
    for (std::size_t i = 0; i < window.size() && window.size() < size; ++i) {
      std::set<int> created, gone;
      for (const Tenant& t : d.host(window[i]).tenants)
        if (!t.kept) created.insert(t.service);
      for (const int s : left(d, window[i])) gone.insert(s);
      for (int other = 0; other < static_cast<int>(d.hosts().size()); ++other) {
        if (window.size() >= size) break;
        for (const int s : left(d, other))
          if (created.contains(s)) add(other);
        for (const Tenant& t : d.host(other).tenants)
          if (!t.kept && gone.contains(t.service)) add(other);
      }
    }
    return window;
  }

  // Services of instances that run on a host now and are not kept.
  std::vector<int> left(const Deployment& d, int h) const {
    std::vector<int> services;
    const Host& host = d.host(h);
    if (host.site < 0) return services;
    for (const Running& r : site_.gpus[at(host.site)].running)
      if (std::find(host.tenants.begin(), host.tenants.end(), Tenant{r.spot, r.service, true}) ==
          host.tenants.end())
        services.push_back(r.service);
    return services;
  }

  // ---- proof ----

  // All GPUs as one window: what is found there is optimal.
  void prove(std::size_t l) {
    Level& level = levels_[l];
    if (l > 0 && levels_[l - 1].best && levels_[l - 1].bound == least_) level.bound = least_;
    if (!level.best || level.best->creations() <= level.bound) return;
    if (!single() || site_.tied() || site_.clashes || !site_.pairwise) return;
    Deployment d = *level.best;
    std::vector<int> hosts, of_unit(site_.units.size(), 0);
    for (int h = 0; h < static_cast<int>(d.hosts().size()); ++h)
      if (d.host(h).site >= 0 || d.host(h).open) {
        hosts.push_back(h);
        ++of_unit[at(d.host(h).model)];
      }
    for (std::size_t u = 0; u < of_unit.size(); ++u)
      for (; of_unit[u] < level.gpus[0] / site_.units[u].gpus; ++of_unit[u])
        hosts.push_back(d.add_host(static_cast<int>(u)));
    if (hosts.size() > kMaxProofHosts) return;
    const Window window{hosts, level.gpus[0]};
    const Repaired result = rearrange(d, window, d.creations() - 1, budget_);
    if (result == Repaired::yes) {
      d.tidy();
      level.best = d;
    }
    if (result != Repaired::unknown) level.bound = level.best->creations();
  }

  const Site& site_;
  const plan::ServingPlan& exact_;
  NearestCounts counts_;
  const long whole_;  // budget of everything
  long budget_ = 0;   // of what is under way
  int least_ = 0;     // no plan creates fewer
  std::vector<Level> levels_;
  std::vector<Counts> chosen_;  // per service, counts that fit the level looked at
};

// What a level's plan is, not what it might use: a deployment may need fewer GPUs than allowed.
CurvePoint point_of(const plan::ServingProblem& problem, const Level& level) {
  CurvePoint point{0, 0, level.moves, level.bound};
  for (const plan::PlannedGpu& gpu : finished(*level.best)) {
    ++point.gpus;
    for (const plan::FleetEntry& entry : problem.fleet)
      if (entry.gpu.name == gpu.model) point.cost += entry.price;
  }
  return point;
}

// The curve up to the first point that no further GPU improves.
std::vector<CurvePoint> curve_of(const plan::ServingProblem& problem,
                                 const std::vector<Level>& levels) {
  std::vector<CurvePoint> curve;
  for (const Level& level : levels) {
    const CurvePoint point = point_of(problem, level);
    while (!curve.empty() && curve.back().gpus >= point.gpus) curve.pop_back();
    curve.push_back(point);
    if (level.moves == levels.back().moves) break;
  }
  return curve;
}

// Objective of the plan, from what the exact planner proved.
plan::Objective objective_of(const plan::ServingProblem& problem,
                             const std::vector<plan::PlannedGpu>& gpus,
                             const plan::Objective& exact) {
  plan::Objective objective;
  objective.gpus = static_cast<int>(gpus.size());
  for (const plan::PlannedGpu& gpu : gpus)
    for (const plan::FleetEntry& entry : problem.fleet) {
      if (entry.gpu.name != gpu.model) continue;
      objective.cost += entry.price;
      for (const auto& instance : gpu.instances)
        objective.gpcs += entry.gpu.profiles[at(entry.gpu.profile_index(instance.profile))].gpcs;
    }
  objective.lower_bound_gpus = std::min(exact.lower_bound_gpus, objective.gpus);
  objective.lower_bound_cost = std::min(exact.lower_bound_cost, objective.cost);
  // A bound on slices holds for the exact planner's GPUs only.
  if (objective.gpus == exact.gpus && objective.cost == exact.cost)
    objective.lower_bound_gpcs = std::min(exact.lower_bound_gpcs, objective.gpcs);
  objective.optimal = exact.optimal && objective.gpus == exact.gpus &&
                      objective.cost == exact.cost && objective.gpcs == exact.gpcs;
  return objective;
}

plan::Reason too_many_moves(const std::vector<CurvePoint>& curve, int max_moves) {
  const CurvePoint& last = curve.back();
  const bool certain = last.lower_bound > max_moves;
  return {
      certain ? "max_moves" : plan::kNotFound, "plan", static_cast<double>(max_moves),
      static_cast<double>(last.moves),
      fmt::format("at most {} instances may be created; {} {} are needed, on {} GPUs", max_moves,
                  last.proven() ? "at least" : "the fewest found,", last.moves, last.gpus)};
}

std::string summary(const CurvePoint& point, const Changes& changes) {
  return fmt::format(
      "on {} GPUs {} instances must be created ({}): {} kept, {} restarted, {} moved, {} created, "
      "{} removed",
      point.gpus, point.moves,
      point.proven() ? "proven to be the fewest" : fmt::format("at least {}", point.lower_bound),
      changes.kept, changes.restarted, changes.moved, changes.created, changes.removed);
}

// The GPUs of a level with the numbers of those that run.
std::vector<plan::PlannedGpu> numbered(const Level& level, const plan::ServingPlan& current) {
  const Site& site = level.best->site();
  plan::ServingPlan plan;
  plan.gpus = finished(*level.best);
  if (site.fleet.has_groups())
    return in_place_of(current, std::move(plan), site.problem.fleet).gpus;
  return named_as_matched(current, std::move(plan.gpus));
}

// The first level that creates at most so many instances; past the end: none. Groups may push
// others aside where the GPUs that are free are not in a row: on levels before it, and on it, that
// counts, too.
std::size_t chosen_of(std::vector<Level>& levels, const plan::ServingPlan& current, int most) {
  for (Level& level : levels) level.moves = level.best->creations();
  for (std::size_t l = 0; l < levels.size(); ++l) {
    Level& level = levels[l];
    if (level.moves <= most && level.best->site().fleet.has_groups()) {
      plan::ServingPlan plan;
      plan.gpus = numbered(level, current);
      const Changes changes = changes_between(current, plan);
      level.moves = changes.moved + changes.created;
    }
    if (level.moves <= most) return l;
  }
  return levels.size();
}

// The chosen level as a plan.
void fill_in(IncrementalOutcome& result, const Level& level, const plan::ServingPlan& exact,
             const plan::ServingPlan& current) {
  const plan::ServingProblem& problem = level.best->site().problem;
  plan::ServingPlan plan;
  plan.gpus = numbered(level, current);
  plan.objective = objective_of(problem, plan.gpus, exact.objective);
  plan.stats.nodes = exact.stats.nodes;
  result.changes = changes_between(current, plan);
  plan.explanation = exact.explanation;
  result.outcome.plan = std::move(plan);
}

// The same plan with the catalogue's names of models and MIG profiles instead of aliases.
plan::ServingPlan canonical(const plan::ServingProblem& problem, plan::ServingPlan plan) {
  for (plan::PlannedGpu& gpu : plan.gpus) {
    if (gpu.model.empty()) gpu.model = plan.gpu_model;
    for (const plan::FleetEntry& entry : problem.fleet) {
      if (entry.gpu.name != gpu.model) continue;
      for (plan::PlannedInstance& instance : gpu.instances)
        if (const int profile = entry.gpu.profile_index(instance.profile); profile >= 0)
          instance.profile = entry.gpu.profiles[at(profile)].name;
    }
  }
  return plan;
}

}  // namespace

namespace {

// The plan of these tables that leaves running what can stay; service rows are left to complete().
IncrementalOutcome incremental_of(const plan::ServingProblem& problem,
                                  const plan::ServingPlan& current, const PointTables& tables,
                                  const IncrementalOptions& options) {
  IncrementalOutcome result;
  Outcome exact = plan_exact(problem, {tables}, options.base);
  if (!exact.plan || problem.services.empty()) {
    if (exact.plan) result.changes = changes_between(current, *exact.plan);
    result.outcome = std::move(exact);
    return result;
  }
  const Result<Fleet> fleet = make_fleet(problem, tables, options.base.rules);
  const Site site = make_site(problem, tables, *fleet, {current, options.base.tokens});
  std::vector<Level> levels = CurveSearch(site, *exact.plan, options.move_budget).run();
  const std::size_t chosen = chosen_of(levels, current, options.max_moves.value_or(INT32_MAX));
  result.curve = curve_of(problem, levels);
  if (chosen == levels.size()) {
    result.outcome.refusals.push_back(too_many_moves(result.curve, *options.max_moves));
    return result;
  }
  fill_in(result, levels[chosen], *exact.plan, current);
  plan::ServingPlan& plan = *result.outcome.plan;
  const auto point = std::ranges::find_if(
      result.curve, [&](const CurvePoint& one) { return one.moves <= levels[chosen].moves; });
  plan.explanation.push_back(summary(*point, result.changes));
  for (std::string& sentence : explain_moves(current, plan.gpus, problem))
    plan.explanation.push_back(std::move(sentence));
  return result;
}

}  // namespace

IncrementalOutcome incremental(const plan::ServingProblem& problem,
                               const plan::ServingPlan& running,
                               const IncrementalOptions& options) {
  const plan::ServingPlan current = canonical(problem, running);
  Stopwatch watch(options.base);
  IncrementalOutcome result;
  result.outcome.refusals = cannot_survive(problem, "incremental");
  if (!result.outcome.refusals.empty()) return result;
  if (problem.rule.kind == plan::SloRule::Kind::pooled) {
    const auto solve = [&](const plan::ServingProblem&, const std::vector<PointTables>& modes) {
      result = incremental_of(problem, current, modes.front(), options);
      return result.outcome;
    };
    Options base = options.base;
    base.all_groups = true;
    Outcome checked = plan_pools_in_one_mode(problem, base, solve);
    result.outcome = std::move(checked);
  } else {
    PointTables tables;
    for (const plan::FleetEntry& entry : problem.fleet)
      tables.push_back(best_points(problem, entry));
    watch.points_done(problem.rule);
    result = incremental_of(problem, current, tables, options);
  }
  result.outcome = complete(std::move(result.outcome), problem, "incremental", watch);
  return result;
}

}  // namespace partita::planners::serving
