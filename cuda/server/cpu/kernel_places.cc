#include "server/cpu/kernel_places.h"

#include <algorithm>

#include "base/check.h"

namespace partita::remote::cpu {
namespace {

constexpr std::size_t kMostLanes = 8;

}  // namespace

std::shared_ptr<Place> KernelPlaces::next(const std::string& kernel) {
  if (tenant_ == nullptr) return nullptr;
  if (placing_ == nullptr) placing_ = tenant_->placing(), next_ = 0;
  const auto& kernels = placing_->kernels;
  const auto found = std::find(kernels.begin() + static_cast<long>(next_), kernels.end(), kernel);
  const auto index = static_cast<std::size_t>(found - kernels.begin());
  if (found == kernels.end())
    tenant_->unplanned();
  else
    next_ = index + 1;
  return std::make_shared<Place>(Place{placing_, index, {}});
}

void KernelPlaces::request_ended(bool said) {
  if (said_ && !said) return;
  said_ = said;
  placing_ = nullptr;
  times_.request_ended();
}

Result<StreamLanes> StreamLanes::open(SharedUnits& units) {
  StreamLanes lanes;
  lanes.driver_ = &units.driver();
  const hw::UnitMask all = hw::all_units(lanes.driver_->info()->topology);
  const auto lane = TRY(lanes.driver_->create_lane(all));
  lanes.now_ = lane;
  lanes.all_ = {{all, lane}};
  return lanes;
}

void StreamLanes::go_to(const hw::UnitMask& mask, bool unfinished) {
  if (all_.back().first == mask) return;
  const int lane = lane_of(mask);
  if (lane == now_) return;
  if (unfinished) {
    const auto event = driver_->record_event(now_);
    if (!event) return;  // it stays, as where there are no more lanes
    CHECK(driver_->wait_event(lane, *event).has_value());
    static_cast<void>(driver_->destroy_event(*event));
  }
  now_ = lane;
}

int StreamLanes::lane_of(const hw::UnitMask& mask) {
  auto found = std::ranges::find(all_, mask, &std::pair<hw::UnitMask, int>::first);
  if (found == all_.end()) {
    const auto current = all_.end() - 1;
    const auto idle = std::find_if(all_.begin(), current, [&](const auto& lane) {
      return all_.size() >= kMostLanes && driver_->destroy_lane(lane.second).has_value();
    });
    if (idle != current) all_.erase(idle);
    const auto made = driver_->create_lane(mask);
    if (!made) return now_;
    found = all_.insert(all_.end(), {mask, *made});
  }
  std::rotate(found, found + 1, all_.end());
  return all_.back().second;
}

// Its last piece may have to return from the unit that ran it.
void StreamLanes::end() {
  for (const auto& [mask, lane] : all_) {
    static_cast<void>(driver_->synchronise(lane));
    static_cast<void>(driver_->destroy_lane(lane));
  }
}

bool settle(Place& place, StreamLanes& lanes, SharedUnits& units, const Unfinished& unfinished) {
  const Placing& placing = *place.placing;
  if (!placing.live) {
    lanes.go_to(placing.masks[place.kernel], unfinished.pushed > 0);
    return true;
  }
  unfinished.starving = true;  // before the look: who ends afterwards wakes us
  if (unfinished.pushed > 0) return false;
  place.taken = units.take(
      [&](const std::vector<int>& running) { return placing.live(place.kernel, running); },
      unfinished.again);
  if (place.taken) lanes.go_to(*place.taken, false);
  return place.taken.has_value();
}

}  // namespace partita::remote::cpu
