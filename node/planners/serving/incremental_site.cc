#include "planners/serving/incremental_site.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <tuple>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index.h"
#include "hw/layout.h"
#include "plan/changes.h"
#include "planners/serving/instance_rates.h"
#include "planners/serving/token_points.h"

namespace partita::planners::serving {
namespace {

// Half of the relative tolerance that plans are judged with, as in cover.cc.
constexpr double kSiteTolerance = 5e-10;

std::vector<Spot> spots_of(const hw::GpuModel& gpu, const PointTable& table, const Unit& unit,
                           int first_class) {
  std::vector<Spot> spots;
  for (std::size_t k = 0; k < table.profiles.size(); ++k) {
    const hw::MigProfile& profile = gpu.profiles[at(table.profiles[k])];
    if ((table.gpus.empty() ? 1 : table.gpus[k]) != unit.gpus) continue;
    if (unit.gpus > 1) spots.push_back({at(first_class) + k, 0, ~0U, unit.gpus * profile.gpcs});
    for (const int start : unit.gpus > 1 ? std::vector<int>{} : profile.starts)
      spots.push_back(
          {at(first_class) + k, start, ((1U << profile.size) - 1U) << start, profile.gpcs});
  }
  return spots;
}

// What an instance carries, and how long a full batch takes it; a rate of 0: it must be restarted.
struct Carried {
  double rate = 0;
  Millis latency = {};
};

// Rates of points that are not the best ones: of running instances that would stay as they are.
class RunningRates {
 public:
  RunningRates(const plan::ServingProblem& problem, const PointTables& tables, TokenOracle* tokens)
      : problem_(problem),
        tables_(tables),
        rates_(problem.rule.dispatch),
        tokens_(tokens ? *tokens : own_) {}

  Carried carried(const plan::FleetEntry& entry, const hw::MigProfile& shape,
                  const plan::Service& service, const plan::PlannedInstance& instance) {
    const auto found = entry.profiles.find(service.model);
    if (found == entry.profiles.end() || instance.processes > problem_.max_processes) return {};
    const profile::ProfilePoint* point =
        profile::find_point(found->second, shape.gpcs, instance.batch, instance.processes);
    if (!point || (point->memory && shape.memory && *point->memory > *shape.memory)) return {};
    return {rate({entry.gpu.name, found->second, *point, service}), point->latency};
  }
  // Of an engine that keeps its limit of requests at once; where fewer would carry more, that is
  // another engine.
  Carried carried(const plan::Service& service, profile::TokenEngine engine, int limit) {
    if (limit < 1 || limit > engine.spec.sequences) return {};
    engine.spec.sequences = limit;
    engine.name.configuration += fmt::format(" at most {}", limit);
    const TokenRate found = tokens_.rate(service, engine);
    if (found.sequences != limit) return {};
    return {found.rate.value, found.step};
  }

 private:
  double rate(const InstanceRates::Asked& at) {
    if (problem_.rule.kind == plan::SloRule::Kind::execution)
      return at.point.latency < problem_.rule.fraction * at.service.slo ? at.point.throughput.value
                                                                        : 0;
    if (problem_.rule.kind == plan::SloRule::Kind::pooled) return pooled(at.service, at.point);
    return profile::batch_time(at.point) > at.service.slo ? 0 : rates_.rate(at).value;
  }
  // A batch longer than the pool is calibrated for would change what the pool carries.
  double pooled(const plan::Service& service, const profile::ProfilePoint& point) const {
    const auto s = at(static_cast<int>(&service - problem_.services.data()));
    return profile::batch_time(point) <= tables_.front().longest[s] ? full_rate(point).value : 0;
  }

  const plan::ServingProblem& problem_;
  const PointTables& tables_;
  InstanceRates rates_;
  TokenOracle own_;
  TokenOracle& tokens_;
};

// From the current plan to what may be kept of it.
class Reader {
 public:
  Reader(Site& site, TokenOracle* tokens)
      : site_(site), rates_(site.problem, site.tables, tokens) {}

  void read(const plan::ServingPlan& current) {
    std::map<int, std::size_t> known;  // index: in site_.gpus
    constexpr std::size_t kUnusable = ~std::size_t{0};
    for (const plan::InstanceAt& one : plan::instances_of(current.gpus)) {
      if (one.instance->group == 1) continue;
      const int unit = unit_of(model_of(current, *one.gpus.front()), one.instance->group);
      SiteGpu group{{}, unit, {}, {}};
      if (unit < 0 || at(one.instance->group) != one.gpus.size()) continue;
      add(*one.instance, group);
      if (group.running.empty()) continue;  // its GPUs are free
      for (const plan::PlannedGpu* const gpu : one.gpus) {
        known.emplace(gpu->index, kUnusable);
        group.indices.push_back(gpu->index);
      }
      site_.gpus.push_back(std::move(group));
    }
    for (const plan::PlannedGpu& gpu : current.gpus) {
      const int model = model_of(current, gpu);
      if (gpu.index < 0) continue;
      const auto [found, fresh] =
          known.emplace(gpu.index, model < 0 ? kUnusable : site_.gpus.size());
      if (found->second == kUnusable) continue;
      if (fresh) site_.gpus.push_back({{gpu.index}, model, {}, {}});
      SiteGpu& same = site_.gpus[found->second];
      if (same.model != model) continue;
      for (const plan::PlannedInstance& instance : gpu.instances) add(instance, same);
    }
    for (SiteGpu& gpu : site_.gpus) {
      std::stable_sort(gpu.running.begin(), gpu.running.end(),
                       [](const Running& a, const Running& b) { return a.spot < b.spot; });
      site_.clashes = site_.clashes || !gpu.clashing.empty();
    }
    for (const auto& [index, gpu] : known) site_.taken_indices.push_back(index);
  }

 private:
  int model_of(const plan::ServingPlan& plan, const plan::PlannedGpu& gpu) const {
    const std::string& name = gpu.model.empty() ? plan.gpu_model : gpu.model;
    for (std::size_t m = 0; m < site_.problem.fleet.size(); ++m)
      if (site_.problem.fleet[m].gpu.name == name) return static_cast<int>(m);
    return -1;
  }
  int unit_of(int entry, int gpus) const {
    for (std::size_t u = 0; u < site_.units.size(); ++u)
      if (site_.units[u].entry == entry && site_.units[u].gpus == gpus) return static_cast<int>(u);
    return -1;
  }

  void add(const plan::PlannedInstance& instance, SiteGpu& gpu) {
    const auto service = site_.index.find(instance.service);
    if (service == site_.index.end() || instance.group != site_.unit(gpu.model).gpus) return;
    const plan::FleetEntry& entry = site_.problem.fleet[at(site_.unit(gpu.model).entry)];
    const int profile = entry.gpu.profile_index(instance.profile);
    const auto& spots = site_.spots[at(gpu.model)];
    const auto spot = std::find_if(spots.begin(), spots.end(), [&](const Spot& candidate) {
      return site_.profile(gpu.model, candidate) == profile && candidate.start == instance.start;
    });
    if (spot == spots.end()) return;
    Running running{static_cast<int>(spot - spots.begin()),
                    service->second,
                    instance.batch,
                    instance.processes,
                    false,
                    0,
                    Millis{0},
                    nullptr};
    if (site_.rate(running.service, gpu.model, running.spot) <= 0) return;
    const BestPoint& best = site_.point(running.service, gpu.model, running.spot);
    const plan::Service& wanted = site_.problem.services[at(running.service)];
    const profile::TokenEngine* const first =
        site_.engine(running.service, gpu.model, running.spot);
    // Of what an assignment tells of, nobody knows which engine it is.
    running.engine = first == nullptr || instance.engine.empty() ||
                             instance.engine.configuration == first->name.configuration
                         ? first
                         : plan::engine_of(site_.problem, entry.gpu.name, wanted, instance);
    if (running.engine == nullptr && first != nullptr) return;
    running.best = running.engine == first && best.batch == running.batch &&
                   best.processes == running.processes;
    const Carried carried =
        running.best     ? Carried{best.throughput.value, best.latency}
        : running.engine ? rates_.carried(wanted, *running.engine, running.batch)
                         : rates_.carried(entry, entry.gpu.profiles[at(profile)], wanted, instance);
    running.rate = carried.rate;
    running.latency = carried.latency;
    (fits(running, gpu) ? gpu.running : gpu.clashing).push_back(running);
  }

  bool fits(const Running& running, const SiteGpu& gpu) const {
    std::vector<int> layout{running.spot};
    for (const Running& other : gpu.running) {
      layout.push_back(other.spot);
      if (!site_.meet(other.service, running.service)) return false;
    }
    return site_.legal(gpu.model, layout);
  }

  Site& site_;
  RunningRates rates_;
};

std::vector<std::vector<int>> apart_of(const std::vector<plan::Service>& services,
                                       const std::map<std::string, int>& index) {
  std::vector<std::set<int>> apart(services.size());
  for (std::size_t s = 0; s < services.size(); ++s) {
    if (services[s].spread) apart[s].insert(static_cast<int>(s));
    for (const std::string& name : services[s].avoid) {
      const auto other = index.find(name);
      if (other == index.end() || other->second == static_cast<int>(s)) continue;
      apart[s].insert(other->second);
      apart[at(other->second)].insert(static_cast<int>(s));
    }
  }
  std::vector<std::vector<int>> result;
  for (const auto& others : apart) result.emplace_back(others.begin(), others.end());
  return result;
}

// Whether every set of places without a common memory slice is a legal layout.
bool pairwise(const hw::GpuModel& gpu, const PointTable& table, const std::vector<Spot>& spots,
              int first_class) {
  std::vector<hw::PlacedProfile> placed;
  const auto visit = [&](const auto& self, std::size_t i, std::uint32_t used) -> bool {
    if (i == spots.size()) return hw::conflicts(gpu, placed).empty();
    if ((spots[i].slices & used) == 0) {
      placed.push_back({table.profiles[spots[i].cls - at(first_class)], spots[i].start});
      const bool fine = self(self, i + 1, used | spots[i].slices);
      placed.pop_back();
      if (!fine) return false;
    }
    return self(self, i + 1, used);
  };
  return visit(visit, 0, 0);
}

}  // namespace

bool Site::meet(int a, int b) const {
  return !std::binary_search(apart[at(a)].begin(), apart[at(a)].end(), b);
}

bool Site::tied() const {
  return std::any_of(apart.begin(), apart.end(), [](const auto& list) { return !list.empty(); });
}

int Site::unit_of(std::size_t cls) const {
  const int entry = fleet.model_of[cls];
  if (fleet.gpus[cls] == 1) return entry;
  for (std::size_t u = at(entries()); u < units.size(); ++u)
    if (spots[u].front().cls == cls) return static_cast<int>(u);
  CHECK(false);
}

int Site::profile(int model, const Spot& place) const {
  const auto entry = at(unit(model).entry);
  return tables[entry].profiles[place.cls - at(fleet.first_class[entry])];
}

const Running* Site::running_at(int gpu, int s, int service) const {
  for (const auto* list : {&gpus[at(gpu)].running, &gpus[at(gpu)].clashing})
    for (const Running& r : *list)
      if (r.spot == s && r.service == service) return &r;
  return nullptr;
}

bool Site::legal(int model, const std::vector<int>& layout) const {
  std::uint32_t used = 0;
  for (const int s : layout) {
    if ((used & spot(model, s).slices) != 0) return false;
    used |= spot(model, s).slices;
  }
  if (pairwise || unit(model).gpus > 1) return true;
  std::vector<hw::PlacedProfile> placed;
  for (const int s : layout)
    placed.push_back({profile(model, spot(model, s)), spot(model, s).start});
  return hw::conflicts(problem.fleet[at(model)].gpu, placed).empty();
}

const BestPoint& Site::point(int service, int model, int s) const {
  const auto entry = at(unit(model).entry);
  const auto k = spot(model, s).cls - at(fleet.first_class[entry]);
  const auto& best = tables[entry].best[at(service)][k];
  CHECK(best.has_value());
  return *best;
}

const profile::TokenEngine* Site::engine(int service, int model, int s) const {
  const auto entry = at(unit(model).entry);
  const auto& engines = tables[entry].engines;
  const auto k = spot(model, s).cls - at(fleet.first_class[entry]);
  return engines.empty() ? nullptr : engines[at(service)][k];
}

int Site::missing(int service, double rate, int count) const {
  const Kind& kind = kinds[at(service)];
  const double left = kind.demand * (1 - kSiteTolerance) - rate;
  const int by_rate =
      left > 0 ? static_cast<int>(std::min(1e9, std::ceil(left / largest[at(service)]))) : 0;
  return std::max(by_rate, kind.min_count - count);
}

Site make_site(const plan::ServingProblem& problem, const std::vector<PointTable>& tables,
               const Fleet& fleet, const Runs& current) {
  Site site{problem, tables, fleet, {}, {}, {}, {}, {}, {}, {}, {}, false, true};
  site.units.resize(tables.size());
  for (std::size_t m = 0; m < tables.size(); ++m) site.units[m].entry = static_cast<int>(m);
  for (std::size_t k = 0; k < at(fleet.classes); ++k)
    if (fleet.gpus[k] > 1) site.units.push_back({fleet.model_of[k], fleet.gpus[k]});
  for (const Unit& unit : site.units) {
    const auto m = at(unit.entry);
    site.spots.push_back(spots_of(problem.fleet[m].gpu, tables[m], unit, fleet.first_class[m]));
  }
  for (std::size_t m = 0; m < tables.size(); ++m) {
    site.pairwise = site.pairwise &&
                    pairwise(problem.fleet[m].gpu, tables[m], site.spots[m], fleet.first_class[m]);
  }
  const KindTable table = make_kinds(problem, {tables}, fleet);
  site.kinds.resize(problem.services.size());
  for (std::size_t i = 0; i < table.kinds.size(); ++i)
    for (const int s : table.services[i]) {
      site.kinds[at(s)] = table.kinds[i];
      site.kinds[at(s)].copies = 1;
    }
  for (const Kind& kind : site.kinds)
    site.largest.push_back(*std::max_element(kind.rate.begin(), kind.rate.end()));
  for (std::size_t s = 0; s < problem.services.size(); ++s)
    site.index.emplace(problem.services[s].name, static_cast<int>(s));
  site.apart = apart_of(problem.services, site.index);
  Reader(site, current.tokens).read(current.plan);
  return site;
}

}  // namespace partita::planners::serving
