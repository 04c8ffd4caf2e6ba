#include "base/elements.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace partita {
namespace {

// What is read from words and written for people again.
std::string again(std::string_view type, std::string_view value) {
  const auto of = element_type(type);
  if (!of) return of.error().message;
  const auto bits = element_bits(*of, value);
  if (!bits) return bits.error().message;
  std::byte memory[8];
  std::memcpy(memory, &*bits, sizeof memory);
  return text_of_element(*of, memory);
}

TEST(Elements, HoldWhatTheirTypeHolds) {
  for (const auto& [type, value] : {std::pair{"u8", "255"},
                                    {"s8", "-128"},
                                    {"s8", "127"},
                                    {"u16", "65535"},
                                    {"s16", "-32768"},
                                    {"u32", "4294967295"},
                                    {"s32", "-2147483648"},
                                    {"u64", "18446744073709551615"},
                                    {"s64", "-9223372036854775808"},
                                    {"s64", "9223372036854775807"},
                                    {"f32", "0.5"},
                                    {"f64", "-0.1"}})
    EXPECT_EQ(again(type, value), value) << type;
  EXPECT_EQ(again("u8", "256"), "'256' is more than u8 holds");
  EXPECT_EQ(again("u32", "-1"), "'-1' is less than u32 holds");
  EXPECT_EQ(again("s8", "-129"), "'-129' is less than s8 holds");
  EXPECT_EQ(again("s8", "128"), "'128' is more than s8 holds");
  EXPECT_EQ(again("s64", "9223372036854775808"), "'9223372036854775808' is more than s64 holds");
  EXPECT_EQ(again("f32", "1e39"), "'1e39' is more than f32 holds");
  EXPECT_EQ(again("u32", "x"), "'x' is no whole number");
  EXPECT_EQ(again("f64", "1.0x"), "'1.0x' is no number");
  EXPECT_EQ(again("f31", "1").substr(0, 14), "no type 'f31':");
}

TEST(Elements, FillMemory) {
  std::vector<float> floats(5, 7);
  const auto type = *element_type("f32");
  ASSERT_TRUE(fill_elements(std::as_writable_bytes(std::span(floats)), type, "ramp"));
  EXPECT_EQ(floats, (std::vector<float>{0, 1, 2, 3, 4}));
  ASSERT_TRUE(fill_elements(std::as_writable_bytes(std::span(floats)), type, "2.5"));
  EXPECT_EQ(floats, std::vector<float>(5, 2.5));
  std::vector<std::int16_t> shorts(3, 7);
  const auto small = *element_type("s16");
  ASSERT_TRUE(fill_elements(std::as_writable_bytes(std::span(shorts)), small, "-2"));
  EXPECT_EQ(shorts, std::vector<std::int16_t>(3, -2));
  ASSERT_TRUE(fill_elements(std::as_writable_bytes(std::span(shorts)), small, "zero"));
  EXPECT_EQ(shorts, std::vector<std::int16_t>(3, 0));
  EXPECT_FALSE(fill_elements(std::as_writable_bytes(std::span(shorts)), small, "none"));
}

}  // namespace
}  // namespace partita
