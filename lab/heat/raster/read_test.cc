#include "heat/raster/read.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "heat/raster/pgm.h"
#include "heat/raster/png_file.h"

namespace partita::raster {
namespace {

std::string refusal(const std::string& bytes) {
  const auto read = read_grids(bytes, "x.img");
  return read ? "" : to_string(read.error());
}

Grid some_grid(int rows, int cols) {
  Grid grid(rows, cols);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) grid.at(r, c) = (r * 7919 + c * 104729) % 65536;
  return grid;
}

// 16 bits a value, the high byte first; `lowest` is 0 and `highest` 65535.
std::string levels_of(const Grid& grid, double lowest, double highest) {
  std::string bytes;
  for (const double value : grid.values) {
    const long level = std::lround((value - lowest) / (highest - lowest) * 65535);
    bytes += static_cast<char>(level / 256);
    bytes += static_cast<char>(level % 256);
  }
  return bytes;
}

std::string write_png16(const Grid& grid, double lowest, double highest) {
  const std::string bytes = levels_of(grid, lowest, highest);
  return write_png({grid.cols, grid.rows, {bytes.begin(), bytes.end()}, {}, ""});
}

std::string write_pgm(const Grid& grid) {
  return "P5\n" + std::to_string(grid.cols) + " " + std::to_string(grid.rows) + "\n65535\n" +
         levels_of(grid, 0, 65535);
}

// The header of an NPY file in front of `data`.
std::string npy(const std::string& dict, const std::string& data) {
  std::string head = dict + "\n";
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(head.size() % 256);
  out += static_cast<char>(head.size() / 256);
  return out + head + data;
}
std::string dict(const std::string& type, const std::string& shape) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
}

TEST(Pgm, TextWithCommentsAndSeveralPictures) {
  const auto read =
      read_grids("P2 # by hand\n3 2\n# most\n9\n1 2 3\n4 5 6\nP2 3 2 9 6 5 4 3 2 1\n", "x.pgm");
  ASSERT_TRUE(read) << to_string(read.error());
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].rows, 2);
  EXPECT_EQ((*read)[0].values, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ((*read)[1].values, (std::vector<double>{6, 5, 4, 3, 2, 1}));
}

TEST(Pgm, BinaryOfOneAndTwoBytes) {
  const auto small = read_grids("P5 2 1 255\n\x01\xff", "x.pgm");
  ASSERT_TRUE(small);
  EXPECT_EQ((*small)[0].values, (std::vector<double>{1, 255}));
  const auto large = read_grids(std::string("P5 2 1 65535\n\x01\x02\xff\x00", 17), "x.pgm");
  ASSERT_TRUE(large);
  EXPECT_EQ((*large)[0].values, (std::vector<double>{258, 65280}));
}

TEST(Pgm, RefusesWhatIsWrong) {
  EXPECT_NE(refusal("P2\n2 2\n9\n1 2\n3 10\n").find("x.img:5: "), std::string::npos);
  EXPECT_NE(refusal("P2 2 2 9 1 2 3").find("missing"), std::string::npos);
  EXPECT_NE(refusal("P5 2 2 255\nabc").find("missing"), std::string::npos);
  EXPECT_NE(refusal("P5 1 1 7\n\x08").find("over the largest"), std::string::npos);
  EXPECT_NE(refusal("P5 65536 65536 255\n").find("2^28"), std::string::npos);
  EXPECT_NE(refusal("P5 0 2 255\n").find("width"), std::string::npos);
  EXPECT_NE(refusal("P5 99999999999999 2 255\n").find("width"), std::string::npos);
  EXPECT_NE(refusal("P2 1 1 9 1 P2 2 1 9 1 1").find("picture 2 is"), std::string::npos);
  EXPECT_NE(refusal("P6 1 1 255\nabc").find("neither"), std::string::npos);
  EXPECT_NE(refusal("").find("neither"), std::string::npos);
}

TEST(Npy, EveryTypeAndByteOrder) {
  const auto one = [](const std::string& type, const std::string& data) {
    const auto read = read_grids(npy(dict(type, "(1, 1)"), data), "x.npy");
    return read ? (*read)[0].values.at(0) : std::nan("");
  };
  EXPECT_EQ(one("|u1", "\xc8"), 200);
  EXPECT_EQ(one("<u2", "\x02\x01"), 258);
  EXPECT_EQ(one(">u2", "\x01\x02"), 258);
  EXPECT_EQ(one("<f4", std::string("\0\0\xc0\x3f", 4)), 1.5);
  EXPECT_EQ(one(">f4", std::string("\x3f\xc0\0\0", 4)), 1.5);
  EXPECT_EQ(one("<f8", std::string("\0\0\0\0\0\0\xf8\x3f", 8)), 1.5);
  EXPECT_EQ(one(">f8", std::string("\x3f\xf8\0\0\0\0\0\0", 8)), 1.5);
}

TEST(Npy, RefusesWhatIsWrong) {
  EXPECT_NE(refusal(npy(dict("<i4", "(1, 1)"), "abcd")).find("type"), std::string::npos);
  EXPECT_NE(refusal(npy(dict("|u1", "(4,)"), "abcd")).find("dimensions"), std::string::npos);
  EXPECT_NE(refusal(npy(dict("|u1", "(2, 3)"), "abcd")).find("4 bytes"), std::string::npos);
  EXPECT_NE(refusal(npy(dict("|u1", "(65536, 65536)"), "abcd")).find("2^28"), std::string::npos);
  EXPECT_NE(refusal(npy(dict("|u1", "(0, 4)"), "")).find("empty"), std::string::npos);
  EXPECT_NE(refusal(npy(dict("|u1", "(-1, 4)"), "")).find("dimensions"), std::string::npos);
  EXPECT_NE(refusal(npy(dict("<f4", "(1, 1)"), std::string("\0\0\xc0\x7f", 4))).find("finite"),
            std::string::npos);
  EXPECT_NE(refusal(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (1, 1), }", "a"))
                .find("C order"),
            std::string::npos);
  EXPECT_NE(refusal("\x93NUMPY\x01").find("header"), std::string::npos);
}

TEST(Npy, FramesComeBackBitByBit) {
  std::vector<Grid> frames = {some_grid(3, 5), some_grid(3, 5), Grid(3, 5, -1e-300)};
  frames[1].at(2, 4) = 0.1;
  const auto read = read_grids(write_npy(frames), "x.npy");
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, frames);
  const auto single = read_grids(write_npy({frames[1]}), "x.npy");
  ASSERT_TRUE(single);
  EXPECT_EQ(*single, std::vector<Grid>{frames[1]});
}

TEST(Png, SixteenBitsComeBackAsWritten) {
  const Grid grid = some_grid(37, 41);
  const auto read = read_grids(write_png16(grid, 0, 65535), "x.png");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ((*read)[0], grid);
  // Temperatures: back within half a step of the 16 bits.
  Grid warm(1, 3);
  warm.values = {300, 312.3456, 350};
  const auto levels = read_grids(write_png16(warm, 300, 350), "x.png");
  ASSERT_TRUE(levels);
  EXPECT_EQ((*levels)[0].values[0], 0);
  EXPECT_NEAR(300 + (*levels)[0].values[1] / 65535 * 50, 312.3456, 25.0 / 65535 + 1e-9);
  EXPECT_EQ((*levels)[0].values[2], 65535);
}

TEST(Png, ColourAndBrokenFilesAreRefused) {
  PngPicture colour{1, 1, {0}, {255, 0, 0}, ""};
  EXPECT_NE(refusal(write_png(colour)).find("not grey"), std::string::npos);
  const std::string good = write_png16(some_grid(30, 30), 0, 65535);
  for (std::size_t size = 4; size + 12 < good.size(); size += 7)  // IEND is not read
    EXPECT_NE(refusal(good.substr(0, size)).find("broken"), std::string::npos) << size;
  std::string flipped = good;
  flipped[good.size() / 2] ^= 0x20;
  EXPECT_NE(refusal(flipped).find("broken"), std::string::npos);
}

// A header that promises 65535 x 4095 pixels in a file of a few bytes takes no memory for them.
TEST(Png, APromiseOfMorePixelsThanTheFileCanHoldIsRefused) {
  std::string bomb = write_png16(Grid(4095, 1), 0, 1);
  const auto before = refusal(bomb);
  EXPECT_EQ(before, "");
  const std::string ihdr = bomb.substr(12, 4) + std::string("\0\0\xff\xff", 4) + bomb.substr(20, 9);
  std::uint32_t crc = 0xffffffffu;
  for (const char c : ihdr) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1u ? 0xedb88320u : 0);
  }
  crc = ~crc;
  std::string tail;
  for (int i = 3; i >= 0; --i) tail += static_cast<char>(crc >> (8 * i) & 255);
  bomb.replace(12, 21, ihdr + tail);
  EXPECT_NE(refusal(bomb).find("too small for its picture"), std::string::npos);
}

RC_GTEST_PROP(Read, WhateverTheBytesThereIsAnAnswer, (const std::string& tail, bool flip)) {
  for (const std::string& good : {write_png16(some_grid(9, 9), 0, 65535),
                                  write_npy({some_grid(4, 4)}), write_pgm(some_grid(4, 4))}) {
    std::string bytes = good;
    for (std::size_t i = 0; i < tail.size(); ++i) {
      const std::size_t at = (i * 2654435761u + static_cast<unsigned char>(tail[i])) % bytes.size();
      bytes[at] = flip ? static_cast<char>(bytes[at] ^ tail[i]) : tail[i];
    }
    const auto read = read_grids(bytes, "x.img");
    if (read)
      for (const Grid& grid : *read)
        for (const double value : grid.values) RC_ASSERT(std::isfinite(value));
  }
}

}  // namespace
}  // namespace partita::raster
