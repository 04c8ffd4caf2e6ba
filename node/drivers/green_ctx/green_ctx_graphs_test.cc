// Graphs whose nodes run in several contexts, on the fake GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "drivers/green_ctx/testing/fake_world.h"

namespace partita::drivers::green_ctx {
namespace {

using device::GroupNote;
using device::LaneGraphNode;
using testing::HasSubstr;

hw::UnitMask units(std::size_t first, std::size_t last) {
  hw::UnitMask mask;
  for (std::size_t unit = first; unit < last; ++unit) mask.set(unit);
  return mask;
}

// Lanes on a small GPU: two atoms, both, and the whole device with its left-over SMs.
class Graphs : public testing::Test {
 protected:
  Graphs() : world({.name = "Small", .sms = 28}), driver(world.open()) {
    kernels = world.kernels(*driver);
    masks = {units(0, 8), units(8, 16), units(0, 16), units(0, 28)};
    for (const hw::UnitMask& mask : masks) lanes.push_back(*driver->create_lane(mask));
  }

  device::LaneGraphs& graphs() { return *driver->graphs(); }
  LaneGraphNode node(std::size_t lane, int number, std::vector<int> after = {}) {
    return {lanes[lane], *kernels->noting(number, 40, false), std::move(after)};
  }
  std::pair<std::int64_t, std::int64_t> span(int number) {
    const auto notes = kernels->notes(number);
    EXPECT_EQ(notes.size(), 40u) << "kernel " << number;
    if (notes.empty()) return {};
    return {std::ranges::min(notes, {}, &GroupNote::begin).begin,
            std::ranges::max(notes, {}, &GroupNote::end).end};
  }

  FakeWorld world;
  std::unique_ptr<CudaKernels> kernels;  // outlive the driver, whose kernels write their memory
  std::unique_ptr<GreenCtxDriver> driver;
  std::vector<hw::UnitMask> masks;
  std::vector<int> lanes;
};

// Random graphs: each kernel once, on the mask of its node's lane, after what it comes after.
TEST_F(Graphs, NodesRunOnTheirMasksInOrder) {
  Rng rng(5);
  int number = 0;
  for (int round = 0; round < test_rounds(30); ++round) {
    std::vector<LaneGraphNode> nodes;
    std::vector<std::size_t> on;
    const int first = number;
    for (std::uint64_t i = 0; i <= rng.below(6); ++i) {
      std::vector<int> after;
      for (std::uint64_t j = 0; j < i; ++j)
        if (rng.below(3) == 0) after.insert(after.end(), 1 + rng.below(2), static_cast<int>(j));
      on.push_back(rng.below(lanes.size()));
      nodes.push_back(node(on.back(), number++, after));
    }
    const auto graph = graphs().create_graph(nodes);
    ASSERT_TRUE(graph) << to_string(graph.error());
    ASSERT_TRUE(graphs().launch_graph(*graph));
    ASSERT_TRUE(graphs().synchronise_graph(*graph));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const GroupNote& note : kernels->notes(first + static_cast<int>(i)))
        EXPECT_TRUE(masks[on[i]][static_cast<std::size_t>(note.unit)]) << note.unit;
      for (const int before : nodes[i].after)
        EXPECT_LT(span(first + before).second, span(first + static_cast<int>(i)).first);
    }
    EXPECT_TRUE(graphs().destroy_graph(*graph));
  }
}

// Two nodes that do not depend on each other: one ends while the other cannot.
TEST_F(Graphs, IndependentNodesRunBesideEachOther) {
  const LaneGraphNode held{lanes[0], *kernels->noting(0, 1, true)};
  const int graph = *graphs().create_graph({held, node(1, 1), node(1, 2, {1})});
  ASSERT_TRUE(graphs().launch_graph(graph));
  while (kernels->notes(2).size() < 40) std::this_thread::yield();
  EXPECT_EQ(graphs().destroy_graph(graph).error().code, ErrorCode::in_use);
  EXPECT_EQ(kernels->notes(0).size(), 0u);
  kernels->open(0);
  EXPECT_TRUE(graphs().synchronise_graph(graph));
  EXPECT_EQ(kernels->notes(0).size(), 1u);
  EXPECT_TRUE(graphs().destroy_graph(graph));
}

TEST_F(Graphs, MayBeLaunchedOftenAndHoldTheirLanes) {
  const int graph = *graphs().create_graph({node(0, 0), node(3, 1, {0})});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(graphs().launch_graph(graph));
  ASSERT_TRUE(graphs().synchronise_graph(graph));
  EXPECT_EQ(kernels->notes(0).size(), 200u);
  EXPECT_EQ(driver->query(lanes[0])->queued, 0);  // the lane's own queue is not touched
  EXPECT_EQ(driver->destroy_lane(lanes[0]).error().code, ErrorCode::in_use);
  EXPECT_EQ(driver->destroy_lane(lanes[3]).error().code, ErrorCode::in_use);
  EXPECT_TRUE(driver->destroy_lane(lanes[1]));
  EXPECT_TRUE(graphs().destroy_graph(graph));
  EXPECT_TRUE(driver->destroy_lane(lanes[0]));
  EXPECT_EQ(world.live().graphs, 0);
  EXPECT_EQ(world.live().execs, 0);
}

TEST_F(Graphs, WhatIsRefused) {
  const auto refusal = [&](const std::vector<LaneGraphNode>& nodes) {
    const auto graph = graphs().create_graph(nodes);
    EXPECT_FALSE(graph);
    EXPECT_EQ(world.live().graphs, 0);
    return graph ? ErrorCode::infeasible : graph.error().code;
  };
  EXPECT_EQ(refusal({}), ErrorCode::invalid_argument);
  EXPECT_EQ(refusal({node(0, 0, {0})}), ErrorCode::invalid_argument);
  EXPECT_EQ(refusal({node(0, 1), node(0, 2, {2}), node(0, 3)}), ErrorCode::invalid_argument);
  EXPECT_EQ(refusal({node(0, 4, {-1})}), ErrorCode::invalid_argument);
  EXPECT_EQ(refusal({{99, *kernels->noting(5, 1, false)}}), ErrorCode::not_found);
  EXPECT_EQ(refusal({{lanes[0], {1, device::HostKernel{[](std::int64_t) {}}}}}),
            ErrorCode::not_supported);
  EXPECT_EQ(refusal({{lanes[0], {0, kernels->computing(1, 1)->code}}}),
            ErrorCode::invalid_argument);
  const LaneGraphNode one{lanes[0], *kernels->computing(1, 1)};
  EXPECT_EQ(refusal(std::vector<LaneGraphNode>(kMaxGraphNodes + 1, one)), ErrorCode::limit);
  for (const int graph : {-1, 0, 7}) {
    EXPECT_EQ(graphs().launch_graph(graph).error().code, ErrorCode::not_found);
    EXPECT_EQ(graphs().synchronise_graph(graph).error().code, ErrorCode::not_found);
    EXPECT_EQ(graphs().destroy_graph(graph).error().code, ErrorCode::not_found);
  }
  for (int i = 0; i < kMaxGraphs; ++i) ASSERT_TRUE(graphs().create_graph({one}));
  EXPECT_EQ(graphs().create_graph({one}).error().code, ErrorCode::limit);
}

TEST_F(Graphs, RunsAreLimited) {
  const int graph = *graphs().create_graph({{lanes[0], *kernels->noting(0, 1, true)}});
  for (int i = 0; i < kMaxQueued; ++i) ASSERT_TRUE(graphs().launch_graph(graph)) << i;
  EXPECT_EQ(graphs().launch_graph(graph).error().code, ErrorCode::limit);
  kernels->open(0);
  EXPECT_TRUE(graphs().synchronise_graph(graph));
  EXPECT_TRUE(graphs().launch_graph(graph));
}

TEST_F(Graphs, EveryFailureIsToldAndLeavesNothing) {
  const std::vector<LaneGraphNode> nodes{node(0, 0), node(1, 1)};
  for (const char* function :
       {"cuGraphCreate", "cuGraphAddKernelNode", "cuGraphKernelNodeGetParams",
        "cuGraphInstantiateWithFlags", "cuStreamCreate"}) {
    const int streams = world.live().streams;
    world.fail(function, 1, abi::Return::unknown);
    const auto graph = graphs().create_graph(nodes);
    ASSERT_FALSE(graph) << function;
    EXPECT_EQ(graph.error().code, ErrorCode::environment) << function;
    EXPECT_THAT(graph.error().context, HasSubstr("create_graph(")) << function;
    EXPECT_EQ(world.live().graphs + world.live().execs, 0) << function;
    EXPECT_EQ(world.live().streams, streams) << function;
  }
  const int graph = *graphs().create_graph(nodes);
  world.fail("cuGraphLaunch", 1, abi::Return::out_of_memory);
  EXPECT_EQ(graphs().launch_graph(graph).error().code, ErrorCode::limit);
  EXPECT_TRUE(graphs().destroy_graph(graph));
}

// A driver that drops the contexts of nodes would run them anywhere.
TEST(GreenGraphs, ADeviceThatIgnoresContextsIsNotUsed) {
  const FakeWorld world({.sms = 32, .keeps_graph_contexts = false});
  const auto driver = world.open();
  const auto kernels = world.kernels(*driver);
  const int lane = *driver->create_lane(units(0, 8));
  const auto graph = driver->graphs()->create_graph({{lane, *kernels->computing(1, 1)}});
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, ErrorCode::not_supported);
}

}  // namespace
}  // namespace partita::drivers::green_ctx
