#include "wire/codec.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "wire/frame.h"

namespace partita::remote {
namespace {

template <class Fields>
std::vector<std::byte> bytes_of(const Fields& value) {
  std::vector<std::byte> bytes(encoded_size(value));
  EXPECT_EQ(encode(value, bytes.data()), bytes.data() + bytes.size());
  return bytes;
}

TEST(Codec, LaunchComesBack) {
  const std::vector<std::byte> parameters(48, std::byte{7});
  const Launch launch{.stream = {3},
                      .kernel = {9},
                      .grid = {10, 2, 1},
                      .block = {256, 1, 1},
                      .shared_bytes = 1024,
                      .flags = kCooperative,
                      .parameters = parameters};
  const auto bytes = bytes_of(launch);
  EXPECT_EQ(bytes.size(), 8u + 8 + 12 + 12 + 4 + 4 + 4 + 48);
  const auto back = decode<Launch>(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kernel, launch.kernel);
  EXPECT_EQ(back->grid, launch.grid);
  EXPECT_EQ(back->block, launch.block);
  EXPECT_EQ(back->shared_bytes, 1024u);
  EXPECT_TRUE(std::ranges::equal(back->parameters, parameters));
}

TEST(Codec, EveryOperationRefusesEveryCutAndOneByteMore) {
  auto check = []<class Fields>() {
    auto bytes = bytes_of(Fields{});
    EXPECT_TRUE(decode<Fields>(bytes));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode<Fields>(Bytes(bytes).first(size))) << size;
    }
    bytes.push_back({});
    EXPECT_FALSE(decode<Fields>(bytes));
  };
  auto both = [&]<class Op>() {
    check.template operator()<Op>();
    check.template operator()<typename Op::Reply>();
  };
  for_each(ClientOperations{}, both);
  for_each(ServerNotices{}, both);
}

TEST(Codec, LongTextIsRefused) {
  const std::string text(kMaxText + 1, 'x');
  EXPECT_FALSE(within_limits(GlobalAddress{.name = text}));
  EXPECT_FALSE(decode<GlobalAddress>(bytes_of(GlobalAddress{.name = text})));
  EXPECT_TRUE(decode<GlobalAddress>(bytes_of(GlobalAddress{.name = Text(text).substr(1)})));
}

TEST(Table, CodesAndNamesAreUniqueAndBelowTheAnswerBit) {
  std::set<std::uint16_t> codes;
  std::set<std::string_view> names;
  std::size_t count = 0;
  auto add = [&]<class Op>() {
    codes.insert(Op::kSpec.code);
    names.insert(Op::kSpec.name);
    EXPECT_EQ(Op::kSpec.code & kAnswer, 0);
    ++count;
  };
  for_each(ClientOperations{}, add);
  for_each(ServerNotices{}, add);
  EXPECT_EQ(codes.size(), count);
  EXPECT_EQ(names.size(), count);
  static_assert(protocol_hash() != 0);
}

}  // namespace
}  // namespace partita::remote
