#include "serve/worker/model_config.h"

#include <gtest/gtest.h>

namespace partita::serve {
namespace {

std::string fault_of(std::string_view text) {
  const auto read = parse_model_config("config.pbtxt", text);
  return read ? "taken" : to_string(read.error());
}

// After the examples of Triton's documentation.
TEST(ModelConfig, IsRead) {
  const auto config = parse_model_config("c", R"(# a comment
name: "simple"
platform: 'onnxruntime_onnx'
max_batch_size: 16
default_model_filename: "m" ".onnx"
input [
  { name: "IDS" data_type: TYPE_INT64 dims: [ -1 ] },
  { name: "IMAGE", data_type: TYPE_FP32; format: FORMAT_NCHW dims: [ 3, 224, 224 ] },
]
input { name: "R" data_type: TYPE_FP32 dims: 1 reshape: { shape: [ ] } }
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1000 ] label_filename: "l.txt" } ]
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }
instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0 ] } ]
sequence_batching {
  max_sequence_idle_microseconds: 5000000
  oldest < max_candidate_sequences: 4 >
  state [ { input_name: "S" output_name: "SN" data_type: TYPE_FP32 dims: [ 2, 128 ] } ]
}
model_warmup [ { name: "w" batch_size: 1
  inputs { key: "IDS" value: { data_type: TYPE_INT64 dims: [ 128 ] zero_data: true } } } ]
)");
  ASSERT_TRUE(config) << to_string(config.error());
  EXPECT_EQ(config->max_batch, 16);
  EXPECT_EQ(config->file, "m.onnx");
  EXPECT_EQ(config->shapes, (ChosenShapes{{"IDS", {-128}}, {"IMAGE", {3, 224, 224}}}));
  EXPECT_EQ(config->states, (std::map<std::string, std::string>{{"S", "SN"}}));
  EXPECT_EQ(config->left, (std::vector<std::string>{"dynamic_batching", "instance_group"}));
  EXPECT_FALSE(config->cache);
  EXPECT_TRUE(parse_model_config("c", "response_cache { enable: true }")->cache);
  EXPECT_FALSE(parse_model_config("c", "response_cache { enable: false }")->cache);
  EXPECT_FALSE(parse_model_config("c", "")->max_batch);
  EXPECT_EQ(parse_model_config("c", "max_batch_size: 0")->max_batch, 0);
}

TEST(ModelConfig, RefusesWithItsLine) {
  EXPECT_EQ(fault_of("name: \"x\"\nmax_batch_sise: 8"),
            "config.pbtxt:2: 'max_batch_sise' is unknown; did you mean 'max_batch_size'?");
  EXPECT_EQ(fault_of("backend: \"tensorrt\""),
            "config.pbtxt:1: 'backend' is tensorrt; onnxruntime is what runs here, others behind "
            "--forward");
  EXPECT_EQ(fault_of("platform: \"ensemble\""),
            "config.pbtxt:1: 'platform' describes an ensemble: a services file takes it, pipeline: "
            "{config: FILE}");
  EXPECT_EQ(fault_of("max_batch_size: -1"),
            "config.pbtxt:1: 'max_batch_size' is a number from 0 on");
  EXPECT_EQ(fault_of("input { name: \"x\" dims: [ 0 ] }"),
            "config.pbtxt:1: 'dims' are numbers from 1 on, or -1");
  EXPECT_EQ(fault_of("input {\n name: \"x\""), "config.pbtxt:2: 'input' is not closed");
  EXPECT_EQ(fault_of("name: \"x"), "config.pbtxt:1: a text has no end");
  EXPECT_EQ(fault_of("name \"x\""), "config.pbtxt:1: behind 'name' ':' is wanted");
  EXPECT_EQ(fault_of("default_model_filename: \"../m\""),
            "config.pbtxt:1: 'default_model_filename' is the name of a file in the version's "
            "folder");
  EXPECT_EQ(fault_of("sequence_batching { control_input [ { name: \"START\" } ] }"),
            "config.pbtxt:1: 'control_input' is for models that keep their state themselves, which "
            "are not served");
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "input {";
  EXPECT_EQ(fault_of(deep), "config.pbtxt:1: is nested too deeply");
  for (const char* bad : {"{", "}", "name:", "name: [", "name: [1 2]", "a: 'x\n'", ":", "\\"})
    EXPECT_NE(fault_of(bad), "taken") << bad;
}

}  // namespace
}  // namespace partita::serve
