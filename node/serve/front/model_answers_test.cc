#include "serve/front/model_answers.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/front/testing/fake_backend.h"
#include "serve/oip/testing/wire_text.h"

namespace partita::serve {
namespace {

using nlohmann::json;
using test::Fields;
using test::Message;

class ModelAnswersTest : public testing::Test {
 protected:
  ModelAnswersTest() { backend.add(test::pair_model()); }
  // As JSON, and the fields of ModelConfig in its message.
  std::pair<json, Fields> config(const std::string& service) {
    const ServedConfig is = served_config(backend, service, service, *backend.model(service));
    return {json::parse(json_of(is)), Fields(Fields(message_of(is)).text(1))};
  }
  static std::string tensor(const char* name, int type, unsigned dims_field,
                            const std::vector<std::int64_t>& dims) {
    return Message().text(1, name).number(2, type).packed(dims_field, dims).bytes;
  }
  test::FakeBackend backend;
};

TEST_F(ModelAnswersTest, AModelWithRowsIsBatched) {
  const auto [text, message] = config("pair");
  const json input = {{"format", "FORMAT_NONE"},
                      {"is_shape_tensor", false},
                      {"allow_ragged_batch", false},
                      {"optional", false}};
  json x = input, k = input;
  x.update({{"name", "x"}, {"data_type", "TYPE_FP32"}, {"dims", {4}}});
  k.update({{"name", "k"}, {"data_type", "TYPE_INT32"}, {"dims", {2}}});
  EXPECT_EQ(text["input"], json::array({x, k}));
  EXPECT_EQ(text["output"][1], json::parse(R"({"name": "next", "data_type": "TYPE_INT32",
      "dims": [2], "label_filename": "", "is_shape_tensor": false})"));
  EXPECT_EQ(text["name"], "pair");
  EXPECT_EQ(text["platform"], "null");
  EXPECT_EQ(text["max_batch_size"], 8);
  EXPECT_EQ(text["version_policy"], json::parse(R"({"specific": {"versions": [1]}})"));
  EXPECT_TRUE(text.contains("dynamic_batching"));
  EXPECT_FALSE(text.contains("sequence_batching"));
  EXPECT_FALSE(text.contains("ensemble_scheduling"));
  EXPECT_EQ(text["response_cache"]["enable"], false);
  EXPECT_EQ(text["model_transaction_policy"]["decoupled"], false);

  EXPECT_EQ(message.text(1), "pair");
  EXPECT_EQ(message.text(2), "null");
  EXPECT_EQ(message.text(3), Message().message(3, Message().packed(1, {1})).bytes);
  EXPECT_EQ(message.numbers.at(4), std::vector<std::int64_t>{8});
  EXPECT_EQ(message.text(5, 0), tensor("x", 11, 4, {4}));
  EXPECT_EQ(message.text(5, 1), tensor("k", 8, 4, {2}));
  EXPECT_EQ(message.text(6, 1), tensor("next", 8, 3, {2}));
  EXPECT_EQ(message.text(11), "");
  EXPECT_EQ(message.text(13), "<none>");
  EXPECT_EQ(message.text(24), "");
}

// What the metadata says of a tensor begins with -1 where the configuration has a batch size, and
// is the same as the configuration's dims where it has none: clients put the two together.
TEST_F(ModelAnswersTest, RowsElsewhereAreNoBatches) {
  backend.add({.name = "other",
               .platform = "onnxruntime",
               .inputs = {{.name = "s", .shape = {2, 64}, .batch_axis = 1},
                          {.name = "sr", .type = DataType::int64, .batch_axis = kNoBatchAxis},
                          {.name = "open", .shape = {kOpen}, .open_bytes = 4096, .usual = {3}}},
               .outputs = {{.name = "y", .type = DataType::bytes, .shape = {1}}},
               .max_batch = 4,
               .version = "7"});
  const auto [text, message] = config("other");
  EXPECT_EQ(text["max_batch_size"], 0);
  EXPECT_EQ(text["input"][0]["dims"], json({2, -1, 64}));
  EXPECT_EQ(text["input"][1]["dims"], json::array());
  EXPECT_EQ(text["input"][2]["dims"], json({-1, -1}));
  EXPECT_EQ(text["output"][0]["data_type"], "TYPE_STRING");
  EXPECT_EQ(text["backend"], "onnxruntime");
  EXPECT_EQ(text["version_policy"]["specific"]["versions"], json({7}));
  EXPECT_EQ(message.numbers.at(4), std::vector<std::int64_t>{0});
  EXPECT_EQ(message.text(5, 2), tensor("open", 11, 4, {-1, -1}));
  EXPECT_EQ(message.text(17), "onnxruntime");
}

TEST_F(ModelAnswersTest, StateIsSequencesAndAnswersAreKept) {
  ModelSpec state = test::pair_model();
  state.name = "state";
  state.sequences = true;
  backend.add(state);
  const auto [text, message] = config("state");
  EXPECT_FALSE(text.contains("dynamic_batching"));
  EXPECT_EQ(text["sequence_batching"]["max_sequence_idle_microseconds"], 60'000'000);
  EXPECT_TRUE(text["sequence_batching"].contains("oldest"));
  EXPECT_EQ(message.text(13),
            Message().number(1, 60'000'000).message(4, Message().number(4, 1)).bytes);
  EXPECT_EQ(text["response_cache"]["enable"], false);
  backend.kept = KeptAnswers{.terms = {.memory = Mib{64}}};
  EXPECT_EQ(config("pair").first["response_cache"]["enable"], true);
  EXPECT_EQ(config("pair").second.text(24), Message().number(1, 1).bytes);
  backend.kept->unfit = "it has state";
  EXPECT_EQ(config("pair").first["response_cache"]["enable"], false);
}

TEST_F(ModelAnswersTest, PipelinesAreEnsembles) {
  plan::PipelineStep first, second;
  first.service = "detect";
  second.service = "read";
  first.inputs = {{"x", "image"}};
  first.outputs = {{"y", "boxes"}};
  second.inputs = {{"a", "boxes"}, {"b", "image"}};
  second.outputs = {{"c", "text"}};
  backend.pipeline = {{first, second}};
  const auto [text, message] = config("pair");
  EXPECT_EQ(text["platform"], "ensemble");
  EXPECT_EQ(text["ensemble_scheduling"], json::parse(R"({"step": [
      {"model_name": "detect", "model_version": -1, "input_map": {"x": "image"},
       "output_map": {"y": "boxes"}},
      {"model_name": "read", "model_version": -1, "input_map": {"a": "boxes", "b": "image"},
       "output_map": {"c": "text"}}]})"));
  EXPECT_FALSE(text.contains("dynamic_batching"));
  const auto entry = [](const char* a, const char* b) { return Message().text(1, a).text(2, b); };
  EXPECT_EQ(Fields(message.text(15)).text(1, 1), Message()
                                                     .text(1, "read")
                                                     .number(2, -1)
                                                     .message(3, entry("a", "boxes"))
                                                     .message(3, entry("b", "image"))
                                                     .message(4, entry("c", "text"))
                                                     .bytes);
  EXPECT_EQ(message.text(2), "ensemble");
}

// One source: the message has the numbers of the JSON.
TEST_F(ModelAnswersTest, StatisticsAreTheSameInBothForms) {
  const auto all = model_statistics(
      backend, [](const std::string&) { return true; }, "");
  const json text = json::parse(json_of(all))["model_stats"];
  ASSERT_EQ(text.size(), 1u);
  const Fields one(Fields(message_of(all)).text(1));
  EXPECT_EQ(one.text(1), text[0]["name"]);
  EXPECT_EQ(one.numbers.at(4).at(0), text[0]["inference_count"]);
  const Fields durations(one.text(6));
  const char* names[] = {"success",       "fail",           "queue",     "compute_input",
                         "compute_infer", "compute_output", "cache_hit", "cache_miss"};
  for (unsigned i = 0; i < 8; ++i) {
    const Fields duration(durations.text(i + 1));
    const json& said = text[0]["inference_stats"][names[i]];
    EXPECT_EQ(duration.numbers.at(1).at(0), said["count"]) << names[i];
    EXPECT_EQ(duration.numbers.at(2).at(0), said["ns"]) << names[i];
  }
  EXPECT_EQ(durations.text(1), Message().number(1, 3).number(2, 4).bytes);
  EXPECT_EQ(durations.text(3), Message().number(1, 5).number(2, 0).bytes);
  EXPECT_TRUE(model_statistics(
                  backend, [](const std::string&) { return false; }, "")
                  .empty());
}

}  // namespace
}  // namespace partita::serve
