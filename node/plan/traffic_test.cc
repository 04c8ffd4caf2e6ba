#include "plan/traffic.h"

#include <gtest/gtest.h>

#include "plan/serving.h"

namespace partita::plan {
namespace {

TraceArrivals loaded(const char* file, std::vector<double> times) {
  return {file, "", std::make_shared<const TrafficTrace>(TrafficTrace{std::move(times), {}})};
}

TEST(Traffic, HeadroomIsPlannedForOnTop) {
  Service service;
  service.rate = Rps{150};
  EXPECT_EQ(planning_rate(service).value, 150);
  service.traffic.headroom = 0.2;
  EXPECT_DOUBLE_EQ(planning_rate(service).value, 180);
}

TEST(Traffic, TheRateOfTheNightBeforeLastsUntilMorning) {
  const std::vector<RateAt> rates = {{480, Rps{120}}, {1200, Rps{40}}};
  EXPECT_EQ(rate_at(rates, 0).value, 40);
  EXPECT_EQ(rate_at(rates, 479).value, 40);
  EXPECT_EQ(rate_at(rates, 480).value, 120);
  EXPECT_EQ(rate_at(rates, 1199).value, 120);
  EXPECT_EQ(rate_at(rates, 1200).value, 40);
  EXPECT_EQ(rate_at(rates, 1439).value, 40);
}

TEST(Traffic, ATraceIsWhatWasRecorded) {
  EXPECT_EQ(loaded("a", {1, 2}), loaded("b", {1, 2}));
  EXPECT_FALSE(loaded("a", {1, 2}) == loaded("a", {1, 3}));
  const TraceArrivals named{"a", "x", {}, 3};
  EXPECT_EQ(named, (TraceArrivals{"a", "x", {}, 4}));
  EXPECT_FALSE(named == (TraceArrivals{"a", "y", {}, 3}));
  EXPECT_FALSE(named == (TraceArrivals{"b", "x", {}, 3}));
  EXPECT_FALSE(named == loaded("a", {1, 2}));
}

TEST(Traffic, SpanAndMeanOfATrace) {
  const TrafficTrace times{{10, 20, 40, 40}, {}};
  EXPECT_DOUBLE_EQ(times.span().value, 40);
  EXPECT_DOUBLE_EQ(times.mean().value, 0.1);
  const TrafficTrace counts{{}, {30, 0, 90}};
  EXPECT_DOUBLE_EQ(counts.span().value, 180);
  EXPECT_DOUBLE_EQ(counts.mean().value, 2 / 3.0);
}

TEST(Traffic, ReadsAsWords) {
  const OnOff on_off{3, 5, 60};
  EXPECT_EQ(to_string(Arrivals{}), "poisson");
  EXPECT_EQ(to_string(Arrivals{EvenArrivals{}}), "uniform");
  EXPECT_EQ(to_string(Arrivals{GammaArrivals{2.5}}), "gamma, cv 2.5");
  EXPECT_EQ(to_string(Arrivals{BurstArrivals{on_off}}), "burst, 3 x for 5 s of every 60 s");
  EXPECT_EQ(to_string(Arrivals{MmppArrivals{on_off}}), "mmpp, 3 x for 5 s of every 60 s");
  EXPECT_EQ(to_string(Arrivals{loaded("a.csv", {})}), "trace a.csv");
}

}  // namespace
}  // namespace partita::plan
