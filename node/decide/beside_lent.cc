#include "decide/beside_lent.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "decide/keeping.h"
#include "hw/layout.h"
#include "plan/changes.h"
#include "verify/judge.h"

namespace partita::decide {
namespace {

const hw::GpuModel* model_of(const plan::ServingProblem& problem, const std::string& name) {
  const auto found = std::ranges::find(problem.fleet, name,
                                       [](const plan::FleetEntry& one) { return one.gpu.name; });
  return found == problem.fleet.end() ? nullptr : &found->gpu;
}

// The profile of one; null: the problem has no such GPUs, or they have no such profile.
const hw::MigProfile* profile_of(const plan::ServingProblem& problem, const LentPlace& lent) {
  const hw::GpuModel* model = model_of(problem, lent.gpu_model);
  const int index = model == nullptr ? -1 : model->profile_index(lent.profile);
  return index < 0 ? nullptr : &model->profiles[static_cast<std::size_t>(index)];
}

constexpr double kEasy = 1e6;  // requests per second that any such instance carries; one is asked

// Moves what is lent back to where it is, in a plan whose GPUs hold it somewhere: it changes places
// with instances of its shape, else its GPU with the one where it should be, and what stands in its
// way there finds other starts.
class PutBack {
 public:
  PutBack(plan::ServingPlan& plan, const std::vector<LentPlace>& lent,
          const plan::ServingProblem& problem)
      : plan_(plan), lent_(lent), problem_(problem) {}

  bool done() {
    for (const LentPlace& one : lent_)
      if (!free_of_groups(one) || !to_its_gpu(one)) return false;
    return std::ranges::all_of(plan_.gpus, [&](plan::PlannedGpu& gpu) { return arranged(gpu); });
  }

 private:
  plan::PlannedGpu& gpu_of(const LentPlace& one) {
    const auto found = std::ranges::find(plan_.gpus, one.gpu, &plan::PlannedGpu::index);
    if (found != plan_.gpus.end()) return *found;
    return plan_.gpus.emplace_back(plan::PlannedGpu{one.gpu, one.gpu_model, {}});
  }
  plan::PlannedGpu* where_is(const LentPlace& one) {
    for (plan::PlannedGpu& gpu : plan_.gpus)
      if (std::ranges::count(gpu.instances, one.name, &plan::PlannedInstance::service) > 0)
        return &gpu;
    return nullptr;
  }
  bool is_lent(const plan::PlannedInstance& one) const {
    return std::ranges::count(lent_, one.service, &LentPlace::name) > 0;
  }

  // A group that has its GPU moves to others that are linked and follow one another: these and its
  // own change numbers.
  bool free_of_groups(const LentPlace& one) {
    const plan::PlannedInstance first = [&] {
      const plan::PlannedGpu& gpu = gpu_of(one);
      return gpu.instances.empty() ? plan::PlannedInstance{} : gpu.instances.front();
    }();
    if (first.group <= 1) return true;
    const auto size = static_cast<std::size_t>(first.group);
    const auto of_service = [&](const plan::PlannedGpu& gpu) {
      return !gpu.instances.empty() && gpu.instances.front().service == first.service &&
             gpu.instances.front().group == first.group;
    };
    std::vector<int> group;
    for (const plan::PlannedGpu& gpu : plan_.gpus)
      if (of_service(gpu)) group.push_back(gpu.index);
    std::ranges::sort(group);
    const auto its = std::ranges::find(group, one.gpu) - group.begin();
    const auto begin = group.begin() + its / first.group * first.group;
    if (group.end() - begin < first.group) return false;
    group = std::vector<int>(begin, begin + first.group);
    const auto is_taken = [&](int index) {
      const auto found = std::ranges::find(plan_.gpus, index, &plan::PlannedGpu::index);
      const bool grouped = found != plan_.gpus.end() && !found->instances.empty() &&
                           found->instances.front().group > 1;
      return std::ranges::count(lent_, index, &LentPlace::gpu) > 0 ||
             (grouped && std::ranges::count(group, index) == 0);
    };
    for (const plan::FleetEntry& entry : problem_.fleet)
      for (const std::vector<int>& domain : entry.domains)
        for (std::size_t at = 0; entry.gpu.name == one.gpu_model && at + size <= domain.size();
             ++at)
          if (const std::vector<int> there(&domain[at], &domain[at] + size);
              std::ranges::none_of(there, is_taken)) {
            renumber(group, there);
            return true;
          }
    return false;
  }

  // The GPUs `from` get the numbers `to`, whoever has those the ones that are left.
  void renumber(const std::vector<int>& from, const std::vector<int>& to) {
    std::vector<int> left, gone;
    std::ranges::copy_if(from, std::back_inserter(left),
                         [&](int index) { return std::ranges::count(to, index) == 0; });
    std::ranges::copy_if(to, std::back_inserter(gone),
                         [&](int index) { return std::ranges::count(from, index) == 0; });
    for (plan::PlannedGpu& gpu : plan_.gpus)
      if (const auto k = std::ranges::find(from, gpu.index); k != from.end())
        gpu.index = to[static_cast<std::size_t>(k - from.begin())];
      else if (const auto j = std::ranges::find(gone, gpu.index); j != gone.end())
        gpu.index = left[static_cast<std::size_t>(j - gone.begin())];
  }

  bool to_its_gpu(const LentPlace& one) {
    plan::PlannedGpu& home = gpu_of(one);
    plan::PlannedGpu* there = where_is(one);
    if (there == nullptr) return false;
    if (there == &home) return true;
    const auto its = std::ranges::find(there->instances, one.name, &plan::PlannedInstance::service);
    if (its->profile != one.profile || there->model != home.model) return false;
    const auto same = std::ranges::find_if(home.instances, [&](const plan::PlannedInstance& other) {
      return other.profile == its->profile && other.group == 1 && !is_lent(other);
    });
    if (same != home.instances.end()) {
      std::swap(*same, *its);
      std::swap(same->start, its->start);
      return true;
    }
    // What is lent and is at home already, and GPUs of a group, which stand one after another.
    const auto stays = [&](const plan::PlannedGpu& gpu) {
      return std::ranges::any_of(gpu.instances, [&](const plan::PlannedInstance& on_it) {
        return on_it.group > 1 || std::ranges::any_of(lent_, [&](const LentPlace& other) {
                 return other.gpu == gpu.index && other.name == on_it.service;
               });
      });
    };
    if (stays(home) || stays(*there)) return false;
    std::swap(home.instances, there->instances);
    return true;
  }

  // What is lent at its starts, the others where they are or, where that cannot be, elsewhere.
  bool arranged(plan::PlannedGpu& gpu) {
    const hw::GpuModel& model = *model_of(problem_, gpu.model);
    std::vector<plan::PlannedInstance> fixed, others;
    for (plan::PlannedInstance& one : gpu.instances) {
      const auto lent = std::ranges::find(lent_, one.service, &LentPlace::name);
      if (lent == lent_.end()) {
        others.push_back(one);
      } else {
        one.start = lent->start;
        fixed.push_back(one);
      }
    }
    if (fixed.empty()) return true;
    std::ranges::stable_sort(others, std::greater(), [&](const plan::PlannedInstance& one) {
      return model.profiles[static_cast<std::size_t>(model.profile_index(one.profile))].size;
    });
    if (!placed(model, fixed, others, 0)) return false;
    std::ranges::stable_sort(fixed, {}, &plan::PlannedInstance::start);
    gpu.instances = std::move(fixed);
    return true;
  }

  // Depth first: a GPU has at most as many instances as slices.
  bool placed(const hw::GpuModel& model, std::vector<plan::PlannedInstance>& there,
              const std::vector<plan::PlannedInstance>& others, std::size_t next) {
    if (next == others.size()) return true;
    const auto profile = static_cast<std::size_t>(model.profile_index(others[next].profile));
    std::vector<int> starts = model.profiles[profile].starts;
    std::ranges::stable_sort(starts, {}, [&](int start) { return start != others[next].start; });
    for (const int start : starts) {
      there.push_back(others[next]);
      there.back().start = start;
      std::vector<hw::PlacedProfile> all;
      for (const plan::PlannedInstance& one : there)
        all.push_back({model.profile_index(one.profile), one.start});
      if (hw::conflicts(model, all).empty() && placed(model, there, others, next + 1)) return true;
      there.pop_back();
    }
    return false;
  }

  plan::ServingPlan& plan_;
  const std::vector<LentPlace>& lent_;
  const plan::ServingProblem& problem_;
};

void add_lent(plan::ServingProblem& problem, const std::vector<LentPlace>& lent) {
  for (const LentPlace& one : lent) {
    const hw::MigProfile& profile = *profile_of(problem, one);
    plan::Service& service = problem.services.emplace_back();
    service.name = service.model = one.name;
    service.rate = Rps{1};
    service.slo = Millis{1000};
    for (const LentPlace& other : lent)
      if (other.gpu != one.gpu) service.avoid.push_back(other.name);
    for (plan::FleetEntry& entry : problem.fleet)
      if (entry.gpu.name == one.gpu_model)
        entry.profiles[one.name] = {
            .model = one.name,
            .points = {{profile.gpcs, 1, 1, Rps{kEasy}, Millis{1e3 / kEasy}, profile.memory}}};
  }
}

// What overlaps one is not kept.
void add_lent(plan::ServingPlan& current, const plan::ServingProblem& problem,
              const std::vector<LentPlace>& lent) {
  for (const LentPlace& one : lent)
    for (plan::PlannedGpu& gpu : current.gpus) {
      if (gpu.index != one.gpu) continue;
      std::erase_if(gpu.instances, [&](const plan::PlannedInstance& its) {
        return its.start >= one.start && its.start < one.start + profile_of(problem, one)->size;
      });
      gpu.instances.push_back({one, one.name, 1, 1, Rps{0}, {}});
      std::ranges::stable_sort(gpu.instances, {}, &plan::PlannedInstance::start);
    }
}

// The plan without them; nothing: it has no room where they are.
std::optional<plan::ServingPlan> without_lent(plan::ServingPlan plan,
                                              const std::vector<LentPlace>& lent,
                                              const plan::ServingProblem& problem) {
  if (!PutBack(plan, lent, problem).done()) return {};
  const auto is_lent = [&](const std::string& service) {
    return std::ranges::count(lent, service, &LentPlace::name) > 0;
  };
  for (plan::PlannedGpu& gpu : plan.gpus)
    std::erase_if(gpu.instances,
                  [&](const plan::PlannedInstance& one) { return is_lent(one.service); });
  std::erase_if(plan.services, [&](const plan::PlannedService& row) { return is_lent(row.name); });
  std::ranges::sort(plan.gpus, {}, &plan::PlannedGpu::index);
  std::erase_if(plan.gpus, [](const plan::PlannedGpu& gpu) { return gpu.instances.empty(); });
  plan.objective = {.gpus = static_cast<int>(plan.gpus.size()), .goal = plan.objective.goal};
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    const hw::GpuModel& model = *model_of(problem, gpu.model);
    for (const plan::PlannedInstance& its : gpu.instances)
      plan.objective.gpcs +=
          model.profiles[static_cast<std::size_t>(model.profile_index(its.profile))].gpcs;
  }
  plan.problem_digest.clear();
  plan.explanation.insert(plan.explanation.begin(),
                          fmt::format("{} lent instances stay where they are", lent.size()));
  return plan;
}

using PlanAgain = decltype(make_plan_again);

Result<MadeAgain> planned_beside(PlanAgain& plan_for, const plan::ServingProblem& problem,
                                 const plan::ServingPlan& current, std::optional<int> max_moves,
                                 const std::vector<LentPlace>& lent, const PlanOptions& options) {
  std::vector<LentPlace> known = lent;  // of other GPUs than these nothing is planned
  std::erase_if(known, [&](const LentPlace& one) { return profile_of(problem, one) == nullptr; });
  if (known.empty()) return plan_for(problem, current, max_moves, options);
  plan::ServingProblem with = problem;
  plan::ServingPlan runs = current;
  add_lent(with, known);
  add_lent(runs, problem, known);
  auto made = plan_for(with, runs, max_moves, options);
  if (!made || !made->made.plan) return made;
  auto plan = without_lent(**made->made.plan, known, problem);
  made->made.plan.reset();
  if (!plan) {
    made->made.refusals = {{plan::kNotFound, "lent", 1, 0,
                            known.front().name + " is in the way of the plan that was found"}};
    return made;
  }
  auto verdict = verify::judge(problem, options.judges_pools, *std::move(plan));
  if (!verdict)
    return failed(refused_by_judge("the plan beside what is lent", verdict.error().violations));
  made->changes = plan::changes_between(current, **verdict);
  made->made.plan = *std::move(verdict);
  return made;
}

}  // namespace

Result<MadeAgain> make_plan_beside(const plan::ServingProblem& problem,
                                   const plan::ServingPlan& current, std::optional<int> max_moves,
                                   const std::vector<LentPlace>& lent, const PlanOptions& options) {
  return planned_beside(make_plan_again, problem, current, max_moves, lent, options);
}

Result<MadeAgain> make_new_beside(const plan::ServingProblem& problem,
                                  const plan::ServingPlan& current,
                                  const std::vector<LentPlace>& lent, const PlanOptions& options) {
  return planned_beside(make_plan_in_place, problem, current, std::nullopt, lent, options);
}

}  // namespace partita::decide
