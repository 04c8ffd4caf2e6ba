// The probes: which SM is which unit, against what the fake GPU split; what their PTX assembles to.
#include "drivers/green_ctx/cuda_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "drivers/green_ctx/probe_ptx.h"
#include "drivers/green_ctx/testing/fake_world.h"

namespace partita::drivers::green_ctx {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// Every SM of an atom is one of its units, whatever order the device splits them in; what belongs
// to no atom has the units that are left.
TEST(Calibration, FindsTheSmsOfEveryAtom) {
  for (const auto& [sms, atom, seed] :
       std::vector<std::tuple<int, int, std::uint64_t>>{{132, 8, 1}, {132, 2, 2}, {31, 8, 3}}) {
    const FakeWorld world({.sms = sms, .seed = seed});
    const auto driver = world.open(atom);
    const auto kernels = world.kernels(*driver);
    const auto units = kernels->units_of_sms();
    ASSERT_TRUE(units) << to_string(units.error());
    ASSERT_THAT(*units, SizeIs(sms));
    const auto info = *driver->info();
    hw::UnitMask rest;
    for (const auto& [sm, unit] : *units) rest.set(static_cast<std::size_t>(unit));
    EXPECT_EQ(rest.count(), static_cast<std::size_t>(sms));
    const int atoms = sms / atom;
    for (int i = 0; i <= atoms; ++i) {
      hw::UnitMask met;
      for (const int sm : world.group(i)) met.set(static_cast<std::size_t>(units->at(sm)));
      const hw::UnitMask own =
          hw::units_of(info.topology, atom, hw::UnitMask{}.set(static_cast<std::size_t>(i)));
      EXPECT_EQ(met, i < atoms ? own : rest) << "group " << i;
      rest &= ~met;
    }
  }
}

// Kernels that use SMs beyond their context's, as they may beside dynamic parallelism.
TEST(Calibration, SmsThatSeveralAtomsUseAreRefused) {
  const FakeWorld world({.leaks_sms = 2});
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  const auto refused = kernels->noting(0, 1, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::environment);
  EXPECT_THAT(to_string(refused.error()), HasSubstr("dynamic parallelism"));
}

TEST(Calibration, LeavesNoLane) {
  const FakeWorld world({.sms = 31});
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  ASSERT_TRUE(kernels->units_of_sms());
  EXPECT_EQ(world.live().streams, 0);
  const int calls = world.calls("cuLaunchKernel");
  ASSERT_TRUE(kernels->units_of_sms());
  EXPECT_EQ(world.calls("cuLaunchKernel"), calls);
}

TEST(CudaKernels, FailCleanly) {
  for (const char* function :
       {"cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction", "cuFuncLoad",
        "cuMemAlloc", "cuMemsetD8", "cuMemHostAlloc", "cuMemHostGetDevicePointer"}) {
    const FakeWorld world({.sms = 16});
    {
      const auto driver = world.open();
      world.fail(function, 1, abi::Return::out_of_memory);
      const auto kernels = CudaKernels::open(*driver);
      ASSERT_FALSE(kernels) << function;
      EXPECT_EQ(kernels.error().code, ErrorCode::limit) << function;
    }
    EXPECT_EQ(world.live(), Live{}) << function;
  }
}

TEST(CudaKernels, FailedCalibrationIsTriedAgain) {
  const FakeWorld world({.sms = 16});
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  for (const char* function : {"cuGreenCtxCreate", "cuLaunchKernel", "cuMemcpyDtoH"}) {
    world.fail(function, 1, abi::Return::unknown);
    EXPECT_FALSE(kernels->noting(0, 1, false)) << function;
    EXPECT_EQ(world.live().streams, 0) << function;
  }
  EXPECT_TRUE(kernels->noting(0, 1, false));
}

TEST(CudaKernels, TheirMemoryIsLimited) {
  const FakeWorld world({.sms = 8});
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  EXPECT_EQ(kernels->noting(0, 0, false).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(kernels->noting(0, kNoteBytes / 32 + 1, false).error().code, ErrorCode::limit);
  for (int i = 0; i < static_cast<int>(kMaxClosed); ++i)
    ASSERT_TRUE(kernels->noting(i, 1, true)) << i;
  EXPECT_EQ(kernels->noting(-1, 1, true).error().code, ErrorCode::limit);
  EXPECT_TRUE(kernels->noting(-1, 1, false));
}

TEST(CudaKernels, WorkAndMemoryAreTold) {
  const FakeWorld world({.sms = 16});
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  const auto before = *kernels->free_memory();
  hw::UnitMask mask;
  for (std::size_t i = 0; i < 8; ++i) mask.set(i);
  const int lane = *driver->create_lane(mask);
  EXPECT_EQ(*before - **kernels->free_memory(),
            static_cast<std::int64_t>(fake_cuda::kContextBytes));
  for (const auto& kernel : {*kernels->computing(20, 1'000), *kernels->reading(20, 10'000)}) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(driver->launch(lane, kernel));
  }
  EXPECT_TRUE(driver->synchronise(lane));
  EXPECT_EQ(*before - **kernels->free_memory(),
            static_cast<std::int64_t>(fake_cuda::kContextBytes + kReadBytes));
}

// Notes outlive the driver.
TEST(CudaKernels, NotesCanBeReadAfterTheDriver) {
  const FakeWorld world({.sms = 16});
  auto driver = world.open();
  auto kernels = world.kernels(*driver);
  const int lane = *driver->create_lane(hw::UnitMask{0xFF});
  ASSERT_TRUE(driver->launch(lane, *kernels->noting(7, 30, false)));
  driver.reset();
  EXPECT_THAT(kernels->notes(7), SizeIs(30));
  kernels.reset();
  EXPECT_EQ(world.live(), Live{});
}

// ---- PTX ----

TEST(ProbePtx, Assembles) {
#ifdef PARTITA_PTXAS
  const auto folder = std::filesystem::temp_directory_path() / "partita-probe-ptx";
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "probes.ptx").string(), log = (folder / "log").string();
  std::ofstream(file) << kProbePtx;
  // The first compute capability that every assembler at hand knows, and those of the boards.
  for (const char* gpu : {"sm_75", "sm_80", "sm_90", "sm_100"}) {
    const std::string command =
        std::string(PARTITA_PTXAS) + " -arch=" + gpu + " " + file + " -o /dev/null 2>" + log;
    const int status = std::system(command.c_str());
    std::ifstream said(log);
    const std::string words((std::istreambuf_iterator<char>(said)), {});
    if (words.find("is not defined for option 'gpu-name'") != std::string::npos) continue;
    EXPECT_EQ(status, 0) << gpu << ": " << words;
    EXPECT_EQ(words, "") << gpu;
  }
  std::filesystem::remove_all(folder);
#else
  GTEST_SKIP() << "no ptxas";
#endif
}

}  // namespace
}  // namespace partita::drivers::green_ctx
