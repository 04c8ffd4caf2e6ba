#include "serve/wire/items.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "serve/wire/texts.h"

namespace partita::serve {
namespace {

using Shape = std::vector<std::int64_t>;

TensorSpec open_tensor() {
  return {.name = "x", .type = DataType::fp32, .shape = {2, kOpen, 3}, .open_bytes = 96};
}

TEST(Items, SayTheirSizesInFrontOfTheirValues) {
  const TensorSpec tensor = open_tensor();
  EXPECT_EQ(head_bytes(tensor), 64U);
  EXPECT_EQ(bytes_of(tensor), 160U);
  std::vector<char> row(bytes_of(tensor), '\x7F');
  const std::span<char> values = begin_item(tensor, Shape{2, 4, 3}, row);
  EXPECT_EQ(values.data(), row.data() + 64);
  EXPECT_EQ(values.size(), 96U);
  EXPECT_EQ(sizes_in(tensor, row), (Shape{2, 4, 3}));
  EXPECT_EQ(used_part(tensor, row)->size(), 96U);
  begin_item(tensor, Shape{2, 0, 3}, row);
  EXPECT_EQ(used_part(tensor, row)->size(), 0U);
}

TEST(Items, ThatAreNotTheTensorsAreSeen) {
  const TensorSpec tensor = open_tensor();
  for (const Shape& wrong : {Shape{2, 5, 3}, Shape{1, 1, 3}, Shape{2, -1, 3}, Shape{2, 1},
                             Shape{2, std::int64_t{1} << 62, 3}})
    EXPECT_FALSE(bytes_of_item(tensor, wrong));
  std::vector<char> row(bytes_of(tensor), '\xFF');
  EXPECT_FALSE(sizes_in(tensor, row));
  EXPECT_FALSE(used_part(tensor, row));
}

TEST(Items, FixedOnesHaveNoHead) {
  const TensorSpec tensor{.name = "x", .shape = {2, 3}};
  std::vector<char> row(bytes_of(tensor));
  EXPECT_EQ(begin_item(tensor, tensor.shape, row).size(), 24U);
  EXPECT_EQ(sizes_in(tensor, row), Shape{});
}

TEST(Items, RowsOnAnyAxisAreInOrder) {
  TensorSpec tensor{.name = "state", .type = DataType::uint8, .shape = {2, 3}};
  tensor.batch_axis = 1;
  EXPECT_EQ(whole_shape(tensor, tensor.shape, 2), (Shape{2, 2, 3}));
  std::string a = "abcdef", b = "ABCDEF", whole;
  const std::span<char> rows[] = {a, b};
  for (const auto part : in_order<char>(parts_of_row(tensor, tensor.shape), rows))
    whole.append(part.data(), part.size());
  EXPECT_EQ(whole, "abcABCdefDEF");
  tensor.batch_axis = kNoBatchAxis;
  EXPECT_EQ(whole_shape(tensor, tensor.shape, 2), (Shape{2, 3}));
}

// Index by index, another way.
TEST(Items, AreCopiedToWhereTheyLieInTheWhole) {
  std::mt19937 random(5);
  const auto upto = [&](int most) { return static_cast<std::int64_t>(random() % (most + 1)); };
  for (int round = 0; round < 2000; ++round) {
    TensorSpec tensor{.name = "x", .type = DataType::uint16};
    Shape padded, sizes;
    const auto rank = static_cast<int>(upto(4));
    for (int i = 0; i < rank; ++i) {
      padded.push_back(1 + upto(3));
      sizes.push_back(upto(1) == 0 ? padded.back() : upto(static_cast<int>(padded.back())));
    }
    tensor.shape = Shape(sizes.size(), kOpen);
    tensor.batch_axis = static_cast<int>(upto(rank + 1)) - 1;
    const std::size_t rows = tensor.batch_axis < 0 ? 1 : 1 + random() % 3, row = random() % rows;
    const Shape whole = whole_shape(tensor, padded, static_cast<std::int64_t>(rows));
    std::vector<std::uint16_t> item(64 * 16), got(1024), wanted(1024);
    std::iota(item.begin(), item.end(), std::uint16_t{1});
    copy_item({tensor, sizes, padded, row, rows},
              [&](std::size_t to, std::size_t from, std::size_t bytes) {
                std::memcpy(reinterpret_cast<char*>(got.data()) + to,
                            reinterpret_cast<const char*>(item.data()) + from, bytes);
              });
    std::size_t count = 1;
    for (const std::int64_t size : sizes) count *= static_cast<std::size_t>(size);
    for (std::size_t at = 0; at < count; ++at) {
      Shape index(sizes.size());
      std::size_t rest = at;
      for (std::size_t i = sizes.size(); i-- > 0; rest /= static_cast<std::size_t>(sizes[i]))
        index[i] = static_cast<std::int64_t>(rest % static_cast<std::size_t>(sizes[i]));
      if (tensor.batch_axis >= 0)
        index.insert(index.begin() + tensor.batch_axis, static_cast<std::int64_t>(row));
      std::int64_t place = 0;
      for (std::size_t i = 0; i < index.size(); ++i) place = place * whole[i] + index[i];
      wanted[static_cast<std::size_t>(place)] = item[at];
    }
    ASSERT_EQ(got, wanted) << round;
  }
}

TEST(Items, AModelWithOpenSizesIsChecked) {
  const auto model = [](const TensorSpec& input, const TensorSpec& output) {
    return check_model("m", {.name = "m", .platform = "p", .inputs = {input}, .outputs = {output}});
  };
  TensorSpec in = open_tensor(), out{.name = "y", .shape = {1}};
  EXPECT_FALSE(model(in, out));  // what is usual is not said
  in.usual = {2, 4, 3};
  EXPECT_TRUE(model(in, out));
  in.usual = {2, 5, 3};
  EXPECT_FALSE(model(in, out));
  in.usual = {2, 4, 3};
  out.batch_axis = kNoBatchAxis;
  EXPECT_FALSE(model(in, out));  // rows that do not come out
  in.batch_axis = kNoBatchAxis;
  EXPECT_TRUE(model(in, out));
  in.open_bytes = 0;
  EXPECT_FALSE(model(in, out));
  EXPECT_FALSE(
      model({.name = "w", .type = DataType::bytes, .shape = {2}, .text_bytes = 9, .batch_axis = 1},
            {.name = "y"}));
}

}  // namespace
}  // namespace partita::serve
