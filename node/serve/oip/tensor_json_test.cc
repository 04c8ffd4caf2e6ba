#include "serve/oip/tensor_json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/rng.h"

namespace partita::serve {
namespace {

using nlohmann::json;

// Decodes into rows of `in_row` values; the text of the refusal where there is one.
template <class T>
std::string decode(std::string_view text, DataType type, std::vector<T>& values,
                   std::size_t in_row) {
  std::vector<std::span<char>> rows;
  for (std::size_t i = 0; i < values.size(); i += in_row)
    rows.push_back({reinterpret_cast<char*>(values.data() + i), in_row * sizeof(T)});
  const TensorSpec tensor{"x", type, {static_cast<std::int64_t>(in_row)}};
  const auto decoded = decode_json_tensor(text, tensor, rows);
  return decoded ? "" : to_string(decoded.error());
}

TEST(TensorJsonTest, FlatAndNestedArraysFillRowsInOrder) {
  for (const char* text :
       {"[1,2,3,4,5,6]", "[[1,2],[3,4],[5,6]]", " [ [ [1,2,3] ],[[4, 5,6\n]]] "}) {
    std::vector<std::int32_t> values(6);
    EXPECT_EQ(decode(text, DataType::int32, values, 2), "") << text;
    EXPECT_EQ(values, (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(TensorJsonTest, WhatIsNoArrayOfSuchNumbersIsRefused) {
  for (const char* text : {"",          "[",
                           "[1",        "[1,",
                           "[1,2",      "[1,2]]",
                           "[1,2],",    "[1 2]",
                           "[1,,2]",    "[1,2,]",
                           "[,1,2]",    "1,2",
                           "[1,2,3]",   "[1]",
                           "[]",        "[1,[2]",
                           "[1,\"2\"]", "[1,null]",
                           "[1,nan]",   "[1,inf]",
                           "[1,-]",     "[1,+2]",
                           "[1,.5]",    "[1,2.5]",
                           "[1,1e2]",   "[1,3000000000]",
                           "[1,true]",  "{1,2}"}) {
    std::vector<std::int32_t> values(2);
    EXPECT_NE(decode(text, DataType::int32, values, 2), "") << text;
  }
  std::vector<std::int32_t> one(1);
  const std::string deep = std::string(18, '[') + "1" + std::string(18, ']');
  EXPECT_NE(decode(deep, DataType::int32, one, 1), "");
  EXPECT_EQ(decode(deep.substr(1, 35), DataType::int32, one, 1), "");
}

TEST(TensorJsonTest, WhatIsNoNumberInJsonIsRefused) {
  for (const char* text :
       {"[06]", "[-00]", "[00.5]", "[1.]", "[1.e5]", "[-1.E1]", "[.5]", "[1e]"}) {
    std::vector<float> value(1);
    EXPECT_NE(decode(text, DataType::fp32, value, 1), "") << text;
  }
  for (const char* text : {"[0]", "[-0]", "[0.5]", "[10]", "[-0e1]", "[1.0e5]", "[100.25]"}) {
    std::vector<float> value(1);
    EXPECT_EQ(decode(text, DataType::fp32, value, 1), "") << text;
  }
}

TEST(TensorJsonTest, EveryTypeHasItsRange) {
  const auto range = [](auto zero, DataType type, const std::string& low, const std::string& high,
                        const std::string& below, const std::string& above) {
    std::vector<decltype(zero)> values(2);
    using Limits = std::numeric_limits<decltype(zero)>;
    EXPECT_EQ(decode("[" + low + "," + high + "]", type, values, 2), "");
    EXPECT_EQ(values, (std::vector<decltype(zero)>{Limits::lowest(), Limits::max()}));
    EXPECT_NE(decode("[" + below + ",0]", type, values, 2), "");
    EXPECT_NE(decode("[0," + above + "]", type, values, 2), "");
  };
  range(std::uint8_t{}, DataType::uint8, "0", "255", "-1", "256");
  range(std::uint16_t{}, DataType::uint16, "0", "65535", "-1", "65536");
  range(std::uint32_t{}, DataType::uint32, "0", "4294967295", "-1", "4294967296");
  range(std::uint64_t{}, DataType::uint64, "0", "18446744073709551615", "-1",
        "18446744073709551616");
  range(std::int8_t{}, DataType::int8, "-128", "127", "-129", "128");
  range(std::int16_t{}, DataType::int16, "-32768", "32767", "-32769", "32768");
  range(std::int32_t{}, DataType::int32, "-2147483648", "2147483647", "-2147483649", "2147483648");
  range(std::int64_t{}, DataType::int64, "-9223372036854775808", "9223372036854775807",
        "-9223372036854775809", "9223372036854775808");
  range(float{}, DataType::fp32, "-3.4028234663852886e38", "3.4028234663852886e+38", "-3.5e38",
        "1e39");
  range(double{}, DataType::fp64, "-1.7976931348623157e308", "1.7976931348623157e308", "-1e309",
        "1e999");
  std::vector<float> tiny(2);
  EXPECT_EQ(decode("[1e-60,-1e-300]", DataType::fp32, tiny, 2), "");
  EXPECT_EQ(tiny, (std::vector<float>{0, 0}));
  std::vector<char> flags(2);
  EXPECT_EQ(decode("[true,false]", DataType::boolean, flags, 2), "");
  EXPECT_EQ(flags, (std::vector<char>{1, 0}));
  EXPECT_NE(decode("[1,0]", DataType::boolean, flags, 2), "");
}

// Any bits of a number, written and read again; what is written is JSON for others too.
template <class T, class Bits>
void check_round_trip(DataType type) {
  Rng rng(7);
  std::vector<T> values(300), again(300);
  for (T& value : values) {
    const auto bits = static_cast<Bits>(rng.next());
    std::memcpy(&value, &bits, sizeof value);
    if (value != value || value - value != 0) value = 0;  // not finite
  }
  std::string text = "[";
  append_json_row(text, type, {reinterpret_cast<const char*>(values.data()), sizeof(T) * 100},
                  true);
  append_json_row(text, type, {reinterpret_cast<const char*>(values.data() + 100), sizeof(T) * 200},
                  false);
  text += "]";
  EXPECT_EQ(decode(text, type, again, 150), "");
  EXPECT_EQ(std::memcmp(values.data(), again.data(), sizeof(T) * 300), 0);
  const json other = json::parse(text);
  for (std::size_t i = 0; i < 300; ++i) EXPECT_EQ(other[i].get<T>(), values[i]);
}

TEST(TensorJsonTest, NumbersSurviveBeingText) {
  check_round_trip<float, std::uint32_t>(DataType::fp32);
  check_round_trip<double, std::uint64_t>(DataType::fp64);
  check_round_trip<std::int64_t, std::uint64_t>(DataType::int64);
  check_round_trip<std::uint16_t, std::uint16_t>(DataType::uint16);
  std::string text;
  const float odd[] = {std::numeric_limits<float>::infinity(), std::bit_cast<float>(0x7FC00000), 1};
  append_json_row(text, DataType::fp32, {reinterpret_cast<const char*>(odd), sizeof odd}, true);
  EXPECT_EQ(text, "null,null,1");
  text.clear();
  append_json_row(text, DataType::boolean, std::string_view("\1\0", 2), true);
  EXPECT_EQ(text, "true,false");
}

}  // namespace
}  // namespace partita::serve
