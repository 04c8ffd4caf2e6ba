#include "decide/other_traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::decide {
namespace {

using testing::ElementsAre;

class OtherTrafficTest : public testing::Test {
 protected:
  OtherTrafficTest() {
    for (const char* name : {"chat", "mail=in"}) {
      plan::Service& service = problem.services.emplace_back();
      service.name = name;
      service.rate = Rps{100 * static_cast<double>(problem.services.size())};
      service.slo = Millis{10};
    }
    problem.services[0].traffic.arrivals = plan::GammaArrivals{3};
  }
  PlayedTraffic played(const OtherTraffic& other) {
    auto result = play(files, problem, other, {});
    EXPECT_TRUE(result) << to_string(result.error());
    return result ? *std::move(result) : PlayedTraffic{};
  }
  std::string refusal(const OtherTraffic& other) {
    const auto result = play(files, problem, other, {});
    return result ? "accepted" : to_string(result.error());
  }
  MemoryFiles files;
  plan::ServingProblem problem;
};

TEST_F(OtherTrafficTest, LeavesWhatIsNotSaid) {
  const PlayedTraffic same = played({});
  EXPECT_EQ(same.problem.services, problem.services);
  EXPECT_EQ(same.options.arrivals, sim::ArrivalKind::declared);
}

TEST_F(OtherTrafficTest, ScalesAllRatesButThoseThatAreSaid) {
  const PlayedTraffic more = played({"", 1.5, {"mail=in=70"}});
  EXPECT_EQ(more.problem.services[0].rate, Rps{150});
  EXPECT_DOUBLE_EQ(more.problem.services[1].rate.value, 70);
  EXPECT_EQ(more.problem.services[0].traffic, problem.services[0].traffic);
  EXPECT_EQ(refusal({"", 1, {"chut=5"}}),
            "--what-if: unknown service 'chut'; did you mean 'chat'?");
  EXPECT_EQ(refusal({"", 1, {"chat=5", "chat=6"}}), "--what-if: 'chat' is given twice");
  for (const char* text : {"chat", "chat=", "chat=0", "chat=-1", "chat=nan", "chat=1e13", "=", ""})
    EXPECT_EQ(
        refusal({"", 1, {text}}),
        std::string("--what-if: '") + text +
            "' is not SERVICE=RATE with a rate above 0 and at most 1e+12 requests per second");
}

TEST_F(OtherTrafficTest, PlaysOtherLaws) {
  EXPECT_EQ(played({"poisson", 1, {}}).options.arrivals, sim::ArrivalKind::poisson);
  EXPECT_EQ(played({"uniform", 1, {}}).options.arrivals, sim::ArrivalKind::uniform);
  EXPECT_EQ(played({"gamma:2.5", 1, {}}).options.arrivals, sim::ArrivalKind::gamma);
  EXPECT_EQ(played({"gamma:2.5", 1, {}}).options.cv, 2.5);
  for (const char* text : {"gamma:", "gamma:0", "gamma:x", "gamma:101"})
    EXPECT_EQ(refusal({text, 1, {}}),
              std::string("--arrivals: '") + text +
                  "' is not gamma:CV with a coefficient of variation above 0 and at most 100");
}

TEST_F(OtherTrafficTest, PlaysFiles) {
  files.content["times.csv"] = "time_s,service\n0,chat\n3,chat\n6,mail=in\n";
  const PlayedTraffic times = played({"times.csv", 1.5, {"mail=in=400"}});
  EXPECT_EQ(times.options.arrivals, sim::ArrivalKind::trace);
  ASSERT_EQ(times.options.traces.size(), 2u);
  EXPECT_THAT(times.options.traces[0].times_s, ElementsAre(0, 2));
  EXPECT_THAT(times.options.traces[1].times_s, ElementsAre(3));

  files.content["counts.csv"] = "name,1,2\nchat,6,9\nmail=in,1,2\n";
  const PlayedTraffic counts = played({"counts.csv", 2, {}});
  EXPECT_EQ(counts.options.arrivals, sim::ArrivalKind::declared);
  const auto& mail = counts.problem.services[1];
  EXPECT_EQ(mail.rate, Rps{400});
  EXPECT_THAT(std::get<plan::TraceArrivals>(mail.traffic.arrivals).trace->per_minute,
              ElementsAre(1, 2));

  files.content["times.csv"] = "time_s,service\n0,chat\n3,chut\n";
  EXPECT_EQ(refusal({"times.csv", 1, {}}),
            "--arrivals: the trace names an unknown service 'chut'; did you mean 'chat'?");
  files.content["counts.csv"] = "name,1,2\nchat,6,9\nmail=in,1,x\n";
  EXPECT_EQ(refusal({"counts.csv", 1, {}}), "counts.csv:3: minute 2: 'x' is no number of requests");
  EXPECT_TRUE(refusal({"none.csv", 1, {}}).starts_with("--arrivals none.csv: "));
}

}  // namespace
}  // namespace partita::decide
