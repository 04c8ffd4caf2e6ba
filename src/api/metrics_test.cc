#include "api/metrics.h"

#include <gtest/gtest.h>

#include "api/fake_agent.h"
#include "api/prometheus_check.h"

namespace partita::api {
namespace {

TEST(MetricsTest, PrometheusReadsThemAndTheNumbersAreThoseOfTheState) {
  control::Snapshot state = test::fake_snapshot(3);
  state.given_up_workers = 2;
  state.drifts = 5;
  state.failed_changes = 1;
  state.last = test::fake_change(2);
  state.last->state = control::ChangeState::failed;
  state.last->ended_ms = 1'700'000'001'500;
  state.assignment.segments = {{.device = "MIG-1", .gpu_uuid = "GPU-1", .profile = "1g.10gb",
                                .service = "a\nb", .batch = 2, .processes = 3}};
  ServerCounts counts;
  counts.changes[control::ChangeState::succeeded] = 9;
  const test::Scraped read = test::scrape(agent_metrics(state, counts));
  EXPECT_EQ(read.fault, "");
  const std::vector<std::pair<std::string, double>> wanted = {
      {"partita_agent_worker_restarts_total", 4},
      {"partita_agent_workers_given_up", 2},
      {"partita_agent_drifts_total", 5},
      {"partita_agent_changes_failed_total", 1},
      {"partita_agent_change_last{outcome=\"failed\"}", 2},
      {"partita_agent_change_last_timestamp_seconds", 1'700'000'001.5},
      {"partita_agent_verdicts_total{outcome=\"succeeded\"}", 9},
      {"partita_service_rate_rps{service=\"service \\\"1\\\\\"}", 10.5},
      {"partita_service_attainment_ratio{service=\"service \\\"2\\\\\"}", 0.999},
      {"partita_slice_service{UUID=\"GPU-1\",device=\"MIG-1\",profile=\"1g.10gb\","
       "service=\"a\\nb\"}",
       3}};
  for (const auto& [name, value] : wanted) {
    ASSERT_TRUE(read.values.contains(name)) << name;
    EXPECT_EQ(read.values.at(name), value) << name;
  }
}

TEST(MetricsTest, WhatIsNotKnownIsNotSaid) {
  control::Snapshot state;
  state.services.push_back({.name = "a", .model = "m"});
  const test::Scraped read = test::scrape(agent_metrics(state, {}));
  EXPECT_EQ(read.fault, "");
  EXPECT_FALSE(read.values.contains("partita_service_rate_rps{service=\"a\"}"));
  EXPECT_FALSE(read.types.contains("partita_service_rate_rps"));
  EXPECT_EQ(read.values.at("partita_service_at_risk{service=\"a\"}"), 0);
}

TEST(MetricsTest, TheCheckSeesWhatPrometheusWouldRefuse) {
  const std::string head = "# TYPE a gauge\n";
  for (const char* wrong : {"a 1", "a{b=1} 1\n", "a{b=\"x} 1\n", "a{b=\"\\x\"} 1\n", "a one\n",
                            "b 1\n", "a 1\na 1\n", "a{b=\"1\",b=\"2\"} 1\n", "1a 1\n"})
    EXPECT_NE(test::scrape(head + wrong).fault, "") << wrong;
  EXPECT_NE(test::scrape("# TYPE a counter\na 1\n").fault, "");
  EXPECT_EQ(test::scrape(head + "a{b=\"x\\\\\\\"\\n\"} 1e3\na 2\n").fault, "");
}

}  // namespace
}  // namespace partita::api
