#include "decide/day_change.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "hw/layout.h"

namespace partita::decide {
namespace {

// A GPU of the one plan is that of the other exactly when index and model are the same.
using GpuKey = std::pair<int, std::string>;

// What is on one GPU while the change is made.
struct Crowd {
  std::vector<plan::PlannedInstance> there;
};

bool legal(const hw::GpuModel& gpu, const std::vector<plan::PlannedInstance>& instances) {
  std::vector<hw::PlacedProfile> placed;
  for (const plan::PlannedInstance& one : instances)
    placed.push_back({gpu.profile_index(one.profile), one.start});
  return hw::conflicts(gpu, placed).empty();
}

class Crowding {
 public:
  Crowding(const plan::ServingProblem& problem, const plan::ServingPlan& from,
           const plan::ServingPlan& to)
      : problem_(problem), from_(from), to_(to) {
    for (const plan::Service& service : problem.services) services_[service.name] = &service;
  }

  Between run() {
    for (const plan::PlannedGpu& gpu : to_.gpus)
      if (!gpu.instances.empty()) crowds_[key_of(gpu)].there = gpu.instances;
    for (const plan::PlannedGpu& gpu : from_.gpus)
      if (!gpu.instances.empty()) join(gpu);
    for (const auto& [model, instance] : displaced_) stand_in(model, instance);
    Between result;
    result.changes = plan::changes_between(from_, to_);
    result.stand_ins = static_cast<int>(displaced_.size());
    result.gpus = static_cast<int>(crowds_.size());
    result.stood_in = stood_in();
    return result;
  }

 private:
  static GpuKey key_of(const plan::PlannedGpu& gpu) { return {gpu.index, gpu.model}; }

  const hw::GpuModel& model_of(const std::string& name) const {
    const auto found = std::ranges::find_if(
        problem_.fleet, [&](const plan::FleetEntry& entry) { return entry.gpu.name == name; });
    CHECK(found != problem_.fleet.end());
    return found->gpu;
  }

  // The instances of the old plan on a GPU join the new plan's; those for which there is no room
  // are displaced.
  void join(const plan::PlannedGpu& gpu) {
    std::vector<plan::PlannedInstance>& there = crowds_[key_of(gpu)].there;
    std::vector<plan::PlannedInstance> wanted = there;
    std::vector<plan::PlannedInstance>& stays = stays_[key_of(gpu)];
    for (const plan::PlannedInstance& one : gpu.instances) {
      const auto same = std::ranges::find_if(wanted, [&](const plan::PlannedInstance& other) {
        return other.profile == one.profile && other.start == one.start &&
               other.service == one.service && other.batch == one.batch &&
               other.processes == one.processes;
      });
      if (same != wanted.end()) {  // kept
        wanted.erase(same);
        stays.push_back(one);
      } else if (fits(gpu.model, there, one)) {
        there.push_back(one);
        stays.push_back(one);
      } else {
        displaced_.push_back({gpu.model, one});
      }
    }
  }

  bool fits(const std::string& model, std::vector<plan::PlannedInstance> there,
            const plan::PlannedInstance& one) const {
    there.push_back(one);
    return legal(model_of(model), there) && tolerated(there, one);
  }

  // Whether a service may be on a GPU with all that is there; the last one is itself.
  bool tolerated(const std::vector<plan::PlannedInstance>& there,
                 const plan::PlannedInstance& one) const {
    const plan::Service& service = *services_.at(one.service);
    for (std::size_t i = 0; i + 1 < there.size(); ++i) {
      const plan::Service& other = *services_.at(there[i].service);
      const bool apart = &other == &service ? service.spread
                                            : std::ranges::count(service.avoid, other.name) > 0 ||
                                                  std::ranges::count(other.avoid, service.name) > 0;
      if (apart) return false;
    }
    return true;
  }

  // Whether a GPU that may be lost would take two instances of one service with it.
  bool lost_together(const std::vector<plan::PlannedInstance>& there,
                     const plan::PlannedInstance& one) const {
    return problem_.survive > 0 &&
           std::ranges::count(there, one.service, &plan::PlannedInstance::service) > 0;
  }

  // Somewhere on a GPU in use, else on one more.
  void stand_in(const std::string& model, plan::PlannedInstance instance) {
    const hw::GpuModel& gpu = model_of(model);
    const auto& starts = gpu.profiles[at(gpu.profile_index(instance.profile))].starts;
    int spare = 0;
    for (auto& [key, crowd] : crowds_) {
      spare = std::max(spare, key.first + 1);
      if (key.second != model || lost_together(stays_[key], instance)) continue;
      for (const int start : starts) {
        instance.start = start;
        if (!fits(model, crowd.there, instance)) continue;
        crowd.there.push_back(instance);
        stays_[key].push_back(instance);
        return;
      }
    }
    CHECK(!starts.empty());
    instance.start = starts.front();
    crowds_[{spare, model}].there.push_back(instance);
    stays_[{spare, model}].push_back(instance);
  }

  plan::ServingPlan stood_in() const {
    plan::ServingPlan plan = from_;
    plan.gpus.clear();
    for (const auto& [key, stays] : stays_) {
      if (stays.empty()) continue;
      plan.gpus.push_back({key.first, key.second, stays});
      std::ranges::sort(plan.gpus.back().instances, {}, &plan::PlannedInstance::start);
    }
    const int gpcs = plan.objective.gpcs;
    plan.objective = {};
    plan.objective.gpus = static_cast<int>(plan.gpus.size());
    plan.objective.gpcs = gpcs;
    return plan;
  }

  const plan::ServingProblem& problem_;
  const plan::ServingPlan& from_;
  const plan::ServingPlan& to_;
  std::map<std::string, const plan::Service*> services_;
  std::map<GpuKey, Crowd> crowds_;
  std::map<GpuKey, std::vector<plan::PlannedInstance>> stays_;  // of the old plan, with stand-ins
  std::vector<std::pair<std::string, plan::PlannedInstance>> displaced_;
};

}  // namespace

Between between(const plan::ServingProblem& problem, const plan::ServingPlan& from,
                const plan::ServingPlan& to) {
  return Crowding(problem, from, to).run();
}

}  // namespace partita::decide
