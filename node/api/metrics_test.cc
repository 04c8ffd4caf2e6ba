#include "api/metrics.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <utility>

#include "api/operations.h"
#include "api/testing/fake_agent.h"
#include "api/testing/prometheus_check.h"
#include "base/document.h"
#include "base/source_text.h"

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
  state.assignment.segments = {{{"1g.10gb"}, {"a\nb", 2, 3}, "MIG-1", "GPU-1"}};
  ServerCounts counts;
  state.judged = {{"planner", 9, 0}, {"target", 4, 2}};
  state.assignment.segments.push_back(state.assignment.segments[0]);
  state.assignment.segments[1].device = "MIG-2";
  state.assignment.segments[1].service = state.services[0].name;
  state.services[1].energy_j = 1234.5;
  state.batch.energy_j = 77;
  const test::Scraped read = test::scrape(agent_metrics(state, counts));
  EXPECT_EQ(read.fault, "");
  EXPECT_EQ(read.types.at("partita_service_energy_joules_total"), "counter");
  const std::vector<std::pair<std::string, double>> wanted = {
      {"partita_agent_worker_restarts_total", 4},
      {"partita_agent_workers_given_up", 2},
      {"partita_agent_drifts_total", 5},
      {"partita_agent_changes_failed_total", 1},
      {"partita_agent_change_last{outcome=\"failed\"}", 2},
      {"partita_agent_change_last_timestamp_seconds", 1'700'000'001.5},
      {"partita_agent_verdicts_total{asked=\"planner\",outcome=\"accepted\"}", 9},
      {"partita_agent_verdicts_total{asked=\"planner\",outcome=\"refused\"}", 0},
      {"partita_agent_verdicts_total{asked=\"target\",outcome=\"refused\"}", 2},
      {"partita_service_energy_joules_total{service=\"service \\\"1\\\\\"}", 1234.5},
      {"partita_service_energy_joules_total{service=\"(batch)\"}", 77},
      {"partita_slice_use_ratio{UUID=\"GPU-1\",device=\"MIG-2\",profile=\"1g.10gb\","
       "service=\"service \\\"0\\\\\"}",
       10.5 / 20},
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

// The series that can be asked for are those that are measured.
TEST(MetricsTest, EveryMeasurementIsOneOfTheSeries) {
  const std::string source = source_text("node/control/show.cc");
  const std::regex measured("add\\(\"([a-z0-9_]+)\"");
  std::set<std::string> names;
  for (std::sregex_iterator one(source.begin(), source.end(), measured), end; one != end; ++one)
    names.insert((*one)[1]);
  const auto& words = operation("series").query_field("metric")->words;
  EXPECT_EQ(names, std::set<std::string>(words.begin(), words.end()));
}

// Without a gateway nobody knows what services are asked for: 0 would be a figure.
TEST(MetricsTest, WhatNobodyCountsIsLeftOut) {
  control::Snapshot state = test::fake_snapshot(1);
  state.services[0].rate_rps.reset();
  const std::string asked = "partita_service_asked_rps{";
  for (const std::int64_t as_of : {1'700'000'000'000, std::int64_t{0}}) {
    state.services[0].is.as_of_ms = as_of;
    EXPECT_EQ(agent_metrics(state, {}).find(asked) != std::string::npos, as_of > 0);
  }
}

TEST(MetricsTest, OfALargeNodeWhatOtherLinesSayIsLeftOut) {
  constexpr std::size_t kServed = 448, kServices = 1000;
  control::Snapshot state = test::fake_snapshot(kServices);
  for (std::size_t i = 0; i < kServices; ++i) {
    control::ServiceNow& one = state.services[i];
    one.is.verdict = i < kServed ? control::Standing::serves : control::Standing::down;
    if (i < kServed) continue;
    one.rate_rps.reset();
    one.attainment.reset();
    one.planned_rps = one.is.can_carry_rps = one.is.asked_rps = 0;
  }
  const std::string text = agent_metrics(state, {});
  const test::Scraped read = test::scrape(text);
  EXPECT_EQ(read.fault, "");
  EXPECT_LE(read.values.size(), 11 * kServed + 5 * (kServices - kServed) + 60);
  const auto of = [&](const char* name, const char* label) {
    const std::string key =
        std::string("partita_service_") + name + "{service=\"service \\\"" + label;
    return read.values.contains(key) ? read.values.at(key) : -1.0;
  };
  EXPECT_EQ(of("verdict", "7\\\\\",verdict=\"serves\"}"), 1);
  EXPECT_EQ(of("verdict", "900\\\\\",verdict=\"serves\"}"), 0);
  EXPECT_EQ(of("verdict", "900\\\\\",verdict=\"down\"}"), 1);
  EXPECT_EQ(of("planned_rps", "7\\\\\"}"), 20);
  EXPECT_EQ(of("planned_rps", "900\\\\\"}"), -1);
  EXPECT_EQ(of("wanted_rps", "900\\\\\"}"), 20);
}

TEST(MetricsTest, WhatIsNotKnownIsNotSaid) {
  control::Snapshot state;
  state.services.push_back({{.name = "a", .model = "m"}});
  const test::Scraped read = test::scrape(agent_metrics(state, {}));
  EXPECT_EQ(read.fault, "");
  EXPECT_FALSE(read.values.contains("partita_service_rate_rps{service=\"a\"}"));
  EXPECT_FALSE(read.types.contains("partita_service_rate_rps"));
  // Of a service that nobody has judged nothing good is said.
  EXPECT_EQ(read.values.at("partita_service_at_risk{service=\"a\"}"), 1);
  const std::string verdict = "partita_service_verdict{service=\"a\",verdict=";
  EXPECT_EQ(read.values.at(verdict + "\"unknown\"}"), 1);
  for (const char* const other : {"serves", "degraded", "at_risk", "down"})
    EXPECT_EQ(read.values.at(verdict + "\"" + other + "\"}"), 0) << other;
}

// A service that no node carries is there, too; what was not heard for long is not known.
TEST(MetricsTest, AFleetIsSaidAsItsStatusSaysIt) {
  fleet::FleetStatus is{.fleet = "f", .converged = true};
  is.nodes = {{.node = "n1"}, {.node = "n2", .there = false}};
  is.services = {
      {.service = "a", .verdict = "serves", .wanted_rps = 30, .planned_rps = 20, .carried_rps = 10},
      {.service = "b", .verdict = "down", .wanted_rps = 5}};
  const test::Scraped fresh = test::scrape(fleet_metrics(&is, 0.5, false));
  EXPECT_EQ(fresh.fault, "");
  std::map<std::string, double> wanted = {{"partita_fleet_heard_seconds", 0.5},
                                          {"partita_fleet_converged", 1},
                                          {"partita_fleet_node_there{node=\"n1\"}", 1},
                                          {"partita_fleet_node_there{node=\"n2\"}", 0},
                                          {"partita_fleet_service_wanted_rps{service=\"a\"}", 30},
                                          {"partita_fleet_service_planned_rps{service=\"a\"}", 20},
                                          {"partita_fleet_service_carried_rps{service=\"a\"}", 10},
                                          {"partita_fleet_service_wanted_rps{service=\"b\"}", 5},
                                          {"partita_fleet_service_planned_rps{service=\"b\"}", 0},
                                          {"partita_fleet_service_carried_rps{service=\"b\"}", 0}};
  const auto verdicts = [&](const std::string& a, const std::string& b) {
    for (const char* word : {"serves", "degraded", "at_risk", "down", "unknown"})
      for (const auto& [service, is_so] : {std::pair("a", a == word), {"b", b == word}})
        wanted[fmt::format("partita_fleet_service_verdict{{service=\"{}\",verdict=\"{}\"}}",
                           service, word)] = is_so ? 1 : 0;
  };
  verdicts("serves", "down");
  EXPECT_EQ(fresh.values, wanted);
  const test::Scraped old = test::scrape(fleet_metrics(&is, 45, true));
  EXPECT_EQ(old.fault, "");
  std::erase_if(wanted, [](const auto& one) {
    return one.first.find("_rps") != std::string::npos ||
           one.first.find("_there") != std::string::npos;
  });
  verdicts("unknown", "unknown");
  wanted["partita_fleet_heard_seconds"] = 45;
  wanted["partita_fleet_converged"] = 0;
  EXPECT_EQ(old.values, wanted);
  const test::Scraped none = test::scrape(fleet_metrics(nullptr, 2, false));
  EXPECT_EQ(none.values.size(), 1u);
}

// Workers that no gateway is before carry nothing.
TEST(MetricsTest, WhatIsNotHeardCarriesNothing) {
  control::Snapshot state = test::fake_snapshot(1);
  const auto capacity = [&] {
    const test::Scraped read = test::scrape(agent_metrics(state, {}));
    return read.values.at("partita_service_capacity_rps{service=\"service \\\"0\\\\\"}");
  };
  EXPECT_GT(capacity(), 0);
  state.services[0].is.verdict = control::Standing::unknown;
  state.services[0].ready_workers = 0;
  EXPECT_EQ(capacity(), 0);
}

// Every metric that the board draws is one that an agent with everything to say says, and the other
// way round every metric of services and of the agent is drawn.
TEST(MetricsTest, TheBoardDrawsWhatThereIs) {
  control::Snapshot state = test::fake_snapshot(1);
  control::ServiceNow& service = state.services[0];
  service.energy_j = service.forecast_rps = service.forecast_low_rps = service.forecast_high_rps =
      service.p99_ms = 1;
  state.last = test::fake_change(2);
  state.assignment.segments = {{{"1g.10gb"}, {service.name}, "MIG-1", "GPU-1"}};
  telemetry::InstanceSample instance;
  instance.activity.graphics_engine = 0.5;
  state.gpus[0].sample->instances = {instance};
  ServerCounts counts;
  state.judged = {{"planner", 1, 0}};
  const auto types = test::scrape(agent_metrics(state, counts)).types;
  const std::string board = source_text("packaging/grafana-agent.json");
  std::set<std::string> drawn;
  for (std::size_t at = 0; (at = board.find("partita_", at)) != std::string::npos;) {
    const std::size_t end = board.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", at);
    drawn.insert(board.substr(at, end - at));
    at = end;
  }
  for (const std::string& name : drawn) EXPECT_TRUE(types.contains(name)) << name;
  for (const auto& [name, type] : types) {
    const bool left_out =
        name == "partita_agent_info" || name == "partita_api_connections" ||
        name == "partita_api_streams" || name == "partita_service_wanted_rps" ||
        name == "partita_service_slo_percentile" || name == "partita_agent_node_readable" ||
        name == "partita_service_segments" || name == "partita_service_workers_ready" ||
        name == "partita_gpu_throttled";
    EXPECT_TRUE(left_out || drawn.contains(name)) << name;
  }
}

TEST(MetricsTest, TheCheckSeesWhatPrometheusWouldRefuse) {
  const std::string head = "# TYPE a gauge\n";
  for (const char* wrong : {"a 1", "a{b=1} 1\n", "a{b=\"x} 1\n", "a{b=\"\\x\"} 1\n", "a one\n",
                            "b 1\n", "a 1\na 1\n", "a{b=\"1\",b=\"2\"} 1\n", "1a 1\n"})
    EXPECT_NE(test::scrape(head + wrong).fault, "") << wrong;
  EXPECT_NE(test::scrape("# TYPE a counter\na 1\n").fault, "");
  EXPECT_EQ(test::scrape(head + "a{b=\"x\\\\\\\"\\n\"} 1e3\na 2\n").fault, "");
}

// Every alert is over metrics and labels that there are, and has its section in the runbook; every
// section is of an alert.
TEST(AlertsTest, NameMetricsThatThereAreAndSectionsOfTheRunbook) {
  const auto rules = parse_document("alerts.yaml", source_text("packaging/alerts.yaml"));
  ASSERT_TRUE(rules) << to_string(rules.error());
  const std::string runbook = source_text("docs/runbook.md");
  control::Snapshot state = test::fake_snapshot();
  state.last = test::fake_change(2);
  fleet::FleetStatus of_fleet;
  of_fleet.nodes = {{.node = "n"}};
  of_fleet.services = {{.service = "s"}};
  const std::string metrics = agent_metrics(state, {}) + fleet_metrics(&of_fleet, 0, false);
  std::set<std::string> sections, alerts;
  const std::regex heading("\n## (Partita\\w+)\n");
  for (std::sregex_iterator at(runbook.begin(), runbook.end(), heading), end; at != end; ++at)
    sections.insert((*at)[1]);
  const std::regex metric("partita_\\w+"), label("(\\w+=\"\\w+\")");
  for (const Node& rule : rules->root.find("groups")->items.at(0).find("rules")->items) {
    const std::string name = rule.find("alert")->text, expr = rule.find("expr")->text;
    EXPECT_TRUE(alerts.insert(name).second) << name;
    EXPECT_TRUE(
        rule.find("annotations")->find("runbook_url")->text.ends_with("runbook.md#" + name));
    EXPECT_FALSE(rule.find("annotations")->find("summary")->text.empty());
    int metrics_named = 0;
    for (std::sregex_iterator at(expr.begin(), expr.end(), metric), end; at != end; ++at) {
      ++metrics_named;
      EXPECT_NE(metrics.find("# TYPE " + at->str() + " "), std::string::npos)
          << name << ": " << at->str();
    }
    EXPECT_GT(metrics_named, 0) << name;
    for (std::sregex_iterator at(expr.begin(), expr.end(), label), end; at != end; ++at) {
      if (at->str() == "job=\"partita-agent\"") continue;  // Prometheus' own
      EXPECT_NE(metrics.find(at->str()), std::string::npos) << name << ": " << at->str();
    }
  }
  EXPECT_EQ(alerts, sections);
  EXPECT_GE(alerts.size(), 13u);
}

TEST(AlertsTest, ANodeThatCannotBeReadIsAMetric) {
  control::Snapshot state = test::fake_snapshot();
  const auto readable = [&] {
    return test::scrape(agent_metrics(state, {})).values.at("partita_agent_node_readable");
  };
  EXPECT_EQ(readable(), 1);
  state.node_fault = "the driver does not answer";
  EXPECT_EQ(readable(), 0);
}

}  // namespace
}  // namespace partita::api
