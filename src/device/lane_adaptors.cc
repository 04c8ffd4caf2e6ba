#include "device/lane_adaptors.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace partita::device {

FaultyLaneDriver::FaultyLaneDriver(LaneDriver& inner, Clock& clock, std::vector<Fault> script,
                                   std::function<void()> on_death)
    : inner_(inner), clock_(clock), script_(std::move(script)), on_death_(std::move(on_death)) {}

// Counts the call; the first fault of the script that it meets, or null.
const Fault* FaultyLaneDriver::fault_of(std::string_view method) {
  const std::lock_guard lock(mutex_);
  const int any = ++calls_[""], same = ++calls_[std::string(method)];
  const auto met = std::ranges::find_if(script_, [&](const Fault& fault) {
    return fault.method.empty() ? fault.call == any : fault.method == method && fault.call == same;
  });
  return met == script_.end() ? nullptr : &*met;
}

template <class Run>
auto FaultyLaneDriver::changed(std::string_view method, std::string arguments, Run run)
    -> decltype(run()) {
  const Fault* fault = fault_of(method);
  if (!fault) return run();
  clock_.sleep_ns(fault->hang_ns);
  if (fault->after_effect) (void)run();
  if (fault->dies) {
    CHECK(on_death_);
    on_death_();
  }
  return failed({fault->code, "a fault of the script", fmt::format("{}({})", method, arguments)});
}

Result<LaneDriverInfo> FaultyLaneDriver::info() { return inner_.info(); }
Result<LaneState> FaultyLaneDriver::query(int lane) { return inner_.query(lane); }
Result<bool> FaultyLaneDriver::event_finished(int event) { return inner_.event_finished(event); }

Result<int> FaultyLaneDriver::create_lane(const hw::UnitMask& mask) {
  return changed("create_lane", "mask " + hw::mask_hex(mask),
                 [&] { return inner_.create_lane(mask); });
}
Result<void> FaultyLaneDriver::destroy_lane(int lane) {
  return changed("destroy_lane", fmt::format("lane {}", lane),
                 [&] { return inner_.destroy_lane(lane); });
}
Result<void> FaultyLaneDriver::launch(int lane, Kernel kernel) {
  return changed("launch", fmt::format("lane {}", lane),
                 [&] { return inner_.launch(lane, std::move(kernel)); });
}
Result<void> FaultyLaneDriver::synchronise(int lane) {
  return changed("synchronise", fmt::format("lane {}", lane),
                 [&] { return inner_.synchronise(lane); });
}
Result<int> FaultyLaneDriver::record_event(int lane) {
  return changed("record_event", fmt::format("lane {}", lane),
                 [&] { return inner_.record_event(lane); });
}
Result<bool> FaultyLaneDriver::wait_event(int lane, int event) {
  return changed("wait_event", fmt::format("lane {}, event {}", lane, event),
                 [&] { return inner_.wait_event(lane, event); });
}
Result<void> FaultyLaneDriver::destroy_event(int event) {
  return changed("destroy_event", fmt::format("event {}", event),
                 [&] { return inner_.destroy_event(event); });
}

}  // namespace partita::device
