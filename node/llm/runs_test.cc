// Files as the tools write them (vllm/benchmarks/serve.py, sglang/bench_serving.py, aiperf's and
// genai-perf's exports, tensorrt_llm/bench/dataclasses/reporting.py), numbers made up.
#include "llm/runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::llm {
namespace {

using testing::Contains;
using testing::HasSubstr;

ImportedRuns imported(RunForm form, const std::string& text, const ToldOfRuns& told = {}) {
  const auto found = import_runs(form, "f", text, told);
  EXPECT_TRUE(found) << (found ? "" : to_string(found.error()));
  if (!found) return {};
  const auto again = parse_points("again", points_csv(found->measured));
  EXPECT_TRUE(again && *again == found->measured);
  return *found;
}

std::string refusal(RunForm form, const std::string& text, const ToldOfRuns& told = {}) {
  const auto found = import_runs(form, "f", text, told);
  EXPECT_FALSE(found);
  return found ? "" : to_string(found.error());
}

std::string vllm(const std::string& traffic, const std::string& rest) {
  return R"({"date": "20261101-101010", "endpoint_type": "vllm", "backend": "vllm", "label": null,
 "model_id": "org/llama-8b", "tokenizer_id": "org/llama-8b", "num_prompts": 200, "tp": "2", )" +
         traffic +
         R"(, "burstiness": 1.0, "duration": 50.0, "completed": 200, "failed": 0,
 "total_input_tokens": 204800, "total_output_tokens": 51200, "request_throughput": 4.0,
 "request_goodput": null, "output_throughput": 1024.0)" +
         rest + "}";
}
const char kClosed[] = R"("request_rate": "inf", "max_concurrency": 16)";
const char kOpen[] = R"("request_rate": 4.0, "max_concurrency": null)";
const char kMeans[] = R"(, "mean_ttft_ms": 120.5, "median_ttft_ms": 110, "std_ttft_ms": 3.5,
 "p99_ttft_ms": 300, "mean_tpot_ms": 14.25, "p99_tpot_ms": 20, "mean_itl_ms": 14)";

TEST(Runs, ReadsAClosedLoopOfVllm) {
  const auto told =
      parse_told({"system=H100-80GB-SXM5", "version=0.12", "precision=fp8", "model=other"});
  const ImportedRuns runs = imported(RunForm::vllm, vllm(kClosed, kMeans), *told);
  ASSERT_EQ(runs.measured.size(), 1u);
  const Configuration& c = runs.measured[0].configuration;
  EXPECT_EQ(to_string(c), "org/llama-8b fp8 on H100-80GB-SXM5, vllm 0.12, tp 2");
  Point wanted{{1024, 256}, 16, Millis{120.5}, Millis{14.25}};
  wanted.ttft_at = {Millis{110}, {}, Millis{300}};
  wanted.tpot_at.p99 = Millis{20};
  wanted.itl = Millis{14};
  EXPECT_THAT(runs.measured[0].points, testing::ElementsAre(wanted));
  EXPECT_THAT(runs.notes, testing::ElementsAre(HasSubstr("--told model=")));
}

// 4 requests/s that take 120.5 + 255 x 14.25 ms each: 15.017 in flight.
TEST(Runs, WorksOutWhatIsInFlightOfAnOpenLoop) {
  const ImportedRuns runs = imported(RunForm::vllm, vllm(kOpen, kMeans));
  EXPECT_NEAR(runs.measured.at(0).points.at(0).concurrency, 4 * (0.1205 + 255 * 0.01425), 1e-9);
  EXPECT_THAT(runs.notes, Contains(HasSubstr("Little's law")));
  EXPECT_THAT(runs.notes, Contains("precision is not said (--told precision=...)"));
  const auto told = parse_told({"concurrency=15"});
  EXPECT_EQ(imported(RunForm::vllm, vllm(kOpen, kMeans), *told).measured[0].points[0].concurrency,
            15);
}

// Two requests: first tokens after 0.1 and 0.3 s, then 2 tokens in 0.04 s, and 1 in 0.03 s.
TEST(Runs, TakesMeansFromDetailsWhereTheyAreNotWritten) {
  const std::string details = R"(, "input_lens": [1024, 1024], "output_lens": [3, 2],
 "ttfts": [0.1, 0.3], "itls": [[0.02, 0.02], [0.03]], "generated_texts": ["a", "NaN"],
 "errors": ["", ""])";
  const Point point = imported(RunForm::vllm, vllm(kClosed, details)).measured.at(0).points.at(0);
  EXPECT_NEAR(point.ttft.value, 200, 1e-9);
  EXPECT_NEAR(point.tpot.value, (20 + 30) / 2.0, 1e-9);
  EXPECT_NEAR(point.ttft_at.p50->value, 200, 1e-9);
  EXPECT_NEAR(point.ttft_at.p90->value, 280, 1e-9);  // as numpy.percentile has it
  EXPECT_NEAR(point.tpot_at.p99->value, 29.9, 1e-9);
  EXPECT_NEAR(point.itl_at.p50->value, 20, 1e-9);
}

TEST(Runs, PercentilesThatWereAskedForAreTaken) {
  const std::string more =
      R"(, "p50_ttft_ms": 1, "p90_ttft_ms": 200, "p90_tpot_ms": 17, "median_itl_ms": 13,
 "p90_itl_ms": 15, "p99_itl_ms": 60)";
  const Point point =
      imported(RunForm::vllm, vllm(kClosed, kMeans + more)).measured.at(0).points.at(0);
  EXPECT_EQ(point.ttft_at, (Percentiles{Millis{110}, Millis{200}, Millis{300}}));
  EXPECT_EQ(point.tpot_at, (Percentiles{{}, Millis{17}, Millis{20}}));
  EXPECT_EQ(point.itl_at, (Percentiles{Millis{13}, Millis{15}, Millis{60}}));
  const auto odd =
      imported(RunForm::vllm, vllm(kClosed, std::string(kMeans) + R"(, "p90_ttft_ms": 400)"));
  EXPECT_EQ(odd.measured.at(0).points.at(0).ttft_at, Percentiles{});
  EXPECT_THAT(odd.notes, Contains(HasSubstr("TTFT do not ascend")));
}

// Failed requests are written with zeros.
TEST(Runs, MeansAreOfRequestsThatWereAnswered) {
  const std::string details = R"(, "output_lens": [3, 2, 0], "ttfts": [0.1, 0.3, 0.0],
 "itls": [[0.02, 0.02], [0.03], []])";
  const Point point = imported(RunForm::vllm, vllm(kClosed, details)).measured.at(0).points.at(0);
  EXPECT_NEAR(point.ttft.value, 200, 1e-9);
  EXPECT_NEAR(point.tpot.value, (20 + 30) / 2.0, 1e-9);
}

TEST(Runs, SaysWhatIsToldAgainstAFile) {
  const auto told = parse_told({"tp=4", "precision=fp8"});
  const ImportedRuns runs = imported(RunForm::vllm, vllm(kClosed, kMeans), *told);
  EXPECT_EQ(runs.measured.at(0).configuration.tensor, 2);
  EXPECT_THAT(runs.notes, Contains(HasSubstr("--told tp=")));
  EXPECT_THAT(runs.notes, testing::Not(Contains(HasSubstr("--told precision"))));
}

TEST(Runs, OfAFolderThoseThatHoldRuns) {
  using testing::ElementsAre;
  EXPECT_THAT(
      files_of_runs(RunForm::aiperf,
                    {"inputs.json", "logs", "profile_export.jsonl", "profile_export_aiperf.csv",
                     "profile_export_aiperf.json", "other_genai_perf.csv"}),
      ElementsAre("profile_export_aiperf.json", "other_genai_perf.csv"));
  EXPECT_THAT(files_of_runs(RunForm::vllm, {"a.json", "a.pytorch.json", "log.txt", "b.jsonl"}),
              ElementsAre("a.json", "b.jsonl"));
}

TEST(Runs, ReadsRunsThatWereAppended) {
  std::string one = vllm(kClosed, kMeans);
  std::erase(one, '\n');
  std::string other = one;
  other.replace(other.find("\"max_concurrency\": 16"), 21, "\"max_concurrency\": 32");
  const ImportedRuns runs = imported(RunForm::vllm, one + "\n" + other);
  ASSERT_EQ(runs.measured.size(), 1u);  // of one configuration
  EXPECT_EQ(runs.measured[0].points.at(1).concurrency, 32);
  EXPECT_THAT(refusal(RunForm::vllm, one + "\n{\"a\": }"), HasSubstr("f:2"));
}

TEST(Runs, ReadsLinesOfSglang) {
  const std::string line =
      R"({"backend": "sglang", "dataset_name": "random", "request_rate": Infinity, )"
      R"("max_concurrency": 8, "random_input_len": 1024, "random_output_len": 1024, )"
      R"("server_info": {"model_path": "org/m", "tp_size": 4, "version": "0.5.6"}, )"
      R"("duration": 10.0, "completed": 80, "total_input_tokens": 40000, )"
      R"("total_output_tokens": 8000, "mean_e2e_latency_ms": 900, "mean_ttft_ms": 80, )"
      R"("mean_tpot_ms": 9.5, "p95_itl_ms": NaN, "concurrency": 7.2})";
  const ImportedRuns runs = imported(RunForm::sglang, line + "\n" + line + "\n");
  ASSERT_EQ(runs.measured.size(), 1u);
  EXPECT_EQ(to_string(runs.measured[0].configuration), "org/m, sglang 0.5.6, tp 4");
  EXPECT_THAT(runs.measured[0].points,
              testing::ElementsAre(Point{{500, 100}, 8, Millis{80}, Millis{9.5}},
                                   Point{{500, 100}, 8, Millis{80}, Millis{9.5}}));
}

// --dp-size: 4 replicas of 2 GPUs; with attention split, 8 GPUs of which each has its own requests.
TEST(Runs, ReadsReplicasOfSglang) {
  const auto line = [](const std::string& server) {
    return R"({"max_concurrency": 8, "server_info": {"model_path": "org/m", )" + server +
           R"(}, "duration": 10.0, "completed": 80, "total_input_tokens": 40000, )"
           R"("total_output_tokens": 8000, "mean_ttft_ms": 80, "mean_tpot_ms": 9.5})";
  };
  const auto apart = imported(
      RunForm::sglang,
      line(R"("tp_size": 2, "dp_size": 4, "enable_dp_attention": false, "quantization": "fp8", )"
           R"("chunked_prefill_size": 2048)"));
  EXPECT_EQ(apart.measured.at(0).configuration.step_tokens, 2048);
  EXPECT_EQ(to_string(apart.measured.at(0).configuration),
            "org/m fp8, sglang, tp 2, steps of 2048");
  EXPECT_EQ(apart.measured[0].points.at(0).concurrency, 2);
  EXPECT_THAT(apart.notes, Contains(HasSubstr("4 replicas")));
  const auto together = imported(
      RunForm::sglang,
      line(R"("tp_size": 8, "dp_size": 8, "enable_dp_attention": true, "dtype": "bfloat16", )"
           R"("chunked_prefill_size": -1)"));
  EXPECT_EQ(together.measured.at(0).configuration.step_tokens, std::nullopt);
  EXPECT_EQ(to_string(together.measured.at(0).configuration), "org/m bf16, sglang, tp 1, dp 8");
  EXPECT_EQ(together.measured[0].points.at(0).concurrency, 8);
}

// What the server says of its memory: GiB of weights on each of the GPUs that share a layer.
TEST(Runs, ReadsWhatFitsOfSglang) {
  const auto line = [](const std::string& room) {
    return R"({"max_concurrency": 8, "server_info": {"model_path": "org/m", "tp_size": 2, )"
           R"("max_total_num_tokens": )" +
           room +
           R"(, "internal_states": [{"memory_usage": {"weight": 7.5, "kvcache": 50}}]}, )"
           R"("duration": 10.0, "completed": 80, "total_input_tokens": 40000, )"
           R"("total_output_tokens": 8000, "mean_ttft_ms": 80, "mean_tpot_ms": 9.5, )"
           R"("median_ttft_ms": 70, "p99_ttft_ms": 200, "p99_itl_ms": 44})";
  };
  const auto runs = imported(RunForm::sglang, line("420123") + "\n" + line("419000"));
  ASSERT_EQ(runs.measured.size(), 1U);
  EXPECT_EQ(runs.measured[0].configuration.weights_mib, 15 * 1024);
  EXPECT_EQ(runs.measured[0].configuration.kv_tokens, 419'000);
  EXPECT_EQ(runs.measured[0].points.at(0).ttft_at, (Percentiles{Millis{70}, {}, Millis{200}}));
  EXPECT_EQ(runs.measured[0].points.at(0).itl_at.p99, Millis{44});
}

TEST(Runs, RefusesTheFormOfAnotherTool) {
  EXPECT_THAT(refusal(RunForm::sglang, vllm(kClosed, kMeans)), HasSubstr("--form vllm"));
  EXPECT_THAT(refusal(RunForm::vllm, vllm(kClosed, R"(, "mean_e2e_latency_ms": 900)")),
              HasSubstr("--form sglang"));
}

const char kCsv[] =
    "Metric,avg,min,max,p99,p95,p90,p75,p50,p25\n"
    "Time To First Token (ms),\"1,146.31\",249.48,\"3,485.23\",4,3,2,1,1,0\n"
    "Request Latency (ms),\"6,406.20\",5,9,9,9,9,6,5,5\n"
    "Inter Token Latency (ms),30.35,27.59,35.60,35,34,33,32,31,30\n"
    "Output Sequence Length (tokens),174.45,164,187,186,183,180,177,174,171\n"
    "Input Sequence Length (tokens),\"3,000.05\",1,2,3,4,5,6,7,8\n"
    "\n"
    "Metric,Value\n"
    "Output Token Throughput (per sec),261.25\n"
    "Request Throughput (per sec),1.50\n"
    "Request Count (count),40.00\n";

TEST(Runs, ReadsManyLines) {
  std::string text, line = vllm(kClosed, kMeans);
  std::erase(line, '\n');
  for (int i = 0; i < 2'000; ++i) text += line + "\n";
  const auto imported = import_runs(RunForm::vllm, "f", text, {});
  ASSERT_TRUE(imported);
  ASSERT_EQ(imported->measured.size(), 1U);
  EXPECT_EQ(imported->measured[0].points.size(), 2'000U);
  EXPECT_THAT(refusal(RunForm::vllm, text + "{\"x\": }"), HasSubstr("f:2001"));
}

TEST(Runs, ReadsTablesOfGenaiPerf) {
  EXPECT_THAT(refusal(RunForm::aiperf, kCsv), HasSubstr("--told model=NAME"));
  const auto told = parse_told({"model=m", "system=H100-80GB-SXM5", "tp=1"});
  const ImportedRuns runs = imported(RunForm::aiperf, kCsv, *told);
  const Point& point = runs.measured.at(0).points.at(0);
  EXPECT_EQ(point.shape, (Shape{3000, 174}));
  EXPECT_EQ(point.ttft, Millis{1146.31});
  EXPECT_EQ(point.tpot, Millis{30.35});
  EXPECT_EQ(point.tpot_at, (Percentiles{Millis{31}, Millis{33}, Millis{35}}));
  EXPECT_NEAR(point.concurrency, 1.5 * 6.40620, 1e-9);
  std::string seconds = kCsv;
  seconds.replace(seconds.find("Token (ms)"), 10, "Token (s)");
  EXPECT_EQ(refusal(RunForm::aiperf, seconds, *told),
            "f:2: time_to_first_token is in s, must be in ms");
}

TEST(Runs, ReadsObjectsOfAiperfWhereverTheySayConcurrency) {
  const std::string metrics =
      R"("request_count": {"avg": 256, "unit": "requests"}, "error_request_count": null,
 "input_sequence_length": {"avg": 16384.0, "unit": "tokens"},
 "output_sequence_length": {"avg": 126.5, "unit": "tokens"},
 "time_to_first_token": {"avg": 1240.09, "p99": 2093.6, "unit": "ms"},
 "inter_token_latency": {"avg": 129.8, "unit": "ms"},
 "inter_chunk_latency": {"avg": 130, "p90": 140, "unit": "ms"}})";
  for (const char* config :
       {R"({"endpoint": {"model_names": ["m"]}, "loadgen": {"concurrency": 32}})",
        R"({"model_names": ["m"], "perf_analyzer": {"stimulus": {"concurrency": 32}}})",
        R"({"models": {"items": [{"name": "m"}]}, "phases": [{"name": "warmup", "concurrency": 2},
            {"name": "profiling", "concurrency": 32}]})"}) {
    const ImportedRuns runs =
        imported(RunForm::aiperf, std::string(R"({"input_config": )") + config + ", " + metrics);
    ASSERT_EQ(runs.measured.size(), 1u) << config;
    EXPECT_EQ(runs.measured[0].configuration.model, "m");
    Point wanted{{16384, 127}, 32, Millis{1240.09}, Millis{129.8}};
    wanted.ttft_at.p99 = Millis{2093.6};
    wanted.itl = Millis{130};
    wanted.itl_at.p90 = Millis{140};
    EXPECT_EQ(runs.measured[0].points.at(0), wanted);
  }
}

TEST(Runs, ReadsReportsOfTrtllmBench) {
  std::string report = R"({"engine": {"model": "org/m", "model_path": "/m", "engine_dir": "None",
  "version": "1.1.0", "backend": "Pytorch", "dtype": "bfloat16", "kv_cache_dtype": "FP8",
  "quantization": "FP8"}, "machine": {"name": "NVIDIA H100 80GB HBM3"},
 "world_info": {"tp_size": 2, "pp_size": 1, "ep_size": 1, "world_size": 2, "max_batch_size": 256,
  "max_num_tokens": 8192, "issue_rate": 1e11},
 "request_info": {"num_requests": 300, "avg_num_concurrent_requests": 63.4,
  "avg_input_length": 1024.0, "avg_output_length": 1024.0},
 "performance": {"request_throughput_req_s": 4.2, "avg_request_latency_ms": 15000},
 "streaming_metrics": {"avg_ttft_ms": 210.5, "avg_tpot_ms": 14.1,
  "ttft_percentiles": {"p50": 180, "p90": 300, "p95": 350, "p99": 420, "average": 210.5},
  "tpot_percentiles": {"p50": 14, "p99": 15}}})";
  const ImportedRuns runs = imported(RunForm::trtllm, report);
  EXPECT_EQ(to_string(runs.measured.at(0).configuration),
            "org/m fp8, trtllm 1.1.0, tp 2, pp 1, ep 1, steps of 8192");
  Point wanted{{1024, 1024}, 63.4, Millis{210.5}, Millis{14.1}};
  wanted.ttft_at = {Millis{180}, Millis{300}, Millis{420}};
  wanted.tpot_at = {Millis{14}, {}, Millis{15}};
  EXPECT_EQ(runs.measured[0].points.at(0), wanted);
  report.replace(report.find("streaming_metrics"), 17, "other");
  EXPECT_THAT(refusal(RunForm::trtllm, report), HasSubstr("is it a run with streaming?"));
}

TEST(Runs, RefusesWhatTellsNothing) {
  EXPECT_THAT(refusal(RunForm::vllm, "[]"), HasSubstr("f:1: not the JSON object of a run"));
  EXPECT_THAT(refusal(RunForm::vllm, "{"), HasSubstr("f:1"));
  std::string none = vllm(kClosed, kMeans);
  none.replace(none.find("\"completed\": 200"), 16, "\"completed\": 0");
  EXPECT_THAT(refusal(RunForm::vllm, none), HasSubstr("no request was completed"));
  std::string model = vllm(kClosed, kMeans);
  model.replace(model.find("org/llama-8b"), 3, "a\\nb");
  EXPECT_THAT(refusal(RunForm::vllm, model), HasSubstr("control"));
  for (const char* word : {"tp=x", "tp=0", "tp", "colour=red", "concurrency=0", "model="})
    EXPECT_FALSE(parse_told({word})) << word;
}

}  // namespace
}  // namespace partita::llm
