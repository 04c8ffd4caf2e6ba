#include "planners/serving/in_place.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "base/index.h"
#include "plan/changes.h"

namespace partita::planners::serving {
namespace {

using plan::PlannedGpu;

int group_of(const PlannedGpu& gpu) {
  return gpu.instances.empty() ? 1 : gpu.instances.front().group;
}

constexpr int kMost = 8;  // GPUs of a group

struct Room {
  std::size_t most = 0;                     // GPUs of the model
  const plan::FleetEntry* entry = nullptr;  // null: indices say nothing about NVLink domains
};

// Of one model.
class InPlace {
 public:
  InPlace(std::vector<PlannedGpu> there, const std::vector<PlannedGpu*>& wanted, Room room)
      : there_(std::move(there)), wanted_(wanted), room_(room) {
    for (const PlannedGpu* const gpu : wanted_) stays_[gpu->index] = gpu;
    while (there_.size() < wanted.size()) add_gpu();
    for (std::size_t w = 0; w < wanted.size(); w += at(group_of(*wanted[w])))
      (group_of(*wanted[w]) > 1 ? groups_ : alone_).push_back(w);
    std::ranges::stable_sort(groups_, std::greater(),
                             [&](std::size_t w) { return group_of(*wanted[w]); });
  }

  // Whether there was room for the groups; nothing has changed otherwise.
  bool run() {
    place_groups(Groups::stay);
    while ((!groups_placed() || pushed_ > 0) && there_.size() < std::min(room_.most, enough())) {
      add_gpu();
      place_groups(Groups::stay);
    }
    for (const Groups all : {Groups::move, Groups::close_up})
      if (!groups_placed()) place_groups(all);
    if (!groups_placed()) return false;
    for (const auto& [w, from] : place_)
      for (std::size_t k = 0; k < at(group_of(*wanted_[w])); ++k)
        wanted_[w + k]->index = there_[from + k].index;
    place_alone();
    return true;
  }

 private:
  // They stay where they run; go where they push least aside; begin one behind the other, so that
  // no GPU is left between two of a domain.
  enum class Groups { stay, move, close_up };

  void add_gpu() {
    int index = 0;
    auto at = there_.begin();
    for (; at != there_.end() && at->index == index; ++at) ++index;
    there_.insert(at, {index, "", {}});
  }

  void place_alone() {
    std::vector<plan::GpuTenancies> needs, offers;
    for (const std::size_t w : alone_) needs.push_back(plan::tenancies_of(*wanted_[w]));
    for (std::size_t p = 0; p < there_.size(); ++p)
      if (!taken_[p]) offers.push_back(plan::tenancies_of(there_[p]));
    if (offers.size() > plan::kMaxMatchedGpus) return number_alone(offers);
    const std::vector<int> matched = plan::match_gpus(needs, offers);
    for (std::size_t i = 0; i < alone_.size(); ++i)
      wanted_[alone_[i]]->index = offers[at(matched[i])].index;
  }

  // Too many to be matched: they keep the numbers that they have, as far as those are free.
  void number_alone(const std::vector<plan::GpuTenancies>& offers) {
    std::set<int> free;
    for (const plan::GpuTenancies& one : offers) free.insert(one.index);
    std::vector<std::size_t> rest;
    for (const std::size_t w : alone_)
      if (free.erase(wanted_[w]->index) == 0) rest.push_back(w);
    for (const std::size_t w : rest) wanted_[w]->index = *free.begin(), free.erase(free.begin());
  }

  // GPUs among which every group finds a domain of its own.
  std::size_t enough() const {
    return there_.size() + (groups_.size() + 1) * at(linked(1));
  }

  int linked(int otherwise) const { return room_.entry ? room_.entry->linked_gpus() : otherwise; }
  int domain_of(std::size_t p) const {
    return room_.entry ? room_.entry->domain_of(there_[p].index) : 0;
  }

  bool groups_placed() const {
    return std::ranges::all_of(groups_, [&](std::size_t w) { return place_.contains(w); });
  }

  void place_groups(Groups all) {
    taken_.assign(there_.size(), false);
    place_.clear();
    pushed_ = 0;
    for (const bool same : {true, false})
      for (const std::size_t w : groups_)
        if (all == Groups::stay && !place_.contains(w)) put(w, running(w, same));
    for (const std::size_t w : groups_)
      if (!place_.contains(w)) put(w, all == Groups::close_up ? first_free(w) : least_used(w));
  }

  void put(std::size_t w, std::size_t from) {
    if (from >= there_.size()) return;
    place_[w] = from;
    for (std::size_t k = 0; k < at(group_of(*wanted_[w])); ++k) taken_[from + k] = true;
  }

  bool free(std::size_t from, std::size_t size) const {
    if (from + size > there_.size() || domain_of(from) != domain_of(from + size - 1)) return false;
    return std::find(taken_.begin() + static_cast<std::ptrdiff_t>(from),
                     taken_.begin() + static_cast<std::ptrdiff_t>(from + size),
                     true) == taken_.begin() + static_cast<std::ptrdiff_t>(from + size);
  }

  std::size_t first_free(std::size_t w) const {
    std::size_t from = 0;
    while (from < there_.size() && !free(from, at(group_of(*wanted_[w])))) ++from;
    return from;
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

  // Instances there that the plan keeps on a GPU of that number.
  std::size_t kept(const PlannedGpu& there) const {
    const auto found = stays_.find(there.index);
    if (found == stays_.end() || group_of(*found->second) > 1) return 0;
    return static_cast<std::size_t>(
        std::ranges::count_if(there.instances, [&](const plan::PlannedInstance& runs) {
          return std::ranges::any_of(found->second->instances, [&](const auto& one) {
            return std::tie(one.profile, one.start, one.service) ==
                   std::tie(runs.profile, runs.start, runs.service);
          });
        }));
  }

  // The fewest instances that the plan keeps would go, then the fewest that run; of equals the
  // first that leaves whole groups' room beside it.
  std::size_t least_used(std::size_t w) {
    const std::size_t size = at(group_of(*wanted_[w]));
    std::size_t best = there_.size();
    std::tuple<std::size_t, std::size_t, bool> least;
    for (std::size_t p = 0; p + size <= there_.size(); ++p) {
      if (!free(p, size)) continue;
      std::tuple<std::size_t, std::size_t, bool> price{
          0, 0, at(there_[p].index) % at(linked(kMost)) % size != 0};
      for (std::size_t k = p; k < p + size; ++k) {
        std::get<0>(price) += kept(there_[k]);
        std::get<1>(price) += there_[k].instances.size();
      }
      if (best < there_.size() && price >= least) continue;
      best = p;
      least = price;
    }
    if (best < there_.size()) pushed_ += std::get<0>(least) + std::get<1>(least);
    return best;
  }

  std::vector<PlannedGpu> there_;  // by index
  const std::vector<PlannedGpu*>& wanted_;
  const Room room_;
  std::vector<std::size_t> groups_, alone_;   // first GPUs, of wanted_
  std::map<std::size_t, std::size_t> place_;  // of groups
  std::vector<bool> taken_;
  std::map<int, const PlannedGpu*> stays_;  // of wanted_, by the number that it had
  std::size_t pushed_ = 0;                  // instances where groups are put
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
  // Those of a group follow one another, though others may be between them where it runs: a GPU
  // that was out, and is back.
  std::set<const PlannedGpu*> seen;
  for (const plan::InstanceAt& one : plan::instances_of(plan.gpus))
    for (const PlannedGpu* const gpu : one.gpus)
      if (seen.insert(gpu).second)
        wanted[model_of(plan, *gpu)].push_back(
            &plan.gpus[static_cast<std::size_t>(gpu - plan.gpus.data())]);
  for (const auto& [model, gpus] : wanted) {
    std::vector<PlannedGpu> there;
    for (const PlannedGpu& gpu : current.gpus)
      if (model_of(current, gpu) == model) there.push_back(gpu);
    std::ranges::stable_sort(there, {}, &PlannedGpu::index);
    Room room;
    for (const plan::FleetEntry& entry : fleet)
      if (entry.gpu.name == model && (fleet.size() == 1 || !entry.domains.empty()))
        room = {at(entry.count.value_or(std::numeric_limits<int>::max())), &entry};
    if (!InPlace(std::move(there), gpus, room).run()) return as_made;
  }
  std::ranges::stable_sort(plan.gpus, {}, &PlannedGpu::index);
  return plan;
}

}  // namespace partita::planners::serving
