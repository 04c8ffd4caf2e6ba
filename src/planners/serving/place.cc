#include "planners/serving/place.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"

namespace partita::planners::serving {
namespace {

// An instance of a class, for a service.
struct Tenant {
  std::size_t cls;
  int service;
};

struct Gpu {
  std::size_t model;
  std::vector<Tenant> tenants;
};

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Which services must not meet on a GPU: apart[s] holds s itself when it is spread.
using Apart = std::map<int, std::set<int>>;

Apart make_apart(const std::vector<plan::Service>& services) {
  Apart apart;
  const auto tied = [](const plan::Service& s) { return s.spread || !s.avoid.empty(); };
  if (std::none_of(services.begin(), services.end(), tied)) return apart;
  std::map<std::string, int> index;
  for (std::size_t s = 0; s < services.size(); ++s)
    index.emplace(services[s].name, static_cast<int>(s));
  for (std::size_t s = 0; s < services.size(); ++s) {
    const int self = static_cast<int>(s);
    if (services[s].spread) apart[self].insert(self);
    for (const std::string& name : services[s].avoid) {
      const auto other = index.find(name);
      if (other == index.end() || other->second == self) continue;
      apart[self].insert(other->second);
      apart[other->second].insert(self);
    }
  }
  return apart;
}

// The fill of a model that offers at least these counts, or null.
const hw::Fill* fill_for(const hw::PackingRules& rules, const std::vector<int>& counts) {
  for (const hw::Fill& fill : rules.fills) {
    bool enough = true;
    for (std::size_t k = 0; k < counts.size(); ++k) enough = enough && fill.counts[k] >= counts[k];
    if (enough) return &fill;
  }
  return nullptr;
}

std::vector<int> counts_on(const Fleet& fleet, const Gpu& gpu) {
  std::vector<int> counts(fleet.rules[gpu.model].profiles.size(), 0);
  for (const Tenant& tenant : gpu.tenants) ++counts[tenant.cls - at(fleet.first_class[gpu.model])];
  return counts;
}

// Without services to keep apart: pack the summed counts, then let services take the slots in
// order.
std::optional<std::vector<Gpu>> place_freely(const Fleet& fleet, const std::vector<Counts>& counts,
                                             const std::vector<int>& gpus) {
  Counts sum{};
  for (const Counts& c : counts)
    for (std::size_t k = 0; k < c.size(); ++k) sum[k] += c[k];
  std::vector<Gpu> result;
  std::vector<std::vector<std::size_t>> slots(at(fleet.classes));  // per class, GPUs that offer one
  for (std::size_t m = 0; m < fleet.rules.size(); ++m) {
    const auto fills = hw::pack(fleet.rules[m], fleet.counts_of(static_cast<int>(m), sum), gpus[m]);
    if (!fills) return std::nullopt;
    for (const auto& [fill, times] : *fills)
      for (int t = 0; t < times; ++t) {
        const auto& offered = fleet.rules[m].fills[at(fill)].counts;
        for (std::size_t k = 0; k < offered.size(); ++k)
          slots[at(fleet.first_class[m]) + k].insert(slots[at(fleet.first_class[m]) + k].end(),
                                                     at(offered[k]), result.size());
        result.push_back({m, {}});
      }
  }
  for (std::size_t k = 0; k < slots.size(); ++k) {
    std::size_t next = 0;
    for (std::size_t s = 0; s < counts.size(); ++s)
      for (int n = 0; n < counts[s][k]; ++n)
        result[slots[k][next++]].tenants.push_back({k, static_cast<int>(s)});
  }
  return result;
}

// With services to keep apart: instances in descending size, each tries the GPUs in order; GPUs
// that look alike to the instance are tried once.
class ApartSearch {
 public:
  ApartSearch(const Fleet& fleet, const Apart& apart, const std::vector<int>& gpus)
      : fleet_(fleet), apart_(apart) {
    for (std::size_t m = 0; m < gpus.size(); ++m)
      for (int g = 0; g < gpus[m]; ++g) gpus_.push_back({m, {}});
  }

  bool run(const std::vector<Counts>& counts) {
    for (std::size_t s = 0; s < counts.size(); ++s)
      for (std::size_t k = 0; k < at(fleet_.classes); ++k)
        for (int n = 0; n < counts[s][k]; ++n) tenants_.push_back({k, static_cast<int>(s)});
    std::stable_sort(tenants_.begin(), tenants_.end(), [&](const Tenant& a, const Tenant& b) {
      const bool tied_a = apart_.contains(a.service), tied_b = apart_.contains(b.service);
      const double size_a = fleet_.gpcs[a.cls], size_b = fleet_.gpcs[b.cls];
      return size_a != size_b ? size_a > size_b : tied_a && !tied_b;
    });
    return visit(0);
  }

  std::vector<Gpu> gpus() && { return std::move(gpus_); }

 private:
  bool welcome(const Gpu& gpu, const Tenant& tenant) const {
    if (at(fleet_.model_of[tenant.cls]) != gpu.model) return false;
    const auto others = apart_.find(tenant.service);
    if (others != apart_.end())
      for (const Tenant& present : gpu.tenants)
        if (others->second.contains(present.service)) return false;
    Gpu with = gpu;
    with.tenants.push_back(tenant);
    return fill_for(fleet_.rules[gpu.model], counts_on(fleet_, with)) != nullptr;
  }

  // What later decisions can see of a GPU.
  std::pair<std::vector<int>, std::set<int>> look(const Gpu& gpu) const {
    std::set<int> tied;
    for (const Tenant& tenant : gpu.tenants)
      if (apart_.contains(tenant.service)) tied.insert(tenant.service);
    std::vector<int> counts = counts_on(fleet_, gpu);
    counts.push_back(static_cast<int>(gpu.model));
    return {std::move(counts), std::move(tied)};
  }

  bool visit(std::size_t i) {
    if (i == tenants_.size()) return true;
    if (++nodes_ > kPlaceNodes) return false;
    std::set<std::pair<std::vector<int>, std::set<int>>> tried;
    for (Gpu& gpu : gpus_) {
      if (!welcome(gpu, tenants_[i]) || !tried.insert(look(gpu)).second) continue;
      gpu.tenants.push_back(tenants_[i]);
      if (visit(i + 1)) return true;
      gpu.tenants.pop_back();
    }
    return false;
  }

  const Fleet& fleet_;
  const Apart& apart_;
  std::vector<Gpu> gpus_;
  std::vector<Tenant> tenants_;
  int nodes_ = 0;
};

// Starts for the tenants of a GPU, from a layout that offers their classes.
plan::PlannedGpu settle(const plan::ServingProblem& problem, const std::vector<PointTable>& tables,
                        const Fleet& fleet, const Gpu& gpu) {
  const hw::PackingRules& rules = fleet.rules[gpu.model];
  const hw::GpuModel& model = problem.fleet[gpu.model].gpu;
  const hw::Fill* fill = fill_for(rules, counts_on(fleet, gpu));
  CHECK(fill != nullptr);
  std::vector<bool> taken(fill->layout.size(), false);
  plan::PlannedGpu result{0, model.name, {}};
  for (const Tenant& tenant : gpu.tenants) {
    const std::size_t k = tenant.cls - at(fleet.first_class[gpu.model]);
    std::size_t place = 0;
    while (taken[place] || fill->layout[place].profile != rules.profiles[k]) ++place;
    taken[place] = true;
    const auto& point = tables[gpu.model].best[at(tenant.service)][k];
    CHECK(point.has_value());
    result.instances.push_back({model.profiles[at(rules.profiles[k])].name,
                                fill->layout[place].start,
                                problem.services[at(tenant.service)].name, point->batch,
                                point->processes, point->throughput, point->latency});
  }
  std::sort(result.instances.begin(), result.instances.end(),
            [](const auto& a, const auto& b) { return a.start < b.start; });
  return result;
}

}  // namespace

std::optional<std::vector<plan::PlannedGpu>> place(const plan::ServingProblem& problem,
                                                   const std::vector<PointTable>& tables,
                                                   const Fleet& fleet,
                                                   const std::vector<Counts>& counts,
                                                   const std::vector<int>& gpus) {
  const Apart apart = make_apart(problem.services);
  std::optional<std::vector<Gpu>> filled;
  if (apart.empty()) {
    filled = place_freely(fleet, counts, gpus);
  } else {
    ApartSearch search(fleet, apart, gpus);
    if (search.run(counts)) filled = std::move(search).gpus();
  }
  if (!filled) return std::nullopt;
  std::vector<plan::PlannedGpu> result;
  for (const Gpu& gpu : *filled) {
    if (gpu.tenants.empty()) continue;
    result.push_back(settle(problem, tables, fleet, gpu));
    result.back().index = static_cast<int>(result.size()) - 1;
  }
  return result;
}

}  // namespace partita::planners::serving
