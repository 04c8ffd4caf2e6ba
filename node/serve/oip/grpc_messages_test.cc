#include "serve/oip/grpc_messages.h"

#include <gtest/gtest.h>

#include "serve/oip/testing/wire_text.h"

namespace partita::serve {
namespace {

using test::Message;

template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string typed_message() {
  const Message k = Message()
                        .text(1, "k")
                        .text(2, "INT32")
                        .packed(3, {2, 2})
                        .message(5, Message().packed(2, {1, 2, 3, -4}));
  return Message()
      .text(1, "pair")
      .text(2, "1")
      .parameter(4, "priority", 2)
      .parameter(4, "timeout", 5)
      .number(99, 7)  // not known: skipped
      .message(5, k)
      .message(6, Message().text(1, "next"))
      .bytes;
}

TEST(GrpcMessagesTest, AMessageReadsTheSameHoweverItIsCut) {
  const std::string bytes = typed_message();
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::string_view pieces[] = {std::string_view(bytes).substr(0, cut), "",
                                       std::string_view(bytes).substr(cut)};
    const auto read = parse_grpc_infer(pieces);
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_EQ(read->model, "pair");
    EXPECT_EQ(read->version, "1");
    EXPECT_EQ(read->priority, 2);
    EXPECT_EQ(read->timeout_ns, 5000);
    ASSERT_EQ(read->inputs.size(), 1u);
    EXPECT_EQ(read->inputs[0].shape, (std::vector<std::int64_t>{2, 2}));
    ASSERT_EQ(read->outputs.size(), 1u);
    EXPECT_EQ(read->outputs[0].name, "next");
    std::int32_t values[4] = {};
    auto* at = reinterpret_cast<char*>(values);
    const std::span<char> rows[] = {{at, 8}, {at + 8, 8}};
    ASSERT_TRUE(read_grpc_tensor(pieces, read->inputs[0], {"k", DataType::int32, {2}}, rows));
    EXPECT_EQ(values[0], 1);
    EXPECT_EQ(values[3], -4);
  }
}

// Every prefix is refused, but those that end between two fields.
TEST(GrpcMessagesTest, AMessageThatEndsTooSoonIsRefused) {
  const std::string bytes = typed_message();
  for (std::size_t end = 0; end < bytes.size(); ++end) {
    const std::string_view pieces[] = {std::string_view(bytes).substr(0, end)};
    EXPECT_LE(parse_grpc_infer(pieces).has_value(), test::Fields(pieces[0]).whole) << end;
  }
}

TEST(GrpcMessagesTest, EveryTypeOfContentsIsReadAndNarrowOnesAreChecked) {
  const auto read = [&](DataType type, const Message& contents,
                        std::size_t count) -> std::optional<std::string> {
    const std::string bytes =
        Message().message(5, Message().text(1, "x").message(5, contents)).bytes;
    const std::string_view pieces[] = {bytes};
    const auto parsed = parse_grpc_infer(pieces);
    if (!parsed) return std::nullopt;
    std::string row(count * size_of(type), '\0');
    const std::span<char> rows[] = {row};
    const TensorSpec spec{"x", type, {static_cast<std::int64_t>(count)}};
    if (!read_grpc_tensor(pieces, parsed->inputs[0], spec, rows)) return std::nullopt;
    return row;
  };
  const auto packed = [](unsigned field, const std::vector<std::int64_t>& values) {
    return Message().packed(field, values);
  };
  EXPECT_EQ(read(DataType::boolean, packed(1, {1, 0}), 2), std::string("\1\0", 2));
  EXPECT_EQ(read(DataType::boolean, packed(1, {2}), 1), std::nullopt);
  EXPECT_EQ(read(DataType::int8, packed(2, {-1, 127}), 2), raw_bytes<std::int8_t>({-1, 127}));
  EXPECT_EQ(read(DataType::int8, Message().number(2, -1).number(2, 5), 2),
            raw_bytes<std::int8_t>({-1, 5}));  // not packed
  EXPECT_EQ(read(DataType::int8, packed(2, {-129}), 1), std::nullopt);
  EXPECT_EQ(read(DataType::int16, packed(2, {-32768}), 1), raw_bytes<std::int16_t>({-32768}));
  EXPECT_EQ(read(DataType::uint16, packed(4, {65535}), 1), raw_bytes<std::uint16_t>({65535}));
  EXPECT_EQ(read(DataType::uint8, packed(4, {256}), 1), std::nullopt);
  EXPECT_EQ(read(DataType::int64, packed(3, {-5'000'000'000}), 1),
            raw_bytes<std::int64_t>({-5'000'000'000}));
  EXPECT_EQ(read(DataType::uint64, packed(5, {-1}), 1), raw_bytes<std::uint64_t>({~0ull}));
  const Message doubles = Message().text(7, raw_bytes<double>({0.1, -2.5}));
  EXPECT_EQ(read(DataType::fp64, doubles, 2), raw_bytes<double>({0.1, -2.5}));
  EXPECT_EQ(read(DataType::fp32, doubles, 4), std::nullopt);  // another type's field
  const Message floats = Message().text(6, raw_bytes<float>({1, 2}));
  EXPECT_EQ(read(DataType::fp32, floats, 2), raw_bytes<float>({1, 2}));
  EXPECT_EQ(read(DataType::fp32, floats, 3), std::nullopt);
  EXPECT_EQ(read(DataType::fp32, floats, 1), std::nullopt);
  EXPECT_EQ(read(DataType::fp16, floats, 4), std::nullopt);
}

TEST(GrpcMessagesTest, SequencesMayBeNamedByTexts) {
  const auto sequence = [](const Message& value) {
    const std::string bytes =
        Message().message(4, Message().text(1, "sequence_id").message(2, value)).bytes;
    const std::string_view pieces[] = {bytes};
    const auto read = parse_grpc_infer(pieces);
    return read ? std::optional(read->sequence) : std::nullopt;
  };
  EXPECT_EQ(sequence(Message().number(2, 7)), 7u);
  const auto a = sequence(Message().text(3, "a")), b = sequence(Message().text(3, "b"));
  ASSERT_TRUE(a && b);
  EXPECT_NE(*a, *b);
  EXPECT_NE(*a, 0u);
  EXPECT_EQ(sequence(Message().text(3, "a")), a);
  EXPECT_TRUE(sequence(Message().text(3, std::string(128, 'x'))));
  EXPECT_FALSE(sequence(Message().text(3, std::string(129, 'x'))));
  const auto json = parse_infer_json(R"({"inputs":[],"parameters":{"sequence_id":"a"}})");
  EXPECT_EQ(json ? json->sequence : 0, *a) << "at both doors";
}

TEST(GrpcMessagesTest, RequestsOfExtensionsReadTheSameHoweverTheyAreCut) {
  const std::string load =
      Message()
          .text(1, "r")
          .text(2, "pair")
          .message(3, Message().text(1, "file:1/m").message(2, Message().text(4, "bytes")))
          .bytes;
  const std::string region =
      Message().text(1, "in").text(2, "/k").number(3, 16).number(4, 300).bytes;
  for (std::size_t cut = 0; cut <= load.size(); ++cut) {
    const std::string_view pieces[] = {std::string_view(load).substr(0, cut),
                                       std::string_view(load).substr(cut)};
    const auto read = parse_repository_model(pieces);
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_EQ(read->repository + "," + read->model + "," + read->brought, "r,pair,file:1/m");
  }
  for (std::size_t cut = 0; cut <= region.size(); ++cut) {
    const std::string_view pieces[] = {std::string_view(region).substr(0, cut),
                                       std::string_view(region).substr(cut)};
    const auto read = parse_shared_region(pieces);
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_EQ(read->name + read->key, "in/k");
    EXPECT_EQ(read->offset, 16u);
    EXPECT_EQ(read->bytes, 300u);
  }
  const std::string_view broken[] = {"\xff"};
  EXPECT_FALSE(parse_repository_index(broken));
  EXPECT_FALSE(parse_repository_model(broken));
  EXPECT_FALSE(parse_shared_region(broken));
}

TEST(GrpcMessagesTest, RawContentsStandForTheInputsInOrder) {
  const Message a = Message().text(1, "a"), b = Message().text(1, "b");
  const Message shared = Message().text(1, "s").message(
      4, Message().text(1, "shared_memory_region").message(2, Message().text(3, "r")));
  const auto parse = [](const Message& message) {
    const std::string_view pieces[] = {message.bytes};
    return parse_grpc_infer(pieces);
  };
  const auto read =
      parse(Message().message(5, a).message(5, shared).text(7, "12").message(5, b).text(7, "345"));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->inputs[0].bytes, 2u);
  EXPECT_EQ(read->inputs[1].place.region, "r");
  EXPECT_EQ(read->inputs[2].bytes, 3u);
  EXPECT_FALSE(parse(Message().message(5, a)));                          // too few
  EXPECT_FALSE(parse(Message().message(5, a).text(7, "").text(7, "")));  // too many
}

}  // namespace
}  // namespace partita::serve
