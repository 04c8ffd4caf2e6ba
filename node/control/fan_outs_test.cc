#include "control/fan_outs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/check.h"
#include "control/own_rates.h"
#include "control/testing/brain_fixture.h"
#include "forms/pipeline_form.h"
#include "forms/serving_forms.h"

namespace partita::control {
namespace {

std::vector<plan::Service> services_with(double fan_out) {
  const auto read = forms::parse_services("services", fmt::format(R"(services:
  - name: p
    rate_rps: 10
    slo_ms: 200
    pipeline:
      steps:
        - {{model_name: a, input_map: {{x: in}}, output_map: {{y: mid}}}}
        - {{model_name: b, fan_out: {}, input_map: {{x: mid}}, output_map: {{y: each}}}}
        - {{model_name: c, input_map: {{x: each}}, output_map: {{y: out}}}}
  - {{name: c, model: m, rate_rps: 7, slo_ms: 150}}
)",
                                                                  fan_out));
  CHECK(read.has_value());
  auto services = *read;
  std::ranges::sort(services, {}, &plan::Service::name);
  return services;
}

struct Counting {
  std::vector<FanOutKept> kept;
  FanOuts fan_outs{kept};
  Report report;
  ServersSeen seen{.loads = {{.service = "p"}}, .counted_by = "gateway 1"};

  // Of so many requests a minute, which each ask for so many rows of the second step.
  void see(int minutes, double rows, long requests = 600) {
    auto& counts = seen.loads[0].fan_outs;
    if (counts.empty()) counts = {{1, 0, 0}};
    for (int m = 0; m < minutes; ++m) {
      fan_outs.see(seen, report);
      counts[0].requests += requests;
      counts[0].rows += std::lround(rows * static_cast<double>(requests));
    }
    fan_outs.see(seen, report);
  }
  DesiredNow corrected(const std::vector<plan::Service>& told) const {
    return fan_outs.corrected({told, 0, "key", "their file"});
  }
  double fan_out(const std::vector<plan::Service>& told) const {
    const auto now = corrected(told).services;
    return std::ranges::find(now, "p", &plan::Service::name)->pipeline->steps[1].fan_out;
  }
};

TEST(FanOuts, AreAtLeastWhatWasMeasuredAndAtMostAStepMore) {
  for (const double told : {0.3, 2.0, 4.0, 40.0})
    for (const double measured : {0.02, 0.2, 1.0, 2.6, 3.3, 4.0, 5.0, 30.0, 200.0}) {
      if (measured < told / 64 || measured > told * 64) continue;
      Counting now;
      const auto services = services_with(told);
      now.fan_outs.begin(services);
      now.see(60, measured);
      EXPECT_GE(now.fan_out(services), measured * 0.9) << told << " " << measured;
      EXPECT_LE(now.fan_out(services), measured * 1.5) << told << " " << measured;
    }
}

// As if the services file had said it: what a second reader of such a file has.
TEST(FanOuts, StepsFollowAsIfTheFileSaidSo) {
  Counting now;
  const auto told = services_with(4);
  now.fan_outs.begin(told);
  now.see(60, 9.5);
  const DesiredNow is = now.corrected(told);
  const auto wanted = services_with(now.fan_out(told));
  ASSERT_EQ(is.services.size(), wanted.size());
  for (std::size_t s = 0; s < wanted.size(); ++s) {
    plan::Service one = is.services[s];
    EXPECT_NEAR(one.rate.value, wanted[s].rate.value, 1e-9) << one.name;
    one.rate = wanted[s].rate;
    EXPECT_EQ(one, wanted[s]);
  }
  EXPECT_NE(is.key, "key");
  const auto news = now.report.take_news();
  ASSERT_GE(news.size(), 1U);
  const auto again = at_whole_rates(forms::at_own_rates(is.services));
  for (std::size_t s = 0; s < wanted.size(); ++s)
    EXPECT_NEAR(again[s].rate.value, wanted[s].rate.value, 1e-9);
}

// A mean of exactly 1 would be no fan-out: another graph, whose rows nobody splits.
TEST(FanOuts, OneOnAverageIsAFanOutStill) {
  for (const double told : {1.1, 0.5, 2.0, 1.21}) {
    Counting now;
    const auto services = services_with(told);
    now.fan_outs.begin(services);
    now.see(60, 1);
    EXPECT_NE(now.fan_out(services), 1);
    EXPECT_NEAR(now.fan_out(services), 1, 0.35);
    const auto corrected = now.corrected(services).services;
    const auto p = std::ranges::find(corrected, "p", &plan::Service::name);
    EXPECT_EQ(plan::graph_of(*p->pipeline)->group[1], 1U);
  }
}

TEST(FanOuts, FewRequestsAndNoiseMoveNothing) {
  const auto services = services_with(4);
  Counting few;
  few.fan_outs.begin(services);
  few.see(200, 40, 50);  // 0.8 a minute is left of those before: 250
  EXPECT_EQ(few.fan_out(services), 4);
  Counting noisy;
  noisy.fan_outs.begin(services);
  for (int k = 0; k < 300; ++k) noisy.see(1, 4 + 0.5 * std::sin(k));
  EXPECT_EQ(noisy.corrected(services).key, "key");
  EXPECT_TRUE(noisy.report.take_news().empty());
}

// Another gateway, one that began anew, none at all: nothing is counted twice or backwards.
TEST(FanOuts, AnotherGatewayCountsFromNothing) {
  const auto services = services_with(4);
  Counting now;
  now.fan_outs.begin(services);
  now.see(60, 4);
  for (const char* gateway : {"gateway 2", "gateway 3"}) {
    now.seen.counted_by = gateway;
    now.seen.loads[0].fan_outs = {{1, 100'000, 5'000'000}};  // of before anybody looked
    now.see(30, 4);
  }
  now.seen.loads[0].fan_outs = {{1, 10, 20}};
  now.see(30, 4);
  now.seen.loads.clear();
  now.fan_outs.see(now.seen, now.report);
  EXPECT_EQ(now.fan_out(services), 4);
}

TEST(FanOuts, WhatWasLearnedStaysWithWhatItCorrects) {
  Counting now;
  const auto services = services_with(4);
  now.fan_outs.begin(services);
  now.see(60, 12);
  const double learned = now.fan_out(services);
  EXPECT_GT(learned, 11);
  now.fan_outs.begin(services);
  EXPECT_EQ(now.fan_out(services), learned);
  Counting next;  // an agent that is started again
  next.kept = now.kept;
  next.fan_outs.begin(services);
  EXPECT_EQ(next.fan_out(services), learned);
  now.fan_outs.begin(services_with(5));
  EXPECT_EQ(now.fan_out(services_with(5)), 5);
  now.fan_outs.begin({});
  EXPECT_TRUE(now.kept.empty());
}

}  // namespace
}  // namespace partita::control
