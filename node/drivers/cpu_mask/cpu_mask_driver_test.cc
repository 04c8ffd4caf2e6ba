// The executor on threads: the suite of the door, random programs against the order that they ask
// for, and what this driver adds.
#include "drivers/cpu_mask/cpu_mask_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "device/testing/lane_adaptors.h"
#include "device/testing/lane_conformance.h"
#include "drivers/cpu_mask/host_kernels.h"

namespace partita::drivers::cpu_mask {
namespace {

using device::GroupNote;
using device::HostKernel;

std::unique_ptr<CpuMaskDriver> opened(int clusters, int units) {
  auto driver = CpuMaskDriver::open(hw::generic_topology(clusters, units));
  EXPECT_TRUE(driver.has_value());
  return *std::move(driver);
}

hw::UnitMask mask_of(std::initializer_list<std::size_t> units) {
  hw::UnitMask mask;
  for (const std::size_t unit : units) mask.set(unit);
  return mask;
}

class Conformance : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Conformance, EverySentenceOfTheDoor) {
  HostKernels notes;  // outlives the driver, whose kernels write it
  const auto driver = opened(GetParam().first, GetParam().second);
  EXPECT_THAT(device::check_lanes(*driver, notes), testing::IsEmpty());
  EXPECT_EQ(driver->outside(), 0);
}
INSTANTIATE_TEST_SUITE_P(Topologies, Conformance,
                         testing::Values(std::pair(1, 1), std::pair(1, 2), std::pair(2, 3),
                                         std::pair(4, 15)));

// Two waiting work-groups have both units until they see that a third is there, of another lane.
TEST(WorkGroups, ComeAgainOnceAnotherLaneHadItsTurn) {
  const auto driver = opened(1, 2);
  const int waits = *driver->create_lane(mask_of({0, 1}));
  const int told = *driver->create_lane(mask_of({0, 1}));
  std::atomic<int> said = 0, ended = 0, begun = 0;
  const auto wait = [&](std::int64_t) {
    ++begun;
    while (said == 0 && !driver->wanted()) {
    }
    if (said == 0) return come_again();
    ++ended;
  };
  ASSERT_TRUE(driver->launch(waits, {2, HostKernel{wait}}));
  while (begun < 2) std::this_thread::yield();
  ASSERT_TRUE(driver->launch(told, {1, HostKernel{[&](std::int64_t) { ++said; }}}));
  ASSERT_TRUE(driver->synchronise(waits));
  EXPECT_EQ(said, 1);
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(driver->outside(), 0);
  const auto ran = *driver->ran(waits);
  EXPECT_EQ(std::accumulate(ran.begin(), ran.end(), std::int64_t{0}), 2);
}

// ---- faults ----

TEST(FaultyLanes, WithoutAScriptConform) {
  HostKernels notes;
  const auto driver = opened(1, 3);
  ManualClock clock;
  device::FaultyLaneDriver faulty(*driver, clock, {}, {});
  EXPECT_THAT(device::check_lanes(faulty, notes), testing::IsEmpty());
}

TEST(FaultyLanes, FailBeforeOrAfterTheEffect) {
  const auto driver = opened(1, 2);
  ManualClock clock;
  const std::vector<device::Fault> script{
      {.method = "launch", .call = 2, .code = ErrorCode::lost, .hang_ns = 5},
      {.method = "launch", .call = 3, .code = ErrorCode::timeout, .after_effect = true}};
  device::FaultyLaneDriver faulty(*driver, clock, script, {});
  const int lane = *faulty.create_lane(mask_of({1}));
  std::atomic<int> ran = 0;
  const device::Kernel kernel{1, HostKernel{[&](std::int64_t) { ++ran; }}};
  EXPECT_TRUE(faulty.launch(lane, kernel));
  EXPECT_EQ(faulty.launch(lane, kernel).error().code, ErrorCode::lost);
  EXPECT_EQ(clock.now, 5);
  EXPECT_EQ(faulty.launch(lane, kernel).error(),
            (Error{ErrorCode::timeout, "a fault of the script", "launch(lane 1)"}));
  EXPECT_TRUE(faulty.synchronise(lane));
  EXPECT_EQ(ran, 2);
}

// The suite finds what a driver does otherwise: each fault, wherever it hits, is a violation.
TEST(FaultyLanes, TheSuiteFindsEveryFault) {
  for (int i = 0; i < test_rounds(20); ++i) {
    const int call = 1 + 7 * i;
    HostKernels notes;
    const auto driver = opened(1, 2);
    ManualClock clock;
    device::FaultyLaneDriver faulty(*driver, clock, {{.method = "", .call = call}}, {});
    EXPECT_THAT(device::check_lanes(faulty, notes), testing::Not(testing::IsEmpty()))
        << "call " << call;
  }
}

// ---- random programs ----

// A kernel of a program: where it runs, and what has to end before it begins.
struct Planned {
  int lane = 0;
  std::int64_t groups = 0;
  std::vector<int> after;
};

// Lanes with masks of their own, kernels on them, and waits for events of other lanes, as they are
// given to a driver; what order that asks for is noted beside it.
class Program {
 public:
  Program(CpuMaskDriver& driver, std::uint64_t seed) : driver_(driver), rng_(seed) {
    const auto units = static_cast<std::size_t>(driver.info()->topology.units());
    for (std::uint64_t i = 0; i <= rng_.below(6); ++i) {
      hw::UnitMask mask;
      mask.set(rng_.below(units));
      for (std::size_t u = 0; u < units; ++u)
        if (rng_.below(3) == 0) mask.set(u);
      masks_.push_back(mask);
      lanes_.push_back(*driver.create_lane(mask));
      before_.emplace_back();
    }
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const std::size_t lane = rng_.below(lanes_.size());
      if (rng_.below(3) > 0) {
        launch(lane);
      } else if (rng_.below(2) == 0 || events_.empty()) {
        events_.emplace_back(*driver_.record_event(lanes_[lane]), before_[lane]);
      } else {
        const auto& [event, kernels] = events_[rng_.below(events_.size())];
        waited_ += *driver_.wait_event(lanes_[lane], event) ? 1 : 0;
        before_[lane].insert(before_[lane].end(), kernels.begin(), kernels.end());
      }
      if (rng_.below(20) == 0) {
        ASSERT_TRUE(driver_.synchronise(lanes_[lane]));
      }
    }
    for (const int lane : lanes_) ASSERT_TRUE(driver_.synchronise(lane));
  }

  // Every work-group once, on its mask, and after what comes before its kernel.
  void check() {
    std::vector<std::int64_t> begin, end;
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      std::vector<GroupNote> ran = notes_.notes(static_cast<int>(k));
      const Planned& planned = kernels_[k];
      ASSERT_EQ(static_cast<std::int64_t>(ran.size()), planned.groups);
      begin.push_back(ran.front().begin);
      end.push_back(0);
      for (std::size_t g = 0; g < ran.size(); ++g) {
        ASSERT_EQ(ran[g].group, static_cast<std::int64_t>(g));
        ASSERT_GE(ran[g].unit, 0);
        ASSERT_TRUE(
            masks_[static_cast<std::size_t>(planned.lane)][static_cast<std::size_t>(ran[g].unit)]);
        begin.back() = std::min(begin.back(), ran[g].begin);
        end.back() = std::max(end.back(), ran[g].end);
      }
      for (const int before : planned.after)
        ASSERT_LT(end[static_cast<std::size_t>(before)], begin.back());
    }
  }

  // The driver's own counts agree with what the work-groups noted.
  void check_counts() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      std::vector<std::int64_t> noted(static_cast<std::size_t>(driver_.info()->topology.units()));
      for (std::size_t k = 0; k < kernels_.size(); ++k)
        if (kernels_[k].lane == static_cast<int>(lane))
          for (const GroupNote& note : notes_.notes(static_cast<int>(k)))
            ++noted[static_cast<std::size_t>(note.unit)];
      EXPECT_EQ(*driver_.ran(lanes_[lane]), noted);
    }
  }

  void end() {
    for (const int lane : lanes_) ASSERT_TRUE(driver_.destroy_lane(lane));
    for (const auto& [event, kernels] : events_) ASSERT_TRUE(driver_.destroy_event(event));
  }

  int waited() const { return waited_; }

 private:
  void launch(std::size_t lane) {
    const int number = static_cast<int>(kernels_.size());
    const auto groups = 1 + static_cast<std::int64_t>(rng_.below(rng_.below(8) == 0 ? 300 : 12));
    kernels_.push_back({static_cast<int>(lane), groups, before_[lane]});
    // What came before this kernel comes before whatever this kernel comes before.
    before_[lane] = {number};
    ASSERT_TRUE(driver_.launch(lanes_[lane], *notes_.noting(number, groups, false)));
  }

  CpuMaskDriver& driver_;
  Rng rng_;
  HostKernels notes_;
  std::vector<hw::UnitMask> masks_;
  std::vector<int> lanes_;
  std::vector<std::vector<int>> before_;                  // per lane: what comes before its next
  std::vector<std::pair<int, std::vector<int>>> events_;  // and the kernels it stands for
  std::vector<Planned> kernels_;
  int waited_ = 0;
};

TEST(RandomPrograms, RunEveryWorkGroupOnceOnItsMaskInOrder) {
  int waited = 0;
  for (const int units : {1, 3, 8}) {
    const auto driver = opened(1, units);
    for (int seed = 0; seed < test_rounds(150); ++seed) {
      SCOPED_TRACE(testing::Message() << units << " units, seed " << seed);
      Program program(*driver, static_cast<std::uint64_t>(seed));
      program.run(60);
      program.check();
      program.check_counts();
      program.end();
      waited += program.waited();
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(driver->outside(), 0);
  }
  EXPECT_GT(waited, 0);
}

// Several threads give programs to one driver at the same time.
TEST(RandomPrograms, FromSeveralThreads) {
  const auto driver = opened(2, 3);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&driver, t] {
      for (int round = 0; round < test_rounds(60); ++round) {
        Program program(*driver, 1'000 * t + static_cast<std::uint64_t>(round));
        program.run(40);
        program.check();
        program.end();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(driver->outside(), 0);
}

// ---- the proof by number ----

TEST(CpuMask, ManyWorkGroupsNoneOutside) {
  const auto driver = opened(4, 4);
  const std::vector<hw::UnitMask> masks{mask_of({0, 1, 2, 3, 4}), mask_of({4, 5}),
                                        mask_of({0, 5, 10, 15}), mask_of({7})};
  const int each = test_rounds(100);
  std::atomic<std::int64_t> ran = 0, outside = 0;
  std::vector<int> lanes;
  for (const hw::UnitMask& mask : masks) {
    lanes.push_back(*driver->create_lane(mask));
    const HostKernel kernel{[&](std::int64_t) {
      const int unit = this_unit();
      if (unit < 0 || !mask[static_cast<std::size_t>(unit)]) ++outside;
      ran.fetch_add(1, std::memory_order_relaxed);
    }};
    for (int i = 0; i < each; ++i) ASSERT_TRUE(driver->launch(lanes.back(), {1'000, kernel}));
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    ASSERT_TRUE(driver->synchronise(lanes[i]));
    const std::vector<std::int64_t> counts = *driver->ran(lanes[i]);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), 1'000 * each);
    for (std::size_t unit = 0; unit < counts.size(); ++unit) {
      if (!masks[i][unit]) {
        EXPECT_EQ(counts[unit], 0) << "unit " << unit;
      }
    }
  }
  EXPECT_EQ(ran, 4'000 * each);
  EXPECT_EQ(outside, 0);
  EXPECT_EQ(driver->outside(), 0);
}

// ---- concurrency ----

// Work-groups that wait for each other: they end only if every unit of the mask runs one.
TEST(CpuMask, AllUnitsOfAMaskRunAtTheSameTime) {
  const auto driver = opened(1, 12);
  const int lane = *driver->create_lane(mask_of({1, 4, 5, 9, 11}));
  std::barrier together(5);
  for (int i = 0; i < test_rounds(200); ++i)
    ASSERT_TRUE(
        driver->launch(lane, {5, HostKernel{[&](std::int64_t) { together.arrive_and_wait(); }}}));
  ASSERT_TRUE(driver->synchronise(lane));
  const std::vector<std::int64_t> counts = *driver->ran(lane);
  for (const std::size_t unit : {1u, 4u, 5u, 9u, 11u}) EXPECT_EQ(counts[unit], test_rounds(200));
}

// Work-groups of overlapping lanes that wait for each other. Each lane has more units than the
// others can hold.
TEST(CpuMask, OverlappingLanesRunAtTheSameTime) {
  const auto driver = opened(1, 4);
  const std::vector<int> lanes{*driver->create_lane(mask_of({0, 1, 2})),
                               *driver->create_lane(mask_of({1, 2, 3})),
                               *driver->create_lane(mask_of({0, 2, 3}))};
  std::barrier together(3);
  const HostKernel kernel{[&](std::int64_t) { together.arrive_and_wait(); }};
  for (int i = 0; i < test_rounds(200); ++i) {
    for (const int lane : lanes) ASSERT_TRUE(driver->launch(lane, {1, kernel}));
    for (const int lane : lanes) ASSERT_TRUE(driver->synchronise(lane));
  }
}

// A unit that two lanes share does work for both: when one has done half, so has the other.
TEST(CpuMask, AUnitServesItsLanesFairly) {
  const auto driver = opened(1, 1);
  const int gate = *driver->create_lane(mask_of({0}));
  const std::vector<int> lanes{*driver->create_lane(mask_of({0})),
                               *driver->create_lane(mask_of({0}))};
  constexpr std::array<std::int64_t, 2> kGroupNs{20'000, 200'000};
  constexpr std::int64_t kKernelNs = 40'000'000;
  HostKernels notes;
  ASSERT_TRUE(driver->launch(gate, *notes.noting(0, 1, true)));
  const auto now = [] { return RealClock().now_ns(); };
  // Of one thread, the unit. Times are of the wall, each from the end of the work-group before.
  std::array<std::int64_t, 2> given{}, left{kKernelNs / kGroupNs[0], kKernelNs / kGroupNs[1]};
  std::int64_t furthest = 0, longest = 0, last = 0;
  for (const std::size_t i : {0u, 1u}) {
    const HostKernel kernel{[&, i](std::int64_t) {
      for (const std::int64_t begin = now(); now() - begin < kGroupNs[i];) {
      }
      const std::int64_t before = std::exchange(last, now());
      if (before == 0) return;
      given[i] += last - before;
      longest = std::max(longest, last - before);
      if (--left[i] > 1 && left[1 - i] > 1)
        furthest = std::max(furthest, std::abs(given[0] - given[1]));
    }};
    ASSERT_TRUE(driver->launch(lanes[i], {left[i], kernel}));
  }
  notes.open(0);
  for (const int lane : lanes) ASSERT_TRUE(driver->synchronise(lane));
  EXPECT_LE(furthest, 2 * (longest + kMaxBatchNs));
  EXPECT_GT(furthest, 0);
}

// Each work-group queues the next kernel, on its own lane or, behind an event, on another one.
TEST(CpuMask, WorkGroupsMayLaunch) {
  const auto driver = opened(1, 2);
  const std::array<int, 2> lanes{*driver->create_lane(mask_of({0})),
                                 *driver->create_lane(mask_of({0, 1}))};
  constexpr int kKernels = 2'000;
  std::atomic<int> ran = 0, running = 0, together = 0;
  std::function<void(std::int64_t)> group = [&](std::int64_t number) {
    together += ++running > 1;
    EXPECT_EQ(ran, number);
    const int next = ++ran;
    if (next < kKernels) {
      const std::size_t here = number / 3 % 2, there = next / 3 % 2;
      if (here != there) {
        const int event = *driver->record_event(lanes[here]);
        EXPECT_TRUE(*driver->wait_event(lanes[there], event));
        EXPECT_TRUE(driver->destroy_event(event));
      }
      const HostKernel kernel{[&group, next](std::int64_t) { group(next); }};
      EXPECT_TRUE(driver->launch(lanes[there], {1, kernel}));
    }
    --running;
  };
  ASSERT_TRUE(driver->launch(lanes[0], {1, HostKernel{group}}));
  while (ran < kKernels) std::this_thread::yield();
  for (const int lane : lanes) ASSERT_TRUE(driver->synchronise(lane));
  EXPECT_EQ(together, 0);
}

// ---- its life ----

TEST(CpuMask, TheEndOfTheDriverFinishesWhatIsQueued) {
  std::atomic<int> ran = 0;
  {
    const auto driver = opened(2, 2);
    const int one = *driver->create_lane(mask_of({0, 1})), two = *driver->create_lane(mask_of({3}));
    const HostKernel kernel{[&](std::int64_t) { ++ran; }};
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(driver->launch(one, {20, kernel}));
      ASSERT_TRUE(driver->wait_event(two, *driver->record_event(one)));
      ASSERT_TRUE(driver->launch(two, {20, kernel}));
    }
  }
  EXPECT_EQ(ran, 2'000);
}

TEST(CpuMask, ATopologyWithoutUnitsIsRefused) {
  const auto driver = CpuMaskDriver::open(hw::Topology{});
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::invalid_argument);
}

TEST(CpuMask, NoThreadOfOthersIsAUnit) { EXPECT_EQ(this_unit(), -1); }

TEST(CpuMask, AThrowingWorkGroupEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto throwing = [] {
    const auto driver = opened(1, 1);
    const int lane = *driver->create_lane(mask_of({0}));
    (void)driver->launch(lane, {1, HostKernel{[](std::int64_t) { throw 1; }}});
    (void)driver->synchronise(lane);
  };
  EXPECT_DEATH(throwing(), "terminate");
}

}  // namespace
}  // namespace partita::drivers::cpu_mask
