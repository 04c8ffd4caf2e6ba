#include "hw/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/source_text.h"
#include "hw/layout.h"

namespace partita::hw {
namespace {

std::string shipped(const std::string& name) { return source_text("data/gpus/" + name + ".json"); }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto where = text.find(from);
  EXPECT_NE(where, std::string::npos) << from;
  return text.replace(where, from.size(), to);
}

TEST(Catalogue, HasTheNamesOfTheCommandLine) {
  std::vector<std::string> names;
  for (const GpuModel& gpu : builtin_catalogue().gpus) names.push_back(gpu.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "A100-40GB", "A100-80GB", "A30-24GB", "B200-180GB", "B300-269GB",
                       "GB200-186GB", "GB300-278GB", "GH200-144GB", "GH200-96GB", "H100-80GB-PCIe",
                       "H100-80GB-SXM5", "H100-94GB-NVL", "H200-141GB", "RTX-PRO-6000-96GB"}));
}

// Every shipped file is named like its model, and is the text that gpu_model_json prints.
TEST(Catalogue, ShippedFilesAreCanonicalAndRoundTrip) {
  RealFiles files;
  const auto names = files.list(PARTITA_SOURCE_DIR "/data/gpus");
  ASSERT_TRUE(names);
  EXPECT_EQ(names->size(), builtin_catalogue().gpus.size());
  for (const GpuModel& gpu : builtin_catalogue().gpus) {
    const std::string text = shipped(gpu.name);
    const auto parsed = parse_gpu_model("x.json", text);
    ASSERT_TRUE(parsed) << to_string(parsed.error());
    EXPECT_EQ(*parsed, gpu);
    EXPECT_EQ(gpu_model_json(gpu), text) << gpu.name;
  }
}

TEST(Catalogue, OneModelOfItIsTheModelOrTheRefusalOfTheWhole) {
  std::vector<std::string> names = {"A30",   "a100-80gb", "A100", "GB300",
                                    "CPU-4", "A100-8",    "",     "../x"};
  for (const GpuModel& gpu : builtin_catalogue().gpus) names.push_back(gpu.name);
  for (const std::string& name : names) {
    const auto one = builtin_model(name);
    const auto whole = builtin_catalogue().get(name);
    ASSERT_EQ(one.has_value(), whole.has_value()) << name;
    if (one) {
      EXPECT_EQ(*one, **whole) << name;
    } else {
      EXPECT_EQ(one.error(), whole.error()) << name;
    }
  }
}

// What no instance may exceed: the most of one profile that fits on an empty GPU is its
// max_instances.
TEST(Catalogue, MaxInstancesIsReachedAndNeverExceeded) {
  for (const GpuModel& gpu : builtin_catalogue().gpus)
    for (int k = 0; k < static_cast<int>(gpu.profiles.size()); ++k) {
      std::size_t most = 0;
      for (const Layout& layout : maximal_layouts(gpu, {k})) most = std::max(most, layout.size());
      const MigProfile& profile = gpu.profiles[static_cast<std::size_t>(k)];
      EXPECT_EQ(most, static_cast<std::size_t>(profile.max_instances)) << gpu.name << profile.name;
    }
}

TEST(Catalogue, HardFactsOfTheMeasuredBoards) {
  const GpuModel& a100 = **builtin_catalogue().get("a100-80gb");
  EXPECT_EQ(a100.compute_slices, 7);
  EXPECT_EQ(a100.memory_slices, 8);
  const MigProfile& two = a100.profiles[static_cast<std::size_t>(a100.profile_index("2g.20gb"))];
  EXPECT_EQ(two.starts, (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(two.profile_id, 14);
  EXPECT_EQ(two.sms, 28);
  EXPECT_EQ(two.memory, Mib{19968});
  EXPECT_EQ(a100.profile_index("7g.79gb"), a100.profile_index("7g.80gb"));
  EXPECT_EQ(a100.profile_index("7g.40gb"), -1);
  // FAR, Table 1.
  EXPECT_EQ(a100.reconfiguration[2],
            (ReconfigurationTime{.gpcs = 3, .create = {0.20}, .destroy = {0.21}}));

  const GpuModel& h200 = **builtin_catalogue().get("H200-141GB");
  std::vector<int> sms;
  for (const int k : plain_profiles(h200))
    sms.push_back(h200.profiles[static_cast<std::size_t>(k)].sms.value());
  EXPECT_EQ(sms, (std::vector<int>{16, 32, 60, 64, 132}));
  EXPECT_TRUE(h200.reconfiguration_source.starts_with("inferred"));
}

TEST(Catalogue, UnknownValuesStayAbsent) {
  const GpuModel& gpu = **builtin_catalogue().get("B300-269GB");
  EXPECT_FALSE(gpu.total_sms);
  EXPECT_FALSE(gpu.total_memory);
  for (const MigProfile& profile : gpu.profiles) {
    EXPECT_FALSE(profile.sms);
    EXPECT_FALSE(profile.memory);
    EXPECT_EQ(profile.engine_mark, Certainty::U);
    EXPECT_EQ(profile.engines, Engines{});
  }
}

TEST(Catalogue, UnknownNamesListTheNearest) {
  const auto missing = builtin_catalogue().get("A100-8GB");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::bad_input);
  EXPECT_EQ(missing.error().message,
            "unknown GPU model 'A100-8GB'; the nearest names are A100-80GB, A100-40GB, A30-24GB");
  EXPECT_EQ(builtin_catalogue().find(""), nullptr);
}

TEST(Catalogue, ALeadingPartIsEnoughWhenOnlyOneModelHasIt) {
  const Catalogue& catalogue = builtin_catalogue();
  for (const auto& [part, name] :
       {std::pair{"A30", "A30-24GB"}, {"h200", "H200-141GB"}, {"RTX-PRO", "RTX-PRO-6000-96GB"}}) {
    const auto found = catalogue.get(part);
    ASSERT_TRUE(found) << part;
    EXPECT_EQ((*found)->name, name);
    EXPECT_EQ(catalogue.find(part), *found);
  }
  const auto several = catalogue.get("A100");
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().message, "GPU model 'A100' may be any of A100-40GB, A100-80GB");
  EXPECT_EQ(catalogue.find("A100"), nullptr);
  // Parts end at a dash, and a whole name wins over longer ones.
  for (const char* part : {"A3", "H20", "A30-", "-24GB"}) EXPECT_FALSE(catalogue.get(part)) << part;
  Catalogue nested;
  for (const char* name : {"X1", "X1-24GB"}) nested.gpus.emplace_back().name = name;
  EXPECT_EQ(nested.find("x1"), &nested.gpus[0]);
}

struct Broken {
  std::string from, to, context, message;  // one edit of A30-24GB.json, and the refusal
};

TEST(ParseGpuModel, RefusesMalformedFilesWithFileAndLine) {
  const std::vector<Broken> cases = {
      {"\"kind\": \"GpuModel\"", "\"kind\": \"Plan\"", "f.json:3", "must be 'GpuModel'"},
      {"partita/v1", "partita/v2", "f.json:2", "must be 'partita/v1'"},
      {"\"sms\": 56", "\"smss\": 56", "f.json:8", "unknown key 'smss'; did you mean 'sms'?"},
      {"\"compute_slices\": 4", "\"compute_slices\": 17", "f.json:10", "must be at most 16"},
      {"\"compute_slices\": 4", "\"compute_slices\": 2.5", "f.json:10", "compute_slices"},
      {"\"gpcs\": 1", "\"gpcs\": 5", "f.json:14", "'gpcs' is 5, must be at most 4"},
      {"[0, 1, 2, 3]", "[0, 1, 2, 4]", "f.json:15", "beyond 4 memory slices"},
      {"[0, 1, 2, 3]", "[0, 2, 1, 3]", "f.json:15", "ascending"},
      {"[0, 1, 2, 3]", "[0, 1.5]", "f.json:15", "whole numbers"},
      {"[0, 1, 2, 3]", "[\"0\"]", "f.json:15", "whole numbers"},
      {"[0, 1, 2, 3]", "[-1]", "f.json:15", "whole numbers"},
      {"[0, 1, 2, 3]", "[1e300]", "f.json:15", "whole numbers"},
      {"[0, 1, 2, 3]", "[]", "f.json:15", "'starts' is empty"},
      {"\"max_instances\": 4", "\"max_instances\": 5", "f.json:15", "must be at most 4"},
      {"\"max_instances\": 4", "\"max_instances\": 0", "f.json:15", "must be at least 1"},
      {"\"sms\": 14", "\"sms\": 57", "f.json:16", "must be at most 56"},
      {"\"sms\": 14", "\"sms\": null", "f.json:16", "disagree about being unknown"},
      {"\"memory_mib\": 5952", "\"memory_mib\": 24577", "f.json:16", "more than the GPU has"},
      {"\"memory_mib\": 5952", "\"memory_mib\": 5952.5", "f.json:16", "a whole number"},
      {"{\"copy\": 1,", "{\"copy\": -1,", "f.json:17", "'copy' is -1"},
      {"\"name\": \"A\"", "\"name\": \"E\"", "f.json:18", "'E', must be 'A' or 'B'"},
      {"\"1g.6gb+me\"", "\"1g.6gb\"", "f.json:21", "duplicate profile name '1g.6gb'"},
      {"\"nvml_enum\": 7", "\"nvml_enum\": 0", "f.json:21", "duplicate nvml_enum 0"},
      {"\"profile_id\": 21", "\"profile_id\": 14", "f.json:21", "duplicate profile_id 14"},
      {"\"gpcs\": 1, \"create_s\"", "\"gpcs\": 3, \"create_s\"", "", "ascending order of gpcs"},
      {"\"create_s\": 0.11", "\"create_s\": -0.11", "", "'create_s' is -0.11, must be at least 0"},
      {"\"sources\"", "\"origins\"", "", "unknown key 'origins'"},
      {"\"architecture\": \"ampere\"", "\"architecture\": \"\"", "f.json:7", "is empty"},
      {"\"nvml_names\": [\"NVIDIA A30\"]", "\"nvml_names\": [30]", "f.json:5", "must list texts"},
      {"\"reconfiguration\": {", "\"reconfiguration\": [{", "", "not valid JSON"},
  };
  const std::string good = shipped("A30-24GB");
  for (const Broken& broken : cases) {
    const auto parsed = parse_gpu_model("f.json", replaced(good, broken.from, broken.to));
    ASSERT_FALSE(parsed) << broken.to;
    EXPECT_EQ(parsed.error().code, ErrorCode::bad_input);
    EXPECT_NE(parsed.error().message.find(broken.message), std::string::npos)
        << broken.to << " gave " << to_string(parsed.error());
    EXPECT_TRUE(
        parsed.error().context.starts_with(broken.context.empty() ? "f.json:" : broken.context))
        << broken.to << " gave " << to_string(parsed.error());
  }
}

TEST(ParseGpuModel, EveryTruncationIsRefused) {
  // A refusal with a line, never a crash or a half-read model.
  const std::string good = shipped("A30-24GB");
  for (std::size_t length = 0; length + 2 < good.size(); length += 7) {
    const auto parsed = parse_gpu_model("f.json", std::string_view(good).substr(0, length));
    ASSERT_FALSE(parsed) << length;
    EXPECT_TRUE(parsed.error().context.starts_with("f.json")) << parsed.error().context;
  }
  for (const char* other : {"[]", "3", "{}", "\"x\"", "null"})
    EXPECT_FALSE(parse_gpu_model("f.json", other)) << other;
}

TEST(ParseGpuModel, AReconfigurationTimeIsNeededForEverySize) {
  GpuModel gpu = **builtin_catalogue().get("A30-24GB");
  gpu.reconfiguration.pop_back();
  const auto parsed = parse_gpu_model("f.json", gpu_model_json(gpu));
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("lacks 4 gpcs"), std::string::npos);
}

}  // namespace
}  // namespace partita::hw
