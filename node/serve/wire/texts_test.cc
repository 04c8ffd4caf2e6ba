// Text in slots, against the layout written out by hand and random cuts.
#include "serve/wire/texts.h"

#include <gtest/gtest.h>

#include <random>

namespace partita::serve {
namespace {

TensorSpec words(std::vector<std::int64_t> shape, std::size_t room) {
  return {.name = "w", .type = DataType::bytes, .shape = std::move(shape), .text_bytes = room};
}

std::vector<std::string> texts_in(std::span<const char> used) {
  std::vector<std::string> found;
  each_text(used, [&](std::string_view text) { found.emplace_back(text); });
  return found;
}

struct TextPlace {
  TextPlace(const TensorSpec& tensor, std::size_t count) : memory(count) {
    for (std::vector<char>& row : memory) {
      row.assign(bytes_of(tensor), '\x7F');
      rows.emplace_back(row);
    }
  }
  std::vector<std::vector<char>> memory;
  std::vector<std::span<char>> rows;
};

TEST(Texts, LieBehindTheirLengths) {
  const TensorSpec tensor = words({2}, 5);
  EXPECT_EQ(bytes_of(tensor), 13U);
  TextPlace place(tensor, 2);
  TextRows into(tensor, place.rows);
  const std::string with_nul("\0a", 2);
  for (const std::string& text : {std::string("abc"), with_nul, std::string(), std::string("x")}) {
    EXPECT_FALSE(into.full());
    EXPECT_EQ(into.put(text), "");
  }
  EXPECT_TRUE(into.full());
  EXPECT_EQ(into.put(""), "more values than the shape has");
  EXPECT_EQ(std::string(place.rows[0].data(), 13), std::string("\3\0\0\0abc\2\0\0\0\0a", 13));
  const auto second = used_part(tensor, place.rows[1]);
  ASSERT_TRUE(second);
  EXPECT_EQ(std::string(second->data(), second->size()), std::string("\0\0\0\0\1\0\0\0x", 9));
  EXPECT_EQ(texts_in(*used_part(tensor, place.rows[0])),
            (std::vector<std::string>{"abc", with_nul}));
  const TensorSpec numbers{.name = "n", .type = DataType::fp32, .shape = {3}};
  EXPECT_EQ(used_part(numbers, place.rows[0])->size(), 13U);  // all of it
}

TEST(Texts, ARowHoldsNoMoreThanItsRoom) {
  const TensorSpec tensor = words({2}, 5);
  TextPlace place(tensor, 1);
  TextRows into(tensor, place.rows);
  EXPECT_NE(into.put("123456").find("more than 5 bytes of text (--text-bytes"), std::string::npos);
  EXPECT_EQ(into.put("12345"), "");  // the length of the second has its place
  EXPECT_NE(into.put("6"), "");
  EXPECT_EQ(into.put(""), "");
  EXPECT_TRUE(into.full());
}

TEST(Texts, WhatRunsOverTheEndIsNoText) {
  const TensorSpec tensor = words({1}, 4);
  for (const std::string& bytes :
       {std::string("\5\0\0\0abcd", 8), std::string("\xFF\xFF\xFF\xFF....", 8),
        std::string("\0\0\0", 3)})
    EXPECT_FALSE(used_part(tensor, bytes)) << bytes;
}

// Any elements in any rows come back from the binary form; any other bytes are refused, or mean
// what they say.
TEST(Texts, TheBinaryFormOfManyRows) {
  std::mt19937 random(11);
  const auto below = [&](std::size_t n) { return random() % n; };
  for (int turn = 0; turn < 500; ++turn) {
    const auto in_row = static_cast<std::int64_t>(1 + below(3));
    const TensorSpec tensor = words({in_row}, 1 + below(12));
    const std::size_t items = 1 + below(4);
    std::string bytes;
    std::vector<std::string> wanted;
    std::vector<std::size_t> too_long;
    bool fits = true;
    for (std::size_t row = 0; row < items; ++row) {
      std::size_t used = 0;
      for (std::int64_t i = 0; i < in_row; ++i) {
        std::string text;
        for (std::size_t n = below(8); n > 0; --n) text += static_cast<char>(random());
        used += text.size();
        bytes += std::string{static_cast<char>(text.size()), '\0', '\0', '\0'} + text;
        wanted.push_back(text);
      }
      fits = fits && used <= tensor.text_bytes;
      if (used > tensor.text_bytes) too_long.push_back(row);
    }
    TextPlace place(tensor, items);
    ASSERT_EQ(spread_texts(bytes, tensor, place.rows).has_value(), fits);
    const auto filled = fill_texts(bytes, tensor, place.rows);
    ASSERT_TRUE(filled);
    EXPECT_EQ(*filled, too_long);
    EXPECT_FALSE(fill_texts(bytes + "x", tensor, place.rows));
    EXPECT_FALSE(
        fill_texts(std::string_view(bytes).substr(0, bytes.size() - 1), tensor, place.rows));
    ASSERT_TRUE(fill_texts(bytes, tensor, place.rows));
    std::vector<std::string> kept, expected = wanted;
    for (const std::span<char> row : place.rows)
      for (std::string& text : texts_in(*used_part(tensor, row))) kept.push_back(std::move(text));
    for (const std::size_t row : too_long)
      for (std::size_t i = 0; i < static_cast<std::size_t>(in_row); ++i)
        expected[row * static_cast<std::size_t>(in_row) + i].clear();
    EXPECT_EQ(kept, expected);
    if (!fits) continue;
    std::vector<std::string> found;
    for (const std::span<char> row : place.rows)
      for (std::string& text : texts_in(*used_part(tensor, row))) found.push_back(std::move(text));
    EXPECT_EQ(found, wanted);
    EXPECT_FALSE(
        spread_texts(std::string_view(bytes).substr(0, bytes.size() - 1), tensor, place.rows));
    EXPECT_FALSE(spread_texts(bytes + "x", tensor, place.rows));
    EXPECT_FALSE(spread_texts(bytes + std::string(4, '\0'), tensor, place.rows));
  }
}

}  // namespace
}  // namespace partita::serve
