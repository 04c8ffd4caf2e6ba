#include "forms/traffic_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "forms/serving_forms.h"

namespace partita::forms {
namespace {

using plan::RateAt;

// One service with these lines more, or the file with these keys at its top.
std::string with_own(const std::string& lines) {
  return fmt::format("services:\n- name: a\n  model: m\n  slo_ms: 9\n{}\n", lines);
}
std::string with_common(const std::string& lines) {
  return fmt::format("services: [{{name: a, model: m, slo_ms: 9, rate_rps: 100}}]\n{}\n", lines);
}

Service read_service(const std::string& text) {
  const auto services = parse_services("s.yaml", text);
  EXPECT_TRUE(services) << to_string(services.error());
  return services ? services->at(0) : Service{};
}

std::string traffic_fault(const std::string& text) {
  const auto services = parse_services("s.yaml", text);
  return services ? "accepted" : to_string(services.error());
}

TEST(TrafficKeys, HeadroomIsAShareOrAPercentage) {
  for (const char* text : {"headroom: 20%", "headroom: 0.2", "headroom: '20 %'"}) {
    EXPECT_DOUBLE_EQ(read_service(with_common(text)).traffic.headroom, 0.2) << text;
    EXPECT_DOUBLE_EQ(
        read_service(with_own(fmt::format("  rate_rps: 1\n  {}", text))).traffic.headroom, 0.2)
        << text;
  }
  EXPECT_EQ(read_service(with_common("")).traffic, plan::Traffic{});
}

TEST(TrafficKeys, ArrivalsAreOneOfTheLaws) {
  const plan::OnOff on_off{3, 5, 60};
  const std::pair<const char*, plan::Arrivals> laws[] = {
      {"arrivals: poisson", plan::PoissonArrivals{}},
      {"arrivals: uniform", plan::EvenArrivals{}},
      {"arrivals: {cv: 2}", plan::GammaArrivals{2}},
      {"arrivals: {burst: {peak: 3, seconds: 5, every: 60}}", plan::BurstArrivals{on_off}},
      {"arrivals: {mmpp: {peak: 3, seconds: 5, every: 60}}", plan::MmppArrivals{on_off}},
      {"trace: x.csv", plan::TraceArrivals{"x.csv", "", nullptr}},
      {"trace: {file: x.csv, row: f}", plan::TraceArrivals{"x.csv", "f", nullptr}},
      {"arrivals: {trace: x.csv}", plan::TraceArrivals{"x.csv", "", nullptr}},
  };
  for (const auto& [text, law] : laws)
    EXPECT_EQ(read_service(with_common(text)).traffic.arrivals, law) << text;
}

TEST(TrafficKeys, AServiceOverrulesTheFile) {
  constexpr char kText[] = R"({"headroom": "50%", "arrivals": {"cv": 2},
  "rates": [["08:00", "100%"], ["20:00", "40%"]], "services": [
  {"name": "a", "model": "m", "slo_ms": 9, "rate_rps": 100},
  {"name": "b", "model": "m", "slo_ms": 9, "rate_rps": 200, "headroom": 0, "arrivals": "poisson"},
  {"name": "c", "model": "m", "slo_ms": 9, "rates": [["00:00", 7], ["12:30", 3]]}]})";
  const auto services = parse_services("s.json", kText);
  ASSERT_TRUE(services) << to_string(services.error());
  const auto& [a, b, c] = std::tie(services->at(0), services->at(1), services->at(2));
  EXPECT_EQ(a.traffic.headroom, 0.5);
  EXPECT_EQ(a.traffic.arrivals, plan::Arrivals{plan::GammaArrivals{2}});
  EXPECT_EQ(a.traffic.rates, (std::vector<RateAt>{{480, Rps{100}}, {1200, Rps{40}}}));
  EXPECT_EQ(b.traffic.headroom, 0);
  EXPECT_EQ(b.traffic.arrivals, plan::Arrivals{});
  EXPECT_EQ(b.traffic.rates, (std::vector<RateAt>{{480, Rps{200}}, {1200, Rps{80}}}));
  EXPECT_EQ(b.rate, Rps{200});
  EXPECT_EQ(c.traffic.rates, (std::vector<RateAt>{{0, Rps{7}}, {750, Rps{3}}}));
  EXPECT_EQ(c.rate, Rps{7});  // the highest of the day
}

TEST(TrafficKeys, TheRateMayBeThatOfTheTrace) {
  EXPECT_EQ(read_service(with_own("  trace: x.csv")).rate, Rps{0});
  EXPECT_EQ(read_service(with_own("  trace: x.csv\n  rate_rps: 5")).rate, Rps{5});
  EXPECT_EQ(traffic_fault(with_own("  arrivals: {cv: 2}")), "s.yaml:2: 'rate_rps' is missing");
  EXPECT_EQ(traffic_fault(with_own("  rates: [[08:00, 50%]]")), "s.yaml:2: 'rate_rps' is missing");
}

struct MalformedTraffic {
  const char* text;
  const char* refusal;
};

TEST(TrafficKeys, RefusesLawsWithTheirLine) {
  const MalformedTraffic cases[] = {
      {"headroom: much", "s.yaml:2: 'headroom' must be a share such as 20% or 0.2"},
      {"headroom: x%", "s.yaml:2: 'headroom' must be a share such as 20% or 0.2"},
      {"headroom: 20",
       "s.yaml:2: 'headroom' is 20, must be at least 0 and at most 10 (1000 %); a fifth is 0.2, or "
       "20%"},
      {"headroom: -5%",
       "s.yaml:2: 'headroom' is -0.05, must be at least 0 and at most 10 (1000 %); a fifth is 0.2, "
       "or 20%"},
      {"arrivals: {cv: 0}", "s.yaml:2: 'cv' is 0, must be above 0"},
      {"arrivals: {cv: 101}", "s.yaml:2: 'cv' is 101, must be at most 100"},
      {"arrivals: {cvs: 2}", "s.yaml:2: unknown key 'cvs'; did you mean 'cv'?"},
      {"arrivals:\n  burst:\n    peak: 3\n    seconds: 5", "s.yaml:4: 'every' is missing"},
      {"arrivals:\n  mmpp:\n    peak: 3\n    seconds: 5\n    every: 5",
       "s.yaml:5: 'seconds' is 5, must be less than 'every', 5"},
      {"arrivals:\n  burst:\n    peak: 13\n    seconds: 5\n    every: 60",
       "s.yaml:4: 'peak' is 13, must be at most 'every' / 'seconds', 12: the mean stays the "
       "service's rate"},
      {"arrivals: {burst: {peak: 0.5, seconds: 5, every: 60}}",
       "s.yaml:2: 'peak' is 0.5, must be at least 1"},
      {"arrivals: poisson\ntrace: x.csv",
       "s.yaml:3: 'arrivals' and 'trace' are given: one says it all"},
      {"trace: {row: x}", "s.yaml:2: 'file' is missing"},
      {"trace: [x]", "s.yaml:2: 'trace' must be a text"},
  };
  for (const MalformedTraffic& c : cases) EXPECT_EQ(traffic_fault(with_common(c.text)), c.refusal);
  for (const char* law : {"bursty", "3", "{}", "{cv: 1, trace: x}", "[cv]"})
    EXPECT_EQ(traffic_fault(with_common(fmt::format("arrivals: {}", law))),
              "s.yaml:2: 'arrivals' must be poisson, uniform, or one of cv, burst, mmpp and trace: "
              "{cv: 2}, {burst: {peak: 3, seconds: 5, every: 60}}");
}

TEST(TrafficKeys, RefusesRatesWithTheirLine) {
  const MalformedTraffic cases[] = {
      {"rates: []", "s.yaml:2: 'rates' is empty"},
      {"rates: 08:00", "s.yaml:2: 'rates' must be a list"},
      {"rates:\n- [08:00, 1]\n- [07:59, 1]",
       "s.yaml:4: the times in 'rates' must ascend from midnight on"},
      {"rates:\n- [08:00, 1]\n- [8:00, 1]",
       "s.yaml:4: the times in 'rates' must ascend from midnight on"},
      {"rates:\n- [08:00, 0]",
       "s.yaml:3: a rate in 'rates' is 0, must be above 0 and at most 1e+12"},
      {"rates:\n- [08:00, -1%]",
       "s.yaml:3: a rate in 'rates' is -0.01, must be above 0 and at most 1e+12"},
  };
  for (const MalformedTraffic& c : cases) EXPECT_EQ(traffic_fault(with_common(c.text)), c.refusal);
  for (const char* time : {"24:00", "8", "08:60", "0800", "008:00", "08:0", "-1:00", "08:00:00"})
    EXPECT_EQ(traffic_fault(with_common(fmt::format("rates: [['{}', 1]]", time))),
              "s.yaml:2: a time in 'rates' must be one from 00:00 to 23:59")
        << time;
  for (const char* pair : {"08:00", "[08:00]", "[08:00, 1, 2]", "[08:00, much]", "{a: 1}"})
    EXPECT_EQ(traffic_fault(with_common(fmt::format("rates: [{}]", pair))),
              "s.yaml:2: 'rates' must list pairs of time and requests per second, such as [08:00, "
              "120], or of time and a share of rate_rps, [08:00, 80%]")
        << pair;
  EXPECT_EQ(traffic_fault(with_common("rates: [[08:00, 2000000000000%]]")),
            "s.yaml:1: 'rates' gives 2e+12 req/s, must be above 0 and at most 1e+12");
}

}  // namespace
}  // namespace partita::forms
