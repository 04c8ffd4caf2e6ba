#include "server/cpu/kernel_places.h"

#include <algorithm>

#include "base/check.h"

namespace partita::remote::cpu {
namespace {

constexpr std::size_t kMostLanes = 8;

}  // namespace

std::shared_ptr<Place> KernelPlaces::next(const std::string& kernel, const server::LaunchWork& work,
                                          server::Id stream, int priority) {
  if (tenant_ == nullptr) return nullptr;
  if (placing_ == nullptr) placing_ = tenant_->placing();
  if (placing_->phases.share != nullptr) {
    const lanes::Phase phase = placing_->phases.of(priority);
    auto work_of = lanes::PhaseShare::work(placing_->phases.share, phase);
    return std::make_shared<Place>(
        Place{.placing = placing_, .phase = phase, .of_phase = std::move(work_of)});
  }
  if (placing_ != last_) {
    last_ = placing_;
    std::vector<lanes::KernelCursor::Step> steps;
    for (const std::string& name : placing_->kernels) steps.push_back({name, steps.size()});
    const std::size_t none = steps.size();
    cursor_.emplace(std::move(steps), none);
  }
  const std::size_t index = cursor_->lane_of(
      kernel, cursor_->by_shape() ? server::shape_of(work) : std::string(), stream);
  if (index == placing_->kernels.size()) tenant_->unplanned();
  return std::make_shared<Place>(Place{placing_, index, {}});
}

void KernelPlaces::request_ended(bool said) {
  if (said_ && !said) return;
  said_ = said;
  if (placing_ != nullptr) placing_->phases.request_ended();
  placing_ = nullptr;
  if (cursor_) cursor_->request_ended();
  times_.request_ended();
}

bool SessionLanes::spent() {
  std::erase_if(all_, [](const auto& lane) { return lane.second.expired(); });
  return all_.size() >= most_;
}

SessionLanes::Lane SessionLanes::take(const hw::UnitMask& mask) {
  if (!spent()) {
    if (const auto made = driver().create_lane(mask)) {
      // Its last piece may have to return from the unit that ran it.
      Lane lane(new int(*made), [units = units_](const int* number) {
        static_cast<void>(units->driver().synchronise(*number));
        static_cast<void>(units->driver().destroy_lane(*number));
        delete number;
      });
      all_.emplace_back(mask, lane);
      return lane;
    }
  }
  Lane best;
  for (const auto& [on, lane] : all_)
    if (on == mask && (best == nullptr || lane.use_count() < best.use_count() - 1))
      best = lane.lock();
  return best;
}

Result<StreamLanes> StreamLanes::open(SessionLanes& session) {
  StreamLanes lanes;
  const hw::UnitMask all = hw::all_units(session.driver().info()->topology);
  const SessionLanes::Lane lane = session.take(all);
  if (lane == nullptr)
    return failed(Error{ErrorCode::limit, "other sessions have all lanes of these units", {}});
  lanes.session_ = &session;
  lanes.now_ = *lane;
  lanes.all_ = {{all, lane}};
  return lanes;
}

bool StreamLanes::full() const {
  const auto state = session_->driver().query(now_);
  return state && state->queued >= drivers::cpu_mask::kMaxQueued / 2;
}

void StreamLanes::go_to(const hw::UnitMask& mask, bool unfinished) {
  if (all_.back().first == mask) return;
  const int lane = lane_of(mask);
  if (lane == now_) return;
  if (unfinished) {
    auto& driver = session_->driver();
    const auto event = driver.record_event(now_);
    if (!event) return;  // it stays, as where there are no more lanes
    CHECK(driver.wait_event(lane, *event).has_value());
    static_cast<void>(driver.destroy_event(*event));
  }
  now_ = lane;
}

int StreamLanes::lane_of(const hw::UnitMask& mask) {
  auto found = std::ranges::find_if(all_, [&](const auto& lane) { return lane.first == mask; });
  if (found == all_.end()) {
    const auto current = all_.end() - 1;
    const auto idle = std::find_if(all_.begin(), current, [&](const auto& lane) {
      return (all_.size() >= kMostLanes || session_->spent()) &&
             session_->driver().query(*lane.second)->queued == 0;
    });
    if (idle != current) all_.erase(idle);
    SessionLanes::Lane made = session_->take(mask);
    if (made == nullptr) return now_;
    found = all_.insert(all_.end(), {mask, std::move(made)});
  }
  std::rotate(found, found + 1, all_.end());
  return *all_.back().second;
}

bool settle(Place& place, StreamLanes& lanes, SharedUnits& units, const Unfinished& unfinished) {
  const Placing& placing = *place.placing;
  if (placing.phases.share != nullptr) {
    unfinished.starving = true;  // before the look: who ends afterwards wakes us
    if (unfinished.pushed >= kAhead) return false;
    lanes.go_to(placing.masks[placing.phases.lane_of(place.phase)], unfinished.pushed > 0);
    return true;
  }
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
