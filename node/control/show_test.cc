#include "control/show.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/testing/brain_fixture.h"

namespace partita::control {
namespace {

struct ShowTest : testing::Test {
  World world = small_world(automatic());
  AgentMemory memory;
  NodeView node = empty_node(world, 1);
  std::vector<plan::Service> services{wanted_service("a", 100)};
  std::vector<ServiceVerdict> verdicts{{.service = "a"}};
  std::vector<RateNow> rates{{{90, {}, 20, {}, 0, 0, 0, true}, Forecast{95, 80, 110}}};
  std::map<std::string, Draw> draws{{"a", {200, 5000}}};
  HostMeter host_parts;
  std::optional<HostNow> host;
  std::map<std::string, plan::EnergyBill> bills;
  std::optional<telemetry::Sample> sample;
  std::vector<actuate::WorkerRecord> workers;
  std::optional<Changes::Under> under;
  std::optional<ChangeNow> proposed, last;
  PlanMemo memo;
  Report report;
  Snapshot snapshot;
  std::int64_t now = kMonday;

  ShowGround ground() const {
    return {.now_ms = now,
            .world = world,
            .memory = memory,
            .node = node,
            .services = services,
            .verdicts = verdicts,
            .rates = rates,
            .draws = draws,
            .host_parts = host_parts,
            .host = host,
            .bills = bills,
            .sample = sample,
            .workers = workers,
            .under = under,
            .proposed = proposed,
            .last = last,
            .memo = memo,
            .report = report};
  }
};

TEST_F(ShowTest, TimesAloneAreNoNewVersion) {
  show(snapshot, ground());
  EXPECT_EQ(snapshot.version, 1);
  EXPECT_EQ(snapshot.services.at(0).forecast_high_rps, 110);
  EXPECT_EQ(snapshot.services.at(0).watts, 200);
  now += 1000;
  verdicts[0].as_of_ms = now;
  show(snapshot, ground());
  EXPECT_EQ(snapshot.version, 1);
  EXPECT_EQ(snapshot.time_ms, now);
  node.state.gpus[0].lost = true;
  show(snapshot, ground());
  EXPECT_EQ(snapshot.node_version, 2);
  report.doing = "something";
  show(snapshot, ground());
  EXPECT_EQ(snapshot.version, 3);
  EXPECT_EQ(snapshot.node_version, 2);
}

TEST_F(ShowTest, HowLongWorkersTakeThatAreStartedAgain) {
  const auto takes = [&] {
    show(snapshot, ground());
    return snapshot.services.at(0).restart_s;
  };
  using enum actuate::Answering;
  for (const double start_s : {40, 50, 60}) {
    actuate::WorkerRecord& one = workers.emplace_back();
    one.segment.service = "a";
    one.pid = 1;
    one.answering = start_s < 50 ? ready : starting;
    one.restarts = 1;
    one.start_s = start_s;
  }
  EXPECT_EQ(takes(), 60);
  workers[1].pid = 0;  // it has ended
  EXPECT_EQ(takes(), 0);
  workers[1].pid = 2;
  workers[1].quick_failures = 1;  // and does again
  EXPECT_EQ(takes(), 0);
  workers[1].quick_failures = 0;
  workers[1].answering = silent;  // it hangs
  EXPECT_EQ(takes(), 0);
  workers[1].answering = starting;
  workers[1].restarts = 0;  // it has never been there
  EXPECT_EQ(takes(), 0);
  workers[1].restarts = 1;
  workers[1].start_s.reset();
  EXPECT_EQ(takes(), 0);
  for (actuate::WorkerRecord& one : workers) one.answering = ready;
  EXPECT_EQ(takes(), 0);
}

TEST_F(ShowTest, ANodeIsConvergedWhenItsPlanIsDoneAndNothingElseIsNeeded) {
  const auto converged = [&] {
    show(snapshot, ground());
    return snapshot.converged;
  };
  EXPECT_FALSE(converged());
  memory.target.emplace();
  EXPECT_FALSE(converged());
  memory.target->done = true;
  EXPECT_TRUE(converged());
  memory.proposal.emplace();
  EXPECT_FALSE(converged());
  memory.proposal->gain = true;  // only saves something
  EXPECT_TRUE(converged());
  under.emplace();
  under->shown.change.steps.emplace_back();
  EXPECT_FALSE(converged());
}

TEST_F(ShowTest, MeasuresWhatIsKnown) {
  const auto rows = measured(ground());
  const auto value = [&](const std::string& metric) {
    const auto found = std::ranges::find(rows, metric, &history::Measured::metric);
    return found == rows.end() ? -1 : found->value;
  };
  EXPECT_EQ(value("rate_rps"), 90);
  EXPECT_EQ(value("p99_ms"), 20);
  EXPECT_EQ(value("attainment"), -1);
  EXPECT_EQ(value("watts"), 200);
  EXPECT_EQ(value("gpus"), 0);
  EXPECT_EQ(value("key_rps"), -1);
  rates[0].reading.keys = {{.key = "token 1", .answered = 3, .refused = 1, .bytes = 500}};
  const auto again = measured(ground());
  const auto key = std::ranges::find(again, "key_bytes_per_s", &history::Measured::metric);
  ASSERT_NE(key, again.end());
  EXPECT_EQ(key->subject, "a, token 1");
  EXPECT_EQ(key->value, 500);
}

}  // namespace
}  // namespace partita::control
