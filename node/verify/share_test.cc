// Shares of a whole GPU: the judge's reading of profiles against the planners', its refusals.
#include "verify/share.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <tuple>

#include "hw/catalogue.h"
#include "profile/share.h"
#include "profile/testing/published.h"
#include "verify/serving.h"

namespace partita::verify {
namespace {

TEST(SharedWorkload, TwoReadingsOfThePublishedProfilesAgree) {
  std::size_t compared = 0;
  for (const auto& [name, measured] : profile::published_profiles())
    for (const double percent : {10.0, 100.0 / 7, 20.0, 300.0 / 7, 50.0, 57.5, 99.9, 100.0}) {
      const auto ours = shared_workload(measured, 7, percent);
      const auto theirs = profile::at_share(measured, 7, percent);
      ASSERT_EQ(ours.points.size(), theirs.points.size()) << name << " " << percent;
      for (std::size_t i = 0; i < ours.points.size(); ++i) {
        const auto &a = ours.points[i], &b = theirs.points[i];
        EXPECT_EQ(std::tuple(a.gpcs, a.processes, a.batch), std::tuple(7, b.processes, b.batch));
        EXPECT_NEAR(a.throughput.value, b.throughput.value, 1e-9 * b.throughput.value);
        EXPECT_NEAR(a.latency.value, b.latency.value, 1e-9 * b.latency.value);
        ++compared;
      }
    }
  EXPECT_GT(compared, 2000u);
}

// 1g: 100/s, 40 ms; 3g: 200/s, 20 ms; 7g: 400/s, 10 ms, batch 4. 50 %: 225/s, 1000/56.25 ms.
struct SharedGpu {
  plan::ServingProblem problem;
  plan::ServingPlan plan;
};

SharedGpu half_and_half() {
  SharedGpu c;
  profile::WorkloadProfile model{"m",
                                 {{1, 4, 1, {100}, {40}, Mib{30000}},
                                  {3, 4, 1, {200}, {20}, Mib{30000}},
                                  {7, 4, 1, {400}, {10}, Mib{40000}}}};
  plan::FleetEntry entry;
  entry.gpu = **hw::builtin_catalogue().get("A100-80GB");
  entry.profiles = {{"m", model}};
  c.problem.fleet = {entry};
  c.problem.rule = {plan::SloRule::Kind::execution, 0.5};
  for (const char* name : {"a", "b"}) {
    plan::Service service;
    service.name = name;
    service.model = "m";
    service.rate = Rps{220};
    service.slo = Millis{40};
    c.problem.services.push_back(service);
    c.plan.services.push_back(
        {{.name = name, .rate = Rps{220}, .slo = Millis{40}}, Rps{225}, Millis{1000 / 56.25}});
  }
  c.plan.gpu_model = "A100-80GB";
  c.plan.rule = c.problem.rule;
  c.plan.gpus = {{0,
                  "A100-80GB",
                  {{"7g.80gb", 0, "a", 4, 1, Rps{225}, Millis{1000 / 56.25}, 50},
                   {"7g.80gb", 0, "b", 4, 1, Rps{225}, Millis{1000 / 56.25}, 50}}}};
  c.plan.objective.gpus = 1;
  c.plan.objective.gpcs = 7;
  return c;
}

using ShareWords = std::set<std::string>;

ShareWords words_of(const SharedGpu& c) {
  ShareWords found;
  for (const plan::Reason& reason : verify(c.problem, c.plan))
    found.insert(reason.constraint + ": " + reason.subject);
  return found;
}

TEST(VerifyShares, ARightPlanHasNoViolation) {
  EXPECT_EQ(words_of(half_and_half()), ShareWords{});
  EXPECT_TRUE(verify_alone(hw::builtin_catalogue(), half_and_half().plan).empty());
}

TEST(VerifyShares, EveryMistakeIsNamed) {
  const auto after = [](const std::function<void(SharedGpu&, plan::PlannedInstance&)>& change) {
    SharedGpu c = half_and_half();
    change(c, c.plan.gpus[0].instances[1]);
    return words_of(c);
  };
  EXPECT_EQ(after([](auto&, auto& i) { i.throughput = Rps{230}; }),
            (ShareWords{"throughput: gpu 0 instance 1", "service_row: service b planned_rps"}));
  EXPECT_EQ(after([](auto&, auto& i) { i.latency = Millis{17}; }),
            (ShareWords{"latency: gpu 0 instance 1"}));
  EXPECT_TRUE(after([](auto&, auto& i) { i.share_percent = 60; }).contains("shares: gpu 0"));
  EXPECT_TRUE(
      after([](auto&, auto& i) { i.share_percent = 120; }).contains("share: gpu 0 instance 1"));
  EXPECT_TRUE(
      after([](auto&, auto& i) { i.share_percent = -1; }).contains("share: gpu 0 instance 1"));
  EXPECT_TRUE(after([](auto&, auto& i) { i.share_percent = 10; })  // less than any measured size
                  .contains("unknown_point: gpu 0 instance 1"));
  EXPECT_TRUE(
      after([](auto&, auto& i) { i.share_percent = 0; }).contains("mixed_gpu: gpu 0 instance 1"));
  EXPECT_TRUE(after([](auto&, auto& i) {
                i.share_percent = std::nan("");
              }).contains("not_finite: gpu 0 instance 1 share_percent"));
  EXPECT_TRUE(
      after([](auto&, auto& i) { i.profile = "3g.40gb"; }).contains("whole_gpu: gpu 0 instance 1"));
  EXPECT_TRUE(after([](auto&, auto& i) { i.start = 4; }).contains("whole_gpu: gpu 0 instance 1"));
  EXPECT_EQ(after([](auto& c, auto&) { c.plan.objective.gpcs = 14; }),
            (ShareWords{"objective: objective gpcs"}));
  EXPECT_EQ(after([](auto& c, auto&) {
              c.problem.services[1].slo = Millis{35};
              c.plan.services[1].slo = Millis{35};
            }),
            (ShareWords{"slo: gpu 0 instance 1"}));  // 17.8 ms are not below half of 35
  EXPECT_EQ(after([](auto& c, auto&) {
              c.problem.fleet[0].profiles.at("m").points[1].memory = Mib{45000};
            }),
            (ShareWords{"memory: gpu 0"}));
}

// By the end-to-end rule a share has a queue of its own, with the latencies of the share.
TEST(VerifyShares, OtherRulesJudgeTheSharesLatencies) {
  SharedGpu c = half_and_half();
  c.problem.rule = c.plan.rule = plan::kQueueing;
  for (plan::Service& service : c.problem.services) service.rate = Rps{150};
  for (plan::PlannedService& row : c.plan.services) {
    row.rate = Rps{150};
    row.slo = row.predicted_latency = Millis{1000};
  }
  for (plan::Service& service : c.problem.services) service.slo = Millis{1000};
  EXPECT_EQ(words_of(c), ShareWords{});
  for (plan::Service& service : c.problem.services) service.rate = Rps{224.99};
  for (plan::PlannedService& row : c.plan.services) row.rate = Rps{224.99};
  const ShareWords busy = words_of(c);
  EXPECT_TRUE(busy.contains("slo: gpu 0 instance 0") ||
              busy.contains("overload: gpu 0 instance 0"));
}

}  // namespace
}  // namespace partita::verify
