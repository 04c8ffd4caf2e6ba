// The lane door on the fake GPU: the suite of the door on several GPUs, with faults, and what this
// driver adds.
#include "drivers/green_ctx/green_ctx_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "device/testing/lane_adaptors.h"
#include "device/testing/lane_conformance.h"
#include "drivers/green_ctx/testing/fake_world.h"

namespace partita::drivers::green_ctx {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

hw::UnitMask atoms_of(const device::LaneDriverInfo& info,
                      std::initializer_list<std::size_t> which) {
  hw::UnitMask atoms;
  for (const std::size_t atom : which) atoms.set(atom);
  return hw::units_of(info.topology, info.atom, atoms);
}

hw::UnitMask all_units(const device::LaneDriverInfo& info) {
  hw::UnitMask all;
  for (int i = 0; i < info.topology.units(); ++i) all.set(static_cast<std::size_t>(i));
  return all;
}

// ---- the suite ----

struct Board {
  const char* name;
  int sms, major, atom;
  bool tells_rules;
};
void PrintTo(const Board& board, std::ostream* out) {
  *out << board.name << " of " << board.sms << " SMs in atoms of " << board.atom;
}

class Conformance : public testing::TestWithParam<Board> {};

TEST_P(Conformance, EverySentenceOfTheDoor) {
  const Board& board = GetParam();
  const FakeWorld world({.name = board.name,
                         .sms = board.sms,
                         .major = board.major,
                         .tells_rules = board.tells_rules});
  {
    const auto driver = world.open(board.atom);
    ASSERT_TRUE(driver);
    const auto kernels = world.kernels(*driver);
    ASSERT_TRUE(kernels);
    EXPECT_THAT(device::check_lanes(*driver, *kernels), IsEmpty());
    EXPECT_EQ(world.live().green_currents, 0);
  }
  EXPECT_EQ(world.live(), Live{});
}
INSTANTIATE_TEST_SUITE_P(Boards, Conformance,
                         testing::Values(Board{"NVIDIA H100 80GB HBM3", 132, 9, 0, true},
                                         Board{"NVIDIA H200", 132, 9, 2, true},
                                         Board{"NVIDIA A100-SXM4-80GB", 108, 8, 0, false},
                                         Board{"NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16, 9, 8,
                                               false},
                                         Board{"Something", 16, 7, 0, true}));

TEST(FaultyGreenLanes, WithoutAScriptConform) {
  const FakeWorld world({.sms = 32});
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  ManualClock clock;
  device::FaultyLaneDriver faulty(*driver, clock, {}, {});
  EXPECT_THAT(device::check_lanes(faulty, *kernels), IsEmpty());
}

// The suite finds what a driver does otherwise: each fault, wherever it hits, is a violation.
TEST(FaultyGreenLanes, TheSuiteFindsEveryFault) {
  for (int i = 0; i < test_rounds(10); ++i) {
    const FakeWorld world({.sms = 16});
    const auto driver = world.open();
    const auto kernels = world.kernels(*driver);
    ManualClock clock;
    const int call = 1 + 11 * i;
    device::FaultyLaneDriver faulty(*driver, clock, {{.method = "", .call = call}}, {});
    EXPECT_THAT(device::check_lanes(faulty, *kernels), testing::Not(IsEmpty())) << "call " << call;
  }
}

// ---- opening ----

TEST(GreenCtx, TopologyIsTheBoardsWhereTheDeviceAgrees) {
  const auto topology = [](const Config& config, int atom = 0) {
    const FakeWorld world(config);
    return world.open(atom)->info()->topology;
  };
  EXPECT_EQ(topology({}), *hw::topology_named("H100"));
  EXPECT_EQ(topology({}, 2), *hw::topology_named("H100"));
  EXPECT_EQ(topology({.name = "NVIDIA A100-PCIE-40GB", .sms = 108, .major = 8}, 2),
            *hw::topology_named("A100"));
  // The board of fewer SMs has no shipped arrangement, and atoms of 4 fit differently into GPCs of
  // 14 than the device makes them: 26 there, 27 here.
  EXPECT_THAT(topology({.name = "NVIDIA H100 PCIe", .sms = 114}).units_in,
              testing::ElementsAre(112, 2));
  EXPECT_THAT(topology({.name = "NVIDIA A100-PCIE-40GB", .sms = 108, .major = 8}).units_in,
              testing::ElementsAre(108));
  EXPECT_THAT(topology({.sms = 31}).units_in, testing::ElementsAre(24, 7));
}

TEST(GreenCtx, AtomsAreWhatTheDeviceSays) {
  const auto atom = [](const Config& config, int wanted = 0) {
    const FakeWorld world(config);
    return world.open(wanted)->info()->atom;
  };
  EXPECT_EQ(atom({}), 8);
  EXPECT_EQ(atom({.tells_rules = false}), 8);
  EXPECT_EQ(atom({.major = 10}), 8);
  EXPECT_EQ(atom({.major = 8}), 4);
  EXPECT_EQ(atom({.major = 8, .tells_rules = false}), 4);
  EXPECT_EQ(atom({.major = 7, .tells_rules = false}), 2);
  EXPECT_EQ(atom({}, 2), 2);
  EXPECT_EQ(atom({}, 16), 16);
  EXPECT_EQ(atom({.major = 8}, 6), 6);
}

void expect_refusal(const Options& options, ErrorCode code, const char* sentence) {
  const auto driver = GreenCtxDriver::open(options);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, code) << driver.error().message;
  EXPECT_THAT(to_string(driver.error()), HasSubstr(sentence));
}

TEST(GreenCtx, WhatCannotBeOpened) {
  {
    const FakeWorld world({.version = 12040});
    expect_refusal(world.options(), ErrorCode::environment,
                   "too old: it has no cuGreenCtxStreamCreate and is of CUDA 12.4");
  }
  {
    const FakeWorld world({.devices = 0});
    expect_refusal(world.options(), ErrorCode::not_found, "CUDA shows no GPU");
  }
  const FakeWorld world;
  expect_refusal({.gpu = "0", .atom = 0, .vendor_library = "no-such-libcuda.so"},
                 ErrorCode::environment, "is the driver installed?");
  expect_refusal({.gpu = "0", .atom = 0, .vendor_library = "libc.so.6"}, ErrorCode::environment,
                 "too old");
  for (const char* gpu : {"1", "-1", "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaa", "H100"})
    expect_refusal({.gpu = gpu, .atom = 0, .vendor_library = PARTITA_FAKE_CUDA},
                   ErrorCode::not_found, "no such GPU; CUDA shows this process 1");
  expect_refusal(world.options(3), ErrorCode::invalid_argument, "groups of 4 SMs");
  expect_refusal(world.options(200), ErrorCode::invalid_argument, "has 132 SMs");
  expect_refusal(world.options(-8), ErrorCode::invalid_argument, "open(atom -8)");
  EXPECT_EQ(world.live(), Live{});
}

TEST(GreenCtx, AGpuByNumberOrUuid) {
  const FakeWorld world({.sms = 16, .devices = 3});
  for (const auto& [gpu, device] :
       std::map<std::string, int>{{"", 0},
                                  {"2", 2},
                                  {"GPU-b0b1b2b3-b4b5-b6b7-b8b9-babbbcbdbebf", 1},
                                  {"MIG-C0C1C2C3-c4c5-c6c7-c8c9-cacbcccdcecf", 2}}) {
    const auto driver =
        GreenCtxDriver::open({.gpu = gpu, .atom = 0, .vendor_library = PARTITA_FAKE_CUDA});
    ASSERT_TRUE(driver) << gpu;
    EXPECT_EQ((*driver)->gpu()->device(), device) << gpu;
  }
}

// Each function fails once, for every way there is to fail: open() says so and leaves nothing.
TEST(GreenCtx, OpeningFailsCleanly) {
  for (const char* function :
       {"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuDeviceGetName",
        "cuDeviceGetAttribute", "cuDeviceGetDevResource", "cuDevSmResourceSplitByCount"}) {
    for (const auto& [code, meaning] : std::map<abi::Return, ErrorCode>{
             {abi::Return::not_supported, ErrorCode::not_supported},
             {abi::Return::system_driver_mismatch, ErrorCode::environment},
             {abi::Return::ecc_uncorrectable, ErrorCode::lost}}) {
      const FakeWorld world({.sms = 16});
      world.fail(function, 1, code);
      const auto driver = GreenCtxDriver::open(world.options());
      ASSERT_FALSE(driver) << function;
      EXPECT_EQ(driver.error().code, meaning) << function;
      EXPECT_EQ(world.live(), Live{}) << function;
    }
  }
}

// ---- masks and contexts ----

TEST(GreenCtx, TheWholeDeviceHasTheSmsOfNoAtom) {
  const FakeWorld world;
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  const auto info = *driver->info();
  const hw::UnitMask all = all_units(info);
  hw::UnitMask atoms;
  for (std::size_t i = 0; i < 16; ++i) atoms.set(i);
  const hw::UnitMask in_atoms = hw::units_of(info.topology, 8, atoms);
  EXPECT_EQ(in_atoms.count(), 128u);
  EXPECT_FALSE(driver->create_lane(hw::UnitMask(in_atoms).set(16)));  // left over in the first GPC
  const auto ran_on = [&](const hw::UnitMask& mask, int number) {
    const int lane = *driver->create_lane(mask);
    EXPECT_TRUE(driver->launch(lane, *kernels->noting(number, 4'000, false)));
    EXPECT_TRUE(driver->synchronise(lane));
    hw::UnitMask met;
    for (const auto& note : kernels->notes(number)) met.set(static_cast<std::size_t>(note.unit));
    EXPECT_TRUE(driver->destroy_lane(lane));
    return met;
  };
  EXPECT_EQ(ran_on(all, 0), all);
  EXPECT_EQ(ran_on(in_atoms, 1), in_atoms);
}

TEST(GreenCtx, AMaskThatComesAgainReusesItsContext) {
  const FakeWorld world({.sms = 64});
  const auto driver = world.open();
  const auto info = *driver->info();
  for (int round = 0; round < 3; ++round) {
    const int one = *driver->create_lane(atoms_of(info, {0, 2}));
    const int two = *driver->create_lane(atoms_of(info, {0, 2}));
    const int other = *driver->create_lane(atoms_of(info, {1}));
    const int all = *driver->create_lane(all_units(info));
    EXPECT_EQ(world.live().greens, 2);
    EXPECT_EQ(world.live().streams, 4);
    for (const int lane : {one, two, other, all}) EXPECT_TRUE(driver->destroy_lane(lane));
    EXPECT_EQ(world.live().streams, 0);
  }
  EXPECT_EQ(world.calls("cuGreenCtxCreate"), 2);
  EXPECT_EQ(driver->contexts(), 2u);
}

// More masks than are kept: the least recently used context goes, one in use never.
TEST(GreenCtx, IdleContextsAreGivenUpOldestFirst) {
  const FakeWorld world;
  const auto driver = world.open(2);
  const auto info = *driver->info();
  const int held = *driver->create_lane(atoms_of(info, {65}));
  for (std::size_t atom = 0; atom < kMaxIdleContexts + 3; ++atom)
    EXPECT_TRUE(driver->destroy_lane(*driver->create_lane(atoms_of(info, {atom}))));
  EXPECT_EQ(static_cast<std::size_t>(world.live().greens), kMaxIdleContexts + 1);
  const int made = world.calls("cuGreenCtxCreate");
  const auto again = [&](std::size_t atom) {
    EXPECT_TRUE(driver->destroy_lane(*driver->create_lane(atoms_of(info, {atom}))));
    return world.calls("cuGreenCtxCreate") - made;
  };
  EXPECT_EQ(again(65), 0);
  EXPECT_EQ(again(3), 0);  // the oldest that is kept; now the newest
  EXPECT_EQ(again(2), 1);  // was given up; now 4 is
  EXPECT_EQ(again(3), 1);
  EXPECT_EQ(again(4), 2);
  EXPECT_EQ(driver->query(held)->queued, 0);
}

// Where no context more can be made, those that are only kept make room.
TEST(GreenCtx, KeptContextsMakeRoom) {
  const FakeWorld world({.max_contexts = 3});
  const auto driver = world.open();
  const auto info = *driver->info();
  const int one = *driver->create_lane(atoms_of(info, {0}));
  EXPECT_TRUE(driver->destroy_lane(*driver->create_lane(atoms_of(info, {1}))));
  const int two = *driver->create_lane(atoms_of(info, {2})),
            three = *driver->create_lane(atoms_of(info, {3}));
  const auto refused = driver->create_lane(atoms_of(info, {4}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::limit);
  EXPECT_THAT(to_string(refused.error()), HasSubstr("memory is full"));
  for (const int lane : {one, two, three}) EXPECT_TRUE(driver->destroy_lane(lane));
}

TEST(GreenCtx, AContextWithOtherSmsThanAskedForIsRefused) {
  const FakeWorld world({.adds_sms = 2});
  const auto driver = world.open();
  const auto refused = driver->create_lane(atoms_of(*driver->info(), {4}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::environment);
  EXPECT_THAT(to_string(refused.error()), HasSubstr("asked for 8 SMs and got 10"));
  EXPECT_EQ(world.live().greens, 0);
}

// ---- work ----

TEST(GreenCtx, KernelsOfThreadsAreNotSupported) {
  const FakeWorld world({.sms = 16});
  const auto driver = world.open();
  const int lane = *driver->create_lane(atoms_of(*driver->info(), {0}));
  const auto refused = driver->launch(lane, {1, device::HostKernel{[](std::int64_t) {}}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::not_supported);
}

// Items are counted one by one as they end, not lane by lane.
TEST(GreenCtx, QueuedIsExactInTheMiddle) {
  const FakeWorld world({.sms = 16});
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  const int lane = *driver->create_lane(atoms_of(*driver->info(), {1}));
  ASSERT_TRUE(driver->launch(lane, *kernels->noting(0, 5, false)));
  ASSERT_TRUE(driver->launch(lane, *kernels->noting(1, 1, true)));
  const int event = *driver->record_event(lane);
  ASSERT_TRUE(driver->launch(lane, *kernels->noting(2, 1, true)));
  kernels->open(1);
  while (!*driver->event_finished(event)) std::this_thread::yield();
  EXPECT_EQ(driver->query(lane)->queued, 1);
  kernels->open(2);
  ASSERT_TRUE(driver->synchronise(lane));
  EXPECT_EQ(driver->query(lane)->queued, 0);
  EXPECT_EQ(kernels->notes(2).size(), 1u);
}

// Synchronising waits for what was queued before it, not for what came later.
TEST(GreenCtx, SynchroniseDoesNotWaitForLaterWork) {
  const FakeWorld world({.sms = 16});
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  const int lane = *driver->create_lane(atoms_of(*driver->info(), {0}));
  ASSERT_TRUE(driver->launch(lane, *kernels->noting(0, 1, true)));
  std::atomic<bool> synchronised = false;
  const int before = world.calls("cuEventSynchronize");
  std::thread waiting([&] {
    EXPECT_TRUE(driver->synchronise(lane));
    synchronised = true;
  });
  while (world.calls("cuEventSynchronize") == before) std::this_thread::yield();
  ASSERT_TRUE(driver->launch(lane, *kernels->noting(1, 1, true)));
  EXPECT_FALSE(synchronised);
  kernels->open(0);
  waiting.join();
  EXPECT_EQ(driver->query(lane)->queued, 1);
  kernels->open(1);
  EXPECT_TRUE(driver->synchronise(lane));
}

TEST(GreenCtx, EventsAreReused) {
  const FakeWorld world({.sms = 16});
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  const int lane = *driver->create_lane(atoms_of(*driver->info(), {0}));
  const device::Kernel kernel = *kernels->computing(2, 3);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(driver->launch(lane, kernel));
    const int event = *driver->record_event(lane);
    ASSERT_TRUE(driver->synchronise(lane));
    EXPECT_EQ(driver->query(lane)->queued, 0);
    ASSERT_TRUE(driver->destroy_event(event));
  }
  EXPECT_LE(world.calls("cuEventCreate"), 12);
}

TEST(GreenCtx, TheEndOfTheDriverFinishesWhatIsQueued) {
  const FakeWorld world({.sms = 32});
  auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  const auto info = *driver->info();
  const int one = *driver->create_lane(atoms_of(info, {0, 3})),
            two = *driver->create_lane(atoms_of(info, {1}));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(driver->launch(one, *kernels->noting(2 * i, 10, false)));
    ASSERT_TRUE(driver->wait_event(two, *driver->record_event(one)));
    ASSERT_TRUE(driver->launch(two, *kernels->noting(2 * i + 1, 10, false)));
  }
  driver.reset();
  for (int i = 0; i < 40; ++i) EXPECT_EQ(kernels->notes(i).size(), 10u);
}

// ---- errors ----

// The outcome of one use of the door while `function` answers `code` the next time.
ErrorCode outcome(const char* method, const char* function, abi::Return code) {
  const FakeWorld world({.sms = 24});
  auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  const hw::UnitMask mask = atoms_of(*driver->info(), {0});
  const int lane = *driver->create_lane(mask), other = *driver->create_lane(mask);
  const auto kernel = *kernels->noting(0, 1, true);
  EXPECT_TRUE(driver->launch(other, kernel));
  const int event = *driver->record_event(other);
  world.fail(function, 1, code);
  const std::string_view name = method;
  Error error;
  error.code = ErrorCode::infeasible;
  const auto note = [&](const auto& result) {
    EXPECT_FALSE(result) << method << ", " << function;
    if (!result) error = result.error();
  };
  if (name == "create_lane") note(driver->create_lane(atoms_of(*driver->info(), {0, 1})));
  if (name == "launch") note(driver->launch(lane, kernel));
  if (name == "record_event") note(driver->record_event(lane));
  if (name == "wait_event") note(driver->wait_event(lane, event));
  if (name == "event_finished") note(driver->event_finished(event));
  if (name == "query") note(driver->query(other));
  if (name == "synchronise") note(driver->synchronise(other));
  if (name == "destroy_lane") note(driver->destroy_lane(other));
  EXPECT_THAT(error.context, HasSubstr(method));
  kernels->open(0);
  driver.reset();  // before the memory that its kernels write
  return error.code;
}

TEST(GreenCtx, EveryCallTellsWhatWentWrong) {
  const std::pair<const char*, const char*> calls[] = {{"create_lane", "cuDevResourceGenerateDesc"},
                                                       {"create_lane", "cuGreenCtxCreate"},
                                                       {"create_lane", "cuCtxFromGreenCtx"},
                                                       {"create_lane", "cuGreenCtxStreamCreate"},
                                                       {"launch", "cuLaunchKernel"},
                                                       {"launch", "cuEventCreate"},
                                                       {"launch", "cuEventRecord"},
                                                       {"record_event", "cuEventRecord"},
                                                       {"wait_event", "cuEventQuery"},
                                                       {"wait_event", "cuStreamWaitEvent"},
                                                       {"event_finished", "cuEventQuery"},
                                                       {"query", "cuEventQuery"},
                                                       {"synchronise", "cuEventSynchronize"},
                                                       {"destroy_lane", "cuEventQuery"}};
  for (const auto& [method, function] : calls) {
    EXPECT_EQ(outcome(method, function, abi::Return::launch_failed), ErrorCode::lost) << function;
    EXPECT_EQ(outcome(method, function, abi::Return::unknown), ErrorCode::environment) << function;
    EXPECT_EQ(outcome(method, function, abi::Return::not_supported), ErrorCode::not_supported)
        << function;
  }
}

TEST(GreenCtx, CodesMeanWhatTheyMean) {
  using enum ErrorCode;
  const std::pair<int, ErrorCode> codes[] = {{1, invalid_argument}, {2, limit},
                                             {3, environment},      {4, lost},
                                             {100, not_found},      {201, lost},
                                             {209, not_supported},  {214, lost},
                                             {218, environment},    {220, lost},
                                             {304, environment},    {400, invalid_argument},
                                             {700, lost},           {701, invalid_argument},
                                             {702, lost},           {709, lost},
                                             {710, lost},           {714, lost},
                                             {715, lost},           {716, lost},
                                             {717, lost},           {718, lost},
                                             {719, lost},           {721, lost},
                                             {801, not_supported},  {803, environment},
                                             {810, lost},           {915, invalid_argument},
                                             {999, environment},    {12345, environment}};
  const FakeWorld world;
  const auto library = CudaLibrary::open(PARTITA_FAKE_CUDA);
  ASSERT_TRUE(library);
  for (const auto& [code, meaning] : codes) {
    const Error error = (*library)->error(static_cast<abi::Return>(code), "call(x)");
    EXPECT_EQ(error.code, meaning) << code;
    EXPECT_THAT(error.message, HasSubstr(std::to_string(code)));
  }
  EXPECT_EQ(to_string((*library)->error(abi::Return::illegal_address, "launch(lane 3)")),
            "launch(lane 3): an illegal memory access was encountered (FAKE_ERROR_700, code 700)");
}

// A kernel whose end could not be marked still counts as unfinished until its stream is idle.
TEST(GreenCtx, AKernelWithoutAMarkIsUnfinishedToo) {
  const FakeWorld world({.sms = 16});
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  const int lane = *driver->create_lane(atoms_of(*driver->info(), {0}));
  const auto kernel = *kernels->noting(0, 1, true);
  world.fail("cuEventRecord", 1, abi::Return::unknown);
  EXPECT_FALSE(driver->launch(lane, kernel));
  EXPECT_EQ(driver->query(lane)->queued, 1);
  EXPECT_EQ(driver->destroy_lane(lane).error().code, ErrorCode::in_use);
  kernels->open(0);
  EXPECT_TRUE(driver->synchronise(lane));
  EXPECT_EQ(driver->query(lane)->queued, 0);
  EXPECT_EQ(kernels->notes(0).size(), 1u);
}

// After a fault of a kernel every call says so, nothing blocks, and the end leaves nothing.
TEST(GreenCtx, ALostDeviceSaysSoAndCanBeClosed) {
  const FakeWorld world({.sms = 16});
  {
    auto driver = world.open();
    const auto kernels = world.kernels(*driver);
    const int lane = *driver->create_lane(atoms_of(*driver->info(), {0}));
    ASSERT_TRUE(driver->launch(lane, *kernels->noting(0, 1, true)));
    device::Kernel wild = *kernels->noting(1, 1, false);
    std::uint64_t nowhere = 64;
    std::get<device::DeviceKernel>(wild.code).arguments[0] = &nowhere;
    const int other = *driver->create_lane(atoms_of(*driver->info(), {1}));
    ASSERT_TRUE(driver->launch(other, *kernels->noting(2, 1, true)));
    ASSERT_TRUE(driver->launch(other, wild));
    kernels->open(2);
    EXPECT_EQ(driver->synchronise(other).error().code, ErrorCode::lost);
    EXPECT_EQ(driver->synchronise(lane).error().code, ErrorCode::lost);
    EXPECT_EQ(driver->query(lane).error().code, ErrorCode::lost);
    EXPECT_EQ(driver->destroy_lane(lane).error().code, ErrorCode::lost);
    EXPECT_EQ(driver->create_lane(atoms_of(*driver->info(), {0, 1})).error().code, ErrorCode::lost);
    EXPECT_THAT(to_string(driver->record_event(lane).error()), HasSubstr("illegal memory access"));
    driver.reset();
  }
  EXPECT_EQ(world.live().primary, 0);
  EXPECT_EQ(world.live().streams, 0);
  EXPECT_EQ(world.live().greens, 0);
}

// A use of everything, which goes on where a call was refused.
void use_everything(const FakeWorld& world) {
  auto opened = GreenCtxDriver::open(world.options());
  if (!opened) return;
  auto driver = *std::move(opened);
  const auto kernels = CudaKernels::open(*driver);
  if (!kernels) return;
  const auto info = *driver->info();
  std::vector<int> lanes;
  for (const hw::UnitMask& mask : {atoms_of(info, {0}), atoms_of(info, {0, 2}), all_units(info)})
    if (const auto lane = driver->create_lane(mask)) lanes.push_back(*lane);
  int number = 0;
  std::vector<device::LaneGraphNode> nodes;
  for (const int lane : lanes) {
    if (const auto kernel = (*kernels)->noting(number++, 3, false))
      (void)driver->launch(lane, *kernel);
    if (const auto kernel = (*kernels)->computing(3, 10)) nodes.push_back({lane, *kernel});
    const auto event = driver->record_event(lane);
    for (const int other : lanes)
      if (event) (void)driver->wait_event(other, *event);
    if (event && number % 2 == 0) (void)driver->destroy_event(*event);
  }
  if (const auto graph = driver->graphs()->create_graph(nodes)) {
    (void)driver->graphs()->launch_graph(*graph);
    (void)driver->graphs()->synchronise_graph(*graph);
    (void)driver->graphs()->destroy_graph(*graph);
  }
  for (const int lane : lanes) (void)driver->synchronise(lane);
  if (!lanes.empty()) (void)driver->destroy_lane(lanes.front());
  driver.reset();  // before the memory that its kernels write
}

// Whichever call is refused, nothing hangs and nothing is left but what could not be given back.
TEST(GreenCtx, NoRefusedCallLeavesAnything) {
  int all = 0;
  {
    const FakeWorld world({.sms = 28});
    use_everything(world);
    EXPECT_EQ(world.live(), Live{});
    all = world.calls("");
  }
  EXPECT_GT(all, 300);
  const int step = std::max(1, all / test_rounds(all));
  int struck = 0;
  for (int call = 1; call <= all; call += step) {
    const FakeWorld world({.sms = 28});
    world.fail("", call, abi::Return::unknown);
    use_everything(world);
    const std::string failed = world.failed();
    if (failed.empty()) continue;  // calibration took fewer rounds this time
    ++struck;
    const bool gives_back = std::ranges::any_of(
        std::initializer_list<const char*>{"Destroy", "Free", "Release", "Unload"},
        [&](const char* word) { return failed.find(word) != failed.npos; });
    if (gives_back) continue;
    EXPECT_EQ(world.live(), Live{}) << "call " << call << ", " << failed;
  }
  EXPECT_GT(struck, all / step * 3 / 4);
}

// ---- threads ----

// Threads with lanes of their own, on masks that overlap, and one that asks after all of them.
TEST(GreenCtx, FromSeveralThreads) {
  const FakeWorld world({.sms = 64});
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  const auto info = *driver->info();
  const device::Kernel kernel = *kernels->computing(8, 100);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(t);
      for (int round = 0; round < test_rounds(40); ++round) {
        const int lane = *driver->create_lane(atoms_of(info, {rng.below(8), rng.below(8)}));
        const int other = *driver->create_lane(atoms_of(info, {rng.below(8)}));
        for (std::uint64_t i = 0; i <= rng.below(6); ++i) EXPECT_TRUE(driver->launch(lane, kernel));
        const int event = *driver->record_event(lane);
        EXPECT_TRUE(driver->wait_event(other, event));
        EXPECT_TRUE(driver->launch(other, kernel));
        EXPECT_TRUE(driver->destroy_event(event));
        EXPECT_TRUE(driver->synchronise(other));
        EXPECT_EQ(driver->query(other)->queued, 0);
        EXPECT_EQ(driver->query(lane)->queued, 0);  // the other one waited for it
        EXPECT_TRUE(driver->destroy_lane(lane));
        EXPECT_TRUE(driver->destroy_lane(other));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(world.live().streams, 0);
  EXPECT_EQ(world.live().green_currents, 0);
}

}  // namespace
}  // namespace partita::drivers::green_ctx
