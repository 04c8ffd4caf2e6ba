#include "sim/dispatch.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "sim/engine.h"

namespace partita::sim {
namespace {

enum GroupEvent : std::uint32_t { kStart = 1, kEnd = 2 };

struct Unit {
  std::size_t index = 0;
  int room = 0;
};

// The units of a mask; equal_split keeps its clusters apart, work_conserving has one of all.
class Lanes {
 public:
  Lanes(const hw::Topology& topology, const hw::UnitMask& mask, int room, bool split) {
    std::size_t unit = 0;
    for (const int size : topology.units_in) {
      if (split || lanes_.empty()) lanes_.emplace_back();
      for (int i = 0; i < size; ++i, ++unit)
        if (mask[unit]) lanes_.back().push_back({unit, room});
      if (lanes_.back().empty()) lanes_.pop_back();
    }
    lane_of_.resize(unit);
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      for (const Unit& one : lanes_[lane]) lane_of_[one.index] = lane;
    CHECK(!lanes_.empty());
  }

  // The unit that the next work-group goes to, or null while the cluster in turn is full.
  Unit* next() {
    std::vector<Unit>& lane = lanes_[turn_];
    const auto most = std::ranges::max_element(
        lane, [](const Unit& a, const Unit& b) { return a.room < b.room; });
    if (most->room == 0) return nullptr;
    turn_ = (turn_ + 1) % lanes_.size();
    return &*most;
  }

  void free(std::size_t index) {
    for (Unit& unit : lanes_[lane_of_[index]])
      if (unit.index == index) ++unit.room;
  }

 private:
  std::vector<std::vector<Unit>> lanes_;
  std::vector<std::size_t> lane_of_;  // per unit
  std::size_t turn_ = 0;
};

long waves_of(long groups, long per_wave) { return (groups + per_wave - 1) / per_wave; }

}  // namespace

Dispatch dispatch(const hw::Topology& topology, const hw::UnitMask& mask, const GroupKernel& kernel,
                  Dispatcher dispatcher, std::uint64_t seed) {
  CHECK(kernel.groups >= 1 && kernel.groups_per_unit >= 1 && kernel.time_us > 0);
  Lanes lanes(topology, mask, kernel.groups_per_unit, dispatcher == Dispatcher::equal_split);
  Rng rng = component_rng(seed, "work-groups");
  EventLog log;
  Dispatch result;
  result.groups_on.resize(static_cast<std::size_t>(topology.units()));
  std::map<Nanos, std::vector<std::size_t>> ends;  // units, in order of starting
  Nanos now = 0;
  double work_us = 0;
  for (int started = 0; started < kernel.groups || !ends.empty();) {
    for (Unit* unit = nullptr; started < kernel.groups && (unit = lanes.next()); ++started) {
      const double time = kernel.time_us * (1 + kernel.spread * (2 * rng.uniform() - 1));
      work_us += time;
      --unit->room;
      ++result.groups_on[unit->index];
      log.record(now, kStart, static_cast<std::uint32_t>(unit->index), started);
      ends[now + std::max<Nanos>(1, std::llround(time * 1000))].push_back(unit->index);
    }
    // All that end at once, before anything starts.
    now = ends.begin()->first;
    for (const std::size_t index : ends.begin()->second) {
      lanes.free(index);
      log.record(now, kEnd, static_cast<std::uint32_t>(index), started);
    }
    ends.erase(ends.begin());
  }
  result.time_us = static_cast<double>(now) / 1000;
  result.effective_units = work_us / (kernel.groups_per_unit * result.time_us);
  result.log_hash = log.hash();
  return result;
}

double dispatch_time_us(const std::vector<int>& units_per_cluster, const GroupKernel& kernel,
                        Dispatcher dispatcher) {
  long clusters = 0, units = 0, least = 0, before = 0;
  for (const int share : units_per_cluster) {
    if (share == 0) continue;
    if (clusters == 0 || share < least) {
      least = share;
      before = clusters;
    }
    ++clusters;
    units += share;
  }
  CHECK(clusters > 0);
  if (dispatcher == Dispatcher::work_conserving)
    return static_cast<double>(waves_of(kernel.groups, units * kernel.groups_per_unit)) *
           kernel.time_us;
  const long per_wave = clusters * least * kernel.groups_per_unit;
  const long later = std::max(0L, kernel.groups - per_wave - before);
  return static_cast<double>(1 + waves_of(later, per_wave)) * kernel.time_us;
}

}  // namespace partita::sim
