#include "interop/geometry.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "interop/testing/random_geometry.h"

namespace partita::interop {
namespace {

const hw::Catalogue& catalogue() { return hw::builtin_catalogue(); }

plan::ServingPlan small_plan() {
  plan::ServingPlan plan;
  plan.gpu_model = "A100-80GB";
  plan.gpus = {{1, "A100-80GB", {{"3g.40gb", 4, "search", 16, 3, {}, {}}}},
               {0,
                "A100-80GB",
                {{"4g.40gb", 0, "chat", 8, 2, {}, {}}, {"3g.40gb", 4, "search", 16, 3, {}, {}}}}};
  return plan;
}

// A node with two A100; the second has the planned instance already.
device::StateDocument small_node() {
  return *device::parse_state("state.json", R"({"api_version": "partita/v1", "kind": "NodeState",
    "gpus": [
      {"index": 0, "uuid": "GPU-a0", "model": "A100-80GB", "pci_device_id": "0x20B210DE",
       "mig_enabled": false, "instances": []},
      {"index": 1, "uuid": "GPU-a1", "model": "A100-80GB", "instances": [
        {"profile": "3g.40gb", "start": 4, "gi_id": 2, "uuid": "MIG-b1"}]}]})");
}

TEST(Geometry, OfAPlan) {
  const Result<Geometry> geometry = from_plan("plan.json", small_plan(), catalogue());
  ASSERT_TRUE(geometry);
  ASSERT_EQ(geometry->gpus.size(), 2U);
  EXPECT_EQ(geometry->gpus[0].board, (Board{.index = 0, .model = &model("A100-80GB")}));
  ASSERT_EQ(geometry->gpus[0].slots.size(), 2U);
  const Slot& chat = geometry->gpus[0].slots[0];
  EXPECT_EQ(chat.start, 0);
  EXPECT_EQ(chat.service, "chat");
  EXPECT_EQ(chat.processes, 2);
  EXPECT_EQ(chat.batch, 8);
  EXPECT_EQ(counts_text(*geometry->gpus[0].board.model, counts_of(geometry->gpus[0])),
            "1 x 4g.40gb, 1 x 3g.40gb");
}

TEST(Geometry, PlansThatCannotExistAreRefused) {
  const auto refusal = [](auto change) {
    plan::ServingPlan plan = small_plan();
    change(plan);
    const Result<Geometry> geometry = from_plan("plan.json", plan, catalogue());
    return geometry ? std::string("accepted") : to_string(geometry.error());
  };
  EXPECT_EQ(refusal([](plan::ServingPlan& p) { p.gpus[0].instances[0].start = 3; }),
            "plan.json: GPU 1 is no A100-80GB that can exist: 3g.40gb at 3 cannot start there, the "
            "nearest legal start is 4");
  EXPECT_EQ(refusal([](plan::ServingPlan& p) { p.gpus[1].instances[0].profile = "7g.80gb"; }),
            "plan.json: GPU 0 is no A100-80GB that can exist: 7g.80gb at 0 and 3g.40gb at 4 share "
            "4 memory slices");
  EXPECT_EQ(refusal([](plan::ServingPlan& p) { p.gpus[0].instances[0].profile = "3g.20gb"; }),
            "plan.json: GPU 1: 3g.20gb is not a profile of A100-80GB");
  EXPECT_EQ(refusal([](plan::ServingPlan& p) { p.gpus[0].index = 0; }),
            "plan.json: GPU 0 is listed twice");
  EXPECT_TRUE(
      refusal([](plan::ServingPlan& p) { p.gpus[0].model = "A1"; }).starts_with("plan.json: "));
}

TEST(Geometry, OfANodeKeepsIdsAndOccupants) {
  device::StateDocument node = small_node();
  node.occupants["MIG-b1"] = {"search", 16, 3};
  node.state.gpus.emplace_back();
  node.state.gpus.back().index = 2;
  node.state.gpus.back().name = "Tesla T4";
  const Result<Geometry> geometry = from_state("state.json", node, catalogue());
  ASSERT_TRUE(geometry);
  ASSERT_EQ(geometry->gpus.size(), 2U);  // a T4 cannot do MIG
  EXPECT_FALSE(geometry->gpus[0].mig_enabled);
  const hw::GpuModel& a100 = model("A100-80GB");
  Slot expected = slot(a100, "3g.40gb", 4);
  expected.uuid = "MIG-b1";
  expected.gi_id = 2;
  expected.ci_id = 0;
  expected.service = "search";
  expected.batch = 16;
  expected.processes = 3;
  EXPECT_EQ(geometry->gpus[1].slots, std::vector<Slot>{expected});
  EXPECT_EQ(boards_of(node.state, catalogue()), boards(*geometry));
}

TEST(Geometry, NodesThatOtherFormsCannotStateAreRefused) {
  const auto refusal = [](auto change) {
    device::StateDocument node = small_node();
    change(node.state.gpus[1]);
    const Result<Geometry> geometry = from_state("state.json", node, catalogue());
    return geometry ? std::string("accepted") : to_string(geometry.error());
  };
  EXPECT_EQ(refusal([](device::GpuState& g) { g.instances[0].compute.clear(); }),
            "state.json: GPU 1: 3g.40gb at 4 has no compute instance: finish its creation or "
            "destroy it first");
  EXPECT_EQ(refusal([](device::GpuState& g) {
              g.instances[0].compute = {{0, 1, "MIG-x"}, {1, 2, "MIG-y"}};
            }),
            "state.json: GPU 1: 3g.40gb at 4 is split into 2 compute instances; only whole ones "
            "can be stated");
  EXPECT_EQ(refusal([](device::GpuState& g) {
              g.instances[0].compute = {{0, 2, "MIG-x"}};
            }),
            "state.json: GPU 1: 3g.40gb at 4 has 2 of its 3 compute slices in use; only all can be "
            "stated");
  EXPECT_EQ(refusal([](device::GpuState& g) { g.lost = true; }),
            "state.json: GPU 1 fell off the bus: what is on it is unknown");
  EXPECT_EQ(refusal([](device::GpuState& g) { g.model = ""; }),
            "state.json: GPU 1 has MIG on and is in no catalogue");
  EXPECT_EQ(refusal([](device::GpuState& g) { g.instances[0].profile = "3g.1gb"; }),
            "state.json: GPU 1: 3g.1gb at 4 is not a profile of A100-80GB");
}

TEST(Geometry, OnANodeInstancesThatExistGetTheirIds) {
  const Geometry plan = *from_plan("plan.json", small_plan(), catalogue());
  const Geometry node = *from_state("state.json", small_node(), catalogue());
  const Result<Geometry> placed = on_node("plan.json", plan, node);
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->gpus[0].board.uuid, "GPU-a0");
  EXPECT_TRUE(placed->gpus[0].mig_enabled);
  EXPECT_FALSE(placed->gpus[0].slots[1].gi_id);
  EXPECT_EQ(placed->gpus[1].slots[0].uuid, "MIG-b1");
  EXPECT_EQ(placed->gpus[1].slots[0].service, "search");
  EXPECT_EQ(overlaid(node, {{placed->gpus[0]}}), (Geometry{{placed->gpus[0], node.gpus[1]}}));

  Geometry other = node;
  other.gpus[1].board.model = &model("H100-80GB-SXM5");
  EXPECT_EQ(to_string(on_node("plan.json", plan, other).error()),
            "plan.json: GPU 1 is H100-80GB-SXM5, and A100-80GB is wanted there");
  other.gpus.pop_back();
  EXPECT_EQ(to_string(on_node("plan.json", plan, other).error()),
            "plan.json: the node has no GPU 1");
}

RC_GTEST_PROP(GeometryProperty, SurvivesTheStateDocument, ()) {
  Geometry geometry = any_geometry(false);
  for (GpuGeometry& gpu : geometry.gpus)
    for (Slot& s : gpu.slots) {
      if (*rc::gen::arbitrary<bool>()) {
        s.uuid = fmt::format("MIG-{:08x}-{}-{}", 0, gpu.board.index, *s.start);
        s.gi_id = 10 + *s.start;
        s.ci_id = 0;
      }
      if (*rc::gen::arbitrary<bool>()) {
        s.service = "s" + std::to_string(*rc::gen::inRange(0, 3));
        s.batch = *rc::gen::inRange(1, 9);
        s.processes = *rc::gen::inRange(1, 4);
      }
    }
  const device::StateDocument document = to_state(geometry);
  const auto read =
      device::parse_state("state.json", device::state_json(document.state, document.occupants));
  RC_ASSERT(static_cast<bool>(read));
  const Result<Geometry> again = from_state("state.json", *read, catalogue());
  RC_ASSERT(static_cast<bool>(again));
  RC_ASSERT(*again == geometry);
}

}  // namespace
}  // namespace partita::interop
