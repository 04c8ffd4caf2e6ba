#include "planners/serving/incremental_repack.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "base/matching.h"
#include "plan/changes.h"

namespace partita::planners::serving {
namespace {

using ClassCounts = std::vector<int>;  // per class of one model

// How the free slices of a GPU may be filled: places, none of which overlaps another.
struct Filling {
  ClassCounts counts;
  std::vector<int> spots;
};

// The fillings that cannot be extended, for a set of places that are taken; equal counts once.
class Fillings {
 public:
  Fillings(const Site& site, int model) : site_(site), model_(model) {}

  const std::vector<Filling>& beside(const std::vector<int>& taken) {
    const auto known = known_.find(taken);
    if (known != known_.end()) return known->second;
    std::map<ClassCounts, std::vector<int>> found;
    std::vector<int> layout = taken;
    visit(0, layout, taken.size(), found);
    std::vector<Filling> list;
    for (auto& [counts, spots] : found) list.push_back({counts, spots});
    return known_.emplace(taken, std::move(list)).first->second;
  }

  std::size_t local(int spot) const {
    return site_.spot(model_, spot).cls - at(site_.fleet.first_class[at(model_)]);
  }

 private:
  void visit(int spot, std::vector<int>& layout, std::size_t taken,
             std::map<ClassCounts, std::vector<int>>& found) const {
    const int spots = static_cast<int>(site_.spots[at(model_)].size());
    for (; spot < spots; ++spot) {
      layout.push_back(spot);
      if (site_.legal(model_, layout)) visit(spot + 1, layout, taken, found);
      layout.pop_back();
    }
    ClassCounts counts(site_.fleet.rules[at(model_)].profiles.size(), 0);
    for (std::size_t i = taken; i < layout.size(); ++i) ++counts[local(layout[i])];
    std::vector<int> places(layout.begin() + static_cast<std::ptrdiff_t>(taken), layout.end());
    for (int s = 0; s < spots; ++s) {
      layout.push_back(s);
      const bool more = site_.legal(model_, layout);
      layout.pop_back();
      if (more) return;
    }
    found.emplace(std::move(counts), std::move(places));
  }

  const Site& site_;
  const int model_;
  std::map<std::vector<int>, std::vector<Filling>> known_;
};

// Repacks the GPUs of one model.
class Repacker {
 public:
  Repacker(Deployment& deployment, int model, std::vector<Counts>& left)
      : deployment_(deployment),
        site_(deployment.site()),
        model_(model),
        left_(left),
        fillings_(site_, model),
        sum_(site_.fleet.rules[at(model)].profiles.size(), 0) {
    for (const Counts& counts : left)
      for (std::size_t k = 0; k < sum_.size(); ++k) sum_[k] += counts[cls(k)];
  }

  bool run(int gpus) {
    if (hw::gpus_needed(rules(), sum_) > gpus) return false;
    for (const int h : order()) {
      if (gpus == 0 || done()) break;
      if (settle(h, gpus - 1)) --gpus;
    }
    while (gpus > 0 && !done())
      if (!settle(deployment_.add_host(model_), --gpus)) return false;
    return done() && assign();
  }

 private:
  struct Free {
    int h, spot;
  };

  std::size_t cls(std::size_t k) const { return at(site_.fleet.first_class[at(model_)]) + k; }
  const hw::PackingRules& rules() const { return site_.fleet.rules[at(model_)]; }
  bool done() const {
    return std::all_of(sum_.begin(), sum_.end(), [](int n) { return n == 0; });
  }

  // Hosts in descending number of instances that are wanted.
  std::vector<int> order() const {
    std::vector<std::pair<int, int>> hosts;
    for (std::size_t h = 0; h < deployment_.hosts().size(); ++h) {
      const Host& host = deployment_.hosts()[h];
      if (host.model != model_ || host.site < 0) continue;
      int wanted = 0;
      for (const Running& r : site_.gpus[at(host.site)].running)
        wanted += left_[at(r.service)][site_.spot(model_, r.spot).cls] > 0 ? 1 : 0;
      hosts.emplace_back(-wanted, static_cast<int>(h));
    }
    std::sort(hosts.begin(), hosts.end());
    std::vector<int> result;
    for (const auto& [wanted, h] : hosts) result.push_back(h);
    return result;
  }

  // Opens a host with the most kept instances with which the rest packs onto `rest` GPUs; false
  // when there is no way, which no facet allows, or no sense in it.
  bool settle(int h, int rest) {
    std::vector<Running> running;
    std::map<std::pair<int, std::size_t>, int> taken;
    const Host& host = deployment_.host(h);
    if (host.site >= 0)
      for (const Running& r : site_.gpus[at(host.site)].running) {
        const std::size_t k = site_.spot(model_, r.spot).cls;
        if (taken[{r.service, k}] >= left_[at(r.service)][k]) continue;
        ++taken[{r.service, k}];
        running.push_back(r);
      }
    const std::size_t sets = std::size_t{1} << running.size();
    std::vector<std::size_t> masks(sets);
    std::iota(masks.begin(), masks.end(), std::size_t{0});
    std::stable_sort(masks.begin(), masks.end(), [](std::size_t a, std::size_t b) {
      return __builtin_popcountll(a) > __builtin_popcountll(b);
    });
    for (const std::size_t mask : masks) {
      std::vector<int> kept;
      ClassCounts counts(sum_.size(), 0);
      for (std::size_t i = 0; i < running.size(); ++i)
        if ((mask >> i & 1) != 0) {
          kept.push_back(running[i].spot);
          ++counts[fillings_.local(running[i].spot)];
        }
      const Filling* best = best_filling(kept, counts, rest);
      if (!best) continue;
      take(h, running, mask, *best);
      return true;
    }
    return false;
  }

  // Of the fillings with which the rest packs, the one that leaves the fewest GPUs' worth, then the
  // fewest instances, to others.
  const Filling* best_filling(const std::vector<int>& kept, const ClassCounts& counts, int rest) {
    const Filling* best = nullptr;
    int least = std::numeric_limits<int>::max();
    for (const Filling& filling : fillings_.beside(kept)) {
      ClassCounts remaining = sum_;
      int instances = 0;
      for (std::size_t k = 0; k < remaining.size(); ++k) {
        remaining[k] = std::max(0, remaining[k] - counts[k] - filling.counts[k]);
        instances += remaining[k];
      }
      if (instances >= least || hw::gpus_needed(rules(), remaining) > rest) continue;
      best = &filling;
      least = instances;
    }
    return best;
  }

  void take(int h, const std::vector<Running>& running, std::size_t mask, const Filling& filling) {
    deployment_.reopen(h);
    for (std::size_t i = 0; i < running.size(); ++i) {
      if ((mask >> i & 1) == 0) continue;
      deployment_.add(h, running[i].spot, running[i].service);
      --left_[at(running[i].service)][site_.spot(model_, running[i].spot).cls];
      --sum_[fillings_.local(running[i].spot)];
    }
    for (const int spot : filling.spots) {
      int& wanted = sum_[fillings_.local(spot)];
      if (wanted == 0) continue;
      --wanted;
      free_.push_back({h, spot});
    }
  }

  // Gives the free places to the services: to one that runs there now, else in order.
  bool assign() {
    for (const bool same : {true, false})
      for (Free& place : free_) {
        if (place.h < 0) continue;
        const int service = taker(place, same);
        if (service < 0 && same) continue;
        if (service < 0) return false;
        deployment_.add(place.h, place.spot, service);
        --left_[at(service)][site_.spot(model_, place.spot).cls];
        place.h = -1;
      }
    return true;
  }

  int taker(const Free& place, bool same) const {
    const std::size_t k = site_.spot(model_, place.spot).cls;
    const Host& host = deployment_.host(place.h);
    const auto fine = [&](int s) {
      return left_[at(s)][k] > 0 &&
             std::all_of(host.tenants.begin(), host.tenants.end(),
                         [&](const Tenant& t) { return site_.meet(s, t.service); });
    };
    if (same && host.site >= 0) {
      for (const Running& r : site_.gpus[at(host.site)].running)
        if (r.spot == place.spot && fine(r.service)) return r.service;
    }
    for (int s = 0; s < static_cast<int>(left_.size()) && !same; ++s)
      if (fine(s)) return s;
    return -1;
  }

  Deployment& deployment_;
  const Site& site_;
  const int model_;
  std::vector<Counts>& left_;
  Fillings fillings_;
  ClassCounts sum_;  // not placed yet
  std::vector<Free> free_;
};

// The row's best free column, rows in descending best value.
std::vector<int> greedy_matching(const Weights& weights) {
  struct Pair {
    std::int64_t weight;
    int row, column;
  };
  std::vector<Pair> pairs;
  for (int i = 0; i < weights.rows; ++i)
    for (int j = 0; j < weights.columns; ++j)
      if (weights.at(i, j) > 0) pairs.push_back({weights.at(i, j), i, j});
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.weight > b.weight; });
  std::vector<int> column_of(at(weights.rows), -1);
  std::vector<bool> used(at(weights.columns), false);
  for (const Pair& pair : pairs) {
    if (column_of[at(pair.row)] >= 0 || used[at(pair.column)]) continue;
    column_of[at(pair.row)] = pair.column;
    used[at(pair.column)] = true;
  }
  int next = 0;
  for (int& column : column_of) {
    if (column >= 0) continue;
    while (used[at(next)]) ++next;
    column = next;
    used[at(next)] = true;
  }
  return column_of;
}

// So many more groups of a unit for a service, those that run first.
void add_groups(Deployment& deployment, int unit, int service, int count) {
  const Site& site = deployment.site();
  for (int h = 0; h < static_cast<int>(deployment.hosts().size()) && count > 0; ++h) {
    const Host& host = deployment.host(h);
    if (host.model != unit || host.open || host.site < 0) continue;
    if (site.gpus[at(host.site)].running.front().service != service) continue;
    deployment.open(h);
    --count;
  }
  for (; count > 0; --count) deployment.add(deployment.add_host(unit), 0, service);
}

// The groups among these counts, which are taken out of them; the GPUs that they take.
int take_groups(Deployment& deployment, int entry, std::vector<Counts>& counts) {
  const Site& site = deployment.site();
  int taken = 0;
  for (int unit = site.entries(); unit < static_cast<int>(site.units.size()); ++unit) {
    if (site.unit(unit).entry != entry) continue;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      const int groups = std::exchange(counts[s][site.spot(unit, 0).cls], 0);
      add_groups(deployment, unit, static_cast<int>(s), groups);
      taken += groups * site.unit(unit).gpus;
    }
  }
  return taken;
}

// Those of a plan.
void take_groups(Deployment& deployment, const std::vector<plan::PlannedGpu>& gpus) {
  const Site& site = deployment.site();
  for (const plan::InstanceAt& one : plan::instances_of(gpus))
    for (int unit = site.entries(); unit < static_cast<int>(site.units.size()); ++unit)
      if (site.unit(unit).gpus == one.instance->group &&
          site.problem.fleet[at(site.unit(unit).entry)].gpu.name == one.gpus.front()->model)
        add_groups(deployment, unit, site.index.at(one.instance->service), 1);
}

bool is_grouped(const plan::PlannedGpu& gpu) {
  return !gpu.instances.empty() && gpu.instances.front().group > 1;
}

// The tenants that a planned GPU would have.
std::vector<Tenant> tenants_of(const Site& site, const plan::PlannedGpu& gpu, int model) {
  const hw::GpuModel& shapes = site.problem.fleet[at(model)].gpu;
  std::vector<Tenant> tenants;
  for (const plan::PlannedInstance& instance : gpu.instances) {
    const int profile = shapes.profile_index(instance.profile);
    const auto& spots = site.spots[at(model)];
    const auto spot = std::find_if(spots.begin(), spots.end(), [&](const Spot& s) {
      return s.start == instance.start && site.profile(model, s) == profile;
    });
    CHECK(spot != spots.end());
    tenants.push_back(
        {static_cast<int>(spot - spots.begin()), site.index.at(instance.service), false});
  }
  return tenants;
}

int kept_on(const SiteGpu& gpu, const std::vector<Tenant>& tenants) {
  int kept = 0;
  for (const auto* some : {&gpu.running, &gpu.clashing})
    for (const Running& r : *some)
      kept += std::any_of(tenants.begin(), tenants.end(), [&](const Tenant& t) {
        return t.spot == r.spot && t.service == r.service;
      });
  return kept;
}

}  // namespace

std::optional<Deployment> repack(const Site& site, const std::vector<Counts>& counts,
                                 const std::vector<int>& gpus) {
  Deployment deployment(site);
  std::vector<Counts> left = counts;
  for (int m = 0; m < site.entries(); ++m) {
    const int rest = gpus[at(m)] - take_groups(deployment, m, left);
    if (rest < 0 || !Repacker(deployment, m, left).run(rest)) return std::nullopt;
  }
  deployment.tidy();
  if (deployment.missing() > 0) return std::nullopt;
  return deployment;
}

Deployment matched(const Site& site, const std::vector<plan::PlannedGpu>& gpus) {
  Deployment deployment(site);
  take_groups(deployment, gpus);
  for (int model = 0; model < site.entries(); ++model) {
    std::vector<std::vector<Tenant>> wanted;
    for (const plan::PlannedGpu& gpu : gpus)
      if (gpu.model == site.problem.fleet[at(model)].gpu.name && !is_grouped(gpu))
        wanted.push_back(tenants_of(site, gpu, model));
    std::vector<int> hosts;
    for (std::size_t h = 0; h < deployment.hosts().size(); ++h)
      if (deployment.hosts()[h].model == model) hosts.push_back(static_cast<int>(h));
    while (hosts.size() < wanted.size()) hosts.push_back(deployment.add_host(model));
    Weights kept{static_cast<int>(wanted.size()), static_cast<int>(hosts.size()), {}};
    for (const auto& tenants : wanted) {
      for (const int h : hosts) {
        const int g = deployment.host(h).site;
        kept.value.push_back(g < 0 ? 0 : kept_on(site.gpus[at(g)], tenants));
      }
    }
    const bool many = wanted.size() > kMaxAssigned || hosts.size() > 2 * kMaxAssigned;
    const std::vector<int> host_of = many ? greedy_matching(kept) : heaviest_matching(kept);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      deployment.reopen(hosts[at(host_of[i])]);
      for (const Tenant& tenant : wanted[i])
        deployment.add(hosts[at(host_of[i])], tenant.spot, tenant.service);
    }
  }
  deployment.tidy();
  return deployment;
}

}  // namespace partita::planners::serving
