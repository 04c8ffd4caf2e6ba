// Profiles, made-up batches and the files of other tools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "decide/batch_generation.h"
#include "decide/foreign_file.h"
#include "decide/profile_files.h"

namespace partita::decide {
namespace {

using testing::HasSubstr;

GpuList one_a100() { return {{*hw::builtin_catalogue().find("A100-80GB")}, {0}}; }

std::string refused(const BatchWords& words) {
  const auto made = generate_batch(words, one_a100());
  return made ? "" : to_string(made.error());
}

TEST(GenerateBatch, TakesTheWords) {
  BatchWords words;
  words.count = 40;
  words.times = "narrow";
  words.releases = 100;
  words.deadlines = 2;
  const auto made = generate_batch(words, one_a100());
  ASSERT_TRUE(made);
  ASSERT_EQ(made->tasks.size(), 40u);
  for (const plan::Task& task : made->tasks) {
    const plan::SizeTimes& times = task.times[0];
    EXPECT_GE(times[1], 90 * plan::kNanosInSecond);
    EXPECT_LE(times[1], 100 * plan::kNanosInSecond);
    EXPECT_LT(task.release, 100 * plan::kNanosInSecond);
    EXPECT_EQ(task.release % 1'000'000, 0);  // whole milliseconds
    plan::Nanos shortest = times[1];
    for (const int size : {2, 3, 4, 7}) shortest = std::min(shortest, times[size]);
    EXPECT_EQ(*task.deadline, task.release + 2 * shortest);
  }
  EXPECT_EQ(generate_batch(words, one_a100())->tasks, made->tasks);
  words.seed = 2;
  EXPECT_NE(generate_batch(words, one_a100())->tasks, made->tasks);
}

TEST(GenerateBatch, RefusesWithTheFlag) {
  BatchWords words;
  words.count = 3;
  for (const char* shares : {"1", "1:x", "x:1", "99:1", "1.5:1", "1:0.5,2:0.2"}) {
    words.shares = shares;
    EXPECT_THAT(refused(words), HasSubstr("--shares: ")) << shares;
  }
  words.shares = "1:0.5,2:0.5";
  EXPECT_EQ(refused(words), "");
  for (const char* range : {"1", "1,x", "5,1"}) {
    words.time_range = range;
    EXPECT_THAT(refused(words), HasSubstr("--time-range: ")) << range;
  }
}

// ---- profiles ----

constexpr char kMeasured[] =
    "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib\n"
    "lm,1,1,1,100,10,\nlm,2,1,1,180,5.5,\n";

TEST(ProfileFiles, TellMeasurementsFromLaws) {
  MemoryFiles files;
  files.content["p.csv"] = kMeasured;
  ProfileNames names;
  names.path = "p.csv";
  names.model = "lm";
  names.gpu = "A100-80GB";
  EXPECT_FALSE(load_laws(files, "p.csv")->has_value());
  EXPECT_EQ(load_table(files, names)->at("lm").points.size(), 2u);
  EXPECT_EQ(chosen_profile(names, *load_table(files, names))->model, "lm");

  // The law of the measurements, written, is the law of that file.
  const auto law = load_law(files, names);
  ASSERT_TRUE(law);
  files.content["laws.json"] = profile::laws_json({"A100-80GB", "test", law->laws});
  EXPECT_EQ(law->gpu_model, "A100-80GB");
  names.path = "laws.json";
  EXPECT_EQ((*load_laws(files, "laws.json"))->laws.size(), 1u);
  EXPECT_EQ(load_law(files, names)->laws, law->laws);
  EXPECT_EQ(load_law(files, names)->gpu_model, "A100-80GB");
  names.gpu.clear();  // the GPU that they were fitted on
  EXPECT_EQ(load_table(files, names)->count("lm"), 1u);

  names.model = "ml";
  EXPECT_THAT(to_string(load_law(files, names).error()), HasSubstr("--model: "));
  EXPECT_THAT(to_string(load_law(files, names).error()), HasSubstr("(there are lm)"));
  EXPECT_THAT(to_string(load_gpu(files, names, "--gpu", "A31").error()), HasSubstr("--gpu: "));
}

// ---- files of other tools ----

TEST(ForeignFile, IsRecognisedByItsKeys) {
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  MemoryFiles files;
  files.content["parted.yaml"] =
      "version: v1\nmig-configs:\n  halves:\n  - devices: [1]\n    mig-enabled: true\n"
      "    mig-devices: {\"3g.40gb\": 2}\n";
  files.content["plugin.yaml"] =
      "version: v1\nsharing:\n  timeSlicing:\n    resources:\n"
      "    - {name: nvidia.com/gpu, replicas: 2}\n";
  files.content["other.yaml"] = "a: 1\n";
  const auto parted = read_foreign(files, {"parted.yaml", "", "", "A100-80GB", 0, ""}, catalogue);
  ASSERT_TRUE(parted);
  const interop::Geometry& geometry = std::get<interop::Geometry>(*parted);
  ASSERT_FALSE(geometry.gpus.empty());
  EXPECT_EQ(geometry.gpus.back().board.index, 1);
  EXPECT_EQ(geometry.gpus.back().slots.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<interop::PluginConfig>(
      *read_foreign(files, {"plugin.yaml", "", "", "", 0, ""}, catalogue)));
  const auto refusal = [&](const ForeignFile& source) {
    return to_string(read_foreign(files, source, catalogue).error());
  };
  EXPECT_THAT(refusal({"other.yaml", "", "", "", 0, ""}), HasSubstr("other.yaml:1: neither"));
  EXPECT_THAT(refusal({"parted.yaml", "", "", "", 0, ""}),
              HasSubstr("--gpu or --node is required"));
  EXPECT_THAT(refusal({"parted.yaml", "", "", "A31", 0, ""}), HasSubstr("--gpu: unknown GPU"));
  EXPECT_THAT(refusal({"gone.yaml", "", "", "", 0, ""}), HasSubstr("FILE gone.yaml"));
}

}  // namespace
}  // namespace partita::decide
