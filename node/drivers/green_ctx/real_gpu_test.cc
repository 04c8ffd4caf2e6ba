// The lane suite on a real GPU, where there is one that CUDA shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/testing/lane_conformance.h"
#include "drivers/green_ctx/cuda_kernels.h"
#include "drivers/green_ctx/green_ctx_driver.h"

namespace partita::drivers::green_ctx {
namespace {

class RealGpu : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    auto opened = GreenCtxDriver::open({.gpu = "0", .atom = GetParam()});
    if (!opened) GTEST_SKIP() << to_string(opened.error());
    driver = *std::move(opened);
    auto made = CudaKernels::open(*driver);
    ASSERT_TRUE(made) << to_string(made.error());
    kernels = *std::move(made);
  }
  std::unique_ptr<CudaKernels> kernels;  // outlive the driver, whose kernels write their memory
  std::unique_ptr<GreenCtxDriver> driver;
};

TEST_P(RealGpu, EverySentenceOfTheDoor) {
  const auto units = kernels->units_of_sms();
  ASSERT_TRUE(units) << to_string(units.error());
  EXPECT_EQ(static_cast<int>(units->size()), driver->info()->topology.units());
  EXPECT_THAT(device::check_lanes(*driver, *kernels), testing::IsEmpty());
}

// Two nodes of one graph, each on its own atom.
TEST_P(RealGpu, AGraphRunsOnTheMasksOfItsNodes) {
  const auto info = *driver->info();
  std::vector<hw::UnitMask> masks;
  std::vector<device::LaneGraphNode> nodes;
  for (std::size_t atom = 0; atom < 2; ++atom) {
    masks.push_back(hw::units_of(info.topology, info.atom, hw::UnitMask{}.set(atom)));
    const auto lane = driver->create_lane(masks.back());
    ASSERT_TRUE(lane) << to_string(lane.error());
    const auto kernel = kernels->noting(static_cast<int>(atom), 100, false);
    ASSERT_TRUE(kernel) << to_string(kernel.error());
    nodes.push_back({*lane, *kernel});
  }
  const auto graph = driver->graphs()->create_graph(nodes);
  ASSERT_TRUE(graph) << to_string(graph.error());
  ASSERT_TRUE(driver->graphs()->launch_graph(*graph));
  ASSERT_TRUE(driver->graphs()->synchronise_graph(*graph));
  for (std::size_t atom = 0; atom < 2; ++atom) {
    const auto notes = kernels->notes(static_cast<int>(atom));
    EXPECT_EQ(notes.size(), 100u);
    for (const auto& note : notes) {
      ASSERT_GE(note.unit, 0);
      EXPECT_TRUE(masks[atom][static_cast<std::size_t>(note.unit)]) << note.unit;
    }
  }
  EXPECT_TRUE(driver->graphs()->destroy_graph(*graph));
}

INSTANTIATE_TEST_SUITE_P(Atoms, RealGpu, testing::Values(0, 2));

}  // namespace
}  // namespace partita::drivers::green_ctx
