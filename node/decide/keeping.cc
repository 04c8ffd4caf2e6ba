#include "decide/keeping.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "hw/layout.h"
#include "verify/judge.h"

namespace partita::decide {
namespace {

constexpr double kTiny = 1e-6;  // of a rate, relative

const plan::PlannedService* row_of(const plan::ServingPlan& plan, const std::string& service) {
  const auto found = std::ranges::find(plan.services, service, &plan::PlannedService::name);
  return found == plan.services.end() ? nullptr : &*found;
}

bool asks_more(const plan::Service& service, const plan::PlannedService& row) {
  return service.rate.value > row.rate.value * (1 + kTiny);
}

// What is asked for, in what stays and what is still to be planned.
class Keeping {
 public:
  Keeping(const plan::ServingProblem& problem, const plan::ServingPlan& current,
          const plan::ServingPlan& planned)
      : problem_(problem), current_(current), planned_(planned) {
    for (const plan::Service& one : problem.services)
      if (may_stay(one)) stays_.insert(one.name);
    for (const plan::Service& one : problem.services)
      if (one.pipeline && !steps_stay(one)) let_go(one);
  }

  bool none() const { return stays_.empty(); }

  // Instances that stay, as places that are not free.
  std::vector<LentPlace> places() const {
    std::vector<LentPlace> all;
    each_kept([&](const plan::PlannedGpu& gpu, const plan::PlannedInstance& one) {
      all.push_back({one, fmt::format("{} at {} of gpu {}", one.service, one.start, gpu.index),
                     gpu.index, model_of(gpu)});
    });
    return all;
  }

  // The services that are not carried, or not all of them, on the GPUs where something fits.
  plan::ServingProblem rest(const std::set<int>& full) const {
    plan::ServingProblem rest = problem_;
    rest.services.clear();
    for (plan::Service one : problem_.services) {
      if (const plan::PlannedService* row = row_of(planned_, one.name); stays_.contains(one.name)) {
        if (!asks_more(one, *row)) continue;
        one.rate = one.rate - row->rate;
        one.min_replicas = std::max(1, one.min_replicas - instances_of(one.name));
      }
      std::erase_if(one.avoid, [&](const auto& other) { return stays_.contains(other); });
      rest.services.push_back(std::move(one));
    }
    for (const plan::PlannedGpu& gpu : current_.gpus)
      for (plan::FleetEntry& entry : rest.fleet)
        if (entry.gpu.name == model_of(gpu) && entry.count && full.contains(gpu.index)) {
          --*entry.count;
          for (std::vector<int>& domain : entry.domains) std::erase(domain, gpu.index);
        }
    std::erase_if(rest.fleet, [](const plan::FleetEntry& one) { return one.count == 0; });
    return rest;
  }

  // What runs, without those that stay, and without GPUs on which nothing more fits.
  plan::ServingPlan others(const std::set<int>& full) const {
    plan::ServingPlan others = current_;
    std::erase_if(others.gpus, [&](const auto& gpu) { return full.contains(gpu.index); });
    for (plan::PlannedGpu& gpu : others.gpus)
      std::erase_if(gpu.instances,
                    [&](const plan::PlannedInstance& one) { return stays_.contains(one.service); });
    return others;
  }

  // What stays, and what was planned beside it.
  plan::ServingPlan together(plan::ServingPlan plan) const {
    each_kept([&](const plan::PlannedGpu& gpu, const plan::PlannedInstance& one) {
      auto there = std::ranges::find(plan.gpus, gpu.index, &plan::PlannedGpu::index);
      if (there == plan.gpus.end())
        there = plan.gpus.insert(there, plan::PlannedGpu{gpu.index, model_of(gpu), {}});
      there->instances.push_back(one);
    });
    std::ranges::sort(plan.gpus, {}, &plan::PlannedGpu::index);
    for (plan::PlannedGpu& gpu : plan.gpus)
      std::ranges::stable_sort(gpu.instances, {}, &plan::PlannedInstance::start);
    std::vector<plan::PlannedService> rows;
    for (const plan::Service& one : problem_.services) {
      const plan::PlannedService* made = row_of(plan, one.name);
      const plan::PlannedService& was =
          stays_.contains(one.name) ? *row_of(planned_, one.name) : *made;
      plan::PlannedService& row = rows.emplace_back(was);
      static_cast<plan::Terms&>(row) = one;
      row.dispatch = was.dispatch;
      if (one.member) row.slo = was.slo;
      if (made != nullptr && made != &was) add(row, *made);
    }
    plan.services = std::move(rows);
    plan.gpu_model = problem_.fleet.front().gpu.name;
    plan.rule = problem_.rule;
    plan.problem_digest.clear();
    plan.objective = objective_of(plan);
    return plan;
  }

 private:
  std::string model_of(const plan::PlannedGpu& gpu) const {
    return gpu.model.empty() ? planned_.gpu_model : gpu.model;
  }
  bool is_usable(const plan::PlannedGpu& gpu) const {
    const auto there = std::ranges::find(current_.gpus, gpu.index, &plan::PlannedGpu::index);
    return there != current_.gpus.end() && there->model == model_of(gpu);
  }
  bool may_stay(const plan::Service& service) const {
    const plan::PlannedService* row = row_of(planned_, service.name);
    if (row == nullptr || row->rate.value > service.rate.value * (1 + kTiny)) return false;
    const bool whole = service.pipeline || service.member || plan::adds_up(service);
    if (whole && asks_more(service, *row)) return false;
    return std::ranges::all_of(planned_.gpus, [&](const plan::PlannedGpu& gpu) {
      return is_usable(gpu) ||
             std::ranges::count(gpu.instances, service.name, &plan::PlannedInstance::service) == 0;
    });
  }
  bool steps_stay(const plan::Service& pipeline) const {
    return stays_.contains(pipeline.name) &&
           std::ranges::all_of(pipeline.pipeline->steps, [&](const plan::PipelineStep& step) {
             return stays_.contains(step.service);
           });
  }
  void let_go(const plan::Service& pipeline) {
    stays_.erase(pipeline.name);
    for (const plan::PipelineStep& step : pipeline.pipeline->steps) stays_.erase(step.service);
  }
  int instances_of(const std::string& service) const {
    int all = 0;
    each_kept(
        [&](const auto&, const plan::PlannedInstance& one) { all += one.service == service; });
    return all;
  }
  template <class Each>
  void each_kept(const Each& each) const {
    for (const plan::PlannedGpu& gpu : planned_.gpus)
      for (const plan::PlannedInstance& one : gpu.instances)
        if (stays_.contains(one.service)) each(gpu, one);
  }
  // Two pools of a service as one: together they are no slower than the slower of them.
  static void add(plan::PlannedService& row, const plan::PlannedService& more) {
    row.planned += more.planned;
    row.predicted_latency = std::max(row.predicted_latency, more.predicted_latency);
    row.predicted = row.predicted || more.predicted;
    row.overload.clear();
    row.wanted.reset();
  }
  plan::Objective objective_of(const plan::ServingPlan& plan) const {
    plan::Objective objective{.gpus = static_cast<int>(plan.gpus.size()),
                              .goal = plan.objective.goal};
    for (const plan::PlannedGpu& gpu : plan.gpus)
      for (const plan::FleetEntry& entry : problem_.fleet) {
        if (entry.gpu.name != gpu.model) continue;
        objective.cost += entry.price;
        for (const plan::PlannedInstance& one : gpu.instances)
          if (const int k = entry.gpu.profile_index(one.profile); k >= 0)
            objective.gpcs += entry.gpu.profiles[static_cast<std::size_t>(k)].gpcs;
      }
    return objective;
  }

  const plan::ServingProblem& problem_;
  const plan::ServingPlan& current_;
  const plan::ServingPlan& planned_;
  std::set<std::string> stays_;
};

// GPUs on which nothing more fits beside these places.
std::set<int> full_gpus(const plan::ServingProblem& problem, const plan::ServingPlan& current,
                        const std::vector<LentPlace>& places) {
  std::set<int> full;
  for (const plan::PlannedGpu& gpu : current.gpus) {
    const auto entry = std::ranges::find(problem.fleet, gpu.model,
                                         [](const plan::FleetEntry& one) { return one.gpu.name; });
    if (entry == problem.fleet.end()) continue;
    hw::Room room{&entry->gpu};
    for (const LentPlace& one : places)
      if (one.gpu == gpu.index)
        if (const int k = entry->gpu.profile_index(one.profile); k >= 0)
          room.placed.push_back({k, one.start});
    if (hw::largest_shapes(room).empty()) full.insert(gpu.index);
  }
  return full;
}

// What is on GPUs while one plan follows another.
class Turns {
 public:
  Turns(const plan::ServingProblem& problem, const plan::ServingPlan& current,
        const plan::ServingPlan& next)
      : problem_(problem) {
    each(next, [&](const Place& one) { missing_.push_back(one); });
    each(current, [&](const Place& one) {
      const auto same = std::ranges::find_if(missing_, [&](const Place& other) {
        return other.gpu->index == one.gpu->index && *other.is == *one.is;
      });
      if (same != missing_.end())
        missing_.erase(same), stays_.push_back(one);
      else if (is_wanted(one.is->service))
        goes_.push_back(one);
    });
  }

  bool done() {
    for (bool moved = true; moved && !missing_.empty();) {
      moved = false;
      for (std::size_t i = 0; i < missing_.size(); ++i) {
        if (!fits(missing_[i])) continue;
        stays_.push_back(missing_[i]);
        missing_.erase(missing_.begin() + static_cast<std::ptrdiff_t>(i--));
        moved = true;
      }
      moved =
          std::erase_if(goes_, [&](const Place& one) { return !misses(one.is->service); }) > 0 ||
          moved;
    }
    return missing_.empty();
  }

 private:
  struct Place {
    const plan::PlannedGpu* gpu = nullptr;
    const plan::PlannedInstance* is = nullptr;
  };
  template <class F>
  static void each(const plan::ServingPlan& plan, const F& f) {
    for (const plan::PlannedGpu& gpu : plan.gpus)
      for (const plan::PlannedInstance& one : gpu.instances) f(Place{&gpu, &one});
  }
  bool is_wanted(const std::string& service) const {
    return std::ranges::count(problem_.services, service, &plan::Service::name) > 0;
  }
  bool misses(const std::string& service) const {
    return std::ranges::any_of(missing_,
                               [&](const Place& one) { return one.is->service == service; });
  }
  bool fits(const Place& place) const {
    const auto entry = std::ranges::find(
        problem_.fleet, place.gpu->model,
        [](const plan::FleetEntry& one) -> const std::string& { return one.gpu.name; });
    if (entry == problem_.fleet.end()) return false;
    const hw::GpuModel& model = entry->gpu;
    std::vector<hw::PlacedProfile> all{{model.profile_index(place.is->profile), place.is->start}};
    for (const auto* list : {&stays_, &goes_})
      for (const Place& one : *list)
        if (one.gpu->index == place.gpu->index)
          all.push_back({model.profile_index(one.is->profile), one.is->start});
    return hw::conflicts(model, all).empty();
  }

  const plan::ServingProblem& problem_;
  std::vector<Place> missing_, stays_, goes_;
};

// Instances that are there are kept, whatever their size; where there are none, they are as large
// as they need to be, and leave room for others.
Result<MadeAgain> missing_beside(const plan::ServingProblem& problem,
                                 const plan::ServingPlan& current,
                                 const std::vector<LentPlace>& taken, const PlanOptions& options) {
  for (const plan::PlannedGpu& gpu : current.gpus)
    for (const plan::PlannedInstance& one : gpu.instances)
      if (std::ranges::count(problem.services, one.service, &plan::Service::name) > 0)
        return make_plan_beside(problem, current, std::nullopt, taken, options);
  return make_new_beside(problem, current, taken, options);
}

}  // namespace

Result<Made<plan::ServingPlan>> make_plan_keeping(const plan::ServingProblem& problem,
                                                  const plan::ServingPlan& current,
                                                  const plan::ServingPlan& planned,
                                                  const std::vector<LentPlace>& lent,
                                                  const PlanOptions& options) {
  const Keeping keeping(problem, current, planned);
  if (keeping.none()) {
    auto again = missing_beside(problem, current, lent, options);
    return again ? Result<Made<plan::ServingPlan>>(std::move(again->made)) : failed(again.error());
  }
  std::vector<LentPlace> taken = keeping.places();
  taken.insert(taken.end(), lent.begin(), lent.end());
  const std::set<int> full = full_gpus(problem, current, taken);
  const plan::ServingProblem rest = keeping.rest(full);
  plan::ServingPlan made;
  made.planner = planned.planner;
  if (!rest.services.empty()) {
    if (rest.fleet.empty())
      return Made<plan::ServingPlan>{
          {}, {{plan::kNotFound, "gpu", 0, 0, "nothing fits beside what runs"}}};
    std::erase_if(taken, [&](const LentPlace& one) { return full.contains(one.gpu); });
    auto beside = TRY(missing_beside(rest, keeping.others(full), taken, options));
    if (!beside.made.plan) return std::move(beside.made);
    made = **beside.made.plan;
  }
  auto verdict = verify::judge(problem, options.judges_pools, keeping.together(std::move(made)));
  if (!verdict) return Made<plan::ServingPlan>{{}, std::move(verdict.error().violations)};
  return Made<plan::ServingPlan>{*std::move(verdict), {}};
}

bool follows_in_turn(const plan::ServingProblem& problem, const plan::ServingPlan& current,
                     const plan::ServingPlan& next) {
  return Turns(problem, current, next).done();
}

}  // namespace partita::decide
