#include "control/own_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "forms/pipeline_form.h"

namespace partita::control {
namespace {

plan::PipelineStep step(const std::string& service, const std::string& in, const std::string& out,
                        double fan_out = 1) {
  return {service, {{"x", in}}, {{"y", out}}, fan_out};
}

// Two pipelines over one step that clients use, too, and two that they do not.
std::vector<plan::Service> all(double p, double q, double own) {
  plan::Service first{.name = "p", .rate = Rps{p}, .slo = Millis{100}};
  first.pipeline = {{step("find", "a", "b"), step("read", "b", "c", 4)}};
  plan::Service second{.name = "q", .rate = Rps{q}, .slo = Millis{100}};
  second.pipeline = {{step("sort", "a", "b"), step("read", "b", "c"), step("read", "a", "d")}};
  std::vector<plan::Service> services{
      first, second, {.name = "read", .model = "m", .rate = Rps{own}, .slo = Millis{80}}};
  EXPECT_FALSE(forms::add_members(services));
  return services;
}

std::vector<double> rates_of(const std::vector<plan::Service>& services) {
  std::vector<double> rates;
  for (const plan::Service& one : services) rates.push_back(one.rate.value);
  return rates;
}

TEST(OwnRates, AreWhatClientsAskFor) {
  const std::vector<plan::Service> services = all(10, 5, 20);
  EXPECT_THAT(rates_of(services), testing::ElementsAre(10, 5, 20 + 40 + 10, 10, 5));
  EXPECT_THAT(rates_of(forms::at_own_rates(services)), testing::ElementsAre(10, 5, 20, 0, 0));
  EXPECT_EQ(at_whole_rates(forms::at_own_rates(services)), services);
}

// The reader of services files adds up by itself.
TEST(OwnRates, AddUpToWhatTheReaderAddsUp) {
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    const double p = 100 * rng.uniform(), q = 100 * rng.uniform(), own = 100 * rng.uniform();
    const std::vector<double> whole = rates_of(all(p, q, own));
    const std::vector<double> back = own_rates(all(1, 1, 1), whole);
    EXPECT_THAT(back, testing::Pointwise(testing::DoubleNear(1e-9), {p, q, own, 0.0, 0.0}));
    EXPECT_THAT(whole_rates(all(1, 1, 1), back),
                testing::Pointwise(testing::DoubleNear(1e-9), whole));
  }
}

// What is measured may be less than what is to follow from it.
TEST(OwnRates, AreNeverBelowNothing) {
  EXPECT_THAT(own_rates(all(1, 1, 1), {10, 5, 30, 900, 5}), testing::ElementsAre(10, 5, 0, 0, 0));
}

}  // namespace
}  // namespace partita::control
