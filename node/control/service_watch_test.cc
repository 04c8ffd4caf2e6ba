#include "control/service_watch.h"

#include <gtest/gtest.h>

#include "control/testing/brain_fixture.h"

namespace partita::control {
namespace {

struct ServiceWatchTest : testing::Test {
  Report report;
  ServiceWatch watch{report};
  std::vector<plan::Service> services{wanted_service("a", 100)};
  AgentMemory memory;
  actuate::Assignment assignment;
  ServersSeen servers;
  std::int64_t now = kMonday;

  // One instance of "a", whose worker is ready or not.
  ServiceWatchTest() {
    assignment.segments.push_back({{"7g.80gb", 0}, {"a", 1, 1, 200}, "MIG-1", "GPU-0"});
    servers.gateway = true;
    serve(true);
  }
  void serve(bool ready) {
    const double answered = ready ? 300 : 0;
    const actuate::RequestStretch recent{3, 300, 300, answered};
    servers.ready["MIG-1"] = ready ? 1 : 0;
    servers.loads = {{.service = "a", .recent = recent, .lately = recent, .minute = recent}};
  }
  Standing judge() {
    memory.verdicts = watch.judge({services, memory, assignment, servers, std::string()}, now);
    return watch.verdicts().at(0).verdict;
  }
};

TEST_F(ServiceWatchTest, TellsOnceThatAServiceIsDownAndOnceThatItIsServedAgain) {
  EXPECT_EQ(judge(), Standing::serves);
  serve(false);
  now += 1000;
  EXPECT_EQ(judge(), Standing::down);
  EXPECT_EQ(report.take_news().at(0).kind, NoticeKind::slo_risk);
  now += 60'000;
  judge();
  EXPECT_TRUE(report.take_news().empty());
  serve(true);
  EXPECT_EQ(judge(), Standing::serves);
  now += 9'999;
  judge();
  EXPECT_TRUE(report.take_news().empty());  // it may go down again
  now += 1;
  judge();
  EXPECT_EQ(report.take_news().at(0).sentence, "a is served again");
}

TEST_F(ServiceWatchTest, AServiceThatHasNeverBeenServedHasTimeToBegin) {
  serve(false);
  EXPECT_EQ(judge(), Standing::down);
  now += 119'999;
  judge();
  EXPECT_TRUE(report.take_news().empty());
  now += 1;
  judge();
  EXPECT_EQ(report.take_news().size(), 1u);
}

TEST_F(ServiceWatchTest, AGlanceSeesWhatWouldBeSaidOtherwise) {
  judge();
  const VerdictGround same{services, memory, assignment, servers, {}};
  EXPECT_FALSE(watch.differs(same, now + 1000));
  serve(false);
  EXPECT_TRUE(watch.differs(same, now + 1000));
  EXPECT_EQ(watch.verdicts().at(0).verdict, Standing::serves);
}

TEST_F(ServiceWatchTest, CountsWorkersThatKeepFailing) {
  actuate::WorkerRecord worker;
  worker.restarts = 4;
  worker.given_up = true;
  watch.hear_workers({worker});
  EXPECT_EQ(watch.restarts(), 4);
  EXPECT_EQ(watch.given_up(), 1);
  watch.hear_workers({worker});
  EXPECT_EQ(report.take_news().size(), 1u);
}

}  // namespace
}  // namespace partita::control
