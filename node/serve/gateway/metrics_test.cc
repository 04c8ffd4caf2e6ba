// Every number of a service is told once, under its own name and in its own unit: a snapshot in
// which no two numbers are alike, against the lines that should come of it.
#include "serve/gateway/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>
#include <sstream>

namespace partita::serve {
namespace {

using testing::ElementsAre;

constexpr Nanos kMetricsSecond = 1'000'000'000;

ServiceSnapshot all_different() {
  ServiceSnapshot s;
  s.terms.name = "s";
  s.terms.slo = Millis{250};
  s.terms.percentile = 99.5;
  s.terms.rate = Rps{31};
  s.p50 = 32'000'000, s.p99 = 33'000'000;
  s.capacity_rps = 34.5, s.rate_rps = 35.5;
  s.queued = 36, s.ready_workers = 37;
  s.slots = 38, s.free_slots = 39;
  s.counters = {.offered = 1000,
                .refused_full = 2,
                .refused_miss = 3,
                .refused_worker = 4,
                .completed = 700,
                .failed = 5,
                .expired = 6,
                .cancelled = 7,
                .in_slo = 690,
                .refused_slowed = 8,
                .refused_share = 10,
                .harmful = 9,
                .batches = 100,
                .items = 701,
                .requeued = 11,
                .rerun = 12,
                .queued = 13 * kMetricsSecond,
                .lateness = kMetricsSecond / 2,
                .wakes = 29,
                .wakes_within = {20, 21, 22, 23, 24, 25, 26, 29}};
  s.totals = {.success_ns = 14 * kMetricsSecond,
              .fail_ns = 15 * kMetricsSecond,
              .execution_ns = 16 * kMetricsSecond,
              .last_inference_ms = 17,
              .withdrawn = 18,
              .given_up = 19,
              .values = 45,
              .padding = 46};
  s.moves = {.moved = 49, .lost = 47};
  s.sequences = 48;
  s.usage["k"] = {.answered = 51, .rows = 52, .over_limit = 54, .over_share = 55, .bytes = 53};
  s.segments["d1"] = {.batches = 41, .items = 42, .busy = 3 * kMetricsSecond, .ready_workers = 2};
  s.segments["d2"] = {.batches = 43, .items = 44, .busy = kMetricsSecond / 4, .ready_workers = 0};
  return s;
}

// The lines that are no comments.
std::vector<std::string> numbers_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with('#')) lines.push_back(line);
  return lines;
}

TEST(GatewayMetrics, EveryNumberHasItsName) {
  const std::string nv = "{model=\"s\",version=\"1\"} ", own = "{service=\"s\"} ";
  const auto labelled = [](const std::string& name, const std::string& label,
                           const std::string& value) {
    return fmt::format("{}{{service=\"s\",{}}} {}", name, label, value);
  };
  const std::string refused = "partita_requests_refused_total",
                    ended = "partita_requests_unanswered_total",
                    latency = "partita_request_latency_seconds",
                    late = "partita_pace_lateness_seconds", segment = "partita_segment_";
  EXPECT_THAT(
      numbers_of(prometheus_text({all_different()})),
      ElementsAre(
          "nv_inference_request_success" + nv + "700", "nv_inference_request_failure" + nv + "300",
          "nv_inference_count" + nv + "701", "nv_inference_exec_count" + nv + "100",
          "nv_inference_request_duration_us" + nv + "14000000",
          "nv_inference_queue_duration_us" + nv + "13000000",
          "nv_inference_compute_infer_duration_us" + nv + "16000000",
          "partita_slo_seconds" + own + "0.25", "partita_slo_percentile" + own + "99.5",
          "partita_requests_offered_total" + own + "1000",
          "partita_requests_in_slo_total" + own + "690",
          labelled(refused, "reason=\"queue_full\"", "2"),
          labelled(refused, "reason=\"would_be_late\"", "3"),
          labelled(refused, "reason=\"no_worker\"", "4"),
          labelled(refused, "reason=\"slowed\"", "8"), labelled(refused, "reason=\"share\"", "10"),
          labelled(ended, "reason=\"failed\"", "5"), labelled(ended, "reason=\"expired\"", "6"),
          labelled(ended, "reason=\"cancelled\"", "7"), labelled(ended, "reason=\"harmful\"", "9"),
          "partita_rows_requeued_total" + own + "11", "partita_rows_rerun_total" + own + "12",
          labelled(latency, "quantile=\"0.5\"", "0.032"),
          labelled(latency, "quantile=\"0.99\"", "0.033"), "partita_queue_rows" + own + "36",
          "partita_workers_ready" + own + "37", "partita_rate_rps" + own + "35.5",
          "partita_planned_rps" + own + "31", "partita_capacity_rps" + own + "34.5",
          "partita_slots" + own + "38", "partita_slots_free" + own + "39",
          "partita_open_values_total" + own + "45", "partita_padding_values_total" + own + "46",
          "partita_sequences" + own + "48", "partita_sequences_lost_total" + own + "47",
          "partita_sequences_moved_total" + own + "49",
          labelled(late + "_bucket", "le=\"5e-05\"", "20"),
          labelled(late + "_bucket", "le=\"0.0001\"", "21"),
          labelled(late + "_bucket", "le=\"0.0002\"", "22"),
          labelled(late + "_bucket", "le=\"0.0005\"", "23"),
          labelled(late + "_bucket", "le=\"0.001\"", "24"),
          labelled(late + "_bucket", "le=\"0.002\"", "25"),
          labelled(late + "_bucket", "le=\"0.01\"", "26"),
          labelled(late + "_bucket", "le=\"+Inf\"", "29"), late + "_sum" + own + "0.5",
          late + "_count" + own + "29", labelled(segment + "workers_ready", "device=\"d1\"", "2"),
          labelled(segment + "workers_ready", "device=\"d2\"", "0"),
          labelled(segment + "batches_total", "device=\"d1\"", "41"),
          labelled(segment + "batches_total", "device=\"d2\"", "43"),
          labelled(segment + "rows_total", "device=\"d1\"", "42"),
          labelled(segment + "rows_total", "device=\"d2\"", "44"),
          labelled(segment + "busy_seconds_total", "device=\"d1\"", "3"),
          labelled(segment + "busy_seconds_total", "device=\"d2\"", "0.25"),
          labelled("partita_key_requests_total", "key=\"k\"", "51"),
          labelled("partita_key_rows_total", "key=\"k\"", "52"),
          labelled("partita_key_bytes_total", "key=\"k\"", "53"),
          labelled("partita_key_over_limit_total", "key=\"k\"", "54"),
          labelled("partita_key_over_share_total", "key=\"k\"", "55")));
}

// Each family is announced once, before its lines, whatever services there are.
TEST(GatewayMetrics, EachFamilyIsAnnouncedOnce) {
  for (const std::size_t services : {0u, 1u, 3u}) {
    const std::string text =
        prometheus_text(std::vector<ServiceSnapshot>(services, all_different()));
    std::istringstream in(text);
    std::set<std::string> seen;
    std::string family;
    for (std::string line; std::getline(in, line);) {
      std::string type;
      if (line.starts_with("# TYPE ")) {
        std::istringstream(line.substr(7)) >> family >> type;
        EXPECT_TRUE(seen.insert(family).second) << line;
        EXPECT_TRUE(type == "counter" || type == "gauge" || type == "histogram") << line;
        EXPECT_EQ(type == "counter", family.ends_with("_total") || family.starts_with("nv_"));
      } else if (!line.starts_with('#')) {
        EXPECT_TRUE(line.starts_with(family)) << line;
      }
    }
    EXPECT_EQ(seen.size(), 38u);
    EXPECT_EQ(numbers_of(text).size(), 59 * services);
  }
}

TEST(GatewayMetrics, NamesOfAllKindsStayInTheirLine) {
  ServiceSnapshot s = all_different();
  s.terms.name = "a\"b\\c\nd";
  s.terms.percentile = 0;  // of an older assignment: not said
  const std::string text = prometheus_text({s});
  EXPECT_NE(text.find("partita_queue_rows{service=\"a\\\"b\\\\c\\nd\"} 36\n"), text.npos);
  EXPECT_EQ(text.find("partita_slo_percentile{"), text.npos);
  s.terms.slo = Millis{0};
  EXPECT_NE(prometheus_text({s}).find("partita_slo_seconds{service=\"a\\\"b\\\\c\\nd\"} 1\n"),
            std::string::npos);
}

TEST(GatewayMetrics, OfASetOfModelsAlone) {
  ServiceSnapshot s = all_different();
  s.terms.models = plan::ModelSet{.cold = Millis{400}};
  s.totals.set.add({.loads = 1, .evictions = 1, .held = 3, .nanos = kMetricsSecond / 4}, 1);
  s.totals.set.add({.held = 3}, 1);
  s.totals.set.add({.failures = 1, .nanos = kMetricsSecond / 4}, 1);
  s.totals.set.cold(s.terms, 400'000'000);
  s.totals.set.cold(s.terms, 400'000'001);
  const std::string text = prometheus_text({s});
  for (const char* line :
       {"set_hits_total{service=\"s\"} 1\n", "set_loads_total{service=\"s\"} 1\n",
        "set_evictions_total{service=\"s\"} 1\n", "set_load_failures_total{service=\"s\"} 1\n",
        "set_load_seconds_total{service=\"s\"} 0.5\n", "set_cold_in_time_total{service=\"s\"} 1\n",
        "set_cold_start_seconds_bucket{service=\"s\",le=\"0.25\"} 0\n",
        "set_cold_start_seconds_bucket{service=\"s\",le=\"0.5\"} 2\n",
        "set_cold_start_seconds_bucket{service=\"s\",le=\"+Inf\"} 2\n",
        "set_cold_start_seconds_count{service=\"s\"} 2\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

TEST(GatewayMetrics, StatisticsAreTritons) {
  const ServiceStatistics told = statistics_of(all_different());
  EXPECT_EQ(told.success_count, 700u);
  EXPECT_EQ(told.success_ns, 14'000'000'000u);
  EXPECT_EQ(told.fail_count, 20u) << "failed, expired, harmful";
  EXPECT_EQ(told.fail_ns, 15'000'000'000u);
  EXPECT_EQ(told.queue_count, 701u);
  EXPECT_EQ(told.queue_ns, 13'000'000'000u);
  EXPECT_EQ(told.compute_count, 701u);
  EXPECT_EQ(told.compute_ns, 16'000'000'000u);
  EXPECT_EQ(told.inference_count, 701u);
  EXPECT_EQ(told.execution_count, 100u);
  EXPECT_EQ(told.last_inference_ms, 17u);
}

}  // namespace
}  // namespace partita::serve
