#include "device/testing/lane_adaptors.h"

#include <fmt/format.h>

#include <utility>

namespace partita::device {

FaultyLaneDriver::FaultyLaneDriver(LaneDriver& inner, Clock& clock, std::vector<Fault> script,
                                   std::function<void()> on_death)
    : inner_(inner), script_(clock, std::move(script), std::move(on_death)) {}

template <class Run>
auto FaultyLaneDriver::changed(std::string_view method, const std::string& arguments, Run run)
    -> decltype(run()) {
  return script_.change(
      method, [&] { return fmt::format("{}({})", method, arguments); }, std::move(run));
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
