// The probe of lanes: against a device whose times are known, and on threads.
#include "lanes/lane_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "device/lane_graphs.h"
#include "device/testing/lane_adaptors.h"
#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "drivers/cpu_mask/host_kernels.h"

namespace partita::exec {
namespace {

constexpr std::int64_t kCreateNew = 10'000, kCreateAgain = 2'000, kDestroy = 3'000;
constexpr std::int64_t kCall = 1'000, kKernel = 5'000, kGraphKernel = 500, kGraphSwitch = 640,
                       kLaneBytes = 4096;

hw::UnitMask range(int first, int last) {
  hw::UnitMask mask;
  for (int i = first; i < last; ++i) mask.set(static_cast<std::size_t>(i));
  return mask;
}

// A device in virtual time: a call takes what the constants say, a kernel kKernel and its work
// divided by its units; a lane beside which another one has kernels on the same units is `sharing`
// times slower. A new mask costs by its units, a graph also by its changes of lanes.
class TimedDevice final : public device::LaneDriver,
                          public device::LaneGraphs,
                          public device::ProbeKernels {
 public:
  static constexpr std::int64_t kSharing = 3;
  bool forgets = false;  // the note of a work-group
  int held = 0;          // events and graphs
  std::size_t lanes() const { return lanes_.size(); }
  explicit TimedDevice(ManualClock& clock) : clock_(clock) {}

  Result<device::LaneDriverInfo> info() override {
    return device::LaneDriverInfo{"timed", hw::generic_topology(1, 8), 1, 4, 100, 1000};
  }
  Result<int> create_lane(const hw::UnitMask& mask) override {
    bool& seen = seen_[mask.to_string()];
    clock_.now += seen ? kCreateAgain : kCreateNew * static_cast<std::int64_t>(mask.count());
    seen = true;
    lanes_[++next_] = {mask, clock_.now, 0};
    return next_;
  }
  Result<void> destroy_lane(int lane) override {
    clock_.now += kDestroy;
    lanes_.erase(lane);
    return {};
  }
  Result<device::LaneState> query(int lane) override {
    Lane& its = lanes_.at(lane);
    return device::LaneState{its.mask, its.end > clock_.now ? its.queued : 0};
  }
  Result<void> launch(int lane, device::Kernel kernel) override {
    clock_.now += kCall;
    Lane& its = lanes_.at(lane);
    std::int64_t slower = 1;
    for (const auto& [number, other] : lanes_)
      if (number != lane && other.end > clock_.now && (other.mask & its.mask).any())
        slower = kSharing;
    its.queued = (its.end > clock_.now ? its.queued : 0) + 1;
    its.end = std::max(its.end, clock_.now) + slower * time_of(kernel, its.mask);
    return {};
  }
  Result<void> synchronise(int lane) override {
    clock_.now = std::max(clock_.now, lanes_.at(lane).end);
    return {};
  }
  Result<int> record_event(int lane) override {
    events_.push_back(lanes_.at(lane).end);
    ++held;
    return static_cast<int>(events_.size()) - 1;
  }
  Result<bool> wait_event(int lane, int event) override {
    Lane& its = lanes_.at(lane);
    its.end = std::max(its.end, events_[static_cast<std::size_t>(event)]);
    return true;
  }
  Result<bool> event_finished(int event) override {
    return events_[static_cast<std::size_t>(event)] <= clock_.now;
  }
  Result<void> destroy_event(int) override {
    --held;
    return {};
  }
  device::LaneGraphs* graphs() override { return this; }

  Result<int> create_graph(const std::vector<device::LaneGraphNode>& nodes) override {
    graph_ns_ = kGraphKernel;
    for (int i = 1; std::cmp_less(i, nodes.size()); ++i) {
      const device::LaneGraphNode &node = nodes[static_cast<std::size_t>(i)],
                                  &before = nodes[static_cast<std::size_t>(i) - 1];
      EXPECT_THAT(node.after, testing::ElementsAre(i - 1));
      graph_ns_ += kGraphKernel + (node.lane == before.lane ? 0 : kGraphSwitch);
    }
    ++held;
    return 1;
  }
  Result<void> launch_graph(int) override { return {}; }
  Result<void> synchronise_graph(int) override {
    clock_.now += graph_ns_;
    return {};
  }
  Result<void> destroy_graph(int) override {
    --held;
    return {};
  }

  Result<device::Kernel> noting(int number, std::int64_t groups, bool) override {
    noted_[number] = groups;
    return kernel(groups, 0);
  }
  void open(int) override {}
  // One work-group of each kernel says that it ran on the last unit.
  std::vector<device::GroupNote> notes(int number) override {
    std::vector<device::GroupNote> all(static_cast<std::size_t>(noted_.at(number)));
    all.front().unit = 7;
    if (forgets) all.pop_back();
    return all;
  }
  Result<device::Kernel> computing(std::int64_t groups, std::int64_t rounds) override {
    return kernel(groups, groups * rounds);
  }
  Result<device::Kernel> reading(std::int64_t groups, std::int64_t bytes) override {
    return kernel(groups, groups * bytes);
  }
  Result<std::optional<std::int64_t>> free_memory() override {
    return std::int64_t{1 << 20} - static_cast<std::int64_t>(lanes_.size()) * kLaneBytes;
  }

 private:
  struct Lane {
    hw::UnitMask mask;
    std::int64_t end = 0, queued = 0;
  };
  device::Kernel kernel(std::int64_t groups, std::int64_t work) {
    works_.push_back(std::make_unique<std::int64_t>(work));
    return {groups, device::DeviceKernel{works_.back().get()}};
  }
  static std::int64_t time_of(const device::Kernel& kernel, const hw::UnitMask& mask) {
    const void* work = std::get<device::DeviceKernel>(kernel.code).function;
    return kKernel +
           *static_cast<const std::int64_t*>(work) / static_cast<std::int64_t>(mask.count());
  }

  ManualClock& clock_;
  std::map<std::string, bool> seen_;
  std::map<int, Lane> lanes_;
  std::map<int, std::int64_t> noted_;
  std::vector<std::int64_t> events_;
  std::vector<std::unique_ptr<std::int64_t>> works_;
  std::int64_t graph_ns_ = 0;
  int next_ = 0;
};

LaneProbeSettings settings_of(int units) {
  LaneProbeSettings settings;
  settings.rounds = 5;
  settings.masks = {range(0, 1), range(0, units / 2), range(1, units)};
  settings.families = {{"packed", {range(0, 1), range(0, units / 2), range(0, units)}}};
  settings.all = range(0, units);
  settings.half = range(0, units / 2);
  settings.rest = range(units / 2, units);
  return settings;
}

TEST(LaneProbe, TellsWhatTheDeviceDoes) {
  ManualClock clock;
  TimedDevice timed(clock);
  LaneProbeSettings settings = settings_of(8);
  const auto probe = probe_lanes(timed, timed, clock, settings);
  ASSERT_TRUE(probe);
  // The masks have 1, 4 and 7 units, as many times the cost of one.
  EXPECT_EQ(probe->create_new.median_us, 4 * kCreateNew * 1e-3);
  EXPECT_EQ(probe->create_new.most_us, 7 * kCreateNew * 1e-3);
  EXPECT_EQ(probe->create_again.median_us, kCreateAgain * 1e-3);
  EXPECT_EQ(probe->destroy.median_us, kDestroy * 1e-3);
  EXPECT_EQ(probe->lanes, 3);
  EXPECT_EQ(probe->bytes_per_lane, kLaneBytes);
  EXPECT_EQ(probe->launch.median_us, kCall * 1e-3);
  EXPECT_EQ(probe->round_trip.median_us, (kCall + kKernel) * 1e-3);
  EXPECT_NEAR(probe->queued_us, kKernel * 1e-3, 0.1);
  EXPECT_NEAR(*probe->event_switch_us, kKernel * 1e-3, 0.1);
  EXPECT_NEAR(*probe->host_switch_us, (kCall + kKernel) * 1e-3, 0.1);
  EXPECT_EQ(probe->graph_us, kGraphKernel * 1e-3);
  EXPECT_EQ(probe->graph_switch_us, (kGraphKernel + kGraphSwitch * 63 / 64) * 1e-3);
  EXPECT_EQ(timed.held, 0);
  EXPECT_EQ(timed.lanes(), 0u);
  // 64 per unit and mask of 1, 4 and 7 units; the last unit is only in the third mask. All others
  // say unit 0, which is not.
  EXPECT_EQ(probe->groups, 64 * 12);
  EXPECT_EQ(probe->groups_outside, 1 + 1 + 64 * 7 - 1);
}

TEST(LaneProbe, TimesByUnitsAndDisturbance) {
  ManualClock clock;
  TimedDevice timed(clock);
  const auto probe = probe_lanes(timed, timed, clock, settings_of(8));
  ASSERT_TRUE(probe);
  ASSERT_EQ(probe->scaling.size(), 3u);
  const double fixed = (kCall + kKernel) * 1e-3, work = probe->scaling[2].us - fixed;
  EXPECT_GE(work, 200);
  EXPECT_NEAR(probe->scaling[0].us, fixed + 8 * work, 1e-6);
  EXPECT_NEAR(probe->scaling[1].us, fixed + 2 * work, 1e-6);
  ASSERT_EQ(probe->disturbances.size(), 2u);
  for (const Disturbance& found : probe->disturbances) {
    const double alone = found.alone.median_us - fixed;
    EXPECT_NEAR(found.alone_on_half.median_us, fixed + 2 * alone, 1e-6);
    EXPECT_NEAR(found.on_halves.median_us, found.alone_on_half.median_us, 1e-6);
    EXPECT_NEAR(found.sharing_all.median_us,
                kCall * 1e-3 + TimedDevice::kSharing * (found.alone.median_us - kCall * 1e-3),
                1e-6);
  }
}

TEST(LaneProbe, OnThreadsNothingRunsOutside) {
  drivers::cpu_mask::HostKernels kernels;
  const auto driver = drivers::cpu_mask::CpuMaskDriver::open(hw::generic_topology(2, 2));
  RealClock clock;
  LaneProbeSettings settings = settings_of(4);
  settings.rounds = 2;
  const auto probe = probe_lanes(**driver, kernels, clock, settings);
  ASSERT_TRUE(probe);
  EXPECT_EQ(probe->groups, 64 * (1 + 2 + 3));
  EXPECT_EQ(probe->groups_outside, 0);
  EXPECT_FALSE(probe->bytes_per_lane || probe->graph_us);
}

// Nobody knows where it ran, or whether it did.
TEST(LaneProbe, FailsWhereAWorkGroupNotedNothing) {
  ManualClock clock;
  TimedDevice timed(clock);
  timed.forgets = true;
  const auto probe = probe_lanes(timed, timed, clock, settings_of(8));
  ASSERT_FALSE(probe);
  EXPECT_THAT(to_string(probe.error()), testing::HasSubstr("63 of 64 work-groups"));
}

TEST(LaneProbe, StopsAtTheFirstError) {
  for (const int call : {1, 7, 100, 500}) {
    drivers::cpu_mask::HostKernels kernels;
    const auto driver = drivers::cpu_mask::CpuMaskDriver::open(hw::generic_topology(1, 2));
    RealClock clock;
    ManualClock of_faults;
    device::FaultyLaneDriver faulty(**driver, of_faults,
                                    {{.method = "", .call = call, .code = ErrorCode::lost}}, {});
    LaneProbeSettings settings = settings_of(2);
    settings.rounds = 2;
    const auto probe = probe_lanes(faulty, kernels, clock, settings);
    ASSERT_FALSE(probe) << call;
    EXPECT_EQ(probe.error().code, ErrorCode::lost);
  }
}

}  // namespace
}  // namespace partita::exec
