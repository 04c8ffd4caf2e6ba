// Tables in the forms that other profilers write, with hand-computed points, and refusals.
#include "serve/measure/imports.h"

#include <gtest/gtest.h>

#include "profile/readers.h"

namespace partita::serve {
namespace {

using enum ForeignForm;

constexpr const char* kPerfAnalyzer =
    "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,"
    "Server Compute Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency,"
    "p90 latency,p95 latency,p99 latency\n"
    "1,69.6,52,200,20,40,13800,17,0,13936,18682,19673,21859\n"
    "4,160,60,300,9000,80,24800,120,0,48000,52000,54000,60000\n"
    "8,150,60,300,30000,80,26000,120,0,98000,99000,99000,99999\n";

constexpr const char* kModelAnalyzer =
    "Model,Batch,Concurrency,Model Config Path,Instance Group,Satisfies Constraints,"
    "Throughput (infer/sec),p99 Latency (ms)\n"
    "bert,1,8,bert_config_0,1:GPU,Yes,100,12\n"
    "bert,1,16,bert_config_0,1:GPU,Yes,125,25\n"
    "bert,4,16,bert_config_1,2/GPU,Yes,400,25\n"
    "resnet,8,16,resnet_config_1,1:GPU,No,800,25\n";

std::string imported(ForeignForm form, const std::string& text, const ToldOfImport& told) {
  const auto table = import_foreign(form, "f", text, told);
  return table ? profile::native_csv(*table) : to_string(table.error());
}

constexpr const char* kHeader = "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib\n";

TEST(Imports, TakesTheSaturatedRowOfPerfAnalyzer) {
  const ToldOfImport told{.gpcs = 2, .batch = 4, .model = "inception"};
  EXPECT_EQ(imported(perf_analyzer, kPerfAnalyzer, told),
            std::string(kHeader) + "inception,2,4,1,160,25,\n");
  EXPECT_EQ(imported(perf_analyzer, kPerfAnalyzer, {.gpcs = 2, .batch = 64, .model = "i"}),
            "f:3: a batch takes 25.000 ms, the throughput implies 400.000; are --batch 64 and "
            "--processes 1 right?");
  EXPECT_NE(imported(perf_analyzer, kPerfAnalyzer, {.gpcs = 2, .model = "i"}).find("--batch"),
            std::string::npos);
  EXPECT_NE(imported(perf_analyzer, kModelAnalyzer, told).find("f:1"), std::string::npos);
  std::string torn = kPerfAnalyzer;
  torn.replace(torn.find("160"), 3, "nan");
  EXPECT_NE(imported(perf_analyzer, torn, told).find("f:3"), std::string::npos);
}

TEST(Imports, TakesTheBestOfEachConfigurationOfModelAnalyzer) {
  EXPECT_EQ(imported(model_analyzer, kModelAnalyzer, {.gpcs = 3}),
            std::string(kHeader) +
                "bert,3,1,1,125,8,\n"       // 1 x 1 / 125
                "bert,3,4,2,400,20,\n"      // 4 x 2 / 400
                "resnet,3,8,1,800,10,\n");  // 8 x 1 / 800
  std::string torn = kModelAnalyzer;
  torn.replace(torn.find("2/GPU"), 5, "x:GPU");
  EXPECT_EQ(imported(model_analyzer, torn, {.gpcs = 3}), "f:4: 'x:GPU' is no Instance Group");
}

}  // namespace
}  // namespace partita::serve
