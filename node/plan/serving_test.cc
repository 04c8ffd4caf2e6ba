#include "plan/serving.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

namespace partita::plan {
namespace {

TEST(SloRule, SpellsAndReadsBack) {
  EXPECT_EQ(*parse_slo_rule("pooled"), SloRule{});
  EXPECT_EQ(*parse_slo_rule("queueing"), kQueueing);
  EXPECT_EQ(to_string(SloRule{}), "pooled");
  EXPECT_EQ(to_string(kQueueing), "queueing");
  for (const double fraction : {0.45, 0.5, 1.0, 1e-9, 0.1 + 0.2}) {
    const SloRule rule{SloRule::Kind::execution, fraction};
    const auto again = parse_slo_rule(to_string(rule));
    ASSERT_TRUE(again) << to_string(rule);
    EXPECT_EQ(*again, rule);
  }
  EXPECT_EQ(to_string(SloRule{SloRule::Kind::execution, 0.45}), "execution:0.45");
}

TEST(SloRule, RefusesEverythingElse) {
  for (const char* text : {"", "queue", "Queueing", "queueing ", "queueing:0.5", "execution",
                           "execution:", "execution:0", "execution:-0.5", "execution:1.01",
                           "execution:nan", "execution:inf", "execution:0.5x", "execution: 0.5",
                           "execution:1e-999", "execution:+0.5"}) {
    const auto rule = parse_slo_rule(text);
    ASSERT_FALSE(rule) << text;
    EXPECT_EQ(rule.error().code, ErrorCode::bad_input);
    EXPECT_EQ(rule.error().context, "--slo-rule");
  }
}

TEST(Dispatch, SpellsAndReadsBack) {
  const std::pair<Dispatch, const char*> kNames[] = {{Dispatch::pooled, "pooled"},
                                                     {Dispatch::paced, "paced"},
                                                     {Dispatch::shared_queue, "shared-queue"},
                                                     {Dispatch::per_process, "per-process"}};
  for (const auto& [dispatch, name] : kNames) {
    EXPECT_EQ(to_string(dispatch), name);
    ASSERT_TRUE(parse_dispatch(name));
    EXPECT_EQ(*parse_dispatch(name), dispatch);
  }
  for (const char* text : {"", "Pooled", "shared_queue", "shared queue", "paced "}) {
    const auto dispatch = parse_dispatch(text);
    ASSERT_FALSE(dispatch) << text;
    EXPECT_EQ(to_string(dispatch.error()),
              fmt::format("--dispatch: '{}' is none of pooled, paced, shared-queue and per-process",
                          text));
  }
}

// One queue over all instances is the pooled rule's server and no other rule's but execution's.
TEST(Dispatch, HasItsRule) {
  EXPECT_EQ(rule_for(Dispatch::pooled), SloRule{});
  EXPECT_EQ(rule_for(Dispatch::paced), kQueueing);
  for (const Dispatch server : {Dispatch::paced, Dispatch::shared_queue, Dispatch::per_process}) {
    EXPECT_EQ(rule_for(server).kind, SloRule::Kind::queueing);
    EXPECT_EQ(rule_for(server).dispatch, server);
    EXPECT_TRUE(fits_its_server(rule_for(server)));
    EXPECT_TRUE(fits_its_server({SloRule::Kind::execution, 0.5, server}));
    EXPECT_FALSE(fits_its_server({SloRule::Kind::pooled, 0.5, server}));
  }
  EXPECT_TRUE(fits_its_server(SloRule{}));
  EXPECT_FALSE(fits_its_server({SloRule::Kind::queueing, 0.5, Dispatch::pooled}));
}

TEST(Service, EqualWhateverItsLine) {
  const Service service{"a", "m", Rps{1}, Millis{2}, 99, 1, false, {}, 3};
  Service other = service;
  other.line = 4;
  EXPECT_EQ(service, other);
  for (auto change : std::vector<void (*)(Service&)>{
           [](Service& s) { s.name += "b"; }, [](Service& s) { s.model += "b"; },
           [](Service& s) { s.rate = Rps{9}; }, [](Service& s) { s.slo = Millis{9}; },
           [](Service& s) { s.percentile = 95; }, [](Service& s) { s.min_replicas = 2; },
           [](Service& s) { s.spread = true; }, [](Service& s) { s.avoid = {"x"}; },
           [](Service& s) { s.traffic.headroom = 0.1; },
           [](Service& s) { s.traffic.arrivals = GammaArrivals{2}; },
           [](Service& s) {
             s.traffic.rates = {{480, Rps{1}}};
           }}) {
    Service changed = service;
    change(changed);
    EXPECT_FALSE(changed == service);
  }
}

TEST(ServingPlan, EqualWhateverItTook) {
  ServingPlan plan;
  plan.gpus.resize(1);
  ServingPlan other = plan;
  other.stats.planning_ms = 7;
  other.explanation = {"why not"};
  EXPECT_EQ(plan, other);
  other.gpus[0].instances.resize(1);
  EXPECT_FALSE(plan == other);
}

TEST(Share, SplitsTheRateByPlannedThroughput) {
  PlannedService service{{.name = "a", .rate = Rps{90}}, Rps{120}, {}};
  PlannedInstance instance;
  instance.throughput = Rps{40};
  EXPECT_DOUBLE_EQ(share_of(service, instance).value, 30);
  instance.throughput = Rps{80};
  EXPECT_DOUBLE_EQ(share_of(service, instance).value, 60);
  service.planned = Rps{0};
  EXPECT_EQ(share_of(service, instance).value, 0);
}

TEST(Reason, ReadsAsOneSentence) {
  EXPECT_EQ(to_string(Reason{"rate", "service bert", 17.5, 19, "requests/s"}),
            "service bert: rate: have 17.5, need 19 (requests/s)");
  EXPECT_EQ(to_string(Reason{"overlap", "gpu 3", 0, 1, ""}), "gpu 3: overlap: have 0, need 1");
  EXPECT_EQ(to_string(Reason{"percentile", "service a", 99.99999, 99.9996948, ""}),
            "service a: percentile: have 99.99999, need 99.9996948");
  EXPECT_EQ(to_string(Reason{"unknown_service", "gpu 3 instance 1", 0, 0, ""}),
            "gpu 3 instance 1: unknown_service");
}

TEST(Reason, WhatAPlannerCannotDoProvesNothing) {
  for (const char* word : {kNotFound, "limit", "fleet_size", "slo_rule", "percentile"})
    EXPECT_FALSE(proven({{word, "planner p", 0, 1, ""}})) << word;
  EXPECT_TRUE(proven({{kNotFound, "plan", 0, 0, ""}, {"slo", "service a", 5, 4, ""}}));
}

}  // namespace
}  // namespace partita::plan
