#include "act/carry/occupancy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::carry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

device::GpuState gpu(int index, const std::string& model) {
  device::GpuState state;
  state.index = index;
  state.name = "NVIDIA board";
  state.model = model;
  state.mig_enabled = true;
  return state;
}

// GPU 0 A30, GPU 1 A100, GPU 2 A30, GPU 3 A30 with MIG off, GPU 4 lost, GPU 5 unknown.
device::NodeState node() {
  device::NodeState node;
  for (const char* model : {"A30-24GB", "A100-80GB", "A30-24GB", "A30-24GB", "A30-24GB", ""})
    node.gpus.push_back(gpu(static_cast<int>(node.gpus.size()), model));
  node.gpus[3].mig_enabled = false;
  node.gpus[4].lost = true;
  return node;
}

plan::BatchProblem problem(const std::vector<std::string>& models) {
  plan::BatchProblem problem;
  for (const std::string& name : models) {
    problem.gpus.push_back(static_cast<int>(problem.models.size()));
    problem.models.push_back(*hw::builtin_catalogue().find(name));
  }
  return problem;
}

std::string said(const Result<std::vector<int>>& result) {
  return result ? "" : to_string(result.error());
}

TEST(Occupancy, NamesGpus) {
  EXPECT_THAT(*named_gpus("", node()), IsEmpty());
  EXPECT_THAT(*named_gpus("2,0", node()), ElementsAre(2, 0));
  EXPECT_THAT(said(named_gpus("6", node())), HasSubstr("not the index of a GPU"));
  EXPECT_THAT(said(named_gpus("0,", node())), HasSubstr("not the index of a GPU"));
  EXPECT_THAT(said(named_gpus("0,0", node())), HasSubstr("GPU 0 is listed twice"));
  EXPECT_THAT(said(named_gpus("3", node())), HasSubstr("MIG is off"));
  EXPECT_EQ(named_gpus("4", node()).error().code, ErrorCode::lost);
  EXPECT_THAT(said(named_gpus("5", node())), HasSubstr("not in the catalogue"));
  EXPECT_THAT(*usable_gpus(node()), ElementsAre(0, 1, 2));
  EXPECT_THAT(said(usable_gpus({})), HasSubstr("no GPU of this node has MIG on: no GPU"));
}

TEST(Occupancy, MatchesGpusByModel) {
  EXPECT_THAT(*matching_gpus(problem({"A30-24GB", "A30-24GB"}), node(), {}, "s"),
              ElementsAre(0, 2));
  EXPECT_THAT(*matching_gpus(problem({"A30-24GB", "A100-80GB"}), node(), {2, 1}, "s"),
              ElementsAre(2, 1));
  EXPECT_THAT(said(matching_gpus(problem({"A100-80GB", "A100-80GB"}), node(), {}, "s")),
              HasSubstr("s: its GPU 1 is of model A100-80GB, and this node has no such GPU left"));
  EXPECT_THAT(said(matching_gpus(problem({"A30-24GB"}), node(), {1}, "s")), HasSubstr("its GPU 0"));
  EXPECT_THAT(said(matching_gpus(problem({"A30-24GB"}), node(), {0, 2}, "s")),
              HasSubstr("names 2 GPUs, s is for 1"));
}

TEST(Occupancy, SaysWhatANodeHas) {
  EXPECT_EQ(said(named_gpus("6", node())),
            "--gpu-index: '6' is not the index of a GPU; this node has GPU 0 A30-24GB, GPU 1 "
            "A100-80GB, GPU 2 A30-24GB, GPU 3 A30-24GB (MIG off), GPU 4 A30-24GB (lost), GPU 5 "
            "NVIDIA board");
  for (const std::string wrong : {"-1", "x", "1x", "", " 1"})
    EXPECT_FALSE(named_gpus("0," + wrong, node())) << wrong;
  EXPECT_EQ(said(named_gpus("0,0", node())), "--gpu-index: GPU 0 is listed twice");
  EXPECT_EQ(said(named_gpus("3", node())),
            "GPU 3: MIG is off; `nvidia-smi -i 3 -mig 1` turns it on");
  EXPECT_EQ(said(named_gpus("4", node())), "GPU 4: fell off the bus");
  EXPECT_EQ(said(named_gpus("5", node())), "GPU 5: 'NVIDIA board' is not in the catalogue");
  EXPECT_EQ(named_gpus("5", node()).error().code, ErrorCode::environment);
  device::NodeState off = node();
  off.gpus.resize(2);
  off.gpus[0].mig_enabled = off.gpus[1].mig_enabled = false;
  EXPECT_EQ(said(usable_gpus(off)),
            "no GPU of this node has MIG on: GPU 0 A30-24GB (MIG off), GPU 1 A100-80GB (MIG off); "
            "`nvidia-smi -mig 1` turns it on");
  EXPECT_EQ(said(matching_gpus(problem({"A30-24GB"}), off, {}, "s")),
            "s: its GPU 0 is of model A30-24GB, and this node has no such GPU left: GPU 0 A30-24GB "
            "(MIG off), GPU 1 A100-80GB (MIG off)");
  EXPECT_EQ(said(matching_gpus(problem({"A30-24GB"}), node(), {3}, "s")).find("no such GPU left"),
            std::string::npos);
}

// A 2g.12gb at 0 comes and goes, then a 4g.24gb; somebody's 1g.6gb lies at `start`.
std::vector<std::string> in_the_way(int start, bool whole_gpu) {
  device::NodeState state = node();
  device::Instance& foreign = state.gpus[0].instances.emplace_back();
  foreign.profile = "1g.6gb";
  foreign.start = start;
  foreign.size = foreign.gpcs = 1;
  foreign.holders = {{77, "train"}};
  exec::Script script;
  script.gpus = {{.device = 0, .model = "A30-24GB"}};
  script.visits.push_back({.place = {"2g.12gb"}, .size = 2});
  script.gpus[0].changes = {{.visit = 0, .create = true}, {.visit = 0, .create = false}};
  if (whole_gpu) {
    script.visits.push_back({.place = {"4g.24gb"}, .size = 4});
    script.gpus[0].changes.push_back({.visit = 1, .create = true});
  }
  return blockers(script, state, hw::builtin_catalogue());
}

TEST(Occupancy, NamesWhoIsInTheWay) {
  EXPECT_THAT(in_the_way(3, false), IsEmpty());
  EXPECT_THAT(in_the_way(1, false), ElementsAre(HasSubstr("GPU 0: ")));
  EXPECT_THAT(in_the_way(1, false), ElementsAre(HasSubstr("77")));
  EXPECT_EQ(in_the_way(3, true).size(), 1u);
  EXPECT_EQ(in_the_way(1, true).size(), 1u);  // in both ways, and said once
  EXPECT_THAT(in_the_way(1, false), ElementsAre("GPU 0: 1g.6gb@1 (gi 0, held by 77 train)"));
}

// Several of others, of which one has a shape that the model does not know; on two GPUs.
TEST(Occupancy, NamesAllThatAreInTheWayAndNoOthers) {
  device::NodeState state = node();
  const auto put = [&](int gpu, const std::string& profile, int start, int gi_id) {
    device::Instance& one = state.gpus[static_cast<std::size_t>(gpu)].instances.emplace_back();
    one.profile = profile;
    one.start = start;
    one.size = one.gpcs = 1;
    one.gi_id = gi_id;
  };
  put(0, "strange", 0, 1);
  put(0, "1g.6gb", 0, 2);
  put(0, "1g.6gb", 3, 3);
  put(2, "1g.6gb", 1, 4);
  exec::Script script;
  script.gpus = {{.device = 2, .model = "A30-24GB"}, {.device = 0, .model = "A30-24GB"}};
  script.visits = {{.gpu = 0, .place = {"2g.12gb", 0}, .size = 2},
                   {.gpu = 1, .place = {"2g.12gb", 2}, .size = 2}};
  script.gpus[0].changes = {{.visit = 0, .create = true}};
  script.gpus[1].changes = {{.visit = 1, .create = true}};
  EXPECT_THAT(blockers(script, state, hw::builtin_catalogue()),
              ElementsAre("GPU 2: 1g.6gb@1 (gi 4)", "GPU 0: 1g.6gb@3 (gi 3)"));
  script.gpus[0].model = "unknown";
  EXPECT_THAT(blockers(script, state, hw::builtin_catalogue()),
              ElementsAre("GPU 0: 1g.6gb@3 (gi 3)"));
}

// As many as the board gives of a shape: with those of others there are too many.
TEST(Occupancy, WhereThereAreTooManyAllOthersAreInTheWay) {
  device::NodeState state = node();
  for (const int start : {0, 1}) {
    device::Instance& one = state.gpus[1].instances.emplace_back();
    one.profile = start == 0 ? "1g.10gb+me" : "1g.10gb";
    one.start = start;
    one.size = one.gpcs = 1;
    one.gi_id = 7 + start;
  }
  exec::Script script;
  script.gpus = {{.device = 1, .model = "A100-80GB"}};
  script.visits = {{.gpu = 0, .place = {"1g.10gb+me", 4}, .size = 1},
                   {.gpu = 0, .place = {"1g.10gb", 5}, .size = 1}};
  script.gpus[0].changes = {{.visit = 1, .create = true}};
  EXPECT_THAT(blockers(script, state, hw::builtin_catalogue()), IsEmpty());
  script.gpus[0].changes = {{.visit = 0, .create = true}};
  EXPECT_EQ(blockers(script, state, hw::builtin_catalogue()).size(), 2U);
}

// What went is in nobody's way, and of two of the same shape one goes.
TEST(Occupancy, WhatIsDestroyedMakesRoom) {
  device::NodeState state = node();
  device::Instance& foreign = state.gpus[0].instances.emplace_back();
  foreign.profile = "1g.6gb";
  foreign.start = 3;
  foreign.size = foreign.gpcs = 1;
  exec::Script script;
  script.gpus = {{.device = 0, .model = "A30-24GB"}};
  script.visits = {{.place = {"2g.12gb", 0}, .size = 2},
                   {.place = {"1g.6gb", 0}, .size = 1},
                   {.place = {"1g.6gb", 3}, .size = 1}};
  script.gpus[0].changes = {
      {.visit = 0, .create = true}, {.visit = 0, .create = false}, {.visit = 1, .create = true}};
  EXPECT_THAT(blockers(script, state, hw::builtin_catalogue()), IsEmpty());
  script.gpus[0].changes = {{.visit = 2, .create = false}, {.visit = 2, .create = true}};
  EXPECT_EQ(blockers(script, state, hw::builtin_catalogue()).size(), 1U)
      << "it is somebody else's that is there";
}

}  // namespace
}  // namespace partita::carry
