#include "control/loop.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "base/rng.h"
#include "control/testing/node_in_memory.h"
#include "forms/serving_forms.h"

namespace partita::control {
namespace {

TEST(Loop, MakesThePlanOfANewServicesFileAndThenDoesNothing) {
  NodeInMemory node(2);
  Loop loop(small_world(automatic()), {}, 7);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}, {"b", 300}})));
  EXPECT_EQ(node.applies, 1);
  node.step(loop, now += 1000);
  EXPECT_TRUE(loop.snapshot().converged) << loop.snapshot().doing;
  EXPECT_GE(node.capacity("a"), 150);
  EXPECT_GE(node.capacity("b"), 300);
  EXPECT_EQ(loop.memory().target->change, 8);  // after those that the history knows
  node.run(loop, now, now + kHourMs);
  EXPECT_EQ(node.applies, 1);
  EXPECT_EQ(node.count(history::EventKind::repair), 0);
  EXPECT_TRUE(node.violations.empty());
}

TEST(Loop, RepairsAfterARebootAndAForeignChange) {
  NodeInMemory node(2);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}, {"b", 300}})));
  node.step(loop, now += 1000);
  const int instances = node.instances();
  const device::NodeState before = node.state;
  node.reboot();
  node.step(loop, now += 1000);
  node.step(loop, now += 1000);
  EXPECT_EQ(node.instances(), instances);
  for (std::size_t g = 0; g < 2; ++g)
    for (std::size_t i = 0; i < before.gpus[g].instances.size(); ++i)
      EXPECT_EQ(node.state.gpus[g].instances[i].start, before.gpus[g].instances[i].start);
  EXPECT_EQ(loop.snapshot().drifts, 1);
  for (device::GpuState& gpu : node.state.gpus)
    if (!gpu.instances.empty()) {
      gpu.instances.erase(gpu.instances.begin());
      break;
    }
  node.step(loop, now += 1000);
  node.step(loop, now += 1000);
  EXPECT_EQ(node.instances(), instances);
  EXPECT_EQ(loop.snapshot().drifts, 2);
  EXPECT_TRUE(loop.snapshot().converged);
  EXPECT_EQ(node.count(history::EventKind::repair), 2);
  EXPECT_EQ(std::ranges::count(node.notices, NoticeKind::drift, &LoopNotice::kind), 2);
}

TEST(Loop, WhatIsTheMatterWithItsFleetIsSaidWhileItIs) {
  NodeInMemory node(1);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}})));
  node.step(loop, now += 1000);
  ASSERT_TRUE(loop.snapshot().converged);
  for (const char* fault : {"its store is not heard", "another has its name", ""}) {
    for (int again = 0; again < 3; ++again) {
      Seen seen;
      seen.fleet_fault = fault;
      node.step(loop, now += 1000, std::move(seen));
    }
    EXPECT_EQ(loop.snapshot().converged, *fault == 0);
    EXPECT_EQ(loop.snapshot().notices,
              *fault == 0 ? std::vector<std::string>{} : std::vector<std::string>{fault});
  }
  EXPECT_EQ(std::ranges::count(node.notices, NoticeKind::other, &LoopNotice::kind), 2);
}

TEST(Loop, WhatAPlanLeavesOutIsSaidUntilItServesAll) {
  NodeInMemory node(1);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  const auto told = [&] {
    return std::ranges::count_if(loop.snapshot().notices, [](const std::string& one) {
      return one.starts_with("not enough GPUs: ");
    });
  };
  for (int again = 0; again < 2; ++again) {
    const auto news = std::ssize(node.notices);
    node.step(loop, now += kHourMs, with_services(services_text({{"a", 3000}})));
    node.step(loop, now += 1000);
    EXPECT_EQ(told(), 1);
    EXPECT_GT(std::ssize(node.notices), news);
    node.step(loop, now += kHourMs, with_services(services_text({{"a", 100}})));
    node.step(loop, now += 1000);
    EXPECT_EQ(told(), 0) << loop.snapshot().notices.front();
  }
}

TEST(Loop, WaitsForApprovalAndTakesANo) {
  Settings settings;
  settings.mode = Mode::approve;
  NodeInMemory node(2);
  Loop loop(small_world(settings), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}})));
  EXPECT_EQ(node.applies, 0);
  ASSERT_TRUE(loop.snapshot().current);
  EXPECT_EQ(loop.snapshot().current->state, ChangeState::proposed);
  EXPECT_FALSE(loop.snapshot().current->change.steps.empty());
  const long number = loop.snapshot().current->number;
  const auto waits = [&](long change) {
    return std::ranges::any_of(loop.snapshot().notices, [&](const std::string& one) {
      return one.starts_with(fmt::format("change {} waits for approval", change));
    });
  };
  EXPECT_TRUE(waits(number));
  EXPECT_EQ(loop.snapshot().doing, fmt::format("change {} waits for approval", number));
  EXPECT_EQ(std::ranges::count(node.notices, NoticeKind::approval, &LoopNotice::kind), 1);
  EXPECT_EQ(std::ranges::count(node.notices, NoticeKind::slo_risk, &LoopNotice::kind), 0);

  const Deeds wrong = node.step(loop, now += 1000, with_request(Approve{number + 1}));
  ASSERT_EQ(wrong.replies.size(), 1u);
  ASSERT_FALSE(wrong.replies[0].has_value());
  EXPECT_EQ(wrong.replies[0].error().code, ErrorCode::not_found);  // there is no such change
  const Deeds no = node.step(loop, now += 1000, with_request(Reject{number, "not on a Monday"}));
  EXPECT_TRUE(no.replies[0].has_value());
  EXPECT_EQ(loop.snapshot().last->state, ChangeState::rejected);
  EXPECT_FALSE(waits(number));

  node.step(loop, now += 1000, with_request(Replan{}));
  ASSERT_TRUE(loop.memory().proposal);
  const long again = loop.memory().proposal->change;
  EXPECT_GT(again, number);
  EXPECT_TRUE(waits(again));
  // What there was, but does not wait, is another matter.
  const Deeds late = node.step(loop, now += 1000, with_request(Approve{number}));
  ASSERT_FALSE(late.replies[0].has_value());
  EXPECT_EQ(late.replies[0].error().code, ErrorCode::infeasible);
  const Deeds gpu = node.step(loop, now += 1000, with_request(GiveBack{"GPU-none"}));
  EXPECT_EQ(gpu.replies[0].error().code, ErrorCode::not_found);
  const Deeds there = node.step(loop, now += 1000, with_request(GiveBack{"GPU-0"}));
  EXPECT_EQ(there.replies[0].error().code, ErrorCode::infeasible);
  const Deeds yes = node.step(loop, now += 1000, with_request(Approve{again, "tried it by night"}));
  EXPECT_EQ(yes.replies[0]->change, again);
  EXPECT_FALSE(waits(again));
  EXPECT_EQ(node.applies, 1);
  node.step(loop, now += 1000);
  EXPECT_TRUE(loop.snapshot().converged);
  const auto approved =
      std::ranges::find(node.events, history::EventKind::approved, &history::Event::kind);
  ASSERT_NE(approved, node.events.end());
  EXPECT_EQ(approved->user, "ops");
  EXPECT_NE(approved->detail.find("tried it by night"), std::string::npos) << approved->detail;
}

TEST(Loop, ANoOutlivesTheAgentThatWasTold) {
  Settings settings;
  settings.mode = Mode::approve;
  NodeInMemory node(3);
  std::int64_t now = kMonday;
  Loop told(small_world(settings), {}, 0);
  node.step(told, now, with_services(services_text({{"a", 150}})));
  node.step(told, now += 1000, with_request(Reject{1, "not now"}));
  const auto kept = parse_memory("memory", memory_json(told.memory()));
  ASSERT_TRUE(kept);
  Loop loop(small_world(settings), *kept, 0);
  node.run(loop, now, now + kHourMs / 4);
  EXPECT_FALSE(loop.memory().proposal);
  node.step(loop, now += 2 * kHourMs);
  ASSERT_TRUE(loop.memory().proposal);
  EXPECT_EQ(loop.memory().proposal->change, 2);
}

// The first no is of a plan that must be; it is proposed again only when GPUs or services change.
TEST(Loop, ANoIsKeptUntilServicesOrGpusChange) {
  Settings settings;
  settings.mode = Mode::approve;
  NodeInMemory node(3);
  Loop loop(small_world(settings), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}})));
  const auto proposed = [&] { return loop.memory().proposal ? loop.memory().proposal->change : 0; };
  ASSERT_EQ(proposed(), 1);
  node.step(loop, now += 1000, with_request(Reject{1, "not now"}));
  node.run(loop, now, now + kHourMs / 4);
  EXPECT_EQ(proposed(), 0);
  EXPECT_NE(loop.snapshot().doing.find("a person said no"), std::string::npos)
      << loop.snapshot().doing;
  node.step(loop, now += kHourMs / 4, with_services(services_text({{"a", 160}})));
  EXPECT_EQ(proposed(), 2);
  node.step(loop, now += 1000, with_request(Reject{2, "no"}));
  node.step(loop, now += 1000);
  EXPECT_EQ(proposed(), 0);
  node.step(loop, now += 1000, with_request(TakeOut{"GPU-2", "fan"}));
  node.step(loop, now += 1000);
  EXPECT_EQ(proposed(), 3);
  // Its ground is gone: the GPU is there again.
  node.step(loop, now += 1000, with_request(GiveBack{"GPU-2"}));
  node.step(loop, now += 1000);
  EXPECT_EQ(proposed(), 4);
  node.step(loop, now += 1000, with_request(Reject{4, "no"}));
  node.step(loop, now += 2 * kHourMs);
  EXPECT_EQ(proposed(), 5);
  EXPECT_EQ(node.applies, 0);
}

TEST(Loop, WhatWasDecidedUnaskedAndNotMadeWaitsOnceAPersonIsAsked) {
  NodeInMemory node(2);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}})));
  node.step(loop, now += 1000);
  ASSERT_TRUE(loop.snapshot().converged);
  const int before = node.instances(), applies = node.applies;
  node.fault = Error{ErrorCode::in_use, "a hook says no", ""};
  node.step(loop, now += 1000, with_services(services_text({{"a", 900}})));
  node.step(loop, now += 1000);
  EXPECT_GT(node.applies, applies);
  node.step(loop, now += 1000, with_request(SetMode{Mode::approve}));
  node.fault.reset();
  const int tried = node.applies;
  node.run(loop, now, now + kHourMs / 2);
  EXPECT_EQ(node.applies, tried);
  EXPECT_EQ(node.instances(), before);
  ASSERT_TRUE(loop.memory().proposal);
  const long change = loop.memory().proposal->change;
  node.step(loop, now += kHourMs, with_request(Approve{change, "go"}));
  node.run(loop, now, now + kHourMs / 4);
  EXPECT_TRUE(loop.snapshot().converged) << loop.snapshot().doing;
  EXPECT_GE(node.capacity("a"), 900);
  // What was there once is repaired without a person.
  node.state.gpus[0].instances.clear();
  node.run(loop, now, now + kHourMs / 4);
  EXPECT_TRUE(loop.snapshot().converged) << loop.snapshot().doing;
}

// A rate that was asked for by mistake: for as long as it cools, others do not pay for it.
TEST(Loop, WhatCoolsTakesNothingFromOthers) {
  NodeInMemory node(2);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  const std::string right = services_text({{"a", 600}, {"b", 600}});
  node.step(loop, now, with_services(right));
  node.step(loop, now += 1000);
  ASSERT_TRUE(loop.memory().target->reduced.empty());
  node.step(loop, now += 1000, with_services(services_text({{"a", 6000}, {"b", 600}})));
  node.step(loop, now += 1000);
  EXPECT_FALSE(loop.memory().target->reduced.empty());
  node.step(loop, now += 1000, with_services(right));
  node.run(loop, now, now + kHourMs / 12);
  EXPECT_TRUE(loop.memory().target->reduced.empty()) << loop.memory().target->reduced;
  EXPECT_GE(node.capacity("b"), 600);
}

TEST(Loop, AGpuThatBecomesTheBatchesIsLeft) {
  NodeInMemory node(3);
  std::int64_t now = kMonday;
  const std::string services = services_text({{"a", 500}, {"b", 900}});
  Loop first(small_world(automatic()), {}, 0);
  node.step(first, now, with_services(services));
  node.step(first, now += 1000);
  ASSERT_FALSE(node.state.gpus[0].instances.empty());
  Settings settings = automatic();
  settings.batch.gpus = {0};
  Loop loop(small_world(settings), first.memory(), 0);
  for (int i = 0; i < 5; ++i) node.step(loop, now += 1000, with_services(services));
  EXPECT_TRUE(node.state.gpus[0].instances.empty());
  EXPECT_GE(node.capacity("a"), 500);
  EXPECT_GE(node.capacity("b"), 900);
  EXPECT_TRUE(loop.snapshot().converged) << loop.snapshot().doing;
  EXPECT_NE(loop.memory().target->cause.find("gpu 0 is for batches"), std::string::npos)
      << loop.memory().target->cause;
}

TEST(Loop, OnlyObserves) {
  Settings settings = automatic();
  NodeInMemory node(2);
  Loop loop(small_world(settings), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}})));
  node.step(loop, now += 1000, with_request(SetMode{Mode::observe}));
  node.reboot();
  node.run(loop, now, now + kHourMs);
  EXPECT_EQ(node.applies, 1);
  EXPECT_EQ(loop.snapshot().drifts, 1);
  EXPECT_NE(loop.snapshot().doing.find("only observing"), std::string::npos);
  node.step(loop, now += 1000, with_request(SetMode{Mode::automatic}));
  node.step(loop, now += 1000);
  EXPECT_TRUE(loop.snapshot().converged);
}

TEST(Loop, TakesAGpuOutMovesItsServicesAndLeavesItEmpty) {
  NodeInMemory node(3);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 500}, {"b", 900}})));
  node.step(loop, now += 1000);
  ASSERT_FALSE(node.state.gpus[0].instances.empty());
  node.step(loop, now += 1000, with_request(TakeOut{"GPU-0", "fan"}));
  for (int i = 0; i < 4; ++i) node.step(loop, now += 1000);
  EXPECT_TRUE(node.state.gpus[0].instances.empty());
  EXPECT_GE(node.capacity("a"), 500);
  EXPECT_GE(node.capacity("b"), 900);
  EXPECT_TRUE(loop.snapshot().gpus[0].out);
  EXPECT_NE(loop.snapshot().gpus[0].why.find("fan"), std::string::npos);
  node.step(loop, now += 1000, with_request(GiveBack{"GPU-0"}));
  EXPECT_FALSE(loop.snapshot().gpus[0].out);
}

TEST(Loop, WhatIsWantedNoMoreGoesWhateverIsKilledMeanwhile) {
  NodeInMemory node(2);
  auto loop = std::make_unique<Loop>(small_world(automatic()), AgentMemory{}, 0);
  std::int64_t now = kMonday;
  node.step(*loop, now, with_services(services_text({{"a", 500}, {"b", 900}})));
  node.step(*loop, now += 1000);
  ASSERT_GT(node.instances(), 1);
  node.step(*loop, now += 1000, with_request(SetMode{Mode::approve}));
  const Deeds told = node.step(*loop, now += 1000, with_request(SetServices{"", true}));
  EXPECT_TRUE(told.replies.at(0).has_value());
  for (int i = 0; i < 4; ++i) node.step(*loop, now += 1000);
  EXPECT_GT(node.instances(), 1);  // nobody is asked, so nothing is done
  loop = std::make_unique<Loop>(small_world(automatic()), *node.remembered, 0);
  node.fault = Error{ErrorCode::environment, "in use", ""};
  node.step(*loop, now += 1000, with_request(SetMode{Mode::automatic}));
  node.step(*loop, now += 1000);
  loop = std::make_unique<Loop>(small_world(automatic()), *node.remembered, 0);
  node.fault.reset();
  for (int i = 0; i < 4; ++i) node.step(*loop, now += 1000);
  EXPECT_EQ(node.instances(), 0);
  EXPECT_TRUE(node.assignment.segments.empty());
  EXPECT_FALSE(loop->memory().target);
  node.step(*loop, now += 1000, with_request(SetServices{services_text({{"b", 300}})}));
  node.step(*loop, now += 1000);
  EXPECT_GE(node.capacity("b"), 300);
}

TEST(Loop, WithoutServicesWhatIsThereStays) {
  NodeInMemory node(1);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}})));
  const int instances = node.instances();
  ASSERT_GT(instances, 0);
  Loop another(small_world(automatic()), {}, 0);  // its memory is lost, nobody has said anything
  for (int i = 0; i < 4; ++i) node.step(another, now += 1000);
  EXPECT_EQ(node.instances(), instances);
}

TEST(Loop, ServesByPriorityWhatIsLeftOfTheGpus) {
  Settings settings = automatic();
  settings.priority["a"] = 1;
  NodeInMemory node(2);
  Loop loop(small_world(settings), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 900}, {"b", 900}})));
  node.step(loop, now += 1000);
  ASSERT_TRUE(loop.memory().target->reduced.empty()) << loop.memory().target->reduced;
  node.state.gpus[1].lost = true;
  node.state.gpus[1].instances.clear();
  node.step(loop, now += 1000);
  node.step(loop, now += 1000);
  EXPECT_FALSE(loop.memory().target->reduced.empty());
  EXPECT_GE(node.capacity("a"), 900);
  EXPECT_GT(node.capacity("b"), 0);
  EXPECT_LT(node.capacity("b"), 900);
  const std::vector<std::string>& why = loop.memory().target->plan.explanation;
  EXPECT_TRUE(why.at(0).starts_with("only a part is served: b "));
  EXPECT_TRUE(why.at(1).ends_with("2 GPUs (no plan has fewer than 2); 1 can be used")) << why[1];
  for (std::size_t i = 2; i < why.size(); ++i) EXPECT_TRUE(why[i].starts_with("of this part: "));
  EXPECT_EQ(loop.snapshot().services[0].is.verdict, Standing::unknown);  // no gateway
  node.rates = {{"a", 900}, {"b", 10}};
  node.step(loop, now += 1000);
  const auto& services = loop.snapshot().services;
  EXPECT_EQ(services[0].is.verdict, Standing::serves) << services[0].is.why;
  EXPECT_EQ(services[1].is.verdict, Standing::at_risk) << services[1].is.why;
  node.rates["b"] = 900;
  node.step(loop, now += 1000);
  EXPECT_EQ(services[1].is.verdict, Standing::degraded) << services[1].is.why;

  node.state.gpus[1].lost = false;
  node.run(loop, now, now + kHourMs);
  EXPECT_TRUE(loop.memory().target->reduced.empty());
  EXPECT_GE(node.capacity("b"), 900);
  EXPECT_TRUE(node.violations.empty());
}

// A lost GPU, a service that carries nothing, a change that waits for a person: nothing of that is
// well, on no surface, and it is said.
TEST(Loop, ALostGpuWhoseRepairWaitsForAPersonIsNotWell) {
  Settings settings = automatic();
  NodeInMemory node(2);
  Loop loop(small_world(settings), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 900}, {"b", 900}})));
  node.step(loop, now += 1000);
  node.rates = {{"a", 900}, {"b", 900}};
  node.step(loop, now += 1000);
  ASSERT_TRUE(loop.snapshot().converged);
  for (const ServiceNow& one : loop.snapshot().services)
    EXPECT_EQ(one.is.verdict, Standing::serves) << one.is.why;
  node.step(loop, now += 1000, with_request(SetMode{Mode::approve}));
  ASSERT_TRUE(loop.snapshot().converged);
  node.state.gpus[1].lost = true;
  node.state.gpus[1].instances.clear();
  node.notices.clear();
  std::string dead;
  for (const char* const name : {"a", "b"})
    if (node.capacity(name) == 0) dead = name;
  node.step(loop, now += 1000);
  ASSERT_TRUE(loop.memory().proposal);
  EXPECT_FALSE(loop.snapshot().converged);
  int bad = 0;
  for (const ServiceNow& one : loop.snapshot().services) {
    EXPECT_DOUBLE_EQ(one.is.can_carry_rps, node.capacity(one.name));
    EXPECT_DOUBLE_EQ(one.is.asked_rps, 900);
    if (one.is.can_carry_rps >= 900) continue;
    ++bad;
    EXPECT_EQ(one.is.verdict, one.name == dead ? Standing::down : Standing::degraded) << one.is.why;
    EXPECT_EQ(one.is.since_ms, now);
    EXPECT_NE(one.is.why.find("waits for approval"), std::string::npos) << one.is.why;
    EXPECT_EQ(std::ranges::count_if(node.notices,
                                    [&](const LoopNotice& told) {
                                      return told.kind == NoticeKind::slo_risk &&
                                             told.subject == one.name;
                                    }),
              1);
  }
  EXPECT_GT(bad, 0);
  // An agent that comes after this one knows since when.
  const std::int64_t since = now;
  Loop next(small_world(settings), *node.remembered, 9);
  node.step(next, now += 60'000);
  for (const ServiceNow& one : next.snapshot().services)
    if (one.is.can_carry_rps < 900) {
      EXPECT_EQ(one.is.since_ms, since);
    }
  node.step(next, now += 1000, with_request(Approve{next.memory().proposal->change}));
  node.run(next, now, now + 60'000);
  EXPECT_TRUE(next.snapshot().converged) << next.snapshot().doing;
}

// It has no such file; planning for one that was not read was a bug that ended it.
TEST(Loop, TracesAreRefusedWithTheirLine) {
  NodeInMemory node(1);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  std::string text = services_text({{"a", 100}});
  node.step(loop, now, with_services(text));
  text += "  - {name: b, model: m, rate_rps: 10, slo_ms: 150, trace: t.csv}\n";
  node.step(loop, now += 1000, with_services(text));
  ASSERT_EQ(loop.snapshot().services.size(), 1U);
  const auto tells = [](const LoopNotice& told) {
    return told.sentence.find("service b has a trace") != std::string::npos;
  };
  EXPECT_EQ(std::ranges::count_if(node.notices, tells), 1);
}

TEST(Loop, WithoutItsWorkersANodeIsNotAsPlanned) {
  NodeInMemory node(1);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 100}})));
  node.rates = {{"a", 100}};
  node.run(loop, now, now + 60'000);
  ASSERT_TRUE(loop.snapshot().converged);
  node.nobody_works = true;
  node.step(loop, now += 1000);
  EXPECT_EQ(loop.snapshot().services[0].is.verdict, Standing::down);
  EXPECT_FALSE(loop.snapshot().converged);
  EXPECT_EQ(loop.snapshot().doing, "nothing to change; a is down");
  node.nobody_works = false;
  node.step(loop, now += 1000);
  EXPECT_TRUE(loop.snapshot().converged);
  EXPECT_EQ(loop.snapshot().doing, "nothing to do");
}

TEST(Loop, WhatIsNotMeasuredOrReadIsUnknownAndTheNodesLastStateIsCalledOld) {
  NodeInMemory node(1);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 100}})));
  node.rates = {{"a", 100}};
  node.run(loop, now, now + 120'000);
  const auto& is = [&]() -> const ServiceVerdict& { return loop.snapshot().services[0].is; };
  ASSERT_EQ(is().verdict, Standing::serves) << is().why;
  EXPECT_EQ(loop.snapshot().node_fault, "");
  const std::int64_t read = loop.snapshot().node_read_ms;
  ServersSeen old;
  EXPECT_TRUE(loop.glance(now + 1000, old));  // no gateway
  // A driver that cannot be read.
  Seen seen;
  seen.state = failed({ErrorCode::environment, "the driver does not answer", ""});
  static_cast<ServersSeen&>(seen) = {
      true, 0, {{.service = "a", .recent = actuate::RequestStretch{3, 300, 300, 300}}}, {}};
  for (const actuate::AssignedSegment& one : node.assignment.segments)
    seen.ready[one.device] = one.processes;
  loop.step(now += 10'000, seen);
  EXPECT_EQ(is().verdict, Standing::unknown);
  EXPECT_NE(loop.snapshot().node_fault.find("does not answer"), std::string::npos);
  EXPECT_EQ(loop.snapshot().node_read_ms, read);
  // What is known to be bad is said all the same.
  seen.loads[0].recent->in_slo = 0;
  EXPECT_TRUE(loop.glance(now, seen));
  loop.step(now += 1000, seen);
  EXPECT_EQ(is().verdict, Standing::down) << is().why;
  node.step(loop, now += 1000);
  EXPECT_EQ(is().verdict, Standing::serves) << is().why;
  EXPECT_EQ(loop.snapshot().node_fault, "");
  EXPECT_EQ(loop.snapshot().node_read_ms, now);
}

// The reset is an event of a time at which nobody listened.
TEST(Loop, AGpuThatRecoversWhileNoAgentRunsIsUsedAgain) {
  using Kind = HealthEvent::Kind;
  struct Case {
    std::vector<HealthEvent> ill;
    bool lost = false;                   // it falls off the bus, and the agent sees that
    std::vector<HealthEvent> then = {};  // what the next agent hears first
    bool back = true;
  };
  const HealthEvent xid{"GPU-1", Kind::xid, 79}, bad{"GPU-1", Kind::xid, 48},
      ecc{"GPU-1", Kind::ecc, 3}, needs{"GPU-1", Kind::recovery, 1};
  const HealthEvent well{"GPU-1", Kind::well, 1}, seems_well{"GPU-1", Kind::well, 0};
  const Case cases[] = {{{xid}, true},
                        {{}, true},
                        {{bad, needs}, false, {well}},
                        {{bad}, false, {well}},
                        {{bad}, false, {seems_well}, false},
                        {{bad}, false, {}, false},
                        {{ecc}, false, {seems_well}},
                        {{needs}, false, {needs}, false},
                        {{ecc}, false, {ecc}, false}};
  for (const Case& one : cases) {
    NodeInMemory node(2);
    std::int64_t now = kMonday;
    {
      Loop loop(small_world(automatic()), {}, 0);
      node.step(loop, now, with_services(services_text({{"a", 400}})));
      node.step(loop, now += 1000);
      node.state.gpus[1].lost = one.lost;
      Seen seen;
      seen.health = one.ill;
      node.step(loop, now += 1000, seen);
      ASSERT_TRUE(loop.snapshot().gpus[1].out);
    }
    node.state.gpus[1].lost = false;
    Loop next(small_world(automatic()), *node.remembered, 9);
    Seen seen;
    seen.health = one.then;
    node.step(next, now += 60'000, seen);
    if (one.back) {  // not any more for the reason that it was taken out for
      EXPECT_NE(next.snapshot().gpus[1].why.find("well again"), std::string::npos)
          << next.snapshot().gpus[1].why;
    }
    node.run(next, now, now + 700'000);
    EXPECT_EQ(next.snapshot().gpus[1].out, !one.back) << &one - cases;
  }
}

TEST(Loop, TriesAFailedChangeAgainMoreSeldomEachTimeAndSaysSoOnce) {
  NodeInMemory node(1);
  Loop loop(small_world(automatic()), {}, 0);
  node.fault = Error{ErrorCode::in_use, "process 4711 holds the lock", ""};
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}})));
  node.run(loop, now, now + kHourMs);
  // Pauses of 10, 20, 40 ... s, at most 900: 10 * (2^7 - 1) = 1270 s, then every 900 s.
  EXPECT_GE(node.applies, 8);
  EXPECT_LE(node.applies, 11);
  EXPECT_EQ(std::ranges::count(node.notices, NoticeKind::failed_change, &LoopNotice::kind), 1);
  node.fault.reset();
  node.run(loop, now, now + kHourMs);
  EXPECT_TRUE(loop.snapshot().converged);
}

// A burst wants more, whose workers never come up; it is over long before anybody gives up. What
// runs is enough again, and the plan is of that.
TEST(Loop, WhatCannotBeMadeIsReplannedFromWhatRuns) {
  NodeInMemory node(2);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  Seen seen;
  seen.services_file = services_text({{"a", 600}});
  node.rates = {{"a", 300}};
  node.step(loop, now, seen);
  node.run(loop, now, now + 2 * kHourMs);
  ASSERT_TRUE(loop.snapshot().converged) << loop.snapshot().doing;
  const int before = node.instances();
  node.nothing_new = true;
  node.rates = {{"a", 2000}};
  node.run(loop, now, now + kHourMs / 4);
  EXPECT_FALSE(loop.snapshot().converged);
  EXPECT_EQ(node.instances(), before);
  node.rates = {{"a", 300}};
  node.run(loop, now, now + 8 * kHourMs);
  EXPECT_TRUE(loop.snapshot().converged) << loop.snapshot().doing;
  EXPECT_EQ(node.instances(), before);
  EXPECT_EQ(node.violations, std::vector<std::string>{});
}

TEST(Loop, AGpuWithAFatalXidIsTakenOutAndOneThatAProgramCausedIsNot) {
  NodeInMemory node(2);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}})));
  node.step(loop, now += 1000);
  Seen seen;
  seen.health.push_back({"GPU-0", HealthEvent::Kind::xid, 31});
  node.step(loop, now += 1000, seen);
  EXPECT_FALSE(loop.snapshot().gpus[0].out);
  seen.health = {{"GPU-0", HealthEvent::Kind::xid, 48}};
  node.step(loop, now += 1000, seen);
  EXPECT_TRUE(loop.snapshot().gpus[0].out);
  for (int i = 0; i < 4; ++i) node.step(loop, now += 1000);
  EXPECT_TRUE(node.state.gpus[0].instances.empty());
  EXPECT_GE(node.capacity("a"), 150);
  node.run(loop, now, now + 2 * kHourMs);
  EXPECT_TRUE(loop.snapshot().gpus[0].out);  // until it is reset
  seen.health = {{"GPU-0", HealthEvent::Kind::reset, 0}};
  node.step(loop, now += 1000, seen);
  node.run(loop, now, now + kHourMs);
  EXPECT_FALSE(loop.snapshot().gpus[0].out);
}

TEST(Loop, WhatADriverRecommendsTakesAGpuOutUntilTheNextBoot) {
  using Kind = HealthEvent::Kind;
  NodeInMemory node(2);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  Seen seen = with_services(services_text({{"a", 150}}));
  seen.boot = "boot-1";
  node.step(loop, now, seen);
  node.step(loop, now += 1000, seen);
  seen.health = {{"GPU-0", Kind::rows_pending, 1}, {"GPU-1", Kind::recovery, 0}};
  node.step(loop, now += 1000, seen);
  EXPECT_FALSE(loop.snapshot().gpus[0].out || loop.snapshot().gpus[1].out);
  EXPECT_EQ(std::ranges::count(node.notices, NoticeKind::health, &LoopNotice::kind), 1);
  seen.health = {{"GPU-0", Kind::recovery, 1}};
  node.step(loop, now += 1000, seen);
  EXPECT_TRUE(loop.snapshot().gpus[0].out);
  seen.health = {};
  for (int i = 0; i < 4; ++i) node.step(loop, now += 1000, seen);
  EXPECT_TRUE(node.state.gpus[0].instances.empty());
  EXPECT_GE(node.capacity("a"), 150);
  // The agent begins anew on the same boot: nothing is forgotten; on another one it is over.
  ASSERT_TRUE(node.remembered);
  const AgentMemory kept = *parse_memory("memory", memory_json(*node.remembered));
  for (const std::string boot : {"boot-1", "", "boot-2"}) {
    Loop again(small_world(automatic()), kept, 0);
    seen.boot = boot;
    node.step(again, now += 1000, seen);
    const bool sick = std::ranges::count(again.memory().out, true, &OutGpu::errors) == 1;
    EXPECT_EQ(sick, boot != "boot-2") << boot;
  }
}

TEST(Loop, AnXidSaysWhatItMeansAndWhere) {
  NodeInMemory node(2);
  Settings settings = automatic();
  settings.health.recovery = false;
  Loop loop(small_world(settings), {}, 0);
  std::int64_t now = kMonday;
  Seen seen = with_services(services_text({{"a", 150}}));
  node.step(loop, now, seen);
  seen.health = {{"GPU-1", HealthEvent::Kind::recovery, 1}};  // as the settings say: nothing
  node.step(loop, now += 1000, seen);
  EXPECT_FALSE(loop.snapshot().gpus[1].out);
  seen.health = {{"GPU-1", HealthEvent::Kind::xid, 95, 3, 0}};
  node.step(loop, now += 1000, seen);
  ASSERT_EQ(loop.memory().out.size(), 1u);
  EXPECT_EQ(loop.memory().out[0].why,
            "gpu 1 reported XID 95 on its instance with gi_id 3 (a memory error that was not "
            "contained)");
}

TEST(Loop, ADriverThatAnswersWithErrorsChangesNothing) {
  NodeInMemory node(1);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}})));
  node.step(loop, now += 1000);
  Seen seen;
  seen.state = failed({ErrorCode::no_driver, "no driver", ""});
  for (int i = 0; i < 10; ++i) {
    const Deeds deeds = loop.step(now += 1000, seen);
    EXPECT_FALSE(deeds.apply);
    EXPECT_EQ(deeds.notify.size(), i == 0 ? 1u : 0u);
  }
  EXPECT_NE(loop.snapshot().doing.find("no driver"), std::string::npos);
}

TEST(Loop, RollsBackToThePlanBefore) {
  NodeInMemory node(2);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}})));
  node.step(loop, now += 1000);
  node.rates["a"] = 580;
  node.run(loop, now, now + kHourMs / 2);
  EXPECT_GE(node.capacity("a"), 580);
  EXPECT_GE(node.applies, 2);
  const plan::ServingPlan before = loop.memory().before->plan;
  const Deeds deeds = node.step(loop, now, with_request(Rollback{}));
  EXPECT_TRUE(deeds.replies[0].has_value());
  node.step(loop, now += 1000);
  EXPECT_EQ(loop.memory().target->plan, before);
  EXPECT_EQ(loop.snapshot().mode, Mode::approve);
  EXPECT_TRUE(loop.snapshot().converged);
}

TEST(Loop, MakesAPlanThatSomebodySendsOnceTheJudgeLetsItPass) {
  NodeInMemory node(3);
  Settings settings = automatic();
  settings.mode = Mode::approve;
  Loop loop(small_world(settings), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}, {"b", 90}})));
  // What it proposes itself, with one more instance for a on another GPU, and indexes of its own.
  plan::ServingPlan plan = loop.memory().proposal->plan;
  const plan::PlannedInstance more = plan.gpus[0].instances[0];
  plan.gpus.push_back({7, "A100-80GB", {more}});
  plan.gpus.back().instances[0].start = 0;
  for (plan::PlannedService& one : plan.services)
    if (one.name == more.service) one.planned = one.planned + more.throughput;
  plan.objective.gpus += 1;
  plan.objective.gpcs += more.profile[0] - '0';
  plan.objective.cost += 1;
  const Result<ChangeNow> shown = loop.preview(forms::plan_json(plan));
  ASSERT_TRUE(shown.has_value()) << to_string(shown.error());
  EXPECT_EQ(shown->number, 0);
  EXPECT_EQ(shown->plan.gpus.size(), plan.gpus.size());
  const Deeds deeds = node.step(loop, now += 1000, with_request(SetPlan{forms::plan_json(plan)}));
  ASSERT_TRUE(deeds.replies[0].has_value()) << to_string(deeds.replies[0].error());
  EXPECT_EQ(node.applies, 0);
  node.step(loop, now += 1000, with_request(Approve{deeds.replies[0]->change}));
  node.step(loop, now += 1000);
  std::size_t planned = 0;
  for (const plan::PlannedGpu& gpu : plan.gpus) planned += gpu.instances.size();
  EXPECT_EQ(node.instances(), static_cast<int>(planned));
  EXPECT_TRUE(loop.snapshot().converged);
  EXPECT_EQ(node.violations, std::vector<std::string>{});
  node.run(loop, now, now + kHourMs);  // and it stays
  EXPECT_EQ(node.instances(), static_cast<int>(planned));

  const auto said = [&](const plan::ServingPlan& wrong) {
    const Reply reply =
        node.step(loop, now += 1000, with_request(SetPlan{forms::plan_json(wrong)})).replies[0];
    return reply ? std::string("taken") : to_string(reply.error());
  };
  plan::ServingPlan wrong = plan;
  wrong.problem_digest = "0123456789abcdef";
  EXPECT_NE(said(wrong).find("problem_digest"), std::string::npos) << said(wrong);
  wrong = plan;
  wrong.gpus[0].instances[0].batch = 7;  // nobody measured that
  const auto verdicts = [&](const char* asked) {
    const auto& all = loop.snapshot().judged;
    const auto one = std::ranges::find(all, asked, &JudgedPlans::asked);
    return one == all.end() ? JudgedPlans{asked} : *one;
  };
  const JudgedPlans before = verdicts("person");
  EXPECT_NE(said(wrong).find("the judge refuses the plan"), std::string::npos);
  EXPECT_EQ(verdicts("person").refused, before.refused + 1);
  EXPECT_EQ(verdicts("person").accepted, before.accepted);
  EXPECT_GE(verdicts("planner").accepted, 1);
  EXPECT_EQ(verdicts("planner").refused, 0);
  wrong = plan;
  for (int i = 8; i < 10; ++i) wrong.gpus.push_back({i, "A100-80GB", {more}});
  EXPECT_NE(said(wrong).find("3 of 3 can be used here"), std::string::npos) << said(wrong);
  EXPECT_EQ(node.step(loop, now += 1000, with_request(SetPlan{"{}"})).replies[0].error().code,
            ErrorCode::bad_input);
  EXPECT_EQ(node.instances(), static_cast<int>(planned));
}

// A day of traffic between 20 % and 100 % of the file's rate.
double day_rate(std::int64_t now_ms, double peak) {
  const double day = static_cast<double>(now_ms % (24 * kHourMs)) / (24.0 * kHourMs);
  return peak * (0.6 - 0.4 * std::cos(2 * 3.14159265358979 * day));
}

TEST(Loop, FollowsTheDayWithFewerGpusThanThePeakNeedsAndDoesNotFlap) {
  Settings settings = automatic();
  settings.look_s = 30;
  NodeInMemory node(4);
  Loop loop(small_world(settings), {}, 0);
  std::int64_t now = kMonday;
  const std::map<std::string, double> peaks{{"a", 1000}, {"b", 1500}};
  node.step(loop, now, with_services(services_text(peaks)));
  const int for_peak =
      node.instances() > 0
          ? static_cast<int>(std::ranges::count_if(
                node.state.gpus, [](const auto& gpu) { return !gpu.instances.empty(); }))
          : 0;
  double gpu_hours = 0, peak_hours = 0;
  int looks = 0, short_looks = 0;
  for (const std::int64_t end = now + 72 * kHourMs; now < end;) {
    for (const auto& [name, peak] : peaks) node.rates[name] = day_rate(now, peak);
    const std::int64_t next = node.step(loop, now).next_look_ms;
    const double hours = static_cast<double>(next - now) / kHourMs;
    if (now >= kMonday + 24 * kHourMs) {
      peak_hours += for_peak * hours;
      for (const device::GpuState& gpu : node.state.gpus)
        gpu_hours += gpu.instances.empty() ? 0 : hours;
      ++looks;
      for (const auto& [name, peak] : peaks)
        short_looks += node.capacity(name) < node.rates[name] ? 1 : 0;
    }
    now = next;
  }
  EXPECT_GT(for_peak, 1);
  EXPECT_LT(gpu_hours, 0.85 * peak_hours);
  EXPECT_EQ(short_looks, 0) << looks;
  // No instance is made twice at a place within its cooldown, nor gone within it.
  for (const NodeInMemory::Life& life : node.lives) {
    if (life.gone_ms == 0) continue;
    EXPECT_GE(static_cast<double>(life.gone_ms - life.made_ms), settings.damping.cooldown_s * 1000)
        << life.place;
  }
  EXPECT_LE(node.applies, 3 * 40);
}

// Something happens to a node, or nothing.
void befall(NodeInMemory& node, Rng& rng) {
  const auto gpu = static_cast<std::size_t>(rng.below(node.state.gpus.size()));
  device::GpuState& one = node.state.gpus[gpu];
  switch (rng.below(8)) {
    case 0:
      return node.reboot();
    case 1:
      one.lost = true;
      one.instances.clear();
      return;
    case 2:
      one.lost = false;
      return;
    case 3:
      if (!one.instances.empty()) one.instances.pop_back();
      return;
    case 4:
      node.fault = Error{ErrorCode::environment, "an error of the driver", ""};
      return;
    case 5:
      for (auto& [name, rate] : node.rates) rate *= 0.5 + rng.uniform();
      return;
    default:
      node.fault.reset();
  }
}

// Hours of trouble, then calm; `kill_every`: the loop is made anew from what it remembered.
struct Told {
  std::string told;
  device::NodeState state;
  bool converged = false;
  std::vector<std::string> violations;
  std::map<std::string, double> capacity;
};
Told random_history(std::uint64_t seed, int kill_every) {
  Rng rng(seed);
  NodeInMemory node(2 + static_cast<int>(rng.below(3)));
  const World world = small_world(automatic());
  Loop loop(world, {}, 0);
  std::map<std::string, double> wanted;
  for (const char* name : {"a", "b", "c"})
    if (wanted.empty() || rng.uniform() < 0.7) wanted[name] = 50 + 400 * rng.uniform();
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text(wanted)));
  for (const auto& [name, rate] : wanted) node.rates[name] = rate * (0.5 + 0.5 * rng.uniform());
  for (int step = 0; step < 150; ++step) {
    if (rng.uniform() < 0.05) befall(node, rng);
    now += 1000 * static_cast<std::int64_t>(1 + rng.below(60));
    if (kill_every > 0 && step % kill_every == 0 && node.remembered)
      loop = Loop(world, *parse_memory("memory", memory_json(*node.remembered)), 0);
    node.step(loop, now);
  }
  node.fault.reset();
  for (device::GpuState& gpu : node.state.gpus) gpu.lost = false;
  for (const auto& [name, rate] : wanted) node.rates[name] = rate * 0.8;
  node.run(loop, now, now + 2 * kHourMs);
  Told result{node.told, node.state, loop.snapshot().converged, node.violations, {}};
  for (const auto& [name, rate] : wanted)
    result.capacity[name] = node.capacity(name) / (rate * 0.8);
  return result;
}

TEST(Loop, ConvergesAfterAnyTroubleIsDeterministicAndSurvivesBeingKilled) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Told told = random_history(seed, 0);
    EXPECT_TRUE(told.converged) << "seed " << seed << "\n" << told.told;
    EXPECT_TRUE(told.violations.empty()) << "seed " << seed << ": " << told.violations.front();
    for (const auto& [name, share] : told.capacity)
      EXPECT_GE(share, 1) << "seed " << seed << " service " << name << "\n" << told.told;
    if (seed <= 3) {
      const Told again = random_history(seed, 0);
      EXPECT_EQ(told.told, again.told);
      EXPECT_EQ(told.state, again.state);
    }
    const Told killed = random_history(seed, 7);
    EXPECT_TRUE(killed.converged) << "seed " << seed << "\n" << killed.told;
    EXPECT_TRUE(killed.violations.empty());
    for (const auto& [name, share] : killed.capacity)
      EXPECT_GE(share, 1) << "seed " << seed << " service " << name << "\n" << killed.told;
  }
}

TEST(Loop, AKillAtAnyStepLeadsToTheSameNode) {
  const World world = small_world(automatic());
  const auto play = [&](int killed_at) {
    NodeInMemory node(3);
    Loop loop(world, {}, 0);
    std::int64_t now = kMonday;
    for (int step = 0; step < 40; ++step) {
      Seen seen;
      if (step == 0) seen = with_services(services_text({{"a", 300}, {"b", 700}}));
      if (step == 8) seen = with_request(TakeOut{"GPU-1", "fan"});
      if (step == 14) node.reboot();
      if (step == 20) seen = with_services(services_text({{"a", 100}, {"b", 700}, {"c", 50}}));
      if (step == 28) seen = with_request(GiveBack{"GPU-1"});
      if (step == killed_at && node.remembered)
        loop = Loop(world, *parse_memory("memory", memory_json(*node.remembered)), 0);
      node.step(loop, now += 20'000, seen);
    }
    std::string places;
    for (const actuate::AssignedSegment& one : node.assignment.segments)
      places += fmt::format("{} {} {} {}\n", one.gpu_uuid, one.start, one.profile, one.service);
    std::string sorted;
    std::set<std::string> lines;
    for (std::size_t from = 0; from < places.size();) {
      const std::size_t end = places.find('\n', from);
      lines.insert(places.substr(from, end - from));
      from = end + 1;
    }
    for (const std::string& line : lines) sorted += line + "\n";
    EXPECT_TRUE(loop.snapshot().converged) << killed_at << ": " << loop.snapshot().doing;
    return std::pair(sorted, node.applies);
  };
  const auto [places, applies] = play(-1);
  EXPECT_FALSE(places.empty());
  for (int step = 1; step < 40; ++step) {
    const auto [other, times] = play(step);
    EXPECT_EQ(other, places) << "killed at step " << step;
    EXPECT_LE(times, applies + 1);  // the end of what was under way was not heard
  }
}

TEST(Loop, ItsSnapshotAndMemoryComeBackFromTheirDocuments) {
  Settings settings = automatic();
  NodeInMemory node(2);
  Loop loop(small_world(settings), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}, {"b", 300}})));
  const auto check = [&] {
    const auto again = parse_snapshot("state", snapshot_json(loop.snapshot()));
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(*again, loop.snapshot());
    const auto memory = parse_memory("memory", memory_json(loop.memory()));
    ASSERT_TRUE(memory) << to_string(memory.error());
    EXPECT_EQ(*memory, loop.memory());
  };
  check();
  node.rates = {{"a", 100}, {"b", 400}};
  node.state.gpus[0].holders = {{17, "nvidia-\xff\x01persist"}};
  node.run(loop, now, now + kHourMs);
  check();
  node.state.gpus[1].lost = true;
  node.step(loop, now += 1000);
  check();
}

TEST(Loop, APreviewChangesNothing) {
  NodeInMemory node(2);
  Loop loop(small_world(automatic()), {}, 0);
  std::int64_t now = kMonday;
  node.step(loop, now, with_services(services_text({{"a", 150}})));
  node.step(loop, now += 1000);
  const AgentMemory before = loop.memory();
  const auto shown = loop.preview(services_text({{"a", 150}, {"c", 500}}));
  ASSERT_TRUE(shown) << to_string(shown.error());
  EXPECT_FALSE(shown->change.create.empty());
  EXPECT_EQ(loop.memory(), before);
  EXPECT_FALSE(loop.preview("services: []"));
}

}  // namespace
}  // namespace partita::control
