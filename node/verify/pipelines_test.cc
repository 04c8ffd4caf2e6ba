#include "verify/pipelines.h"

#include <gtest/gtest.h>

#include <cmath>

#include "verify/driven_queue.h"

namespace partita::verify {
namespace {

plan::PipelineStep step(const std::string& service, const std::string& from, const std::string& to,
                        double fan_out = 1) {
  return {service, {{"x", from}}, {{"y", to}}, fan_out};
}

// One process that takes so long for one request.
plan::DispatchPolicy server(double ms, int processes = 1) {
  return {.members = {{{{{1, Millis{ms}}}}, processes}}, .paced = false, .slo = {}};
}

std::vector<plan::Terms> asked(double rate, double slo, double percentile,
                               std::vector<plan::PipelineStep> steps) {
  plan::Terms pipeline{
      .name = "p", .rate = Rps{rate}, .slo = Millis{slo}, .percentile = percentile};
  pipeline.pipeline = {std::move(steps)};
  std::vector<plan::Terms> services{pipeline};
  for (const plan::PipelineStep& one : pipeline.pipeline->steps)
    services.push_back({.name = one.service, .model = "m", .member = true});
  for (std::size_t s = 1; s < services.size(); ++s)
    services[s].rate = plan::rate_from_pipelines(services, services[s].name);
  return services;
}

// P(wait <= t) in M/D/1 (Erlang 1909), time in services.
double md1_waits_at_most(double t, double rho) {
  double sum = 0, factorial = 1;
  for (int k = 0; k <= static_cast<int>(t); ++k) {
    if (k > 0) factorial *= k;
    sum += std::pow(rho * (k - t), k) / factorial * std::exp(-rho * (k - t));
  }
  return (1 - rho) * sum;
}

// Two equal deterministic servers one after the other: nobody waits in the second (Friedman 1965),
// so the whole way is the wait of M/D/1 and two services.
TEST(JudgePipelines, TandemOfEqualServersIsMD1) {
  const double rho = 0.7, ms = 10;
  for (const double waits : {2.5, 4.5, 6.5}) {
    const auto services =
        asked(1e3 * rho / ms, (waits + 2) * ms, 99, {step("a", "in", "m"), step("b", "m", "out")});
    const auto verdicts = judge_pipelines(services, {{"a", server(ms)}, {"b", server(ms)}});
    ASSERT_EQ(verdicts.size(), 1u);
    const double right = 1 - md1_waits_at_most(waits, rho);
    EXPECT_NEAR(verdicts.at("p").late, right, 0.15 * right + 2e-4) << waits;
    EXPECT_GE(verdicts.at("p").surely, right) << waits;
    EXPECT_EQ(verdicts.at("p").holds, right < 0.009) << waits << " late " << right;
  }
}

// Light traffic: the time of a fork is the slower branch's, not the sum.
TEST(JudgePipelines, BranchesGoSideBySide) {
  plan::PipelineStep join = step("c", "y", "out");
  join.inputs["z"] = "z";
  const auto services = asked(1, 41, 90, {step("a", "in", "y"), step("b", "in", "z"), join});
  const Pools pools{{"a", server(10)}, {"b", server(30)}, {"c", server(10)}};
  const auto verdicts = judge_pipelines(services, pools);
  EXPECT_LT(verdicts.at("p").late, 0.05);
  EXPECT_NEAR(verdicts.at("p").latency.value, 40, 1e-6);
}

// A fan-out of Poisson(k) requests to so many servers that none waits: late when there are any.
TEST(JudgePipelines, FanOutIsPoisson) {
  const auto services = asked(1, 15, 99, {step("a", "in", "m"), step("b", "m", "out", 0.5)});
  const auto verdicts = judge_pipelines(services, {{"a", server(10)}, {"b", server(10, 100)}});
  EXPECT_NEAR(verdicts.at("p").late, 1 - std::exp(-0.5), 0.02);  // a waits now and then, too
}

TEST(JudgePipelines, RefusesAStepThatCannotKeepUp) {
  const auto services = asked(60, 1e4, 50, {step("a", "in", "m"), step("b", "m", "out", 2)});
  const auto verdicts = judge_pipelines(services, {{"a", server(10)}, {"b", server(10)}});
  EXPECT_FALSE(verdicts.at("p").stable);
  EXPECT_FALSE(verdicts.at("p").holds);
}

// A step with clients of its own: both promises are looked at, on one pool.
TEST(JudgePipelines, SharedStepHasAPromiseOfItsOwn) {
  auto services = asked(30, 100, 99, {step("a", "in", "m"), step("b", "m", "out")});
  services[2].member = false;
  services[2].slo = Millis{10.5};  // nobody may wait at all
  services[2].rate += Rps{40};
  const auto verdicts = judge_pipelines(services, {{"a", server(10)}, {"b", server(10)}});
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_GT(verdicts.at("b").late, 0.4);
  EXPECT_FALSE(verdicts.at("b").holds);
  EXPECT_TRUE(verdicts.contains("p"));
}

TEST(JudgePipelines, LeavesOutStepsWithoutPool) {
  const auto services = asked(30, 100, 99, {step("a", "in", "m"), step("b", "m", "out")});
  EXPECT_TRUE(judge_pipelines(services, {{"a", server(10)}}).empty());
}

}  // namespace
}  // namespace partita::verify
