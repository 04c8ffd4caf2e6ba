#include "decide/in_place.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "base/index.h"
#include "plan/changes.h"

namespace partita::decide {
namespace {

using plan::PlannedGpu;

int group_of(const PlannedGpu& gpu) {
  return gpu.instances.empty() ? 1 : gpu.instances.front().group;
}

plan::GpuTenancies tenancies_of(const PlannedGpu& gpu) {
  plan::GpuTenancies all{gpu.index, true, {}};
  for (const plan::PlannedInstance& one : gpu.instances)
    all.tenants.push_back({one.profile, one.start, one.service, one.batch, one.processes});
  return all;
}

struct Room {
  std::size_t most = 0;          // GPUs of the model
  std::optional<int> node_gpus;  // absent: indices say nothing about nodes
};

// Of one model.
class InPlace {
 public:
  InPlace(std::vector<PlannedGpu> there, const std::vector<PlannedGpu*>& wanted, Room room)
      : there_(std::move(there)), wanted_(wanted), room_(room) {
    while (there_.size() < wanted.size()) add_gpu();
    for (std::size_t w = 0; w < wanted.size(); w += at(group_of(*wanted[w])))
      (group_of(*wanted[w]) > 1 ? groups_ : alone_).push_back(w);
  }

  // Whether there was room for the groups; nothing has changed otherwise.
  bool run() {
    place_groups(true);
    while (!groups_placed() && there_.size() < std::min(room_.most, enough())) {
      add_gpu();
      place_groups(true);
    }
    if (!groups_placed()) place_groups(false);
    if (!groups_placed()) return false;
    for (const auto& [w, from] : place_)
      for (std::size_t k = 0; k < at(group_of(*wanted_[w])); ++k)
        wanted_[w + k]->index = there_[from + k].index;
    std::vector<plan::GpuTenancies> needs, offers;
    std::vector<std::size_t> free;
    for (const std::size_t w : alone_) needs.push_back(tenancies_of(*wanted_[w]));
    for (std::size_t p = 0; p < there_.size(); ++p)
      if (!taken_[p]) {
        offers.push_back(tenancies_of(there_[p]));
        free.push_back(p);
      }
    const std::vector<int> matched = plan::match_gpus(needs, offers);
    for (std::size_t i = 0; i < alone_.size(); ++i)
      wanted_[alone_[i]]->index = there_[free[at(matched[i])]].index;
    return true;
  }

 private:
  void add_gpu() { there_.push_back({there_.empty() ? 0 : there_.back().index + 1, "", {}}); }

  // GPUs among which every group finds a node of its own.
  std::size_t enough() const {
    return there_.size() + (groups_.size() + 1) * at(room_.node_gpus.value_or(1));
  }

  int node_of(std::size_t p) const {
    return room_.node_gpus ? there_[p].index / *room_.node_gpus : 0;
  }

  bool groups_placed() const {
    return std::ranges::all_of(groups_, [&](std::size_t w) { return place_.contains(w); });
  }

  void place_groups(bool stay) {
    taken_.assign(there_.size(), false);
    place_.clear();
    for (const bool same : {true, false})
      for (const std::size_t w : groups_)
        if (stay && !place_.contains(w)) put(w, running(w, same));
    for (const std::size_t w : groups_)
      if (!place_.contains(w)) put(w, least_used(w));
  }

  void put(std::size_t w, std::size_t from) {
    if (from >= there_.size()) return;
    place_[w] = from;
    for (std::size_t k = 0; k < at(group_of(*wanted_[w])); ++k) taken_[from + k] = true;
  }

  bool free(std::size_t from, std::size_t size) const {
    if (from + size > there_.size() || node_of(from) != node_of(from + size - 1)) return false;
    return std::find(taken_.begin() + static_cast<std::ptrdiff_t>(from),
                     taken_.begin() + static_cast<std::ptrdiff_t>(from + size),
                     true) == taken_.begin() + static_cast<std::ptrdiff_t>(from + size);
  }

  // Where a group of its service and size runs; past the end: nowhere.
  std::size_t running(std::size_t w, bool same) const {
    const plan::PlannedInstance& one = wanted_[w]->instances.front();
    const std::size_t size = at(one.group);
    for (std::size_t p = 0; p < there_.size(); p += at(group_of(there_[p]))) {
      if (group_of(there_[p]) != one.group || !free(p, size)) continue;
      const plan::PlannedInstance& runs = there_[p].instances.front();
      const bool equal = runs.batch == one.batch && runs.processes == one.processes;
      const auto alike = [&](const PlannedGpu& gpu) {
        return group_of(gpu) == one.group && gpu.instances.front().service == one.service;
      };
      if ((equal || !same) &&
          std::all_of(there_.begin() + static_cast<std::ptrdiff_t>(p),
                      there_.begin() + static_cast<std::ptrdiff_t>(p + size), alike))
        return p;
    }
    return there_.size();
  }

  // Instances that would go, the fewest; of equals the first.
  std::size_t least_used(std::size_t w) const {
    const std::size_t size = at(group_of(*wanted_[w]));
    std::size_t best = there_.size(), least = 0;
    for (std::size_t p = 0; p + size <= there_.size(); ++p) {
      if (!free(p, size)) continue;
      std::size_t goes = 0;
      for (std::size_t k = p; k < p + size; ++k) goes += there_[k].instances.size();
      if (best < there_.size() && goes >= least) continue;
      best = p;
      least = goes;
    }
    return best;
  }

  std::vector<PlannedGpu> there_;  // by index
  const std::vector<PlannedGpu*>& wanted_;
  const Room room_;
  std::vector<std::size_t> groups_, alone_;   // first GPUs, of wanted_
  std::map<std::size_t, std::size_t> place_;  // of groups
  std::vector<bool> taken_;
};

}  // namespace

plan::ServingPlan in_place_of(const plan::ServingPlan& current, plan::ServingPlan plan,
                              const std::vector<plan::FleetEntry>& fleet) {
  const auto model_of = [](const plan::ServingPlan& of, const PlannedGpu& gpu) {
    return gpu.model.empty() ? of.gpu_model : gpu.model;
  };
  const plan::ServingPlan as_made = plan;
  std::ranges::stable_sort(plan.gpus, {}, &PlannedGpu::index);
  std::map<std::string, std::vector<PlannedGpu*>> wanted;
  for (PlannedGpu& gpu : plan.gpus) wanted[model_of(plan, gpu)].push_back(&gpu);
  for (const auto& [model, gpus] : wanted) {
    std::vector<PlannedGpu> there;
    for (const PlannedGpu& gpu : current.gpus)
      if (model_of(current, gpu) == model) there.push_back(gpu);
    std::ranges::stable_sort(there, {}, &PlannedGpu::index);
    Room room;
    for (const plan::FleetEntry& entry : fleet)
      if (entry.gpu.name == model && fleet.size() == 1)
        room = {at(entry.count.value_or(std::numeric_limits<int>::max())), entry.node_gpus};
    if (!InPlace(std::move(there), gpus, room).run()) return as_made;
  }
  std::ranges::stable_sort(plan.gpus, {}, &PlannedGpu::index);
  return plan;
}

}  // namespace partita::decide
