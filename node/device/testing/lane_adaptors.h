// Adaptors around any LaneDriver. They refer to the driver they wrap, which must outlive them.
// Thread rule: that of the door.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "device/fault_script.h"
#include "device/lane_driver.h"

namespace partita::device {

// A lane driver in which calls go wrong after a script. Methods are named as the door names them;
// create_lane, destroy_lane, launch, synchronise, record_event, wait_event and destroy_event count
// as changing calls, what only reads is passed on.
class FaultyLaneDriver final : public LaneDriver {
 public:
  FaultyLaneDriver(LaneDriver& inner, Clock& clock, std::vector<Fault> script,
                   std::function<void()> on_death);
  Result<LaneDriverInfo> info() override;
  Result<int> create_lane(const hw::UnitMask& mask) override;
  Result<void> destroy_lane(int lane) override;
  Result<LaneState> query(int lane) override;
  Result<void> launch(int lane, Kernel kernel) override;
  Result<void> synchronise(int lane) override;
  Result<int> record_event(int lane) override;
  Result<bool> wait_event(int lane, int event) override;
  Result<bool> event_finished(int event) override;
  Result<void> destroy_event(int event) override;
  LaneGraphs* graphs() override { return inner_.graphs(); }
  LaneMemory* memory() override { return inner_.memory(); }

 private:
  template <class Run>
  auto changed(std::string_view method, const std::string& arguments, Run run) -> decltype(run());

  LaneDriver& inner_;
  FaultScript script_;
};

}  // namespace partita::device
