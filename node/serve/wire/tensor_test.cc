// Tensor values against the protocol's table and hand-computed layouts.
#include "serve/wire/tensor.h"

#include <gtest/gtest.h>

#include <limits>

namespace partita::serve {
namespace {

ModelSpec small_model() {
  return {.name = "m",
          .platform = "null",
          .inputs = {{.name = "x", .type = DataType::fp32, .shape = {3, 5}},
                     {.name = "mask", .type = DataType::boolean, .shape = {7}}},
          .outputs = {{.name = "y", .type = DataType::int64, .shape = {}}},
          .max_batch = 8};
}

std::string fault_of(const ModelSpec& model) {
  const auto checked = check_model("here", model);
  return checked ? "" : to_string(checked.error());
}

TEST(Tensor, KnowsTheTypesOfTheProtocol) {
  const std::vector<std::pair<std::string, std::size_t>> types = {
      {"BOOL", 1}, {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4}, {"UINT64", 8},
      {"INT8", 1}, {"INT16", 2}, {"INT32", 4},  {"INT64", 8},  {"FP16", 2},
      {"FP32", 4}, {"FP64", 8},  {"BF16", 2},   {"BYTES", 4}};
  ASSERT_EQ(types.size(), static_cast<std::size_t>(kDataTypes));
  for (const auto& [name, bytes] : types) {
    const auto type = parse_data_type("t", name);
    ASSERT_TRUE(type) << name;
    EXPECT_EQ(name_of(*type), name);
    EXPECT_EQ(size_of(*type), bytes);
  }
  for (const char* word : {"STRING", "fp32", "", "FP32 ", "FP8"}) {
    EXPECT_FALSE(parse_data_type("t", word)) << word;
  }
}

TEST(Tensor, LaysOutASlot) {
  const SlotLayout layout = slot_layout(small_model());
  EXPECT_EQ(layout.inputs, (std::vector<std::size_t>{0, 64}));  // 60 bytes, then 7
  EXPECT_EQ(layout.outputs, (std::vector<std::size_t>{128}));
  EXPECT_EQ(layout.bytes, 4096U);
  // From 64 KiB on a tensor shares its pages with no other.
  ModelSpec large = small_model();
  large.outputs = {{"a", DataType::fp32, {16'384}},
                   {"b", DataType::fp32, {16'385}},
                   {"c", DataType::fp32, {16'383}},
                   {"d", DataType::fp32, {1}}};
  EXPECT_EQ(slot_layout(large).outputs, (std::vector<std::size_t>{4096, 69'632, 139'264, 204'800}));
  const SlotLayout talk = slot_layout({.kind = ModelKind::openai, .name = "m", .platform = "f"});
  EXPECT_EQ(talk.inputs, (std::vector<std::size_t>{0}));
  EXPECT_EQ(talk.bytes, (1U << 20) + 4096U);  // 8 bytes of length do not fit in the last page
}

TEST(Tensor, RefusesModelsThatBreakLimits) {
  EXPECT_EQ(fault_of(small_model()), "");
  ModelSpec model = small_model();
  model.inputs[1].name = "x";
  EXPECT_EQ(fault_of(model), "here: two inputs are called 'x'");
  model = small_model();
  model.inputs[0].shape = {1, 0};
  EXPECT_EQ(fault_of(model), "here: input 'x' has a dimension below 1");
  model.inputs[0].shape.assign(16, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(fault_of(model), "here: the inputs of one item take more than 1024 MiB");
  model.inputs[0].shape = {(1 << 28) - 16};  // its bytes and the mask's 64 are 1 GiB
  EXPECT_EQ(fault_of(model), "");
  model.inputs[0].shape = {(1 << 28) - 15};
  EXPECT_EQ(fault_of(model), "here: the inputs of one item take more than 1024 MiB");
  model = small_model();
  model.outputs[0] = {.name = "y", .type = DataType::bytes, .shape = {2}};
  EXPECT_EQ(fault_of(model), "here: output 'y': room for text is what BYTES has, and nothing else");
  give_text_room(model, 100);
  EXPECT_EQ(fault_of(model), "");
  EXPECT_EQ(bytes_of(model.outputs[0]), 108U);
  EXPECT_EQ(model.inputs[0].text_bytes, 0U);
  model.outputs[0].type = DataType::int64;
  EXPECT_NE(fault_of(model), "");
  model.outputs[0] = {.name = "y", .type = DataType::bytes, .shape = {}, .text_bytes = SIZE_MAX};
  EXPECT_EQ(fault_of(model), "here: the outputs of one item take more than 1024 MiB");
  model = small_model();
  model.max_batch = 0;
  EXPECT_EQ(fault_of(model), "here: largest batch 0; it is 1 to 4096");
  model = small_model();
  model.outputs.clear();
  EXPECT_EQ(fault_of(model), "here: 0 outputs; a model has 1 to 64");
  model = small_model();
  model.kind = ModelKind::openai;
  EXPECT_EQ(fault_of(model), "here: an openai model has no tensors");
  model.inputs.clear();
  model.outputs.clear();
  EXPECT_EQ(fault_of(model), "");
}

}  // namespace
}  // namespace partita::serve
