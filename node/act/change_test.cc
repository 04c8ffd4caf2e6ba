// Changes by hand: what is kept, what goes, what is said of it and how long it takes, and what is
// refused in which words. In general: tests/actuation/change_test.cc.
#include "act/change.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "device/node_driver.h"

namespace partita::actuate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A node of A30 GPUs, whose slices are all alike: 1g at 0 to 3, 2g at 0 and 2, 4g at 0.
struct A30Node {
  explicit A30Node(int gpus = 1) {
    for (int g = 0; g < gpus; ++g) {
      device::GpuState& gpu = state.gpus.emplace_back();
      gpu.index = g;
      gpu.uuid = fmt::format("GPU-{}", g);
      gpu.name = "NVIDIA A30";
      gpu.model = "A30-24GB";
      gpu.mig_capable = gpu.mig_enabled = gpu.mig_pending = true;
    }
  }
  // An instance, with a segment unless the service is empty.
  device::Instance& add(int gpu, int gpcs, int start, const Segment& segment = {}) {
    device::Instance one;
    one.profile = fmt::format("{}g.{}gb", gpcs, gpcs * 6);
    one.gpcs = one.size = gpcs;
    one.start = start;
    one.gi_id = 10 + start;
    one.compute.push_back({0, gpcs, fmt::format("MIG-{}-{}", gpu, start)});
    if (!segment.service.empty())
      assignment.segments.push_back({one, segment, one.uuid(), fmt::format("GPU-{}", gpu)});
    auto& instances = state.gpus[static_cast<std::size_t>(gpu)].instances;
    instances.push_back(one);
    return instances.back();
  }
  Result<Change> to(const Wanted& wanted, const ChangeOptions& options = {}) const {
    return plan_change(state, assignment, wanted, hw::builtin_catalogue(), options);
  }
  std::string refusal(const Wanted& wanted, const ChangeOptions& options = {}) const {
    const Result<Change> change = to(wanted, options);
    return change ? "planned" : to_string(change.error());
  }

  device::NodeState state;
  Assignment assignment;
};

WantedInstance wanted_1g(int start, const Segment& segment = {}) {
  return {"1g.6gb", start, segment};
}
Wanted on_one(std::vector<WantedInstance> instances, const std::string& uuid = "GPU-0") {
  return {{{"A30-24GB", uuid, std::move(instances)}}};
}
const Segment kTen{"chat", 4, 1, 10}, kOther{"other", 2, 1, 10};

ChangeOptions least(double share) {
  ChangeOptions options;
  options.min_available = share;
  return options;
}
ChangeOptions decided(const std::string& uuid) {
  ChangeOptions options;
  options.gpu_uuids = {uuid};
  return options;
}
ChangeOptions resets(bool allowed, bool possible) {
  ChangeOptions options;
  options.allow_reset = allowed;
  options.can_reset = possible;
  return options;
}

std::vector<std::string> steps_of(const Change& change) {
  std::vector<std::string> lines;
  for (const Step& step : change.steps)
    lines.push_back(fmt::format("{} {} {}{}", to_string(step.kind), to_string(step.place),
                                step.segment.service, step.temporary ? " for a while" : ""));
  return lines;
}

TEST(ChangeByHand, AMoveStartsBeforeItStops) {
  A30Node node;
  node.add(0, 1, 0, kTen);
  const Change change = node.to(on_one({wanted_1g(3, kTen)})).value();
  EXPECT_THAT(steps_of(change),
              ElementsAre("create_instance gpu 0 1g.6gb at 3 ", "create_compute gpu 0 1g.6gb at 3 ",
                          "start gpu 0 1g.6gb at 3 chat", "stop gpu 0 1g.6gb at 0 chat",
                          "drain gpu 0 1g.6gb at 0 chat", "destroy_compute gpu 0 1g.6gb at 0 ",
                          "destroy_instance gpu 0 1g.6gb at 0 "));
  EXPECT_THAT(change.explanation, ElementsAre("chat moves from gpu 0 1g.6gb at 0 to gpu 0 1g.6gb "
                                              "at 3"));
  // Of the paper's table: 0.11 s to create, 0.1 s to destroy.
  EXPECT_DOUBLE_EQ(change.predicted.value, 0.21);
  EXPECT_DOUBLE_EQ(change.steps.front().predicted.value, 0.11);
  EXPECT_DOUBLE_EQ(change.steps.back().predicted.value, 0.1);
  EXPECT_EQ(change.changes, (plan::Changes{.moved = 1, .removed = 1}));
  EXPECT_EQ(change.destroy.at(0).gi_id, 10);
  EXPECT_EQ(change.destroy.at(0).uuid, "MIG-0-0");
  ASSERT_EQ(change.affected.size(), 1u);
  EXPECT_EQ(change.affected[0], (Affected{"chat", {0}, {0}, 1, ""}));
  EXPECT_EQ(change.kept_gpcs, 0);
}

// Files of older versions do not name it.
TEST(ChangeByHand, AnotherEngineIsAnotherSegment) {
  A30Node node;
  node.add(0, 1, 0, kTen);
  Segment other = kTen;
  other.engine = {"m bf16 on a30, vllm 1", "vllm", "1", "bf16"};
  EXPECT_THAT(steps_of(node.to(on_one({wanted_1g(0, other)})).value()), IsEmpty());
  node.assignment.segments[0].engine = {"m fp8 on a30, vllm 1", "vllm", "1", "fp8"};
  EXPECT_THAT(steps_of(node.to(on_one({wanted_1g(0, other)})).value()),
              testing::Contains("start gpu 0 1g.6gb at 0 chat"));
  node.assignment.segments[0].engine = other.engine;
  EXPECT_THAT(steps_of(node.to(on_one({wanted_1g(0, other)})).value()), IsEmpty());
}

// Two of equal shape: the one that is as wanted stays, and what it carries does not count.
TEST(ChangeByHand, WhatIsAsWantedIsNotTouched) {
  A30Node node;
  node.add(0, 1, 0, kTen);
  node.add(0, 2, 2, {"other", 8, 2, 70});
  const Change same =
      node.to(on_one({wanted_1g(0, {"chat", 4, 1, 99}), {"2g.12gb", 2, {"other", 8, 2, 1}}}))
          .value();
  EXPECT_TRUE(same.empty());
  ASSERT_EQ(same.keep.size(), 2u);
  EXPECT_EQ(same.keep[1].place, (Place{{"2g.12gb", 2}, 0, "GPU-0"}));
  EXPECT_EQ(same.kept_gpcs, 3);
  EXPECT_EQ(same.changes, (plan::Changes{.kept = 2}));
  EXPECT_THAT(same.explanation, IsEmpty());
  EXPECT_THAT(same.affected, IsEmpty());
}

TEST(ChangeByHand, EachKindOfNewSegmentIsSaid) {
  A30Node node;
  node.add(0, 1, 0, kTen);
  node.add(0, 1, 1, kTen);
  node.add(0, 1, 2);
  node.add(0, 1, 3, {"going", 1, 1, 5});
  const Wanted wanted = on_one({wanted_1g(0, {"chat", 8, 2, 10}), wanted_1g(1, kOther),
                                wanted_1g(2, {"fresh", 1, 1, 3}), wanted_1g(3)});
  const Change change = node.to(wanted, least(0)).value();
  EXPECT_THAT(
      change.explanation,
      ElementsAre("gpu 0 1g.6gb at 0 keeps its instance; chat restarts with batch 8 x 2 processes",
                  "gpu 0 1g.6gb at 1 keeps its instance; chat gives way to other",
                  "gpu 0 1g.6gb at 2 is there already; fresh starts on it",
                  "gpu 0 1g.6gb at 3 keeps its instance, going leaves it"));
  EXPECT_EQ(change.changes, (plan::Changes{.restarted = 1, .created = 2, .removed = 2}));
  EXPECT_EQ(change.kept_gpcs, 1) << "the one that nobody used stays untouched";
  EXPECT_EQ(change.predicted.value, 0);
  for (const Step& step : change.steps) EXPECT_FALSE(step.temporary);
  for (const Step& step : change.steps)
    EXPECT_TRUE(step.kind == Step::Kind::start || step.kind == Step::Kind::stop ||
                step.kind == Step::Kind::drain);
}

// A full GPU whose slices change hands: the service is gone for as long as the driver takes.
TEST(ChangeByHand, WithoutRoomTheLossIsTold) {
  A30Node node;
  node.add(0, 4, 0, {"chat", 4, 1, 40});
  const Change change = node.to(on_one({wanted_1g(0, kTen), wanted_1g(2, kTen)})).value();
  ASSERT_EQ(change.affected.size(), 1u);
  const Affected& chat = change.affected[0];
  EXPECT_EQ(chat.service, "chat");
  // From its end (0.1) to the first new one (0.11); with half of 20/s it is below until the next.
  EXPECT_NEAR(chat.unavailable.value, 0.21, 1e-12);
  EXPECT_NEAR(chat.below.value, 0.32, 1e-12);
  EXPECT_EQ(chat.least, 0);
  EXPECT_EQ(chat.why_below,
            "gpu 0 4g.24gb at 0 has to stop before its successor can start: no room for it, nor "
            "for a stand-in");
  EXPECT_EQ(node.to(on_one({wanted_1g(0, kTen)}), least(0)).value().affected[0].below, Seconds{0})
      << "nothing was to stay up";
}

// One of two alike goes: what is to stay is there all the time.
TEST(ChangeByHand, WhatGoesIsLostOnce) {
  A30Node node;
  node.add(0, 1, 0, kTen);
  node.add(0, 1, 1, kTen);
  const Change change = node.to(on_one({wanted_1g(0, kTen)})).value();
  ASSERT_EQ(change.affected.size(), 1u);
  EXPECT_EQ(change.affected[0], (Affected{"chat", {0}, {0}, 1, ""}));
}

// Half of the capacity may go: at exactly the floor nothing has to stand in.
TEST(ChangeByHand, TheFloorItselfIsEnough) {
  A30Node node;
  node.add(0, 2, 0, {"chat", 4, 1, 20});
  node.add(0, 2, 2, {"chat", 4, 1, 20});
  const Wanted halves =
      on_one({wanted_1g(0, kTen), wanted_1g(1, kTen), wanted_1g(2, kTen), wanted_1g(3, kTen)});
  const Change half = node.to(halves, least(0.5)).value();
  EXPECT_EQ(half.affected[0].least, 0.5);
  EXPECT_EQ(half.affected[0].below, Seconds{0});
  EXPECT_EQ(half.affected[0].why_below, "");
  const Change more = node.to(halves, least(0.51)).value();
  EXPECT_GT(more.affected[0].below, Seconds{0});
  EXPECT_THAT(more.affected[0].why_below, HasSubstr("has to stop before its successor"));
}

TEST(ChangeByHand, AStandInServesWhileRoomIsMade) {
  A30Node node(2);
  node.add(0, 4, 0, {"chat", 4, 1, 40});
  Wanted wanted = on_one({{"2g.12gb", 0, {"chat", 4, 1, 40}}});
  wanted.gpus.push_back({"A30-24GB", "GPU-1", {}});
  const Change change = node.to(wanted).value();
  ASSERT_EQ(change.temporary.size(), 1u);
  EXPECT_THAT(change.explanation,
              ElementsAre("chat moves from gpu 0 4g.24gb at 0 to gpu 0 2g.12gb at 0",
                          "gpu 1 4g.24gb at 0 is a stand-in for chat until its successor runs"));
  EXPECT_THAT(
      steps_of(change),
      ElementsAre("create_instance gpu 1 4g.24gb at 0  for a while",
                  "create_compute gpu 1 4g.24gb at 0  for a while",
                  "start gpu 1 4g.24gb at 0 chat for a while", "stop gpu 0 4g.24gb at 0 chat",
                  "drain gpu 0 4g.24gb at 0 chat", "destroy_compute gpu 0 4g.24gb at 0 ",
                  "destroy_instance gpu 0 4g.24gb at 0 ", "create_instance gpu 0 2g.12gb at 0 ",
                  "create_compute gpu 0 2g.12gb at 0 ", "start gpu 0 2g.12gb at 0 chat",
                  "stop gpu 1 4g.24gb at 0 chat for a while",
                  "drain gpu 1 4g.24gb at 0 chat for a while",
                  "destroy_compute gpu 1 4g.24gb at 0  for a while",
                  "destroy_instance gpu 1 4g.24gb at 0  for a while"));
  EXPECT_EQ(change.affected[0], (Affected{"chat", {0}, {0}, 1, ""}));
}

// Where MIG is off nothing can stand in.
TEST(ChangeByHand, AGpuWithoutMigHostsNoStandIn) {
  A30Node node(2);
  node.add(0, 4, 0, {"chat", 4, 1, 40});
  node.state.gpus[1].mig_enabled = false;
  Wanted wanted = on_one({{"2g.12gb", 0, {"chat", 4, 1, 40}}});
  wanted.gpus.push_back({"A30-24GB", "GPU-1", {}});
  const Change change = node.to(wanted).value();
  EXPECT_THAT(change.temporary, IsEmpty());
  EXPECT_NEAR(change.affected.at(0).unavailable.value, 0.22, 1e-12);
}

// A service of less than a request a second is as much of one as any.
TEST(ChangeByHand, SmallRatesCountAsLargeOnesDo) {
  for (const double rate : {1e-3, 0.7, 1.0, 1e6}) {
    A30Node node;
    node.add(0, 4, 0, {"chat", 4, 1, 4 * rate});
    const Segment part{"chat", 4, 1, rate};
    const Change change = node.to(on_one({wanted_1g(0, part), wanted_1g(2, part)})).value();
    EXPECT_EQ(change.affected.at(0).least, 0) << rate;
    EXPECT_NEAR(change.affected.at(0).unavailable.value, 0.21, 1e-12) << rate;
    EXPECT_NEAR(change.affected.at(0).below.value, 0.32, 1e-12) << rate;
  }
}

// Only a plan of MIG instances that can be beside each other can be carried out.
TEST(ChangeByHand, PlansThatCannotBeCutAreRefused) {
  plan::ServingPlan plan;
  plan.gpu_model = "A30-24GB";
  plan.gpus.emplace_back().model = "A30-24GB";
  const auto refusal = [&](const std::string& profile, int start, int group = 1) {
    plan.gpus[0].instances.clear();
    for (const bool first : {true, false}) {
      plan::PlannedInstance& one = plan.gpus[0].instances.emplace_back();
      one.service = first ? "b" : "a";
      one.profile = first ? "2g.12gb" : profile;
      one.start = first ? 2 : start;
      if (!first) one.group = group;
    }
    const auto checked = check_places(plan, hw::builtin_catalogue());
    return checked ? "fine" : to_string(checked.error());
  };
  EXPECT_EQ(refusal("1g.6gb", 1), "fine");
  EXPECT_THAT(refusal("1g.6gb", 1, 2), HasSubstr("have the same segment on all of each"));
  EXPECT_THAT(refusal("1g.6gb", 2), HasSubstr("gpu 0: A30-24GB cannot be cut like this: "));
  EXPECT_EQ(refusal("1g.7gb", 1), "gpu 0: A30-24GB has no profile 1g.7gb");
}

// What others made stays where that is asked for, unless it is in the way.
TEST(ChangeByHand, WhatOthersMadeStaysUnlessItIsInTheWay) {
  A30Node node;
  node.add(0, 1, 0);
  node.add(0, 1, 1, kTen);
  node.add(0, 2, 2).compute[0].uuid = "MIG-ours";
  ChangeOptions keep;
  keep.keep_foreign = true;
  keep.owned = {"MIG-ours"};
  const Change apart = node.to(on_one({}), keep).value();
  ASSERT_EQ(apart.destroy.size(), 1u);
  EXPECT_EQ(apart.destroy[0].uuid, "MIG-ours");
  EXPECT_TRUE(apart.destroy[0].ours);
  ASSERT_EQ(apart.reassign.size(), 1u);  // what runs on the other leaves it
  EXPECT_EQ(apart.reassign[0].from.uuid, "MIG-0-1");
  EXPECT_FALSE(apart.reassign[0].from.ours);
  const Change in_the_way = node.to(on_one({{"2g.12gb", 0, {}}}), keep).value();
  EXPECT_EQ(in_the_way.destroy.size(), 3u);
  const Change all = node.to(on_one({})).value();
  EXPECT_EQ(all.destroy.size(), 3u);
  EXPECT_THAT(all.explanation,
              ElementsAre("gpu 0 1g.6gb at 0 is not wanted; Partita did not make it",
                          "gpu 0 2g.12gb at 2 is not wanted; Partita did not make it"));
  keep.owned = {};
  keep.intended = {{{"1g.6gb", 0}, 0, "GPU-0"}};
  const Change begun = node.to(on_one({}), keep).value();
  ASSERT_EQ(begun.destroy.size(), 1u) << "what we were making is ours";
  EXPECT_EQ(begun.destroy[0].place.start, 0);
}

// In the way is also what breaks a rule from afar, and what nobody knows, where it lies.
TEST(ChangeByHand, WhatIsInTheWayFromAfar) {
  ChangeOptions keep;
  keep.keep_foreign = true;
  A30Node engines;  // a GPU has one set of media engines
  engines.add(0, 1, 0).profile = "1g.6gb+me";
  EXPECT_EQ(engines.to(on_one({wanted_1g(3)}), keep).value().destroy.size(), 0u);
  EXPECT_EQ(engines.to(on_one({{"1g.6gb+me", 3, {}}}), keep).value().destroy.size(), 1u);
  A30Node unknown;
  unknown.add(0, 1, 0).profile = "1g.of.another.driver";
  EXPECT_EQ(unknown.to(on_one({wanted_1g(1)}), keep).value().destroy.size(), 0u);
  EXPECT_EQ(unknown.to(on_one({wanted_1g(0)}), keep).value().destroy.size(), 1u);
}

// What is lent stays, and no segment comes on it.
TEST(ChangeByHand, WhatIsLentIsLeftAlone) {
  A30Node node;
  node.add(0, 1, 0).holders = {{0, "slurm:42"}};
  EXPECT_TRUE(node.to(on_one({})).value().empty());
  EXPECT_TRUE(node.to(on_one({wanted_1g(0)})).value().empty());
  EXPECT_THAT(node.to(on_one({wanted_1g(0, kTen)})).value().destroy, testing::SizeIs(1));
}

// Of services that lose nothing nothing is said; the others are in the order of their names.
TEST(ChangeByHand, WhoIsAffectedIsSaidInOrder) {
  A30Node node;
  node.add(0, 1, 0, {"z", 4, 1, 10});
  node.add(0, 1, 1, {"a", 4, 1, 10});
  node.add(0, 1, 2, {"stays", 4, 1, 10});
  const Change change =
      node.to(on_one({wanted_1g(0, {"a", 4, 1, 10}), wanted_1g(1, {"z", 4, 1, 10}),
                      wanted_1g(2, {"stays", 4, 1, 10}), wanted_1g(3, {"new", 4, 1, 10})}),
              least(0))
          .value();
  ASSERT_EQ(change.affected.size(), 2u);
  EXPECT_EQ(change.affected[0].service, "a");
  EXPECT_EQ(change.affected[1].service, "z");
  const Change others =
      node.to(on_one({wanted_1g(0, {"b", 4, 1, 10}), wanted_1g(1, {"c", 4, 1, 10})}), least(0))
          .value();
  ASSERT_EQ(others.affected.size(), 3u);
  EXPECT_EQ(others.affected[0].service, "a");
  EXPECT_EQ(others.affected[2].service, "z");
}

// What runs there already as it is wanted need not be restarted.
TEST(ChangeByHand, OfEqualGpusTheOneThatRunsItIsTaken) {
  for (const Segment& wanted : {Segment{"chat", 8, 1, 10}, {"chat", 4, 2, 10}}) {
    A30Node node(2);
    node.add(0, 1, 0, kTen);
    node.add(1, 1, 0, wanted);
    const Change change = node.to(on_one({wanted_1g(0, wanted)}, "")).value();
    EXPECT_THAT(change.gpu_of, ElementsAre(1)) << wanted.batch << " " << wanted.processes;
  }
}

// Of equals the GPU is taken that nobody has borrowed from, and the one where somebody is at work.
TEST(ChangeByHand, OfEqualGpusTheOneThatDisturbsNobodyIsTaken) {
  A30Node lent(2);
  lent.add(0, 1, 3).holders = {{0, "slurm:42"}};
  EXPECT_THAT(lent.to(on_one({wanted_1g(0)}, "")).value().gpu_of, ElementsAre(1));
  lent.add(0, 1, 0, kTen);  // something of ours runs there
  EXPECT_THAT(lent.to(on_one({wanted_1g(0, kTen)}, "")).value().gpu_of, ElementsAre(0));
  EXPECT_THAT(lent.to(on_one({{"4g.24gb", 0, kTen}}, "")).value().gpu_of, ElementsAre(1))
      << "there is no room beside what is lent";
  EXPECT_THAT(lent.to(on_one({wanted_1g(0, kTen), {"2g.12gb", 2, kTen}}, "")).value().gpu_of,
              ElementsAre(1))
      << "nor where one of the two would stay";
  A30Node off(2);  // what is lent is no place for what is wanted
  off.state.gpus[0].mig_enabled = off.state.gpus[0].mig_pending = false;
  off.add(1, 1, 3).holders = {{0, "slurm:42"}};
  EXPECT_THAT(off.to(on_one({wanted_1g(3, kTen)}, "")).value().gpu_of, ElementsAre(0));
  A30Node alike(2);  // where it is to be, not where something like it is
  alike.add(0, 1, 0), alike.add(1, 1, 1);
  EXPECT_THAT(alike.to(on_one({wanted_1g(1)}, "")).value().gpu_of, ElementsAre(1));
  EXPECT_TRUE(alike.to(on_one({wanted_1g(0)}, "GPU-0")).value().empty());
  A30Node borrowed(2);
  borrowed.add(0, 1, 3).holders = {{0, "slurm:42"}};
  borrowed.add(0, 1, 0);
  borrowed.add(1, 1, 0);
  EXPECT_THAT(borrowed.to(on_one({wanted_1g(0)}, "")).value().gpu_of, ElementsAre(1));
  A30Node held(2);
  held.add(0, 1, 0);
  held.add(1, 1, 0).holders = {{41, "python"}};
  EXPECT_THAT(held.to(on_one({wanted_1g(0)}, "")).value().gpu_of, ElementsAre(1));
  EXPECT_THAT(held.to(on_one({wanted_1g(0)}, "")).value().blockers, IsEmpty());
}

TEST(ChangeByHand, WhatWasCutShortIsCompleted) {
  A30Node node;
  node.add(0, 1, 0).compute.clear();
  const Change change = node.to(on_one({wanted_1g(0, kTen)})).value();
  EXPECT_THAT(steps_of(change),
              ElementsAre("create_compute gpu 0 1g.6gb at 0 ", "start gpu 0 1g.6gb at 0 chat"));
  A30Node halves;
  halves.add(0, 2, 0).compute[0].gpcs = 1;  // somebody's cut of it
  EXPECT_EQ(halves.to(on_one({{"2g.12gb", 0, kTen}})).value().destroy.size(), 1u);
}

TEST(ChangeByHand, WhoeverIsInTheWayIsNamed) {
  A30Node node;
  node.add(0, 1, 0).holders = {{41, "python"}, {42, "top"}};
  node.add(0, 1, 1, kTen).holders = {{43, "worker"}};
  const Change change = node.to(on_one({})).value();
  ASSERT_EQ(change.blockers.size(), 2u) << "the worker is told to go";
  EXPECT_EQ(to_string(change.blockers[1].holder), "pid 42 (top)");
  EXPECT_EQ(to_string(change.blockers[1].instance.place), "gpu 0 1g.6gb at 0");
  A30Node off;
  off.state.gpus[0].mig_enabled = off.state.gpus[0].mig_pending = false;
  off.state.gpus[0].holders = {{44, "x"}};
  const Change on = off.to(on_one({wanted_1g(0)})).value();
  ASSERT_EQ(on.blockers.size(), 1u);
  EXPECT_EQ(on.blockers[0].instance.uuid, "GPU-0");
  EXPECT_EQ(to_string(on.blockers[0].instance.place), "gpu 0");
  EXPECT_EQ(to_string(on.steps.front().kind), std::string("enable_mig"));
  EXPECT_THAT(off.to(on_one({})).value().blockers, IsEmpty()) << "what is wanted empty stays off";
}

// A GPU that no wanted one names is emptied where any of its model would have done, else left.
TEST(ChangeByHand, OnlyGpusThatAreMeantAreTouched) {
  A30Node node(2);
  node.add(0, 1, 0, kTen);
  node.add(1, 1, 0, kTen);
  EXPECT_EQ(node.to(on_one({wanted_1g(0, kTen)})).value().destroy.size(), 0u);
  EXPECT_EQ(node.to(on_one({wanted_1g(0, kTen)}, "")).value().destroy.size(), 1u);
  node.state.gpus[1].lost = true;
  EXPECT_EQ(node.to(on_one({wanted_1g(0, kTen)}, "")).value().destroy.size(), 0u);
}

TEST(ChangeByHand, RefusalsSayWhatIsMissing) {
  A30Node node(2);
  EXPECT_EQ(node.refusal({{{"H200-141GB", "", {}}}}),
            "node: the plan is for H200-141GB, this node has A30-24GB");
  node.state.gpus[1].model = "";
  EXPECT_EQ(node.refusal({{{"H200-141GB", "", {}}}}),
            "node: the plan is for H200-141GB, this node has 'NVIDIA A30' (not in the catalogue), "
            "A30-24GB");
  node.state.gpus[1].model = "A30-24GB";
  EXPECT_EQ(A30Node(0).refusal({{{"H200-141GB", "", {}}}}),
            "node: the plan is for H200-141GB, this node has no GPU");
  const Wanted three{{{"A30-24GB", "", {}}, {"A30-24GB", "", {}}, {"A30-24GB", "", {}}}};
  EXPECT_EQ(node.refusal(three), "node: the plan needs 3 GPUs of model A30-24GB, 2 can be used");
  node.state.gpus[1].lost = true;
  EXPECT_EQ(node.refusal(three),
            "node: the plan needs 3 GPUs of model A30-24GB, 1 can be used; gpu 1 is lost");
  EXPECT_EQ(node.refusal(on_one({}, "GPU-1")), "gpu 0: GPU GPU-1 (gpu 1) is lost, or wanted twice");
  EXPECT_EQ(node.refusal({{{"A30-24GB", "GPU-0", {}}, {"A30-24GB", "GPU-0", {}}}}),
            "gpu 1: GPU GPU-0 (gpu 0) is lost, or wanted twice");
  EXPECT_EQ(node.refusal(on_one({}, "GPU-9")),
            "gpu 0: this node has no GPU GPU-9; it has A30-24GB");
  EXPECT_EQ(node.refusal({{{"H200-141GB", "GPU-0", {}}}}),
            "gpu 0: H200-141GB is wanted, GPU-0 is a A30-24GB");
  node.state.gpus[0].lost = true;
  EXPECT_EQ(node.refusal({{{"A30-24GB", "", {}}}}),
            "node: the plan needs 1 GPUs of model A30-24GB, 0 can be used; gpu 0 is lost; gpu 1 is "
            "lost");
}

TEST(ChangeByHand, LayoutsThatCannotBeAreRefused) {
  A30Node node;
  EXPECT_EQ(node.refusal(on_one({{"3g.18gb", 0, {}}})), "gpu 0: A30-24GB has no profile 3g.18gb");
  EXPECT_EQ(node.refusal(on_one({{"2g.12gb", 1, {}}})),
            "gpu 0: A30-24GB cannot be cut like this: illegal_start (2g.12gb at start 1)");
  EXPECT_THAT(node.refusal(on_one({wanted_1g(0), {"2g.12gb", 1, {}}})),
              HasSubstr(" (2g.12gb at start 1)"));
  Wanted second = on_one({});
  second.gpus.push_back({"A30-24GB", "", {{"9g", 0, {}}}});
  EXPECT_THAT(node.refusal(second), HasSubstr("gpu 1: "));
}

// A matching that was decided earlier holds as long as its GPUs are there.
TEST(ChangeByHand, AMatchingOfBeforeIsKept) {
  A30Node node(2);
  node.add(0, 1, 0, kTen);
  const Wanted any = on_one({wanted_1g(0, kTen)}, "");
  EXPECT_THAT(node.to(any).value().gpu_of, ElementsAre(0));
  EXPECT_THAT(node.to(any, decided("GPU-1")).value().gpu_of, ElementsAre(1));
  EXPECT_THAT(node.to(any, decided("GPU-7")).value().gpu_of, ElementsAre(0));
  EXPECT_THAT(node.to(on_one({}), decided("GPU-1")).value().gpu_of, ElementsAre(0))
      << "whoever names a GPU means it";
}

TEST(ChangeByHand, SoManyGpusAndNoMore) {
  device::NodeState state;
  state.gpus.resize(kMaxChangeGpus);
  const auto planned = [&](std::size_t wanted) {
    Wanted empty;
    empty.gpus.resize(wanted);
    return plan_change(state, {}, empty, hw::builtin_catalogue());
  };
  EXPECT_TRUE(planned(0));
  EXPECT_NE(planned(kMaxChangeGpus).error().code, ErrorCode::limit);
  EXPECT_EQ(to_string(planned(kMaxChangeGpus + 1).error()), "node: more than 1024 GPUs");
  state.gpus.emplace_back();
  EXPECT_EQ(planned(0).error().code, ErrorCode::limit);
}

// MIG mode: who may turn it on, and what is said when nobody may.
TEST(ChangeByHand, MigModeThatNeedsAReset) {
  A30Node node;
  device::GpuState& gpu = node.state.gpus[0];
  gpu.mig_enabled = gpu.mig_pending = false;
  const Wanted wanted = on_one({wanted_1g(0)});
  const ChangeOptions never = resets(false, false), able = resets(true, true);
  EXPECT_EQ(node.refusal(wanted), "planned");
  EXPECT_EQ(steps_of(node.to(wanted).value()).at(0), "enable_mig gpu 0 ");
  EXPECT_THAT(node.refusal(wanted, never),
              HasSubstr("gpu 0: MIG is turned on only by a reset of the GPU"));
  EXPECT_THAT(node.refusal(wanted, never), HasSubstr("nvidia-smi --gpu-reset -i 0"));
  EXPECT_EQ(node.refusal(on_one({}), never), "planned") << "nothing is to be turned on";
  gpu.holders = {{9, "x"}};
  const Change held = node.to(wanted).value();
  ASSERT_EQ(held.blockers.size(), 1u);
  EXPECT_EQ(held.blockers[0].instance.place, (Place{{}, 0, "GPU-0"}));
  EXPECT_EQ(held.blockers[0].instance.uuid, "GPU-0");
  gpu.holders.clear();
  gpu.mig_pending = true;
  EXPECT_EQ(node.refusal(wanted, able), "planned");
  EXPECT_EQ(node.refusal(wanted),
            "gpu 0: MIG mode is on but not in force: reset the GPU (nvidia-smi --gpu-reset -i 0) "
            "or reboot, then apply again");
  EXPECT_THAT(node.refusal(wanted, resets(false, true)), HasSubstr("not in force"));
  gpu.mig_capable = false;
  EXPECT_EQ(node.refusal(wanted), "gpu 0: NVIDIA A30 cannot be cut into instances");
  EXPECT_FALSE(needs_reset(gpu, hw::builtin_catalogue()));
}

// Where nobody said what a segment carries, slices count.
TEST(ChangeByHand, WithoutRatesSlicesAreTheCapacity) {
  A30Node node;
  node.add(0, 1, 0, {"chat", 4, 1, 100});
  node.add(0, 2, 2, {"chat", 4, 1, 0});
  const Change change =
      node.to(on_one({wanted_1g(0, {"chat", 8, 1, 100}), {"2g.12gb", 2, {"chat", 4, 1, 0}}}),
              least(0.5))
          .value();
  ASSERT_EQ(change.affected.size(), 1u);
  EXPECT_NEAR(change.affected[0].least, 2.0 / 3, 1e-12);
  EXPECT_EQ(change.affected[0].below, Seconds{0});
  EXPECT_EQ(change.kept_gpcs, 2);
}

// A state that people hand in: what it names runs there, what is half made or lost is not wanted.
TEST(ChangeByHand, AStateIsWantedAsItIsWritten) {
  A30Node node(4);
  node.add(0, 1, 0);
  node.add(0, 1, 1);
  node.add(0, 1, 2).compute.clear();
  node.add(0, 1, 3).compute.push_back({1, 1, "MIG-second"});
  node.state.gpus[1].lost = true;
  node.state.gpus[2].model = "";
  device::StateDocument document;
  document.state = node.state;
  document.occupants["MIG-0-1"] = {.service = "chat", .batch = 4, .processes = 2};
  const Wanted wanted = wanted_of(document);
  EXPECT_EQ(wanted.gpus, (std::vector<WantedGpu>{
                             {"A30-24GB", "GPU-0", {wanted_1g(0), wanted_1g(1, {"chat", 4, 2, 0})}},
                             {"A30-24GB", "GPU-3", {}}}));
  node.assignment.services = {{.name = "chat", .rate = Rps{3}}};
  node.assignment.segments = {{{"1g.6gb", 0}, {"other", 1, 2, 5}, "MIG-0-0", "GPU-0"}};
  const Wanted now = wanted_of(node.state, node.assignment);
  EXPECT_EQ(now.gpus[0].instances,
            (std::vector<WantedInstance>{wanted_1g(0, {"other", 1, 2, 5}), wanted_1g(1)}));
  EXPECT_EQ(now.services, node.assignment.services);
}

// Two of a service leave, two come: those of equal profile are said to be one segment that moves.
TEST(ChangeByHand, MovesPairEqualShapesFirst) {
  A30Node node(2);
  node.add(0, 2, 0, {"chat", 4, 1, 20});
  node.add(0, 1, 2, kTen);
  Wanted wanted = on_one({});
  wanted.gpus.push_back(
      {"A30-24GB", "GPU-1", {wanted_1g(0, kTen), {"2g.12gb", 2, {"chat", 4, 1, 20}}}});
  const Change change = node.to(wanted).value();
  ASSERT_EQ(change.move.size(), 2u);
  for (const Move& move : change.move) EXPECT_EQ(move.from.place.profile, move.to.place.profile);
  EXPECT_NE(change.move[0].from.place, change.move[1].from.place);
  // Of another service's nothing moves, and with one too few one is new.
  A30Node less(2);
  less.add(0, 2, 0, {"other", 4, 1, 20});
  less.add(0, 1, 2, kTen);
  const Change one = less.to(wanted).value();
  ASSERT_EQ(one.move.size(), 1u);
  EXPECT_EQ(one.move[0].from.segment.service, "chat");
  EXPECT_EQ(one.move[0].to.place.profile, "1g.6gb");
}

}  // namespace
}  // namespace partita::actuate
