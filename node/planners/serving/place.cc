#include "planners/serving/place.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>

#include "base/check.h"
#include "base/index.h"
#include "planners/serving/apart.h"

namespace partita::planners::serving {

void set_engine(plan::PlannedInstance& instance, const profile::TokenEngine& engine) {
  instance.engine = engine.name;
  instance.prefill_units = engine.prefill_units;
  instance.decode_units = engine.decode_units;
}

namespace {

// The fill of a model that offers at least these counts, or null.
const hw::Fill* fill_for(const hw::PackingRules& rules, const std::vector<int>& counts) {
  for (const hw::Fill& fill : rules.fills) {
    bool enough = true;
    for (std::size_t k = 0; k < counts.size(); ++k) enough = enough && fill.counts[k] >= counts[k];
    if (enough) return &fill;
  }
  return nullptr;
}

std::vector<int> counts_on(const Fleet& fleet, const FilledGpu& gpu) {
  std::vector<int> counts(fleet.rules[gpu.model].profiles.size(), 0);
  for (const Occupant& tenant : gpu.tenants)
    ++counts[at(fleet.single[tenant.cls] - fleet.first_class[gpu.model])];
  return counts;
}

// Whether a service may join the tenants of a GPU.
bool may_join(const Apart& apart, const FilledGpu& gpu, int service) {
  const auto others = apart.find(service);
  return others == apart.end() ||
         std::none_of(gpu.tenants.begin(), gpu.tenants.end(), [&](const Occupant& present) {
           return others->second.contains(present.service);
         });
}

// Tenants of services that keep apart come first, those of the largest such service first.
std::vector<Occupant> tied_tenants(const Apart& apart, const std::vector<Counts>& counts) {
  std::vector<Occupant> tenants;
  for (const auto& [service, others] : apart)
    for (std::size_t k = 0; k < counts[at(service)].size(); ++k)
      tenants.insert(tenants.end(), at(counts[at(service)][k]), {k, service});
  std::stable_sort(tenants.begin(), tenants.end(), [&](const Occupant& a, const Occupant& b) {
    const int total_a = total(counts[at(a.service)]), total_b = total(counts[at(b.service)]);
    return total_a != total_b ? total_a > total_b : a.cls > b.cls;
  });
  return tenants;
}

// Packs the summed counts, then lets services take the slots: those that keep apart by search, the
// others in order.
class SlotPlacer {
 public:
  SlotPlacer(const Fleet& fleet, const Apart& apart) : fleet_(fleet), apart_(apart) {}

  bool run(const std::vector<Counts>& counts, const std::vector<int>& gpus) {
    if (!pack_slots(counts, gpus)) return false;
    tied_ = tied_tenants(apart_, counts);
    if (!visit(0)) return false;
    std::vector<std::size_t> next(slots_.size(), 0);
    for (std::size_t k = 0; k < slots_.size(); ++k)
      for (std::size_t s = 0; s < counts.size(); ++s)
        if (!apart_.contains(static_cast<int>(s)))
          fill({k, static_cast<int>(s)}, counts[s][k], next[k]);
    return true;
  }

  std::vector<FilledGpu> gpus() && { return std::move(gpus_); }

 private:
  // So many instances of a tenant, in the slots of their class from `next` on.
  void fill(const Occupant& tenant, int instances, std::size_t& next) {
    for (int n = 0; n < instances; ++n) {
      while (taken_[tenant.cls][next]) ++next;
      gpus_[slots_[tenant.cls][next++]].tenants.push_back(tenant);
    }
  }

  bool pack_slots(const std::vector<Counts>& counts, const std::vector<int>& gpus) {
    Counts sum{};
    for (const Counts& c : counts)
      for (std::size_t k = 0; k < c.size(); ++k) sum[k] += c[k];
    slots_.resize(at(fleet_.classes));
    for (std::size_t m = 0; m < fleet_.rules.size(); ++m) {
      const hw::PackingRules& rules = fleet_.rules[m];
      const auto fills = hw::pack(rules, fleet_.counts_of(static_cast<int>(m), sum), gpus[m]);
      if (!fills) return false;
      for (const auto& [fill, times] : *fills)
        for (int t = 0; t < times; ++t) add_gpu(m, rules.fills[at(fill)].counts);
    }
    for (const auto& slots : slots_) taken_.emplace_back(slots.size(), false);
    return true;
  }

  void add_gpu(std::size_t model, const std::vector<int>& offered) {
    for (std::size_t k = 0; k < offered.size(); ++k) {
      auto& slots = slots_[at(fleet_.first_class[model]) + k];
      slots.insert(slots.end(), at(offered[k]), gpus_.size());
    }
    gpus_.push_back({model, {}});
  }

  bool visit(std::size_t i) {
    if (i == tied_.size()) return true;
    if (++nodes_ > kPlaceNodes) return false;
    const Occupant& tenant = tied_[i];
    const auto& slots = slots_[tenant.cls];
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      FilledGpu& gpu = gpus_[slots[slot]];
      const bool like_last =
          slot > 0 && slots[slot - 1] == slots[slot] && !taken_[tenant.cls][slot - 1];
      if (taken_[tenant.cls][slot] || like_last || !may_join(apart_, gpu, tenant.service)) continue;
      taken_[tenant.cls][slot] = true;
      gpu.tenants.push_back(tenant);
      if (visit(i + 1)) return true;
      gpu.tenants.pop_back();
      taken_[tenant.cls][slot] = false;
    }
    return false;
  }

  const Fleet& fleet_;
  const Apart& apart_;
  std::vector<FilledGpu> gpus_;
  std::vector<std::vector<std::size_t>> slots_;  // per class, the GPU of every slot
  std::vector<std::vector<bool>> taken_;
  std::vector<Occupant> tied_;
  int nodes_ = 0;
};

// When the packing leaves no room to keep services apart: all instances in descending size, each on
// any GPU where the layout stays possible. GPUs that look alike to the instance are tried once.
class ApartSearch {
 public:
  ApartSearch(const Fleet& fleet, const Apart& apart, const std::vector<int>& gpus)
      : fleet_(fleet), apart_(apart) {
    for (std::size_t m = 0; m < gpus.size(); ++m)
      for (int g = 0; g < gpus[m]; ++g) {
        gpus_.push_back({m, {}});
        counts_.emplace_back(fleet.rules[m].profiles.size(), 0);
      }
  }

  enum class Order { size, tied_first };
  bool run(const std::vector<Counts>& counts, Order order) {
    tenants_ = tied_tenants(apart_, counts);
    const std::size_t tied = order == Order::tied_first ? tenants_.size() : 0;
    for (std::size_t s = 0; s < counts.size(); ++s)
      for (std::size_t k = 0; k < at(fleet_.classes) && !apart_.contains(static_cast<int>(s)); ++k)
        tenants_.insert(tenants_.end(), at(counts[s][k]), {k, static_cast<int>(s)});
    const auto larger = [&](const Occupant& a, const Occupant& b) {
      return fleet_.gpcs[a.cls] > fleet_.gpcs[b.cls];
    };
    std::stable_sort(tenants_.begin() + static_cast<std::ptrdiff_t>(tied), tenants_.end(), larger);
    // Enough for one straight descent, and some more to come back from mistakes.
    budget_ = kPlaceNodes + 2 * static_cast<long>(tenants_.size() * gpus_.size());
    if (tenants_.size() > kMaxApartTenants) budget_ = 0;
    return visit(0);
  }

  std::vector<FilledGpu> gpus() && { return std::move(gpus_); }
  // Every possibility was tried.
  bool exhausted() const { return nodes_ <= budget_; }

 private:
  // What later decisions can see of a GPU.
  using Look = std::tuple<std::size_t, std::vector<int>, std::set<int>>;
  Look look(std::size_t g) const {
    std::set<int> tied;
    for (const Occupant& tenant : gpus_[g].tenants)
      if (apart_.contains(tenant.service)) tied.insert(tenant.service);
    return {gpus_[g].model, counts_[g], std::move(tied)};
  }

  bool visit(std::size_t i) {
    if (i == tenants_.size()) return true;
    const Occupant& tenant = tenants_[i];
    const auto model = at(fleet_.model_of[tenant.cls]);
    const std::size_t k = tenant.cls - at(fleet_.first_class[model]);
    std::set<Look> tried;
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      if (++nodes_ > budget_) return false;
      if (gpus_[g].model != model || !may_join(apart_, gpus_[g], tenant.service)) continue;
      if (!tried.insert(look(g)).second) continue;
      ++counts_[g][k];
      gpus_[g].tenants.push_back(tenant);
      if (fill_for(fleet_.rules[model], counts_[g]) && visit(i + 1)) return true;
      gpus_[g].tenants.pop_back();
      --counts_[g][k];
    }
    return false;
  }

  const Fleet& fleet_;
  const Apart& apart_;
  std::vector<FilledGpu> gpus_;
  std::vector<std::vector<int>> counts_;  // per GPU, per class of its model
  std::vector<Occupant> tenants_;
  long nodes_ = 0;
  long budget_ = 0;
};

// Starts for the tenants of a GPU, from a layout that offers their classes.
plan::PlannedGpu settle_one(const plan::ServingProblem& problem,
                            const std::vector<PointTable>& tables, const Fleet& fleet,
                            const FilledGpu& gpu) {
  const hw::PackingRules& rules = fleet.rules[gpu.model];
  const hw::GpuModel& model = problem.fleet[gpu.model].gpu;
  const hw::Fill* fill = fill_for(rules, counts_on(fleet, gpu));
  CHECK(fill != nullptr);
  std::vector<bool> taken(fill->layout.size(), false);
  plan::PlannedGpu result{0, model.name, {}};
  for (const Occupant& tenant : gpu.tenants) {
    const std::size_t k = tenant.cls - at(fleet.first_class[gpu.model]);
    std::size_t place = 0;
    while (taken[place] || fill->layout[place].profile != rules.profiles[k]) ++place;
    taken[place] = true;
    const auto& point = tables[gpu.model].best[at(tenant.service)][k];
    CHECK(point.has_value());
    const int group = fleet.gpus[tenant.cls];
    plan::PlannedInstance& instance = result.instances.emplace_back(
        hw::Placement{model.profiles[at(rules.profiles[k])].name, fill->layout[place].start},
        problem.services[at(tenant.service)].name, point->batch, point->processes,
        point->throughput / group, point->latency);
    instance.group = group;
    if (const auto& engines = tables[gpu.model].engines; !engines.empty())
      if (const profile::TokenEngine* const engine = engines[at(tenant.service)][k])
        set_engine(instance, *engine);
  }
  std::sort(result.instances.begin(), result.instances.end(),
            [](const auto& a, const auto& b) { return a.start < b.start; });
  return result;
}

}  // namespace

namespace {

// Numbers the GPUs of an entry so that no group leaves its NVLink domain: groups, the largest
// first, each from the beginning of what is left of the first domain with room for it, the others
// where GPUs are over. Every size divides the larger ones, so that nothing but the end of a domain
// is ever too small. Who finds no room in the domains that there are gets numbers behind them.
void number_in_domains(std::vector<plan::PlannedGpu>& gpus, const plan::FleetEntry& entry) {
  std::vector<std::vector<int>> domains = entry.domains;
  int next = 0;  // behind all
  for (const std::vector<int>& domain : domains)
    if (!domain.empty()) next = domain.back() + 1;
  std::vector<std::size_t> used(domains.size());
  for (std::size_t g = 0; g < gpus.size();) {
    if (gpus[g].model != entry.gpu.name) {
      ++g;
      continue;
    }
    const auto size = at(gpus[g].instances.front().group);
    std::size_t d = 0;
    while (d < used.size() && domains[d].size() - used[d] < size) ++d;
    if (d == used.size()) {
      used.push_back(0);
      domains.emplace_back(std::max(size, at(entry.linked_gpus())));
      std::iota(domains.back().begin(), domains.back().end(), next);
      next = domains.back().back() + 1;
    }
    for (std::size_t k = 0; k < size; ++k) gpus[g++].index = domains[d][used[d]++];
  }
}

}  // namespace

std::vector<plan::PlannedGpu> settle(const plan::ServingProblem& problem,
                                     const std::vector<PointTable>& tables, const Fleet& fleet,
                                     const std::vector<FilledGpu>& gpus) {
  std::vector<plan::PlannedGpu> result;
  for (const FilledGpu& gpu : gpus)
    if (!gpu.tenants.empty()) result.push_back(settle_one(problem, tables, fleet, gpu));
  if (fleet.has_groups()) {
    // Large groups first: all sizes are powers of two.
    const auto key = [](const plan::PlannedGpu& gpu) {
      const plan::PlannedInstance& first = gpu.instances.front();
      const bool grouped = first.group > 1;
      return std::tuple(-first.group, grouped ? first.service : "");
    };
    std::ranges::stable_sort(result, {}, key);
    if (problem.fleet.size() == 1 || !problem.fleet.front().domains.empty()) {
      for (const plan::FleetEntry& entry : problem.fleet) number_in_domains(result, entry);
      std::ranges::sort(result, {}, &plan::PlannedGpu::index);
      return result;
    }
  }
  for (std::size_t g = 0; g < result.size(); ++g) result[g].index = static_cast<int>(g);
  return result;
}

namespace {

// Groups of GPUs have theirs to themselves; what they leave to the others.
struct Grouped {
  std::vector<FilledGpu> gpus;
  std::vector<Counts> others;
  std::vector<int> left;  // GPUs per model
};

Grouped groups_apart(const Fleet& fleet, const std::vector<Counts>& counts,
                     const std::vector<int>& gpus) {
  Grouped grouped{{}, counts, gpus};
  for (std::size_t k = 0; k < at(fleet.classes); ++k) {
    const auto model = at(fleet.model_of[k]);
    for (std::size_t s = 0; s < counts.size() && fleet.gpus[k] > 1; ++s) {
      const int taken = std::exchange(grouped.others[s][k], 0) * fleet.gpus[k];
      grouped.left[model] -= taken;
      if (grouped.left[model] < 0) return grouped;
      grouped.gpus.insert(grouped.gpus.end(), at(taken), {model, {{k, static_cast<int>(s)}}});
    }
  }
  return grouped;
}

}  // namespace

Placement place(const plan::ServingProblem& problem, const std::vector<PointTable>& tables,
                const Fleet& fleet, const std::vector<Counts>& counts,
                const std::vector<int>& gpus) {
  const Apart apart = make_apart(problem.services);
  Counts sum{};
  for (const Counts& one : counts)
    for (std::size_t k = 0; k < one.size(); ++k) sum[k] += one[k];
  if (!fleet.fit_nodes(sum)) return {std::nullopt, true};
  Grouped grouped = groups_apart(fleet, counts, gpus);
  if (std::ranges::any_of(grouped.left, [](int left) { return left < 0; }))
    return {std::nullopt, true};
  std::optional<std::vector<FilledGpu>> filled;
  bool proven = true;
  if (SlotPlacer placer(fleet, apart); placer.run(grouped.others, grouped.left)) {
    filled = std::move(placer).gpus();
  } else if (!apart.empty()) {
    proven = false;
  }
  if (!filled && !apart.empty()) {
    for (const auto order : {ApartSearch::Order::size, ApartSearch::Order::tied_first}) {
      if (filled || proven) continue;
      ApartSearch search(fleet, apart, grouped.left);
      if (search.run(grouped.others, order)) filled = std::move(search).gpus();
      proven = search.exhausted();
    }
  }
  if (!filled) return {std::nullopt, proven};
  std::ranges::move(*filled, std::back_inserter(grouped.gpus));
  return {settle(problem, tables, fleet, grouped.gpus), true};
}

}  // namespace partita::planners::serving
