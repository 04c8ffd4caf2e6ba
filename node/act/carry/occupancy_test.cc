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
  script.visits.push_back({.profile = "2g.12gb", .size = 2});
  script.gpus[0].changes = {{.visit = 0, .create = true}, {.visit = 0, .create = false}};
  if (whole_gpu) {
    script.visits.push_back({.profile = "4g.24gb", .size = 4});
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
}

}  // namespace
}  // namespace partita::carry
