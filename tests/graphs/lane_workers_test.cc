// Workers on lanes: kernels of each in order and on their masks, whatever the others do.
#include "lanes/lane_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "device/testing/lane_adaptors.h"
#include "drivers/cpu_mask/cpu_mask_driver.h"

namespace partita::exec {
namespace {

using drivers::cpu_mask::CpuMaskDriver;

// Counts the work-groups of one worker. Every work-group of a step must find that all of the steps
// before it have ended, and none after it has begun.
struct Ledger {
  std::vector<std::int64_t> before{0};  // per step the work-groups of those before it
  std::atomic<std::int64_t> ended = 0;
  std::atomic<int> wrong_order = 0, wrong_unit = 0;

  void group(std::size_t step, const hw::UnitMask& mask) {
    const std::int64_t now = ended % before.back();
    wrong_order += now < before[step] || now >= before[step + 1];
    const int unit = drivers::cpu_mask::this_unit();
    wrong_unit += unit < 0 || !mask[static_cast<std::size_t>(unit)];
    ++ended;
  }
};

LaneWorker random_worker(Rng& rng, Ledger& ledger, std::size_t units) {
  LaneWorker worker;
  for (int m = 0; m < 3; ++m) {
    hw::UnitMask mask;
    for (std::size_t u = 0; u < units; ++u) mask[u] = rng.below(2) == 0;
    worker.masks.push_back(mask.set(rng.below(units)));
  }
  const std::uint64_t steps = 1 + rng.below(30);
  for (std::size_t s = 0; s < steps; ++s) {
    const std::size_t mask = rng.below(3);
    const auto groups = static_cast<std::int64_t>(1 + rng.below(9));
    ledger.before.push_back(ledger.before.back() + groups);
    worker.steps.push_back(
        {mask, {groups, device::HostKernel{[&ledger, s, its = worker.masks[mask]](std::int64_t) {
                  ledger.group(s, its);
                }}}});
  }
  return worker;
}

TEST(LaneWorkers, KernelsComeInOrderOnTheirMasks) {
  RealClock clock;
  for (int round = 0; round < test_rounds(60); ++round) {
    Rng rng(static_cast<std::uint64_t>(round));
    const int units = 1 + static_cast<int>(rng.below(6));
    const auto driver = CpuMaskDriver::open(hw::generic_topology(1, units));
    std::vector<std::unique_ptr<Ledger>> ledgers;
    std::vector<LaneWorker> workers;
    for (std::uint64_t w = 0; w <= rng.below(4); ++w)
      workers.push_back(random_worker(rng, *ledgers.emplace_back(std::make_unique<Ledger>()),
                                      static_cast<std::size_t>(units)));
    const auto run = run_workers(workers, **driver, clock, 3);
    ASSERT_TRUE(run);
    for (std::size_t w = 0; w < workers.size(); ++w) {
      std::int64_t switches = 0;
      for (std::size_t s = 1; s < workers[w].steps.size(); ++s)
        switches += workers[w].steps[s].mask != workers[w].steps[s - 1].mask;
      EXPECT_EQ(run->workers[w].latency_ns.size(), 3u);
      EXPECT_EQ(run->workers[w].switches, 3 * switches);
      EXPECT_LE(run->workers[w].waits, run->workers[w].switches);
      EXPECT_EQ(ledgers[w]->ended % ledgers[w]->before.back(), 0);
      EXPECT_GE(ledgers[w]->ended, 3 * ledgers[w]->before.back());
      EXPECT_EQ(ledgers[w]->wrong_order, 0);
      EXPECT_EQ(ledgers[w]->wrong_unit, 0);
    }
  }
}

TEST(LaneWorkers, WithoutStepsAndWithoutWorkers) {
  RealClock clock;
  const auto driver = CpuMaskDriver::open(hw::generic_topology(1, 1));
  EXPECT_EQ(run_workers({}, **driver, clock, 1)->workers.size(), 0u);
  const auto run = run_workers({LaneWorker{}}, **driver, clock, 2);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->workers[0].latency_ns.size(), 2u);
  EXPECT_EQ(run->lanes, 0);
}

// Whatever call fails, its error comes back.
TEST(LaneWorkers, EndWithTheFirstError) {
  RealClock clock;
  for (int call = 1; call <= 40; ++call) {
    const auto driver = CpuMaskDriver::open(hw::generic_topology(1, 2));
    ManualClock of_faults;
    device::FaultyLaneDriver faulty(**driver, of_faults,
                                    {{.method = "", .call = call, .code = ErrorCode::lost}}, {});
    Rng rng(7);
    Ledger one, two;
    const std::vector<LaneWorker> workers{random_worker(rng, one, 2), random_worker(rng, two, 2)};
    const auto run = run_workers(workers, faulty, clock, 2);
    ASSERT_FALSE(run) << call;
    EXPECT_EQ(run.error().code, ErrorCode::lost);
  }
}

TEST(LaneWorkers, LeaveNoEventWhereAWaitFails) {
  RealClock clock;
  const auto driver = CpuMaskDriver::open(hw::generic_topology(1, 2));
  ManualClock of_faults;
  device::FaultyLaneDriver faulty(
      **driver, of_faults, {{.method = "wait_event", .call = 1, .code = ErrorCode::lost}}, {});
  const device::Kernel kernel{1, device::HostKernel{[](std::int64_t) {}}};
  const LaneWorker worker{{hw::UnitMask(1), hw::UnitMask(2)}, {{0, kernel}, {1, kernel}}};
  ASSERT_FALSE(run_workers({worker}, faulty, clock, 1));
  const auto event = (*driver)->event_finished(1);
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, ErrorCode::not_found);
}

// The one that is done goes on until all are: the other one's kernel waits for that.
TEST(LaneWorkers, AreNeverAlone) {
  RealClock clock;
  const auto driver = CpuMaskDriver::open(hw::generic_topology(1, 2));
  const std::int64_t patience_ns = clock.now_ns() + 20'000'000'000;
  std::atomic<int> ran = 0;
  const device::HostKernel quick{[&](std::int64_t) { ++ran; }};
  const device::HostKernel slow{[&](std::int64_t) {
    while (ran < 10 && clock.now_ns() < patience_ns) std::this_thread::yield();
  }};
  const std::vector<LaneWorker> workers{{{hw::UnitMask(1)}, {{0, {1, quick}}, {0, {1, quick}}}},
                                        {{hw::UnitMask(2)}, {{0, {1, slow}}}}};
  const auto run = run_workers(workers, **driver, clock, 2);
  ASSERT_TRUE(run);
  EXPECT_LT(clock.now_ns(), patience_ns);
  EXPECT_EQ(run->lanes, 2);
  for (const int lane : {1, 2, 3}) EXPECT_FALSE((*driver)->query(lane));
}

// The first kernel ends only once something is queued on the second one's lane.
TEST(LaneWorkers, CountWhatHadToWait) {
  RealClock clock;
  const auto driver = CpuMaskDriver::open(hw::generic_topology(1, 2));
  std::atomic<bool> open = false;
  const device::HostKernel held{[&](std::int64_t) { open.wait(false); }};
  const device::HostKernel empty{[](std::int64_t) {}};
  const LaneWorker worker{{hw::UnitMask(1), hw::UnitMask(2)}, {{0, {1, held}}, {1, {1, empty}}}};
  const std::jthread opener([&] {
    while ((*driver)->query(2).value_or(device::LaneState{}).queued < 2) std::this_thread::yield();
    open = true;
    open.notify_all();
  });
  const auto run = run_workers({worker}, **driver, clock, 1);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->workers[0].waits, 1);
  EXPECT_EQ(run->workers[0].switches, 1);
}

TEST(LaneWorkers, EmptyALaneThatIsFull) {
  RealClock clock;
  const auto driver = CpuMaskDriver::open(hw::generic_topology(1, 2));
  for (const char* method : {"launch", "record_event", "wait_event"}) {
    ManualClock of_faults;
    device::FaultyLaneDriver full(**driver, of_faults,
                                  {{.method = method, .call = 1, .code = ErrorCode::limit}}, {});
    std::atomic<int> ran = 0;
    const device::Kernel kernel{1, device::HostKernel{[&](std::int64_t) { ++ran; }}};
    const LaneWorker worker{{hw::UnitMask(1), hw::UnitMask(2)}, {{0, kernel}, {1, kernel}}};
    EXPECT_TRUE(run_workers({worker}, full, clock, 1)) << method;
    EXPECT_EQ(ran, 2) << method;
  }
}

}  // namespace
}  // namespace partita::exec
