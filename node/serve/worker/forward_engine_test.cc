// Forwarding: metadata, the bytes of a request, answers good and bad, and a whole batch through a
// server of canned answers.
#include "serve/worker/forward_engine.h"

#include <gtest/gtest.h>

#include <cstring>

#include "serve/worker/oip_batch.h"
#include "serve/worker/testing/text_server.h"

namespace partita::serve {
namespace {

constexpr const char* kMetadata =
    R"({"name": "m", "versions": ["1"], "platform": "onnxruntime_onnx",
        "inputs": [{"name": "x", "datatype": "UINT8", "shape": [-1, 3]}],
        "outputs": [{"name": "y", "datatype": "INT16", "shape": [-1, 1]}]})";

std::string http(const std::string& body, const std::string& headers = "") {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers +
         "Connection: close\r\n\r\n" + body;
}

TEST(OipBatch, ReadsMetadata) {
  const auto model = parse_oip_metadata(kMetadata, 4, {});
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->inputs,
            (std::vector<TensorSpec>{{.name = "x", .type = DataType::uint8, .shape = {3}}}));
  EXPECT_EQ(model->outputs,
            (std::vector<TensorSpec>{{.name = "y", .type = DataType::int16, .shape = {1}}}));
  EXPECT_EQ(model->max_batch, 4);
  const auto refused = [](const char* inputs) {
    const std::string text = R"({"name": "m", "inputs": [)" + std::string(inputs) +
                             R"(], "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}]})";
    return !parse_oip_metadata(text, 4, {});
  };
  EXPECT_FALSE(refused(R"({"name": "x", "datatype": "FP32", "shape": [-1]})"));
  EXPECT_TRUE(refused(R"({"name": "x", "datatype": "STRING", "shape": [-1]})"));
  EXPECT_TRUE(refused(R"({"name": "x", "datatype": "FP32", "shape": [-1, -1]})"));
  EXPECT_TRUE(refused(R"({"name": "x", "datatype": "FP32", "shape": [8]})"));
  EXPECT_TRUE(refused(R"({"name": "x", "datatype": "FP32", "shape": [1]})"));  // batches of 4
  EXPECT_TRUE(refused(R"({"name": "x", "datatype": "FP32", "shape": [-1, 1e300]})"));
  EXPECT_TRUE(refused(R"({"name": "x", "datatype": "FP32"})"));
  EXPECT_TRUE(refused(""));
}

TEST(OipBatch, OpenShapesNeedAChoice) {
  EXPECT_EQ(item_shape("t", {-1, 8}, {})->shape, (std::vector<std::int64_t>{8}));
  EXPECT_NE(to_string(item_shape("t", {-1, -1}, {}).error()).find("--input-shape t="),
            std::string::npos);
  const auto chosen = parse_shapes({"t=128", "u=1,64"});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(item_shape("t", {-1, -1}, *chosen)->shape, (std::vector<std::int64_t>{128}));
  EXPECT_EQ(item_shape("u", {-1, -1}, *chosen)->shape, (std::vector<std::int64_t>{64}));
  EXPECT_FALSE(item_shape("t", {-1, 64}, *chosen));
  EXPECT_FALSE(item_shape("t", {-1, -1, -1}, *chosen));
  EXPECT_FALSE(item_shape("s", {}, {}));
  EXPECT_FALSE(item_shape("s", {3, 4}, {}));
  for (const char* text : {"t", "=3", "t=", "t=0", "t=1,", "t=x"}) {
    EXPECT_FALSE(parse_shapes({text})) << text;
  }
  EXPECT_FALSE(parse_shapes({"t=1", "t=1"}));
}

TEST(Shapes, OfInputsAreItemByItem) {
  const std::vector<WholeTensor> whole = {{"x", DataType::fp32, {-1, 3, -1}},
                                          {"state", DataType::fp32, {2, -1, 128}},
                                          {"sr", DataType::int64, {}}};
  const auto chosen = parse_shapes({"x=3,640?"});
  const auto axes = parse_axes({"state=none"});
  const auto values = parse_values({"sr=16000"});
  ASSERT_TRUE(chosen && axes && values);
  const auto inputs = inputs_of(whole, {*chosen, {}, *values});
  ASSERT_TRUE(inputs) << to_string(inputs.error());
  EXPECT_EQ((*inputs)[0].shape, (std::vector<std::int64_t>{3, kOpen}));
  EXPECT_EQ((*inputs)[0].usual, (std::vector<std::int64_t>{3, 640}));
  EXPECT_EQ((*inputs)[1].batch_axis, 1);
  EXPECT_EQ((*inputs)[1].shape, (std::vector<std::int64_t>{2, 128}));
  EXPECT_EQ((*inputs)[2].batch_axis, kNoBatchAxis);
  EXPECT_EQ((*inputs)[2].usual_value, 16000);
  EXPECT_TRUE(takes_rows(whole, *inputs));
  const auto other = inputs_of(whole, {{}, *axes, {}});
  EXPECT_EQ((*other)[1].shape, (std::vector<std::int64_t>{2, kOpen, 128}));
  const auto one = inputs_of(whole, {{}, {}, {}, false});
  EXPECT_EQ((*one)[0].shape, (std::vector<std::int64_t>{kOpen, 3, kOpen}));
  EXPECT_FALSE(takes_rows(whole, *one));
  EXPECT_FALSE(inputs_of(whole, {{{"x", {4, 2}}}, {}, {}}));
  EXPECT_FALSE(inputs_of(whole, {{{"y", {4, 2}}}, {}, {}}));
  EXPECT_FALSE(inputs_of(whole, {{}, {{"sr", 0}}, {}}));
  EXPECT_FALSE(inputs_of({{"w", DataType::bytes, {-1, -1}}}, {{}, {}, {}}));
  for (const char* text : {"x", "x=", "=1", "x=-2", "x=99", "x=1.5"})
    EXPECT_FALSE(parse_axes({text})) << text;
  for (const char* text : {"x", "x=", "=1", "x=a", "x=1e300", "x=nan"})
    EXPECT_FALSE(parse_values({text})) << text;
}

TEST(OipBatch, TakesAnswersApart) {
  const ModelSpec model = *parse_oip_metadata(kMetadata, 4, {});
  std::string body;  // what came back points into it
  const auto read = [&](const std::string& json, const std::string& binary) {
    body = json + binary;
    return parse_oip_answer(model, 2, body, json.size());
  };
  const std::string good =
      R"({"outputs": [{"name": "y", "datatype": "INT16", "shape": [2, 1],
          "parameters": {"binary_data_size": 4}}]})";
  EXPECT_EQ(*read(good, "abcd"), (std::vector<std::string_view>{"abcd"}));
  EXPECT_FALSE(read(good, "abc"));
  EXPECT_FALSE(read(good, "abcde"));
  const auto with = [&](const std::string& what, const std::string& other) {
    std::string text = good;
    return text.replace(text.find(what), what.size(), other);
  };
  EXPECT_FALSE(read(with("INT16", "FP16"), "abcd"));
  EXPECT_FALSE(read(with("[2, 1]", "[1, 2]"), "abcd"));
  EXPECT_FALSE(read(with("\"y\"", "\"z\""), "abcd"));
  EXPECT_FALSE(read(with("binary_data_size", "binary"), "abcd"));
  EXPECT_FALSE(read(R"({"outputs": []})", ""));
  EXPECT_FALSE(parse_oip_answer(model, 2, good, good.size() + 1));
}

TEST(ForwardEngine, SendsABatchAsOneRequest) {
  const std::string json = R"({"outputs": [{"name": "y", "datatype": "INT16", "shape": [2, 1],)"
                           R"( "parameters": {"binary_data_size": 4}}]})";
  TextServer server(
      {http(kMetadata),
       http(json + std::string("\1\0\2\0", 4),
            "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n"),
       "HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\noops"});
  server.end_of_request = "\r\n\r\n";
  const auto engine = forward_engine(
      {.url = {.host = "127.0.0.1", .port = server.port, .path = ""}, .name = "m", .max_batch = 4});
  ASSERT_TRUE(engine) << to_string(engine.error());
  const SlotLayout layout = slot_layout((*engine)->spec());
  std::vector<char> memory(2 * layout.bytes);
  std::memcpy(memory.data(), "abc", 3);
  std::memcpy(memory.data() + layout.bytes, "def", 3);
  const std::array<char*, 2> slots = {memory.data(), memory.data() + layout.bytes};
  // Of the traces in a batch the first goes along: a request has room for one.
  write_slot_trace(slots[1] + layout.trace, "00-aa-bb-01", "a=1");
  const auto ran = (*engine)->run(slots);
  ASSERT_TRUE(ran) << to_string(ran.error());
  std::int16_t first = 0, second = 0;
  std::memcpy(&first, slots[0] + layout.outputs[0], sizeof first);
  std::memcpy(&second, slots[1] + layout.outputs[0], sizeof second);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
  write_slot_trace(slots[0] + layout.trace, "00-cc-dd-01", "");
  const auto refused = (*engine)->run(slots);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("500: oops"), std::string::npos);
  ASSERT_EQ(server.asked.size(), 3U);
  EXPECT_TRUE(server.asked[0].starts_with("GET /v2/models/m HTTP/1.1\r\n"));
  const std::string head =
      R"({"inputs":[{"name":"x","datatype":"UINT8","shape":[2,3],"parameters":)"
      R"({"binary_data_size":6}}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
  EXPECT_TRUE(server.asked[1].starts_with("POST /v2/models/m/infer HTTP/1.1\r\n"));
  EXPECT_NE(server.asked[1].find("Inference-Header-Content-Length: " + std::to_string(head.size()) +
                                 "\r\nContent-Length: " + std::to_string(head.size() + 6) +
                                 "\r\ntraceparent: 00-aa-bb-01\r\ntracestate: a=1\r\n\r\n"),
            std::string::npos)
      << server.asked[1];
  EXPECT_NE(server.asked[2].find("\r\ntraceparent: 00-cc-dd-01\r\n\r\n"), std::string::npos);
  EXPECT_TRUE(server.asked[1].ends_with("\r\n\r\n" + head + "abcdef")) << server.asked[1];
}

// Text goes with the lengths that it has and comes back within its room.
TEST(ForwardEngine, SendsText) {
  const std::string metadata =
      R"({"name": "m", "inputs": [{"name": "w", "datatype": "BYTES", "shape": [-1, 1]}],)"
      R"( "outputs": [{"name": "v", "datatype": "BYTES", "shape": [-1, 1]}]})";
  const auto answer = [](const std::string& binary) {
    const std::string json = R"({"outputs": [{"name": "v", "datatype": "BYTES", "shape": [2, 1],)"
                             R"( "parameters": {"binary_data_size": )" +
                             std::to_string(binary.size()) + "}}]}";
    return http(json + binary,
                "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n");
  };
  const std::string said("\2\0\0\0hi\0\0\0\0", 10);
  TextServer server(
      {http(metadata), answer(said), answer(said + said), answer(said.substr(0, 9)),
       answer(std::string("\x0b\0\0\0", 4) + std::string(11, 'x') + std::string(4, '\0'))});
  server.end_of_request = "\r\n\r\n";
  const auto engine = forward_engine({.url = {.host = "127.0.0.1", .port = server.port, .path = ""},
                                      .name = "m",
                                      .max_batch = 4,
                                      .text_bytes = 10});
  ASSERT_TRUE(engine) << to_string(engine.error());
  EXPECT_EQ((*engine)->spec().inputs[0].text_bytes, 10U);
  const SlotLayout layout = slot_layout((*engine)->spec());
  std::vector<char> memory(2 * layout.bytes, '\xFF');
  const std::array<char*, 2> slots = {memory.data(), memory.data() + layout.bytes};
  ASSERT_FALSE((*engine)->run(slots));  // no text in the slots: nothing is sent
  std::memcpy(slots[0], "\3\0\0\0abc", 7);
  std::memcpy(slots[1], "\1\0\0\0d", 5);
  const auto ran = (*engine)->run(slots);
  ASSERT_TRUE(ran) << to_string(ran.error());
  EXPECT_EQ(std::string(slots[0] + layout.outputs[0], 6), std::string("\2\0\0\0hi", 6));
  EXPECT_EQ(std::string(slots[1] + layout.outputs[0], 4), std::string(4, '\0'));
  EXPECT_EQ(slots[1][layout.outputs[0] + 4], '\xFF');
  EXPECT_TRUE((*engine)->faults().empty());
  for (int wrong = 0; wrong < 2; ++wrong) EXPECT_FALSE((*engine)->run(slots));
  ASSERT_TRUE((*engine)->run(slots));  // too much for the first item, not for the second
  ASSERT_EQ((*engine)->faults().size(), 1U);
  EXPECT_EQ((*engine)->faults()[0].item, 0U);
  EXPECT_EQ(std::string(slots[0] + layout.outputs[0], 4), std::string(4, '\0'));
  ASSERT_EQ(server.asked.size(), 5U);
  EXPECT_NE(server.asked[1].find(R"("datatype":"BYTES","shape":[2,1],"parameters":)"
                                 R"({"binary_data_size":12})"),
            std::string::npos);
  EXPECT_TRUE(server.asked[1].ends_with(std::string("}\3\0\0\0abc\1\0\0\0d", 13)));
}

}  // namespace
}  // namespace partita::serve
