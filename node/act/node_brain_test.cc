// The brain by hand, without any door: what it asks, what it does with the answers, when it wants
// time to pass, and what an interruption brings about.
#include "act/node_brain.h"

#include <gtest/gtest.h>

#include "act/executor.h"

namespace partita::actuate {
namespace {

constexpr std::int64_t kMs = 1'000'000;

const plan::Terms kChat{.name = "chat", .rate = Rps{9}, .slo = Millis{50}};

Seen one_segment() {
  Seen seen;
  device::GpuState& gpu = seen.state.gpus.emplace_back();
  gpu.uuid = "GPU-0";
  gpu.model = "A30-24GB";
  gpu.mig_capable = gpu.mig_enabled = gpu.mig_pending = true;
  device::Instance& instance = gpu.instances.emplace_back();
  instance.profile = "1g.6gb";
  instance.gpcs = instance.size = 1;
  instance.gi_id = 3;
  instance.compute.push_back({0, 1, "MIG-0"});
  seen.assignment = {7, {{{"1g.6gb", 0}, {"chat", 1, 1, 10}, "MIG-0", "GPU-0"}}, {kChat}};
  return seen;
}

const Users kHeld{{{42, "worker"}}, "pid 42 (worker)"};

template <class Q>
const Q& asked(const NodeActions& actions) {
  EXPECT_TRUE(actions.ask && std::holds_alternative<Q>(*actions.ask));
  return std::get<Q>(*actions.ask);
}

std::vector<NodeEvent> told(Answer answer) { return {Answered{std::move(answer)}}; }

// A drain up to the first time that it waits.
std::unique_ptr<NodeBrain> waiting_drain() {
  auto brain = std::make_unique<NodeBrain>(std::vector<std::string>{"MIG-0"}, Seconds{1},
                                           hw::builtin_catalogue());
  asked<Look>(brain->step(0, {}));
  const NodeActions stop = brain->step(1 * kMs, told(Result<Seen>(one_segment())));
  EXPECT_TRUE(asked<Assign>(stop).assignment.segments.empty());
  EXPECT_EQ(asked<Assign>(stop).assignment.services, std::vector{kChat});
  EXPECT_EQ(asked<Assign>(stop).assignment.revision, 8);
  const NodeActions who = brain->step(2 * kMs, told(Result<void>()));
  EXPECT_EQ(asked<AskUsers>(who).devices, std::vector<std::string>{"MIG-0"});
  const NodeActions wait = brain->step(3 * kMs, told(Result<Users>(kHeld)));
  EXPECT_FALSE(wait.ask.has_value());
  EXPECT_EQ(wait.tell.back().kind, ApplyEvent::Kind::waiting);
  EXPECT_EQ(brain->next_wake(), 23 * kMs);
  return brain;
}

TEST(NodeBrain, WaitsWithoutSleepingAndGivesUpInTime) {
  const auto brain = waiting_drain();
  EXPECT_FALSE(brain->step(4 * kMs, {}).ask.has_value());  // not yet
  std::int64_t now = 0;
  NodeActions actions;
  constexpr std::int64_t kNever = 9999 * kMs;
  for (now = *brain->next_wake(); now < kNever; now = brain->next_wake().value_or(kNever)) {
    asked<AskUsers>(brain->step(now, {}));
    actions = brain->step(now, told(Result<Users>(kHeld)));
  }
  EXPECT_EQ(asked<Assign>(actions).assignment.segments, one_segment().assignment.segments);
  brain->step(now, told(Result<void>()));
  ASSERT_TRUE(brain->finished());
  EXPECT_EQ(brain->result().error().code, ErrorCode::in_use);
}

TEST(NodeBrain, AnInterruptionPutsTheSegmentBack) {
  const auto brain = waiting_drain();
  const NodeActions again = brain->step(4 * kMs, {Interrupted{}});
  asked<AskUsers>(again);  // it may just have left
  const NodeActions back = brain->step(5 * kMs, told(Result<Users>(kHeld)));
  EXPECT_EQ(asked<Assign>(back).assignment.segments, one_segment().assignment.segments);
  brain->step(6 * kMs, told(Result<void>()));
  ASSERT_TRUE(brain->finished());
  EXPECT_EQ(brain->result().error().code, ErrorCode::environment);
  EXPECT_TRUE(brain->result().error().message.starts_with("interrupted; "));
}

TEST(NodeBrain, AnotherRateOfTheSameLayoutIsWrittenAndNothingElse) {
  plan::Terms faster = kChat;
  faster.rate = Rps{12};
  const Wanted wanted{{{"A30-24GB", "GPU-0", {{"1g.6gb", 0, {"chat", 1, 1, 10}}}}}, {faster}};
  NodeBrain brain(wanted, {}, {}, hw::builtin_catalogue());
  asked<Look>(brain.step(0, {}));
  const NodeActions write = brain.step(kMs, told(Result<Seen>(one_segment())));
  EXPECT_EQ(asked<Assign>(write).assignment.services, std::vector{faster});
  EXPECT_EQ(asked<Assign>(write).assignment.segments, one_segment().assignment.segments);
  brain.step(2 * kMs, told(Result<void>()));
  ASSERT_TRUE(brain.finished());
  EXPECT_TRUE(brain.result().has_value());
}

// Each segment is to carry what is wanted of it where it is.
TEST(NodeBrain, AnotherShareOfTheSameLayoutIsWrittenToItsDevice) {
  Seen seen = one_segment();
  device::Instance second = seen.state.gpus[0].instances[0];
  second.start = 1, second.gi_id = 4, second.compute[0].uuid = "MIG-1";
  seen.state.gpus[0].instances.push_back(second);
  seen.assignment.segments.push_back({{"1g.6gb", 1}, {"chat", 1, 1, 20}, "MIG-1", "GPU-0"});
  const Wanted wanted{{{"A30-24GB",
                        "GPU-0",
                        {{"1g.6gb", 0, {"chat", 1, 1, 11}}, {"1g.6gb", 1, {"chat", 1, 1, 22}}}}},
                      {kChat}};
  NodeBrain brain(wanted, {}, {}, hw::builtin_catalogue());
  asked<Look>(brain.step(0, {}));
  const NodeActions write = brain.step(kMs, told(Result<Seen>(seen)));
  std::vector<AssignedSegment> segments = seen.assignment.segments;
  segments[0].throughput_rps = 11, segments[1].throughput_rps = 22;
  EXPECT_EQ(asked<Assign>(write).assignment.segments, segments);
}

// A state that is restored says nothing of promises: what was said before stays.
TEST(NodeBrain, WhatIsNotSaidOfAServiceStaysAsItWas) {
  const Wanted wanted{{{"A30-24GB", "GPU-0", {{"1g.6gb", 0, {"chat", 2, 1, 10}}}}}};
  NodeBrain brain(wanted, {.min_available = 0}, {}, hw::builtin_catalogue());
  asked<Look>(brain.step(0, {}));
  asked<Note>(brain.step(kMs, told(Result<Seen>(one_segment()))));
  const NodeActions stop = brain.step(2 * kMs, told(Result<void>()));
  EXPECT_TRUE(asked<Assign>(stop).assignment.segments.empty());
  EXPECT_EQ(asked<Assign>(stop).assignment.services, std::vector{kChat});
}

// A device may be made anew with the UUID of one that has gone: it is assigned once.
TEST(NodeBrain, ADeviceThatComesAgainIsAssignedOnce) {
  Seen seen = one_segment();
  device::Instance& stays = seen.state.gpus[0].instances[0];
  stays.start = 1, stays.compute[0].uuid = "MIG-1";
  const AssignedSegment second{{"1g.6gb", 1}, {"chat", 2, 1, 10}, "MIG-1", "GPU-0"};
  seen.assignment.segments.push_back(second);
  const Segment chat{"chat", 2, 1, 10};
  const Wanted wanted{{{"A30-24GB", "GPU-0", {{"1g.6gb", 0, chat}, {"1g.6gb", 1, chat}}}}};
  NodeBrain brain(wanted, {}, {}, hw::builtin_catalogue());
  asked<Look>(brain.step(0, {}));
  asked<Note>(brain.step(kMs, told(Result<Seen>(seen))));
  asked<Note>(brain.step(kMs, told(Result<void>())));
  asked<CreateInstance>(brain.step(kMs, told(Result<void>())));
  asked<CreateCompute>(brain.step(kMs, told(Result<int>(3))));
  asked<Note>(brain.step(kMs, told(Result<device::ComputeInstance>({0, 1, "MIG-0"}))));
  const NodeActions start = brain.step(kMs, told(Result<void>()));
  EXPECT_EQ(
      asked<Assign>(start).assignment.segments,
      (std::vector<AssignedSegment>{{{"1g.6gb", 0}, {"chat", 2, 1, 10}, "MIG-0", "GPU-0"}, second}))
      << "by device";
}

TEST(NodeBrain, AnInterruptionBeforeAnythingChangesNothing) {
  const Wanted empty{{{"A30-24GB", "GPU-0", {}}}};
  NodeBrain brain(empty, {}, {}, hw::builtin_catalogue());
  asked<Look>(brain.step(0, {}));
  std::vector<NodeEvent> events = told(Result<Seen>(one_segment()));
  events.emplace_back(Interrupted{});
  brain.step(kMs, events);
  ASSERT_TRUE(brain.finished());
  EXPECT_EQ(brain.result().error(), interrupted_error(true));
}

}  // namespace
}  // namespace partita::actuate
