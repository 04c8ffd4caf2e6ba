// Tallies against exact quantiles, and the documents and verdicts that come of them.
#include "serve/load/load_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "base/source_text.h"
#include "serve/load/load_judgement.h"
#include "serve/load/model_inputs.h"
#include "sim/serving.h"

namespace partita::serve {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr sim::Nanos kMs = 1'000'000;

TEST(LoadTally, PercentilesAreThoseOfAllLatencies) {
  Rng rng(5);
  LoadTally tally(20 * kMs);
  std::vector<sim::Nanos> exact;
  long within = 0;
  for (int i = 0; i < 20'000; ++i) {
    exact.push_back(static_cast<sim::Nanos>(rng.exponential() * 8 * kMs));
    within += exact.back() <= 20 * kMs ? 1 : 0;
    tally.offer(0);
    tally.end(LoadFate::completed, exact.back());
  }
  tally.offer(0);
  tally.end(LoadFate::refused, kMs);
  std::ranges::sort(exact);
  for (const double percent : {1.0, 50.0, 95.0, 99.0, 99.9}) {
    const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * 20'000)) - 1;
    EXPECT_NEAR(static_cast<double>(tally.latencies().percentile(percent)),
                static_cast<double>(exact[rank]), 0.002 * static_cast<double>(exact[rank]));
  }
  EXPECT_EQ(tally.within_slo(), within);
  EXPECT_DOUBLE_EQ(tally.slo_attainment(), static_cast<double>(within) / 20'001);
  EXPECT_EQ(tally.worst(), exact.back());
}

// ---- the same seed, the same requests

plan::ServingProblem problem() {
  plan::ServingProblem problem;
  problem.services.resize(2);
  plan::Service& steady = problem.services[0];
  steady.name = "steady";
  steady.rate = Rps{200};
  steady.slo = Millis{20};
  plan::Service& bursts = problem.services[1];
  bursts = steady;
  bursts.name = "bursts";
  bursts.traffic.arrivals = plan::MmppArrivals{{4, 2, 20}};
  return problem;
}

// What a generator sends is what the simulator plays: the generator's times, played as a recording,
// are the same events.
TEST(LoadArrivals, AreThoseOfTheSimulation) {
  const plan::ServingProblem services = problem();
  for (const std::uint64_t seed : {1ULL, 77ULL}) {
    sim::ServingOptions options;
    options.duration = Seconds{30};
    options.seed = seed;
    const auto played = sim::simulate(services, {}, options);
    ASSERT_TRUE(played) << to_string(played.error());
    sim::ServingOptions recorded = options;
    recorded.arrivals = sim::ArrivalKind::trace;
    for (const plan::Service& service : services.services) {
      sim::ArrivalSource source = sim::arrivals_of(service, options, {});
      sim::Trace& trace = recorded.traces.emplace_back(sim::Trace{service.name, {}});
      for (sim::Nanos at = source.next(); at < 30'000 * kMs; at = source.next())
        trace.times_s.push_back(static_cast<double>(at) / 1e9);
      EXPECT_GT(trace.times_s.size(), 1000U);
    }
    const auto again = sim::simulate(services, {}, recorded);
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(again->log_hash, played->log_hash);
    EXPECT_EQ(again->events, played->events);
  }
}

// ---- reports

LoadOutcome outcome_of(long completed, long failed, sim::Nanos latency) {
  LoadOutcome outcome;
  outcome.seconds = outcome.answered_s = 60;
  LoadTally tally(10 * kMs);
  for (long i = 0; i < completed + failed; ++i) tally.offer(i < 20 ? 2 * kMs : kMs / 10);
  for (long i = 0; i < completed; ++i) tally.end(LoadFate::completed, latency);
  for (long i = 0; i < failed; ++i) tally.end(LoadFate::reset, latency);
  outcome.services = {tally};
  return outcome;
}

TEST(ServerScenario, IsJudgedByAllThatWereOffered) {
  ServerScenario asked;
  asked.latency_bound_ms = 15;
  asked.min_requests = 1000;
  asked.min_duration_s = 60;
  const auto judge = [&](long completed, long lost, sim::Nanos latency) {
    return judged_server(asked, outcome_of(completed, lost, latency));
  };
  const ServerScenario good = judge(995, 5, 10 * kMs);
  EXPECT_TRUE(good.valid);
  EXPECT_NEAR(good.p99_ms, 10, 0.02);
  EXPECT_NEAR(good.completed_qps, 995.0 / 60, 1e-9);
  EXPECT_FALSE(judge(1000, 0, 16 * kMs).valid);
  EXPECT_FALSE(judge(985, 15, 10 * kMs).valid);  // 1.5 % have no latency at all
  EXPECT_FALSE(std::isfinite(judge(985, 15, 10 * kMs).p99_ms));
  EXPECT_FALSE(judge(999, 0, 10 * kMs).valid);
  LoadOutcome quick = outcome_of(1000, 0, 10 * kMs);
  quick.seconds = 59;
  EXPECT_THAT(judged_server(asked, quick).reasons, SizeIs(1));
}

LoadReport some_report() {
  const LoadOptions options{.url = {.host = "localhost", .port = 8080}, .seed = 7};
  LoadReport report = report_of(options, {{"chat", 20}}, outcome_of(1000, 10, 5 * kMs));
  report.services[0].predicted_p99_ms = 4.75;
  return report;
}

TEST(LoadReport, IsReadBack) {
  LoadReport report = some_report();
  ServerScenario asked;
  asked.target_qps = 100;
  asked.latency_bound_ms = 15;
  for (const bool server : {false, true}) {
    if (server) report.server = judged_server(asked, outcome_of(50, 50, kMs));
    const auto again = parse_load_report("r.json", load_report_json(report));
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(*again, report);
  }
  EXPECT_THAT(load_report_json(report), HasSubstr("\"predicted_p50_ms\": null"));
  std::string bad = load_report_json(report);
  bad.replace(bad.find("\"offered\": 1010"), 15, "\"offered\": -1");
  EXPECT_THAT(to_string(parse_load_report("r.json", bad).error()), HasSubstr("r.json:"));
}

TEST(LoadReport, SaysWhenTheGeneratorWasLate) {
  LoadReport report = some_report();
  EXPECT_TRUE(report.generator.late);  // 2 % of the requests by 2 ms
  EXPECT_THAT(load_doubts(report), SizeIs(1));
  const std::string text = load_report_text(report);
  EXPECT_THAT(text, HasSubstr("PREDICTED"));
  EXPECT_THAT(text, HasSubstr("4.75"));
  EXPECT_EQ(report_of({}, {{"chat", 20}}, outcome_of(1000, 1100, kMs)).generator.late, false);
}

TEST(FormatsDoc, LoadReportExampleIsReadAndWrittenAsItStands) {
  const std::string text = source_text("docs/formats.md");
  const std::string open = "```json\n";
  const auto begin = text.find(open, text.find("\n## Load report\n")) + open.size();
  const std::string example = text.substr(begin, text.find("```\n", begin) - begin);
  const auto report = parse_load_report("formats.md", example);
  ASSERT_TRUE(report) << to_string(report.error());
  EXPECT_EQ(load_report_json(*report), example);
}

// ---- what is asked of models

TEST(ModelInputs, AreReadFromMetadata) {
  const auto inputs =
      parse_model_inputs("m", R"({"inputs": [{"name": "a", "datatype": "INT64", "shape": [-1, 3]},
                         {"name": "b", "datatype": "BF16", "shape": []}]})");
  ASSERT_TRUE(inputs) << to_string(inputs.error());
  EXPECT_EQ(*inputs,
            (std::vector<TensorSpec>{{"a", DataType::int64, {1, 3}}, {"b", DataType::bf16, {}}}));
  for (const char* bad :
       {R"({"inputs": []})", R"({"inputs": [{"name": "a", "datatype": "TEXT", "shape": [1]}]})",
        R"({"inputs": [{"name": "a", "datatype": "INT8", "shape": [0]}]})",
        R"({"inputs": [{"name": "a", "datatype": "INT8", "shape": [1.5]}]})",
        R"({"inputs": [{"name": "a", "datatype": "INT8", "shape": [1000000, 1000000]}]})",
        R"({"outputs": []})", "[]", ""})
    EXPECT_FALSE(parse_model_inputs("m", bad)) << bad;
}

TEST(ModelInputs, ARequestHasItsTensorsBehindItsHeader) {
  const RequestTarget target{
      .url = {.host = "::1", .port = 9, .path = "/p"}, .model = "a b", .token = "t"};
  const std::vector<TensorSpec> inputs{{"a", DataType::int64, {1, 3}},
                                       {"b", DataType::fp32, {1, 2}}};
  const std::string request = infer_request(target, inputs, Rng(1));
  EXPECT_TRUE(request.starts_with("POST /p/v2/models/a%20b/infer HTTP/1.1\r\nHost: [::1]:9\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nAuthorization: Bearer t\r\n"));
  const std::string body = request.substr(request.find("\r\n\r\n") + 4);
  const std::string json =
      "{\"inputs\": [{\"name\": \"a\", \"datatype\": \"INT64\", \"shape\": [1, 3], \"parameters\": "
      "{\"binary_data_size\": 24}}, {\"name\": \"b\", \"datatype\": \"FP32\", \"shape\": [1, 2], "
      "\"parameters\": {\"binary_data_size\": 8}}], \"parameters\": {\"binary_data_output\": "
      "true}}";
  EXPECT_EQ(body.substr(0, json.size()), json);
  EXPECT_EQ(body.size(), json.size() + 32);
  EXPECT_THAT(request, HasSubstr(fmt::format("-Content-Length: {}\r\n", json.size())));
  EXPECT_THAT(request, HasSubstr(fmt::format("\r\nContent-Length: {}\r\n", body.size())));
  EXPECT_EQ(request, infer_request(target, inputs, Rng(1)));
  EXPECT_NE(request, infer_request(target, inputs, Rng(2)));
}

}  // namespace
}  // namespace partita::serve
