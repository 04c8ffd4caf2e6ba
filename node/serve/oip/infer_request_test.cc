#include "serve/oip/infer_request.h"

#include <gtest/gtest.h>

#include "serve/oip/bind.h"
#include "serve/oip/tensor_json.h"
#include "serve/wire/texts.h"

namespace partita::serve {
namespace {

ModelSpec two_inputs() {
  return {.name = "m",
          .platform = "null",
          .inputs = {{"x", DataType::fp32, {4}}, {"h", DataType::fp16, {2}}},
          .outputs = {{"y", DataType::fp32, {3}}, {"z", DataType::bf16, {1}}},
          .max_batch = 8};
}

std::string fault_of(std::string_view text) {
  const auto request = parse_infer_json(text);
  return request ? "" : to_string(request.error());
}

TEST(InferRequestTest, BytesOfBinaryInputsFollowEachOther) {
  const auto request = parse_infer_json(R"({"inputs":[
    {"name":"x","datatype":"FP32","shape":[2,4],"parameters":{"binary_data_size":32}},
    {"data":[1,[2]],"name":"j","datatype":"FP32","shape":[2]},
    {"name":"h","datatype":"FP16","shape":[2,2],"parameters":{"x":"y","binary_data_size":8}}],
    "outputs":[{"name":"y","parameters":{"binary_data":true}},{"name":"z"}],
    "parameters":{"timeout":1500,"priority":-3,"other":[{"a":null}]},"id":"a\u0062"})");
  ASSERT_TRUE(request) << to_string(request.error());
  EXPECT_EQ(request->id, "ab");
  EXPECT_EQ(request->timeout_ns, 1'500'000);
  EXPECT_EQ(request->priority, -3);
  ASSERT_EQ(request->inputs.size(), 3u);
  EXPECT_EQ(request->inputs[0].offset, 0u);
  EXPECT_EQ(request->inputs[1].json, "[1,[2]]");
  EXPECT_EQ(request->inputs[2].offset, 32u);
  EXPECT_EQ(request->inputs[2].bytes, 8u);
  EXPECT_EQ(request->outputs[0].binary, true);
  EXPECT_EQ(request->outputs[1].binary, std::nullopt);
}

TEST(InferRequestTest, FaultsAreNamed) {
  const auto input = [](const std::string& members) { return R"({"inputs":[{)" + members + "}]}"; };
  const std::string start = R"("name":"x","datatype":"FP32","shape":[1],)";
  const auto ends = [](const std::string& text, const std::string& end) {
    EXPECT_TRUE(text.ends_with(end)) << text;
  };
  const std::string one =
      "input 'x' is to have exactly one of data, binary_data_size, "
      "shared_memory_region";
  ends(fault_of(input(start + R"("parameters":{})")), one);
  ends(fault_of(input(start + R"("data":[1],"parameters":{"binary_data_size":4})")), one);
  ends(fault_of(input(start + R"("parameters":{"binary_data_size":-1})")),
       "binary_data_size is negative");
  ends(fault_of(input(start + R"("parameters":{"shared_memory_region":"r"})")),
       "shared_memory_byte_size is wanted beside shared_memory_region");
  ends(fault_of(input(R"("name":"x","data":[1])")), "an input has a name, a shape and a datatype");
  ends(fault_of(input(start + R"("data":1)")), "data is to be an array");
  for (const char* const id : {"-5", "-0", "true", "1.0", "18446744073709551616"})
    ends(fault_of(fmt::format(R"({{"parameters":{{"sequence_id":{}}}}})", id)),
         "a whole number from 0 on, of 64 bits, is wanted");
  for (const std::uint64_t id : {std::uint64_t{1}, std::uint64_t{1} << 63, ~std::uint64_t{0}})
    EXPECT_EQ(
        parse_infer_json(fmt::format(R"({{"inputs":[],"parameters":{{"sequence_id":{}}}}})", id))
            ->sequence,
        id);
  ends(fault_of(R"({"parameters":{"sequence_id":")" + std::string(129, 'a') + "\"}}"),
       "a text of 129 bytes; 128 are the most");
  ends(fault_of(R"({"parameters":{"priority":9}})"),
       "parameter priority: a whole number from -8 to 8 is wanted");
  ends(fault_of(R"({"parameters":{"timeout":-1}})"),
       "parameter timeout: a time from 1 us to a day is wanted");
  ends(fault_of(R"({"outputs":[{"name":"y","parameters":{"classification":3}}]})"),
       "classification is not supported");
  ends(fault_of("{} x"), "something follows the end");
  std::string many = R"({"inputs":[)";
  for (int i = 0; i < 65; ++i) many += (i == 0 ? "{" : ",{") + start + R"("data":[1]})";
  ends(fault_of(many + "]}"), "too many inputs");
}

TEST(InferRequestTest, RowsAreKnownAsSoonAsTheyAreThere) {
  const std::string text =
      R"({"id":"1","inputs":[{"name":"x","shape":[12,4],"datatype":"FP32","data":[1,2]}]})";
  const std::size_t known = text.find("12,") + 3;
  for (std::size_t end = 0; end <= text.size(); ++end)
    EXPECT_EQ(probe_items(text.substr(0, end)),
              end < known ? std::nullopt : std::optional<std::int64_t>(12))
        << end;
  EXPECT_EQ(probe_items(R"({"outputs":[{"shape":[3]}],"inputs":[]})"), std::nullopt);
}

TEST(BindTest, EveryMisfitHasItsSentence) {
  const auto fault = [](const std::string& inputs, const std::string& rest = "",
                        Protocol protocol = Protocol::http) {
    const auto request = parse_infer_json(R"({"inputs":[)" + inputs + "]" + rest + "}");
    EXPECT_TRUE(request) << to_string(request.error());
    const auto bound = bind_request(*request, two_inputs(), protocol);
    return bound ? std::string() : to_string(bound.error());
  };
  const auto tensor = [](const std::string& name, const std::string& type, const std::string& shape,
                         const std::string& how) {
    return R"({"name":")" + name + R"(","datatype":")" + type + R"(","shape":)" + shape + "," +
           how + "}";
  };
  const auto binary = [](int size) {
    return R"("parameters":{"binary_data_size":)" + std::to_string(size) + "}";
  };
  const std::string x = tensor("x", "FP32", "[2,4]", binary(32));
  const std::string h = tensor("h", "FP16", "[2,2]", binary(8));
  const std::string y = R"(,"outputs":[{"name":"y"}])";
  EXPECT_EQ(fault(x + "," + h, y), "");
  EXPECT_EQ(fault(h + "," + x, y), "");  // in any order
  EXPECT_EQ(fault(x, y), "input 'h': missing");
  EXPECT_EQ(fault(x + "," + x, y), "input 'x': given twice");
  EXPECT_EQ(fault(tensor("x", "FP32", "[2,4]", binary(31)) + "," + h, y),
            "input 'x': 31 bytes where 32 are wanted for shape [2,4]");
  EXPECT_EQ(fault(tensor("x", "FP32", "[4]", binary(16)), y),
            "input 'x': shape [4] where [n,4] is wanted");
  EXPECT_EQ(fault(tensor("x", "FP32", "[0,4]", binary(0)), y),
            "input 'x': shape [0,4]: 1 to 4096 rows are wanted");
  EXPECT_EQ(fault(tensor("x", "FP32", "[4097,4]", binary(65552)), y),
            "input 'x': shape [4097,4]: 1 to 4096 rows are wanted");
  EXPECT_EQ(fault(x + "," + tensor("h", "FP16", "[2,2]", R"("data":[1,2,3,4])"), y),
            "input 'h': FP16 cannot be written in JSON: send it as binary data");
  EXPECT_EQ(fault(x + "," + h), "output 'z': BF16 cannot be written in JSON: ask for binary_data");
  EXPECT_EQ(fault(x + "," + h, R"(,"parameters":{"binary_data_output":true})"), "");
  EXPECT_EQ(fault(x + "," + h, "", Protocol::grpc), "");
  EXPECT_EQ(fault(x + "," + h, R"(,"outputs":[{"name":"w"}])"),
            "output 'w': model 'm' has 'y', 'z'");
  EXPECT_EQ(fault(x + "," + h, R"(,"outputs":[{"name":"y"},{"name":"y"}])"),
            "output 'y': asked for twice");
  EXPECT_EQ(
      fault(x + "," + h, R"(,"outputs":[{"name":"y","parameters":{"shared_memory_region":"r",)"
                         R"("shared_memory_byte_size":23}}])"),
      "output 'y': a shared place of 23 bytes for 24");
}

ModelSpec open_model() {
  return {.name = "m",
          .platform = "null",
          .inputs = {{.name = "x",
                      .type = DataType::uint8,
                      .shape = {2, kOpen},
                      .batch_axis = 1,
                      .open_bytes = 8,
                      .usual = {2, 1}},
                     {.name = "k", .type = DataType::uint8, .batch_axis = kNoBatchAxis}},
          .outputs = {{.name = "y", .type = DataType::uint8, .shape = {2}, .batch_axis = 1},
                      {.name = "z", .type = DataType::uint8, .shape = {kOpen}, .open_bytes = 4}},
          .max_batch = 8};
}

std::string open_fault(const std::string& shape, int bytes) {
  const auto request =
      parse_infer_json(R"({"inputs":[{"name":"x","datatype":"UINT8","shape":)" + shape +
                       R"(,"parameters":{"binary_data_size":)" + std::to_string(bytes) +
                       R"(}},{"name":"k","datatype":"UINT8","shape":[],"data":[5]}]})");
  const auto bound = bind_request(*request, open_model(), Protocol::http);
  return bound ? "" : to_string(bound.error());
}

TEST(BindTest, OpenSizesAndRowsOnAnotherAxis) {
  EXPECT_EQ(wanted_shape(open_model().inputs[0]), "[2,n,?]");
  EXPECT_EQ(wanted_shape(open_model().inputs[1]), "[]");
  EXPECT_EQ(open_fault("[2,3,4]", 24), "");
  EXPECT_EQ(open_fault("[2,3,4]", 23), "input 'x': 23 bytes where 24 are wanted for shape [2,3,4]");
  EXPECT_EQ(open_fault("[2,3,5]", 30),
            "input 'x': shape [2,3,5] is more than 8 bytes a row (--open-bytes of the worker)");
  EXPECT_EQ(open_fault("[3,3,1]", 9), "input 'x': shape [3,3,1] where [2,n,?] is wanted");
  EXPECT_EQ(open_fault("[2,3,0]", 0), "input 'x': shape [2,3,0] where [2,n,?] is wanted");
  EXPECT_EQ(open_fault("[2,0,1]", 0), "input 'x': shape [2,0,1]: 1 to 4096 rows are wanted");
}

// What comes in goes to the slots, and what lies in them comes out, as whole tensors.
TEST(BindTest, PlacesAndAnswersAreInTheOrderOfWholeTensors) {
  const ModelSpec model = open_model();
  const auto request = parse_infer_json(R"({"inputs":[
    {"name":"x","datatype":"UINT8","shape":[2,2,3],"data":[1,2,3,4,5,6,7,8,9,10,11,12]},
    {"name":"k","datatype":"UINT8","shape":[],"data":[5]}]})");
  const auto bound = bind_request(*request, model, Protocol::http);
  ASSERT_TRUE(bound) << to_string(bound.error());
  EXPECT_EQ(bound->items, 2);
  const SlotLayout layout = slot_layout(model);
  std::vector<char> slots(2 * layout.bytes);
  const InputRow in = [&](int item, int tensor) {
    const auto at = static_cast<std::size_t>(tensor);
    return std::span(slots).subspan(
        static_cast<std::size_t>(item) * layout.bytes + layout.inputs[at],
        bytes_of(model.inputs[at]));
  };
  for (std::size_t i = 0; i < 2; ++i)
    ASSERT_TRUE(decode_json_tensor(request->inputs[i].json, model.inputs[i],
                                   input_places(model, *bound, i, in)));
  share_inputs(model, *bound, in);
  const auto values = [](std::span<const char> bytes) {
    return std::vector<int>(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(values(*used_part(model.inputs[0], in(0, 0))), (std::vector{1, 2, 3, 7, 8, 9}));
  EXPECT_EQ(values(*used_part(model.inputs[0], in(1, 0))), (std::vector{4, 5, 6, 10, 11, 12}));
  EXPECT_EQ(in(1, 1)[0], 5);

  std::vector<std::string> rows = {"ab", "AB"};
  std::vector<std::string> open(2, std::string(bytes_of(model.outputs[1]), '\0'));
  for (std::string& row : open) begin_item(model.outputs[1], std::vector<std::int64_t>{2}, row);
  const OutputRow out = [&](int item, int tensor) {
    return std::span<const char>((tensor == 0 ? rows : open)[static_cast<std::size_t>(item)]);
  };
  const auto answered = take_outputs(model, *bound, out);
  ASSERT_TRUE(answered) << to_string(answered.error());
  std::string whole;
  for (const auto part : (*answered)[0].parts) whole.append(part.data(), part.size());
  EXPECT_EQ(whole, "aAbB");
  EXPECT_EQ((*answered)[0].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ((*answered)[1].shape, (std::vector<std::int64_t>{2, 2}));
  begin_item(model.outputs[1], std::vector<std::int64_t>{1}, open[1]);
  EXPECT_FALSE(take_outputs(model, *bound, out));  // rows that are not alike
  open[1].assign(open[1].size(), '\xFF');
  EXPECT_FALSE(take_outputs(model, *bound, out));
}

}  // namespace
}  // namespace partita::serve
