#include "plan/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "base/matching.h"

namespace partita::plan {
namespace {

// Of a group: where its first GPU is.
using PlaceKey = std::tuple<int, std::string, std::string, int, std::string, int>;

PlaceKey place_key(const ServingPlan& plan, const PlannedGpu& gpu, const PlannedInstance& one) {
  return {gpu.index,   gpu.model.empty() ? plan.gpu_model : gpu.model,
          one.profile, one.start,
          one.service, one.group};
}

// The levels of a pair of GPUs, the least important first, in one number: each level sums to less
// than the unit of the next. All pairs together stay below 2^62.
constexpr std::int64_t kSum = std::int64_t{kMaxMatchedGpus} + 1;
constexpr int kMost = 8;      // MIG instances of a GPU
constexpr int kHeldStay = 8;  // a held instance that stays, against one that nobody holds
constexpr std::int64_t kSameIndex = 1;
constexpr std::int64_t kGoodStart = kSameIndex * kSum;
constexpr std::int64_t kStays = kGoodStart * kSum;
constexpr std::int64_t kSameSegment = kStays * (kSum * kMost * kHeldStay);
constexpr std::int64_t kSameService = kSameSegment * (kSum * kMost);

// GPUs with places and services as small numbers.
class Matcher {
 public:
  Matcher(const std::vector<GpuTenancies>& wanted, const std::vector<GpuTenancies>& there)
      : wanted_(wanted), there_(there) {
    for (const GpuTenancies& gpu : wanted) rows_.push_back(seats(gpu));
    for (const GpuTenancies& gpu : there) columns_.push_back(seats(gpu));
    for (const std::vector<Seat>& seats : columns_) {
      std::vector<const Seat*>& by_place = found_.emplace_back(places_.size(), nullptr);
      for (const Seat& seat : seats) by_place[at(seat.place)] = &seat;
    }
    all_ready_ = std::ranges::all_of(there, &GpuTenancies::ready);
  }

  std::vector<int> match() const {
    Weights weights{static_cast<int>(rows_.size()), static_cast<int>(columns_.size()), {}};
    weights.value.reserve(rows_.size() * columns_.size());
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (std::size_t c = 0; c < columns_.size(); ++c) weights.value.push_back(weight(r, c));
    return heaviest_matching(weights);
  }

 private:
  struct Seat {
    int place = 0, service = 0;
    const Tenancy* tenancy = nullptr;
  };

  std::vector<Seat> seats(const GpuTenancies& gpu) {
    std::vector<Seat> seats;
    for (const Tenancy& one : gpu.tenants) {
      const int place = static_cast<int>(places_.size()), service = static_cast<int>(names_.size());
      seats.push_back({places_.try_emplace({one.profile, one.start}, place).first->second,
                       names_.try_emplace(one.service, service).first->second, &one});
    }
    return seats;
  }

  std::int64_t weight(std::size_t row, std::size_t column) const {
    std::int64_t sum = wanted_[row].index == there_[column].index ? kSameIndex : 0;
    if (rows_[row].empty()) return sum;
    // Where some are not ready they take part only because all that are ready are needed.
    if (all_ready_ ? columns_[column].empty() : there_[column].ready) sum += kGoodStart;
    for (const Seat& seat : rows_[row]) {
      const Seat* found = found_[column][at(seat.place)];
      if (found == nullptr) continue;
      sum += found->tenancy->held ? kHeldStay * kStays : kStays;
      if (found->service != seat.service) continue;
      sum += kSameService;
      const bool same = found->tenancy->batch == seat.tenancy->batch &&
                        found->tenancy->processes == seat.tenancy->processes;
      if (same) sum += kSameSegment;
    }
    return sum;
  }

  const std::vector<GpuTenancies>&wanted_, &there_;
  std::map<std::pair<std::string, int>, int> places_;
  std::map<std::string, int> names_;
  std::vector<std::vector<Seat>> rows_, columns_;
  std::vector<std::vector<const Seat*>> found_;  // per column by place
  bool all_ready_ = true;
};

}  // namespace

std::vector<InstanceAt> instances_of(const std::vector<PlannedGpu>& gpus) {
  std::vector<const PlannedGpu*> in_order;
  for (const PlannedGpu& gpu : gpus) in_order.push_back(&gpu);
  std::ranges::stable_sort(in_order, {}, [](const PlannedGpu* gpu) { return gpu->index; });
  std::vector<InstanceAt> all;
  std::map<std::pair<std::string, int>, std::size_t> last;  // group of a service and size
  for (const PlannedGpu* const gpu : in_order)
    for (const PlannedInstance& one : gpu->instances) {
      const auto [known, fresh] = last.try_emplace({one.service, one.group}, all.size());
      if (fresh || all[known->second].gpus.size() >= at(one.group)) {
        known->second = all.size();
        all.push_back({{}, &one});
      }
      all[known->second].gpus.push_back(gpu);
    }
  return all;
}

std::string to_string(const Changes& changes) {
  return fmt::format("{} kept, {} restarted, {} moved, {} created, {} removed", changes.kept,
                     changes.restarted, changes.moved, changes.created, changes.removed);
}

Changes changes_between(const ServingPlan& current, const ServingPlan& next) {
  std::map<PlaceKey, std::vector<const PlannedInstance*>> running;
  std::set<std::string> ran;
  Changes changes;
  for (const auto& [gpus, instance] : instances_of(current.gpus)) {
    running[place_key(current, *gpus.front(), *instance)].push_back(instance);
    ran.insert(instance->service);
    ++changes.removed;
  }
  for (const auto& [gpus, instance] : instances_of(next.gpus)) {
    const auto found = running.find(place_key(next, *gpus.front(), *instance));
    if (found == running.end() || found->second.empty()) {
      ++(ran.contains(instance->service) ? changes.moved : changes.created);
      continue;
    }
    const PlannedInstance& old = *found->second.back();
    found->second.pop_back();
    --changes.removed;
    const bool same = old.batch == instance->batch && old.processes == instance->processes;
    ++(same ? changes.kept : changes.restarted);
  }
  return changes;
}

GpuTenancies tenancies_of(const PlannedGpu& gpu) {
  GpuTenancies all{gpu.index, true, {}};
  for (const PlannedInstance& one : gpu.instances)
    all.tenants.push_back({one, one.service, one.batch, one.processes});
  return all;
}

std::vector<int> match_gpus(const std::vector<GpuTenancies>& wanted,
                            const std::vector<GpuTenancies>& there) {
  CHECK(wanted.size() <= there.size() && there.size() <= kMaxMatchedGpus);
  // GPUs that are not ready have nothing to keep: with enough others they are left out.
  std::vector<GpuTenancies> ready;
  std::vector<int> position;
  for (std::size_t g = 0; g < there.size(); ++g) {
    if (!there[g].ready) continue;
    ready.push_back(there[g]);
    position.push_back(static_cast<int>(g));
  }
  if (ready.size() == there.size() || ready.size() < wanted.size())
    return Matcher(wanted, there).match();
  std::vector<int> matched = Matcher(wanted, ready).match();
  for (int& column : matched) column = position[at(column)];
  return matched;
}

}  // namespace partita::plan
