#include "forms/ensemble_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "forms/serving_forms.h"

namespace partita::forms {
namespace {

// After the example of Triton's documentation (ensemble models).
const std::string kTritons = R"(name: "ensemble_model"
platform: "ensemble"
max_batch_size: 1
input [ { name: "IMAGE" data_type: TYPE_STRING dims: [ 1 ] } ]
output [
  { name: "CLASSIFICATION" data_type: TYPE_FP32 dims: [ 1000 ] },
  { name: "SEGMENTATION" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }
]
ensemble_scheduling {
  step [
    {
      model_name: "image_preprocess_model"
      model_version: -1
      input_map { key: "RAW_IMAGE" value: "IMAGE" }
      output_map { key: "PREPROCESSED_OUTPUT" value: "preprocessed_image" }
    },
    {
      model_name: "classification_model"
      model_version: -1
      input_map { key: "FORMATTED_IMAGE" value: "preprocessed_image" }
      output_map { key: "CLASSIFICATION_OUTPUT" value: "CLASSIFICATION" }
    },
    {
      model_name: "segmentation_model"
      input_map { key: "FORMATTED_IMAGE" value: "preprocessed_image" }
      output_map { key: "SEGMENTATION_OUTPUT" value: "SEGMENTATION" }
      output_map { key: "DEBUG" value: "not_asked_for" }
    }
  ]
})";

TEST(EnsembleReader, ReadsTritonsExample) {
  const auto read = parse_ensemble("c", kTritons);
  ASSERT_TRUE(read) << to_string(read.error());
  ASSERT_EQ(read->steps.size(), 3U);
  EXPECT_EQ(read->steps[0].service, "image_preprocess_model");
  EXPECT_EQ(read->steps[0].inputs, (std::map<std::string, std::string>{{"RAW_IMAGE", "IMAGE"}}));
  EXPECT_EQ(read->steps[1].inputs,
            (std::map<std::string, std::string>{{"FORMATTED_IMAGE", "preprocessed_image"}}));
  EXPECT_EQ(read->steps[2].outputs,
            (std::map<std::string, std::string>{{"SEGMENTATION_OUTPUT", "SEGMENTATION"}}));
}

// A random graph, written in both forms: each reader gives the same pipeline.
TEST(EnsembleReader, GivesWhatTheServicesFileSaysInItsOwnForm) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    const int steps = 1 + static_cast<int>(rng.below(6));
    std::string proto, yaml, outputs;
    std::map<std::string, bool> tensors = {{"in0", false}, {"in1", false}};  // read?
    for (int s = 0; s < steps; ++s) {
      std::string in_proto, in_yaml, out_proto, out_yaml;
      for (std::uint64_t i = 0, n = 1 + rng.below(2); i < n; ++i) {
        auto tensor = std::next(tensors.begin(), static_cast<long>(rng.below(tensors.size())));
        tensor->second = true;
        in_proto += fmt::format("input_map {{ key: \"x{}\" value: '{}' }}\n", i, tensor->first);
        in_yaml += fmt::format("{}x{}: {}", i ? ", " : "", i, tensor->first);
      }
      for (std::uint64_t i = 0, n = 1 + rng.below(2); i < n; ++i) {
        const std::string tensor = fmt::format("t{}_{}", s, i);
        tensors[tensor] = false;
        out_proto += fmt::format("output_map < key: \"y{}\", value: \"{}\" >\n", i, tensor);
        out_yaml += fmt::format("{}y{}: {}", i ? ", " : "", i, tensor);
      }
      proto += fmt::format("step {{ model_name: \"m{}\" {}{} }}\n", s, in_proto, out_proto);
      yaml += fmt::format("        - {{model_name: m{}, input_map: {{{}}}, output_map: {{{}}}}}\n",
                          s, in_yaml, out_yaml);
    }
    for (const auto& [name, is_read] : tensors)
      if (name.starts_with("in") && is_read)
        outputs += fmt::format("input {{ name: '{}' data_type: TYPE_FP32 dims: [ -1 ] }}\n", name);
      else if (!name.starts_with("in") && !is_read)
        outputs += fmt::format("output {{ name: '{}' data_type: TYPE_FP32 dims: [ 4 ] }}\n", name);
    const std::string config =
        "platform: \"ensemble\"\n" + outputs + "ensemble_scheduling {\n" + proto + "}\n";
    const std::string head = "- name: p\n  rate_rps: 10\n  slo_ms: 100\n  pipeline:\n";
    const auto own = parse_services("f", head + "      steps:\n" + yaml);
    const FileText files = [&](const std::string& file) -> Result<std::string> {
      EXPECT_EQ(file, "e/config.pbtxt");
      return config;
    };
    const auto tritons = parse_services("f", head + "      config: e/config.pbtxt\n", files);
    ASSERT_TRUE(own) << to_string(own.error());
    ASSERT_TRUE(tritons) << to_string(tritons.error()) << "\n" << config;
    EXPECT_EQ(*own, *tritons) << config;
  }
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}
std::string fault_of(const std::string& what, const std::string& by) {
  const auto read = parse_ensemble("c", replaced(kTritons, what, by));
  return read ? "taken" : to_string(read.error());
}

TEST(EnsembleReader, RefusesByNameWhatAPipelineDoesNotKeep) {
  const std::string top = "max_batch_size: 1";
  EXPECT_EQ(fault_of(top, "max_batch_size: 8 version_policy { all {} }"), "taken");
  EXPECT_EQ(fault_of(top, "response_cache { enable: false }"), "taken");
  EXPECT_EQ(fault_of("platform: \"ensemble\"", ""),
            "c:1: the configuration is no ensemble's: platform: \"ensemble\" is wanted");
  EXPECT_EQ(fault_of(top, "max_batch_sise: 1"),
            "c:3: 'max_batch_sise' is unknown; did you mean 'max_batch_size'?");
  EXPECT_EQ(fault_of(top, "dynamic_batching {}"),
            "c:3: 'dynamic_batching' is not for an ensemble: its steps are batched");
  EXPECT_EQ(
      fault_of(top, "response_cache { enable: true }"),
      "c:3: 'response_cache' is kept for services, not for a pipeline: let its steps have it");
  EXPECT_EQ(fault_of(top, "model_transaction_policy { decoupled: true }"),
            "c:3: 'model_transaction_policy' is decoupled: a pipeline answers each request once");
  EXPECT_EQ(fault_of("dims: [ 1 ]", "dims: [ 1 ] optional: true"),
            "c:4: 'optional' is not kept: 'IMAGE' comes with each request, as its steps take it");
  EXPECT_EQ(fault_of("dims: [ 1 ]", "dims: [ 1 ] reshape { shape: [] }"),
            "c:4: 'reshape' is not kept: 'IMAGE' has the sizes of its steps");
  EXPECT_EQ(fault_of("model_version: -1", "model_version: 2"),
            "c:13: 'model_version' is 2: a step is a service, which has the version that its "
            "workers load; only -1 is kept");
  EXPECT_EQ(fault_of("model_version: -1", "model_namespace: \"n\""),
            "c:13: 'model_namespace' is not kept: services have one name each");
  EXPECT_EQ(fault_of("model_version: -1", "fan_out: 2"), "c:13: 'fan_out' is unknown");
  EXPECT_EQ(fault_of("value: \"IMAGE\"", "value: \"PICTURE\""),
            "c:11: 'step' 'image_preprocess_model' reads 'PICTURE', which no step writes and no "
            "input is");
  EXPECT_EQ(fault_of("\"CLASSIFICATION\" data_type", "\"preprocessed_image\" data_type"),
            "c:6: 'output' 'preprocessed_image' is read by step 'classification_model', too: of a "
            "pipeline only what no step reads is the answer");
  EXPECT_EQ(fault_of("\"SEGMENTATION\" data_type", "\"SEGMENT\" data_type"),
            "c:7: 'output' 'SEGMENT' is written by no step");
  EXPECT_EQ(fault_of("input [", "input { name: 'Z' } input ["),
            "c:4: 'input' 'Z' is read by no step");
  EXPECT_EQ(fault_of("key: \"RAW_IMAGE\"", ""),
            "c:14: 'input_map' has a key, a tensor of the model, and a value, one of the ensemble");
  EXPECT_EQ(fault_of("{ name: \"SEGMENTATION\" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }", ""),
            "c:23: 'step' 'segmentation_model' gives nothing that is read or asked for");
  EXPECT_EQ(fault_of("value: \"CLASSIFICATION\"", "value: \"SEGMENTATION\""),
            "c:6: 'output' 'CLASSIFICATION' is written by no step");
  EXPECT_EQ(parse_ensemble("c", "platform: 'ensemble'").error().message,
            "the configuration has no step in 'ensemble_scheduling'");
}

TEST(EnsembleReader, ItsFaultsAreThoseOfTheServicesFile) {
  const std::string services =
      "- name: p\n  rate_rps: 10\n  slo_ms: 100\n  pipeline: {config: c}\n";
  const auto without = parse_services("f", services);
  ASSERT_FALSE(without);
  EXPECT_EQ(to_string(without.error()), "f:4: 'pipeline' cannot name a file here: write its steps");
  const auto broken = parse_services(
      "f", services, [](const std::string&) -> Result<std::string> { return "platform: 'x'"; });
  ASSERT_FALSE(broken);
  EXPECT_EQ(to_string(broken.error()),
            "f:4: 'pipeline': c:1: the configuration is no ensemble's: platform: \"ensemble\" is "
            "wanted");
}

}  // namespace
}  // namespace partita::forms
