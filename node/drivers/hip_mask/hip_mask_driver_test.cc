// The door on masked streams, over the simulated HIP runtime of fake/: the suite on four kinds of
// boards, masks in words, what is refused, faults of every call, threads; and on a real GPU where
// there is one.
#include "drivers/hip_mask/hip_mask_driver.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "device/testing/lane_adaptors.h"
#include "device/testing/lane_conformance.h"
#include "drivers/hip_mask/hip_kernels.h"
#include "drivers/hip_mask/testing/fake_hip.h"

namespace partita::drivers::hip_mask {
namespace {

using fake::Board;
using testing::HasSubstr;
using testing::IsEmpty;

template <class Function>
Function* control(const char* name) {
  static void* const handle = dlopen(PARTITA_HIP_FAKE, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(handle, name));
}
int alive() { return control<decltype(fake::fake_hip_alive)>("fake_hip_alive")(); }
std::string violation() {
  return control<decltype(fake::fake_hip_violation)>("fake_hip_violation")();
}
int created() { return control<decltype(fake::fake_hip_created)>("fake_hip_created")(); }
void fail(int call, abi::Status status) {
  control<decltype(fake::fake_hip_fail)>("fake_hip_fail")(call, static_cast<int>(status));
}
bool failed_now() { return control<decltype(fake::fake_hip_failed)>("fake_hip_failed")(); }
void take(const std::vector<std::uint32_t>& words) {
  control<decltype(fake::fake_hip_take)>("fake_hip_take")(words.data(),
                                                          static_cast<int>(words.size()));
}
std::vector<std::uint32_t> last_mask(int words) {
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(words));
  control<decltype(fake::fake_hip_last_mask)>("fake_hip_last_mask")(mask.data(), words);
  return mask;
}

Board board_named(const char* name, int gfx, int xccs, int engines, int arrays) {
  Board board{.gfx = gfx, .xccs = xccs, .engines = engines, .arrays = arrays};
  std::strncpy(board.name, name, sizeof board.name - 1);
  return board;
}

Board mi50() { return {}; }
// 16 CUs per engine on the die, another one not in use in each.
Board mi100() {
  Board board = board_named("AMD Instinct MI100", 90008, 1, 8, 1);
  for (int engine = 0; engine < 8; ++engine) board.in_use[engine] = 0xFFFF & ~(1u << 2 * engine);
  return board;
}
// 10 CUs per engine on each die, two not in use, in engines that differ from die to die.
Board mi300x() {
  Board board = board_named("AMD Instinct MI300X", 90402, 8, 4, 1);
  for (int xcc = 0; xcc < 8; ++xcc)
    for (int engine = 0; engine < 4; ++engine)
      board.in_use[4 * xcc + engine] = (xcc + engine) % 2 == 0 ? 0x3FF : 0x3FF & ~(1u << xcc);
  return board;
}
// 6 engines of 2 arrays of 5 WGPs on the die, of which one is not in use.
Board gfx1100() {
  Board board = board_named("AMD Radeon RX 7900 XTX", 110000, 1, 6, 2);
  for (int array = 0; array < 12; ++array) board.in_use[array] = 0x3FF & ~(3u << 2 * (array % 5));
  return board;
}

// The simulated runtime with this board, and the kernel driver's word about it.
class HipMask : public testing::Test {
 protected:
  void SetUp() override { use(mi50()); }
  void TearDown() override {
    EXPECT_EQ(alive(), 0);
    EXPECT_EQ(violation(), "");
    std::filesystem::remove_all(options_.kfd);
  }

  void use(const Board& board) {
    control<decltype(fake::fake_hip_board)>("fake_hip_board")(&board);
    options_ = {.vendor_library = PARTITA_HIP_FAKE};
    options_.kfd = testing::TempDir() + "hip_mask_kfd_" + std::to_string(getpid());
    std::filesystem::create_directories(options_.kfd + "/1");
    int cus = 0;
    for (int i = 0; i < board.xccs * board.engines * board.arrays; ++i)
      cus += std::popcount(board.in_use[i]);
    std::ofstream(options_.kfd + "/1/properties")
        << "simd_count " << 4 * cus << "\nsimd_per_cu 4\narray_count "
        << board.xccs * board.engines * board.arrays << "\nsimd_arrays_per_engine " << board.arrays
        << "\ngfx_target_version " << board.gfx << "\nlocation_id " << 0x4300 << "\nnum_xcc "
        << board.xccs << "\n";
  }

  std::unique_ptr<HipMaskDriver> opened() const {
    auto driver = HipMaskDriver::open(options_);
    if (!driver) ADD_FAILURE() << to_string(driver.error());
    return driver ? *std::move(driver) : nullptr;
  }

  static std::unique_ptr<HipKernels> kernels(HipMaskDriver& driver) {
    auto kernels = HipKernels::open(driver);
    if (!kernels) ADD_FAILURE() << to_string(kernels.error());
    return kernels ? *std::move(kernels) : nullptr;
  }

  HipMaskOptions options_;
};

hw::UnitMask hip_mask_driver_units(std::initializer_list<std::pair<int, int>> ranges) {
  hw::UnitMask mask;
  for (const auto& [first, count] : ranges)
    for (int i = 0; i < count; ++i) mask.set(static_cast<std::size_t>(first + i));
  return mask;
}

// ---- the suite ----

class Conformance : public HipMask, public testing::WithParamInterface<Board (*)()> {};

TEST_P(Conformance, EverySentenceOfTheDoor) {
  use(GetParam()());
  const auto driver = opened();
  const auto probes = kernels(*driver);
  ASSERT_TRUE(driver && probes);
  EXPECT_THAT(device::check_lanes(*driver, *probes), IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(Boards, Conformance, testing::Values(mi50, mi100, mi300x, gfx1100));

TEST_F(HipMask, TopologiesOfTheBoards) {
  for (const auto& [board, name, atom] :
       {std::tuple(mi50(), "MI50", 1), std::tuple(mi100(), "MI100", 1),
        std::tuple(mi300x(), "MI300X", 1), std::tuple(gfx1100(), "6x16", 2)}) {
    use(board);
    const auto info = *opened()->info();
    EXPECT_EQ(info.topology.name, name);
    EXPECT_EQ(info.atom, atom);
  }
}

TEST_F(HipMask, FaultyLanesWithoutAScriptConformAndEveryFaultIsFound) {
  const auto driver = opened();
  const auto probes = kernels(*driver);
  ManualClock clock;
  device::FaultyLaneDriver none(*driver, clock, {}, {});
  EXPECT_THAT(device::check_lanes(none, *probes), IsEmpty());
  for (int i = 0; i < test_rounds(6); ++i) {
    const int call = 1 + 23 * i;
    const auto again = opened();
    const auto notes = kernels(*again);
    device::FaultyLaneDriver faulty(*again, clock, {{.method = "", .call = call}}, {});
    EXPECT_THAT(device::check_lanes(faulty, *notes), testing::Not(IsEmpty())) << "call " << call;
  }
}

// ---- masks ----

TEST_F(HipMask, MasksInWords) {
  const auto driver = opened();
  EXPECT_TRUE(driver->create_lane(hip_mask_driver_units({{0, 15}, {15, 4}})));  // packed
  EXPECT_EQ(last_mask(2), (std::vector<std::uint32_t>{0x11113333, 0x01111111}));
  EXPECT_TRUE(driver->create_lane(
      hip_mask_driver_units({{0, 60}})));  // all hip_mask_driver_units are a mask too
  EXPECT_EQ(last_mask(2), (std::vector<std::uint32_t>{0xFFFFFFFF, 0x0FFFFFFF}));
}

TEST_F(HipMask, MasksOfPairsInWords) {
  use(gfx1100());
  const auto driver = opened();
  // The first two WGPs of the second of six engines: bits 2, 3 and 14, 15.
  EXPECT_TRUE(driver->create_lane(hip_mask_driver_units({{16, 4}})));
  EXPECT_EQ(last_mask(3), (std::vector<std::uint32_t>{0x0000C00C, 0, 0}));
  const auto half = driver->create_lane(hip_mask_driver_units({{16, 3}}));
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(half.error().message, HasSubstr("units 18 and 19 are one work-group processor"));
}

// HIP would take it, and the seven other dies would run unmasked.
TEST_F(HipMask, AMaskThatLeavesADieOutIsRefused) {
  use(mi300x());
  const auto driver = opened();
  const auto probes = kernels(*driver);
  ASSERT_TRUE(driver && probes);
  for (const auto& [mask, die] : {std::pair(hip_mask_driver_units({{0, 1}}), 1),
                                  std::pair(hip_mask_driver_units({{38, 266}}), 0),
                                  std::pair(hip_mask_driver_units({{0, 266}}), 7)}) {
    const auto lane = driver->create_lane(mask);
    ASSERT_FALSE(lane);
    EXPECT_EQ(lane.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(lane.error().message, HasSubstr("XCD " + std::to_string(die) + " has no unit"));
  }
  hw::UnitMask one_each;
  for (std::size_t die = 0; die < 8; ++die) one_each.set(38 * die);
  EXPECT_TRUE(driver->create_lane(one_each));
  EXPECT_EQ(last_mask(10).front(), 0xFFu);
}

TEST_F(HipMask, AMaskThatHipReducesIsRefused) {
  take({0x00000010, 0});  // CU 1 of engine 0, unit 1
  const auto driver = opened();
  const auto reduced = driver->create_lane(hip_mask_driver_units({{0, 3}}));
  ASSERT_FALSE(reduced);
  EXPECT_EQ(reduced.error().code, ErrorCode::environment);
  EXPECT_THAT(reduced.error().message,
              HasSubstr("has mask 0x00000101 0x00000000 instead of 0x00000111 0x00000000"));
  EXPECT_TRUE(driver->create_lane(hip_mask_driver_units({{15, 3}})));
}

TEST_F(HipMask, MasksOfTheEnvironmentAreRefused) {
  for (const char* name : {"HSA_CU_MASK", "ROC_GLOBAL_CU_MASK"}) {
    setenv(name, "0:0-15", 1);
    const auto driver = HipMaskDriver::open(options_);
    unsetenv(name);
    ASSERT_FALSE(driver);
    EXPECT_EQ(driver.error().code, ErrorCode::environment);
    EXPECT_THAT(driver.error().message, HasSubstr(name));
  }
}

TEST_F(HipMask, StreamsAreReusedAndBounded) {
  const auto driver = opened();
  for (int round = 0; round < 10; ++round) {
    const auto lane = driver->create_lane(hip_mask_driver_units({{round % 2, 5}}));
    ASSERT_TRUE(lane);
    ASSERT_TRUE(driver->destroy_lane(*lane));
  }
  EXPECT_EQ(created(), 2);
  const int first = *driver->create_lane(hip_mask_driver_units({{0, 5}})),
            second = *driver->create_lane(hip_mask_driver_units({{0, 5}}));
  EXPECT_EQ(created(), 3);  // one of them is taken
  EXPECT_TRUE(driver->destroy_lane(first) && driver->destroy_lane(second));
  for (int unit = 0; unit < 60; ++unit)
    ASSERT_TRUE(driver->destroy_lane(*driver->create_lane(hip_mask_driver_units({{unit, 1}}))));
  EXPECT_EQ(alive(), kMaxLanes);
}

// ---- what is unfinished ----

// Until the count is `wanted`; false after two seconds.
bool counts(HipMaskDriver& driver, int lane, std::int64_t wanted) {
  for (int i = 0; i < 2000; ++i) {
    if (driver.query(lane)->queued == wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// Random kernels, records and waits, one of the kernels closed: what is before it ends, it and what
// is behind it does not.
TEST_F(HipMask, CountsWhatIsUnfinished) {
  const auto driver = opened();
  const auto probes = kernels(*driver);
  Rng rng(5);
  int number = 0;
  for (int round = 0; round < test_rounds(20); ++round) {
    const int lane = *driver->create_lane(hip_mask_driver_units({{0, 4}})),
              gate = *driver->create_lane(hip_mask_driver_units({{9, 1}}));
    const int shut = number++;
    ASSERT_TRUE(driver->launch(gate, *probes->noting(shut, 1, true)));
    const int awaited = *driver->record_event(gate);
    std::vector<int> events{awaited};
    const std::uint64_t before = rng.below(40), behind = rng.below(40);
    int closed = -1;
    for (std::uint64_t i = 0; i <= before + behind; ++i) {
      const std::uint64_t kind = rng.below(3);
      if (i == before || kind == 0) {
        if (i == before) closed = number;
        ASSERT_TRUE(driver->launch(lane, *probes->noting(number++, 2, i == before)));
      } else if (kind == 1 || i < before) {
        events.push_back(*driver->record_event(lane));
      } else {
        ASSERT_TRUE(*driver->wait_event(lane, awaited));
      }
    }
    EXPECT_TRUE(counts(*driver, lane, static_cast<std::int64_t>(1 + behind))) << "round " << round;
    EXPECT_EQ(driver->destroy_lane(lane).error().code, ErrorCode::in_use);
    for (const int kernel : {shut, closed}) probes->open(kernel);
    EXPECT_TRUE(counts(*driver, lane, 0) && counts(*driver, gate, 0));
    EXPECT_TRUE(driver->destroy_lane(lane) && driver->destroy_lane(gate));
    for (const int event : events) EXPECT_TRUE(driver->destroy_event(event));
  }
}

TEST_F(HipMask, FewerMarksCountCoarser) {
  options_.mark_every = 8;
  const auto driver = opened();
  const auto probes = kernels(*driver);
  const int lane = *driver->create_lane(hip_mask_driver_units({{0, 4}}));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(driver->launch(lane, *probes->noting(i, 1, false)));
  ASSERT_TRUE(driver->launch(lane, *probes->noting(10, 1, true)));
  EXPECT_TRUE(counts(*driver, lane, 3));  // the eighth has a mark; the ninth and tenth are finished
  probes->open(10);
  EXPECT_TRUE(counts(*driver, lane, 0));
  EXPECT_TRUE(driver->destroy_lane(lane));
}

// ---- what is refused ----

TEST_F(HipMask, WithoutHipThereIsNoDriver) {
  for (const auto& [library, sentence] :
       {std::pair("/nowhere/libamdhip64.so", "is ROCm installed?"),
        std::pair("libm.so.6", "has no hipGetDeviceCount; HIP 5 or later is needed")}) {
    const auto driver = HipMaskDriver::open({.vendor_library = library});
    ASSERT_FALSE(driver);
    EXPECT_EQ(driver.error().code, ErrorCode::environment);
    EXPECT_THAT(driver.error().message, HasSubstr(sentence));
  }
}

TEST_F(HipMask, WithoutAGpuThereIsNoDriver) {
  options_.device = 1;
  const auto second = HipMaskDriver::open(options_);
  ASSERT_FALSE(second);
  EXPECT_EQ(to_string(second.error()), "open(device 1): HIP sees 1 GPUs, numbered from 0");
  Board none;
  none.devices = 0;
  use(none);
  const auto driver = HipMaskDriver::open(options_);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ErrorCode::environment);
  EXPECT_THAT(driver.error().message, HasSubstr("may this user open /dev/kfd"));
}

TEST_F(HipMask, KernelsThatDoNotCompile) {
  Board board;
  board.compiles = false;
  use(board);
  const auto driver = opened();
  const auto probes = HipKernels::open(*driver);
  ASSERT_FALSE(probes);
  EXPECT_EQ(probes.error().code, ErrorCode::environment);
  EXPECT_THAT(probes.error().message, HasSubstr("no such thing"));
}

TEST_F(HipMask, KernelsOfThreadsAndTooManyGroups) {
  const auto driver = opened();
  const auto probes = kernels(*driver);
  const int lane = *driver->create_lane(hip_mask_driver_units({{0, 1}}));
  const auto host = driver->launch(lane, {1, device::HostKernel{[](std::int64_t) {}}});
  ASSERT_FALSE(host);
  EXPECT_EQ(host.error().code, ErrorCode::not_supported);
  device::Kernel kernel = *probes->computing(1, 1);
  kernel.groups = std::int64_t{1} << 24;  // of 256 threads: 2^32
  EXPECT_EQ(driver->launch(lane, kernel).error().code, ErrorCode::invalid_argument);
}

// ---- probes ----

TEST_F(HipMask, ProbesThatWork) {
  const auto driver = opened();
  const auto probes = kernels(*driver);
  const int lane = *driver->create_lane(hip_mask_driver_units({{0, 8}}));
  const std::int64_t before = **probes->free_memory();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(driver->launch(lane, *probes->computing(100, 1'000)));
    ASSERT_TRUE(driver->launch(lane, *probes->reading(100, 10'000)));
  }
  EXPECT_TRUE(driver->synchronise(lane));
  EXPECT_EQ(before - **probes->free_memory(), std::int64_t{1} << 30);
}

// ---- faults ----

// One use of everything; what it answered first instead of success.
std::optional<Error> use_all(const HipMaskOptions& options) {
  const auto driver = HipMaskDriver::open(options);
  if (!driver) return driver.error();
  const auto probes = HipKernels::open(**driver);
  if (!probes) return probes.error();
  const auto one = (*driver)->create_lane(hip_mask_driver_units({{0, 4}})),
             two = (*driver)->create_lane(hip_mask_driver_units({{4, 4}}));
  if (!one || !two) return one ? two.error() : one.error();
  const auto closed = (*probes)->noting(0, 1, true), open = (*probes)->noting(1, 30, false);
  if (!closed || !open) return closed ? open.error() : closed.error();
  std::optional<Error> first;
  const auto step = [&](const auto& result) {
    if (!result && !first) first = result.error();
    return result.has_value();
  };
  step((*driver)->launch(*one, *closed));
  const auto event = (*driver)->record_event(*one);
  if (step(event)) {
    step((*driver)->wait_event(*two, *event));
    step((*driver)->event_finished(*event));
  }
  step((*driver)->launch(*two, *open));
  (*probes)->open(0);
  for (const int lane : {*one, *two}) {
    step((*driver)->query(lane));
    step((*driver)->synchronise(lane));
  }
  if (event) step((*driver)->destroy_event(*event));
  if (!first && (*probes)->notes(1).size() != 30) return Error{ErrorCode::lost, "no notes", {}};
  step((*driver)->destroy_lane(*one));
  return first;
}

// Whichever call of HIP fails: somebody hears of it, or nothing was lost with it; nothing leaks.
TEST_F(HipMask, EveryCallMayFail) {
  int heard = 0, call = 1;
  for (;; ++call) {
    use(mi50());
    fail(call, abi::Status::illegal_address);
    const auto error = use_all(options_);
    if (!failed_now()) {
      EXPECT_FALSE(error) << to_string(*error);
      break;
    }
    heard += error ? 1 : 0;
    ASSERT_EQ(alive(), 0) << "call " << call;
    ASSERT_EQ(violation(), "") << "call " << call;
  }
  // What is not heard of: what older versions do not tell, marks, and what destroys.
  EXPECT_GT(call, 50);
  EXPECT_GT(heard, call / 2);
}

TEST_F(HipMask, HipsCodesAreOurs) {
  for (const auto& [status, code] :
       {std::pair(abi::Status::out_of_memory, ErrorCode::limit),
        std::pair(abi::Status::launch_failure, ErrorCode::lost),
        std::pair(abi::Status::not_supported, ErrorCode::not_supported),
        std::pair(abi::Status::unknown, ErrorCode::environment)}) {
    const auto driver = opened();
    fail(2, status);  // after hipSetDevice
    const auto lane = driver->create_lane(hip_mask_driver_units({{0, 4}}));
    ASSERT_FALSE(lane);
    EXPECT_EQ(lane.error().code, code);
    EXPECT_EQ(lane.error().context, "create_lane(mask 0xf)");
    EXPECT_THAT(lane.error().message, HasSubstr("hipExtStreamCreateWithCUMask()"));
  }
}

// ---- threads ----

TEST_F(HipMask, SeveralThreadsAtOnce) {
  const auto driver = opened();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&driver, t] {
      const auto probes = kernels(*driver);
      const hw::UnitMask mask = hip_mask_driver_units({{15 * t, 6}});
      for (int round = 0; round < test_rounds(20); ++round) {
        const int lane = *driver->create_lane(mask), other = *driver->create_lane(mask);
        ASSERT_TRUE(driver->launch(lane, *probes->noting(2 * round, 12, false)));
        const int event = *driver->record_event(lane);
        ASSERT_TRUE(driver->wait_event(other, event));
        ASSERT_TRUE(driver->launch(other, *probes->noting(2 * round + 1, 6, false)));
        ASSERT_TRUE(driver->synchronise(other));
        std::int64_t last = 0;
        for (const device::GroupNote& note : probes->notes(2 * round))
          last = std::max(last, note.end);
        for (const device::GroupNote& note : probes->notes(2 * round + 1)) {
          ASSERT_LT(last, note.begin);
          ASSERT_TRUE(mask[static_cast<std::size_t>(note.unit)]);
        }
        ASSERT_TRUE(driver->destroy_event(event));
        ASSERT_TRUE(driver->synchronise(lane));
        ASSERT_TRUE(driver->destroy_lane(lane) && driver->destroy_lane(other));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(HipMask, TheEndOfTheDriverFinishesWhatIsQueued) {
  auto driver = opened();
  const auto probes = kernels(*driver);
  const int lane = *driver->create_lane(hip_mask_driver_units({{3, 3}}));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(driver->launch(lane, *probes->noting(i, 5, false)));
  driver.reset();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(probes->notes(i).size(), 5u);
}

// ---- a GPU ----

TEST(HipMaskOnAGpu, EverySentenceOfTheDoor) {
  const auto driver = HipMaskDriver::open();
  if (!driver) GTEST_SKIP() << to_string(driver.error());
  const auto probes = HipKernels::open(**driver);
  ASSERT_TRUE(probes) << to_string(probes.error());
  EXPECT_THAT(device::check_lanes(**driver, **probes), IsEmpty()) << (*driver)->board().note;
}

}  // namespace
}  // namespace partita::drivers::hip_mask
