#include "planners/serving/incremental_finish.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/append.h"
#include "base/check.h"
#include "base/index.h"
#include "planners/serving/incremental.h"
#include "planners/serving/place.h"

namespace partita::planners::serving {
namespace {

// An instance of a service, and what it carries as it runs now (0: it cannot stay so, or is new)
// and at its best point.
struct Candidate {
  int host = 0;
  int spot = 0;
  bool kept = false;
  const Running* running = nullptr;
  int gpcs = 0;
  double now = 0, best = 0;
  bool used = true, restarted = false;
};

// Chooses for the instances of one service. Created ones always run at their best point.
class Chooser {
 public:
  Chooser(const Site& site, int service, std::vector<Candidate> candidates)
      : site_(site), service_(service), candidates_(std::move(candidates)) {}

  std::vector<Candidate> run() {
    const int all = static_cast<int>(candidates_.size());
    const int needed = settle(all);
    const int restarts = needed < 0 ? all : needed;  // < 0: by rounding alone
    std::vector<std::size_t> order(candidates_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Created ones first, then the largest.
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const Candidate &x = candidates_[a], &y = candidates_[b];
      return std::tuple(x.kept, -x.gpcs, x.now) < std::tuple(y.kept, -y.gpcs, y.now);
    });
    for (const std::size_t i : order) {
      candidates_[i].used = false;
      if (settle(restarts) < 0) candidates_[i].used = true;
    }
    settle(restarts);
    // What neither stays as it is nor restarts does not run.
    for (Candidate& c : candidates_)
      if (c.kept && !c.restarted && c.now <= 0) c.used = false;
    std::erase_if(candidates_, [](const Candidate& c) { return !c.used; });
    return std::move(candidates_);
  }

 private:
  // Restarts those that gain the most, until the rate is carried; how many, or -1 when more than
  // `most` would be needed.
  int settle(int most) {
    double rate = 0;
    int count = 0;
    std::vector<std::size_t> gaining;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      Candidate& c = candidates_[i];
      c.restarted = false;
      if (!c.used) continue;
      const double carries = c.kept ? c.now : c.best;
      rate += carries;
      count += carries > 0 ? 1 : 0;
      if (c.kept && c.best > c.now) gaining.push_back(i);
    }
    std::stable_sort(gaining.begin(), gaining.end(), [&](std::size_t a, std::size_t b) {
      const Candidate &x = candidates_[a], &y = candidates_[b];
      return x.best - x.now > y.best - y.now;
    });
    int restarts = 0;
    while (site_.missing(service_, rate, count) > 0) {
      if (restarts == most || at(restarts) == gaining.size()) return -1;
      Candidate& c = candidates_[gaining[at(restarts++)]];
      c.restarted = true;
      rate += c.best - c.now;
      count += c.now > 0 ? 0 : 1;
    }
    return restarts;
  }

  const Site& site_;
  const int service_;
  std::vector<Candidate> candidates_;
};

plan::PlannedInstance instance_of(const Site& site, const Host& host, const Candidate& c,
                                  int service) {
  const Spot& spot = site.spot(host.model, c.spot);
  const BestPoint& point = site.point(service, host.model, c.spot);
  const Unit& unit = site.unit(host.model);
  const hw::GpuModel& gpu = site.problem.fleet[at(unit.entry)].gpu;
  plan::PlannedInstance instance{gpu.profiles[at(site.profile(host.model, spot))].name,
                                 spot.start,
                                 site.problem.services[at(service)].name,
                                 point.batch,
                                 point.processes,
                                 point.throughput,
                                 point.latency};
  const profile::TokenEngine* engine = site.engine(service, host.model, c.spot);
  if (c.running && !c.restarted) {
    instance.batch = c.running->batch;
    instance.processes = c.running->processes;
    instance.throughput = Rps{c.running->rate};
    instance.latency = c.running->latency;
    engine = c.running->engine;
  }
  if (engine) set_engine(instance, *engine);
  instance.group = unit.gpus;
  instance.throughput = instance.throughput / unit.gpus;
  return instance;
}

// Indices for GPUs that the current plan does not have: the smallest ones that it leaves; with
// groups, whose GPUs follow one another, those beyond.
class FreeIndices {
 public:
  explicit FreeIndices(const Site& site)
      : taken_(site.taken_indices.begin(), site.taken_indices.end()) {
    if (site.fleet.has_groups() && !taken_.empty()) next_ = *taken_.rbegin() + 1;
  }
  int next() {
    while (taken_.contains(next_)) ++next_;
    return next_++;
  }

 private:
  std::set<int> taken_;
  int next_ = 0;
};

// Where an instance of the current plan is.
struct Place {
  const plan::PlannedGpu* gpu = nullptr;
  const plan::PlannedInstance* instance = nullptr;
};

using Key = std::tuple<int, std::string, std::string, int, std::string, int>;

std::string model_of(const plan::ServingPlan& plan, const plan::PlannedGpu& gpu) {
  return gpu.model.empty() ? plan.gpu_model : gpu.model;
}

Key key_of(const std::string& model, const plan::PlannedGpu& gpu,
           const plan::PlannedInstance& instance) {
  return {gpu.index, model, instance.profile, instance.start, instance.service, instance.group};
}

std::string name_of(const plan::PlannedGpu& gpu, const plan::PlannedInstance& instance) {
  if (instance.group > 1) return fmt::format("{} GPUs from GPU {} on", instance.group, gpu.index);
  return fmt::format("GPU {} start {}", gpu.index, instance.start);
}

std::string shape_of(const plan::PlannedInstance& instance) {
  return instance.group > 1 ? fmt::format("{} x {}", instance.group, instance.profile)
                            : instance.profile;
}

// The sentences about what must be created.
class Explainer {
 public:
  Explainer(const plan::ServingPlan& current, const std::vector<plan::PlannedGpu>& gpus,
            const plan::ServingProblem& problem)
      : gpus_(gpus), problem_(problem) {
    std::multiset<Key> wanted;
    for (const plan::InstanceAt& one : plan::instances_of(gpus))
      wanted.insert(key_of(one.gpus.front()->model, *one.gpus.front(), *one.instance));
    for (const auto& [on, instance] : plan::instances_of(current.gpus)) {
      const plan::PlannedGpu& gpu = *on.front();
      const Key key = key_of(model_of(current, gpu), gpu, *instance);
      ran_.insert(instance->service);
      if (const auto found = wanted.find(key); found != wanted.end())
        wanted.erase(found), kept_.insert(key);
      else
        removed_[instance->service].push_back({&gpu, instance});
    }
  }

  std::vector<std::string> run() {
    std::vector<std::string> sentences;
    for (const auto& [on, instance] : plan::instances_of(gpus_)) {
      const auto kept = kept_.find(key_of(on.front()->model, *on.front(), *instance));
      if (kept != kept_.end())
        kept_.erase(kept);
      else
        sentences.push_back(sentence(*on.front(), *instance));
    }
    return sentences;
  }

 private:
  std::string sentence(const plan::PlannedGpu& gpu, const plan::PlannedInstance& instance) {
    const std::string what = fmt::format("{} {}", instance.service, shape_of(instance));
    const std::string where = name_of(gpu, instance);
    if (!ran_.contains(instance.service))
      return fmt::format("{} is created on {}: the service is new", what, where);
    auto& left = removed_[instance.service];
    if (left.empty())
      return fmt::format(
          "{} is created on {}: what else it has carries {:.6g} of {:.6g} requests"
          "/s",
          what, where, others(instance), rate(instance.service));
    const auto same = std::find_if(left.begin(), left.end(), [&](const Place& place) {
      return shape_of(*place.instance) == shape_of(instance);
    });
    const Place from = same == left.end() ? left.front() : *same;
    left.erase(same == left.end() ? left.begin() : same);
    return fmt::format("{} moves to {} from {} on {}: {}", what, where, shape_of(*from.instance),
                       name_of(*from.gpu, *from.instance), why(from, instance));
  }

  double rate(const std::string& service) const {
    for (const plan::Service& s : problem_.services)
      if (s.name == service) return plan::planning_rate(s).value;
    return 0;
  }

  // What the other instances of its service carry.
  double others(const plan::PlannedInstance& instance) const {
    double sum = -instance.group * instance.throughput.value;
    for (const plan::PlannedGpu& gpu : gpus_)
      for (const auto& other : gpu.instances)
        if (other.service == instance.service) sum += other.throughput.value;
    return std::max(0.0, sum);
  }

  std::string why(const Place& from, const plan::PlannedInstance& to) const {
    const auto gpu = std::find_if(gpus_.begin(), gpus_.end(), [&](const plan::PlannedGpu& g) {
      return g.index == from.gpu->index;
    });
    if (gpu == gpus_.end()) return fmt::format("GPU {} is given up", from.gpu->index);
    std::set<std::string> heirs;
    for (const auto& instance : gpu->instances)
      if (overlap(*gpu, instance, *from.instance))
        heirs.insert(fmt::format("{} {}", instance.service, shape_of(instance)));
    if (!heirs.empty()) return fmt::format("its slices go to {}", joined(heirs, ", "));
    if (shape_of(*from.instance) != shape_of(to))
      return fmt::format("the {} carries {:.6g} requests/s", shape_of(to),
                         to.group * to.throughput.value);
    return "it cannot stay where it is";
  }

  bool overlap(const plan::PlannedGpu& gpu, const plan::PlannedInstance& a,
               const plan::PlannedInstance& b) const {
    for (const plan::FleetEntry& entry : problem_.fleet) {
      if (entry.gpu.name != gpu.model) continue;
      const int i = entry.gpu.profile_index(a.profile), j = entry.gpu.profile_index(b.profile);
      return i >= 0 && j >= 0 && a.start < b.start + entry.gpu.profiles[at(j)].size &&
             b.start < a.start + entry.gpu.profiles[at(i)].size;
    }
    return false;
  }

  const std::vector<plan::PlannedGpu>& gpus_;
  const plan::ServingProblem& problem_;
  std::multiset<Key> kept_;
  std::set<std::string> ran_;
  std::map<std::string, std::vector<Place>> removed_;
};

// The GPUs of one model.
struct Sides {
  std::vector<plan::GpuTenancies> wanted, there;
  std::vector<plan::PlannedGpu*> gpus;  // of `wanted`
};

}  // namespace

std::vector<plan::PlannedGpu> finished(const Deployment& found) {
  Deployment deployment = found;
  deployment.tidy();
  const Site& site = deployment.site();
  std::vector<std::vector<Candidate>> of_service(site.kinds.size());
  for (int h = 0; h < static_cast<int>(deployment.hosts().size()); ++h) {
    const Host& host = deployment.host(h);
    for (const Tenant& tenant : host.tenants) {
      const Running* running =
          tenant.kept ? site.running_at(host.site, tenant.spot, tenant.service) : nullptr;
      of_service[at(tenant.service)].push_back(
          {h, tenant.spot, tenant.kept, running, site.spot(host.model, tenant.spot).gpcs,
           running ? running->rate : 0, site.rate(tenant.service, host.model, tenant.spot)});
    }
  }
  std::map<int, std::vector<plan::PlannedInstance>> by_host;
  for (std::size_t s = 0; s < of_service.size(); ++s)
    for (const Candidate& c : Chooser(site, static_cast<int>(s), of_service[s]).run()) {
      const Host& host = deployment.host(c.host);
      by_host[c.host].push_back(instance_of(site, host, c, static_cast<int>(s)));
    }
  FreeIndices fresh(site);
  std::vector<plan::PlannedGpu> gpus;
  for (auto& [h, instances] : by_host) {
    std::sort(instances.begin(), instances.end(),
              [](const auto& a, const auto& b) { return a.start < b.start; });
    const Host& host = deployment.host(h);
    const Unit& unit = site.unit(host.model);
    for (int k = 0; k < unit.gpus; ++k)
      gpus.push_back({host.site >= 0 ? site.gpus[at(host.site)].indices[at(k)] : fresh.next(),
                      site.problem.fleet[at(unit.entry)].gpu.name, instances});
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  return gpus;
}

std::vector<std::string> explain_moves(const plan::ServingPlan& current,
                                       const std::vector<plan::PlannedGpu>& gpus,
                                       const plan::ServingProblem& problem) {
  return Explainer(current, gpus, problem).run();
}

std::vector<plan::PlannedGpu> named_as_matched(const plan::ServingPlan& current,
                                               std::vector<plan::PlannedGpu> gpus) {
  std::map<std::string, Sides> sides;
  std::set<int> taken;
  for (const plan::PlannedGpu& gpu : current.gpus) {
    if (gpu.index >= 0 && taken.insert(gpu.index).second)
      sides[model_of(current, gpu)].there.push_back(plan::tenancies_of(gpu));
  }
  for (plan::PlannedGpu& gpu : gpus) {
    Sides& side = sides[gpu.model];
    if (taken.insert(gpu.index).second) side.there.push_back({gpu.index, true, {}});
    side.wanted.push_back(plan::tenancies_of(gpu));
    side.gpus.push_back(&gpu);
  }
  for (const auto& [model, side] : sides) {
    if (side.there.size() > plan::kMaxMatchedGpus) continue;  // nobody matches so many
    const std::vector<int> matched = plan::match_gpus(side.wanted, side.there);
    for (std::size_t i = 0; i < side.gpus.size(); ++i)
      side.gpus[i]->index = side.there[at(matched[i])].index;
  }
  std::ranges::sort(gpus, {}, &plan::PlannedGpu::index);
  return gpus;
}

}  // namespace partita::planners::serving
